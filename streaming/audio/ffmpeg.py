"""Runs ffmpeg, an external program: decodes the audio of WebM, MP4 and other files into a WAV stream."""

from __future__ import annotations

import re
import shutil
import subprocess
import tempfile
from typing import IO, Any

from asr.containers import FFMPEG_KINDS, AudioFileError
from asr.text import printable

_CUT = re.compile("premature|partial file|truncat|invalid data", re.IGNORECASE)
"""Messages of ffmpeg about a truncated file, for which its exit status is 0."""


class Ffmpeg:
    """A running ffmpeg, as a context manager; `output` is its standard output."""

    def __init__(self, file: IO[bytes], kind: str, name: str) -> None:
        """file: a file with a `fileno`, read from its beginning. kind: of FFMPEG_KINDS. name: for messages.

        Raises AudioFileError if ffmpeg is not installed. Only the demuxer of `kind` is used, and only this file is
        opened: playlists, which name other files and addresses, are not read.
        """
        program = shutil.which("ffmpeg")
        if program is None:
            raise AudioFileError(
                f"{name} is {FFMPEG_KINDS[kind]}, which needs ffmpeg, and ffmpeg is not installed: "
                "sudo apt-get install ffmpeg (https://ffmpeg.org elsewhere)"
            )
        self._name = name
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115, closed by __exit__
        file.seek(0)
        command = [program, "-nostdin", "-v", "error", "-protocol_whitelist", "file,pipe", "-f", kind]
        command += ["-i", "file:/dev/stdin", "-map", "0:a:0", "-c:a", "pcm_s16le", "-f", "wav", "pipe:1"]
        self._process = subprocess.Popen(
            command, stdin=file.fileno(), stdout=subprocess.PIPE, stderr=self._errors, bufsize=0
        )
        assert self._process.stdout is not None
        self.output: Any = self._process.stdout

    def check(self) -> None:
        """Raises AudioFileError if ffmpeg could not read the whole file. To be called after `output` has ended."""
        status = self._process.wait()
        self._errors.seek(0)
        lines = [line for line in self._errors.read(1 << 16).decode(errors="replace").splitlines() if line.strip()]
        if status or any(_CUT.search(line) for line in lines):
            reason = printable(lines[-1]) if lines else f"exit status {status}"
            raise AudioFileError(f"{self._name} is damaged or cut short: ffmpeg says: {reason}")

    def __enter__(self) -> Ffmpeg:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.kill()
        self._process.wait()
        self.output.close()
        self._errors.close()
