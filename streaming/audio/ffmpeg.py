"""Runs ffmpeg, an external program: decodes the audio of WebM, MP4 and other files into an AU stream.

A file may come from anyone, so ffmpeg runs with limits: of formats, memory, processor time and waiting time.
"""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import signal
import subprocess
import tempfile
from typing import IO, Any

from asr.containers import AudioFileError
from asr.text import printable

IN_TIME = ("-af", "aresample=async=1:first_pts=0")
"""Options that turn a late start of the audio, or gaps in its time stamps, into silence, as players do."""
MAX_MEMORY = 1_000_000_000
"""Address space in bytes; ffmpeg and its libraries need 300 MB. A header of a kilobyte may ask for gigabytes."""
MAX_CPU_S, MAX_CPU_S_PER_MB = 5.0, 20.0
MAX_WAIT_S, MAX_WAIT_S_PER_MB = 60.0, 60.0
"""Time in which nothing comes from ffmpeg."""
HOW_TO_INSTALL = "sudo apt-get install ffmpeg (https://ffmpeg.org elsewhere)"
NICENESS = 10
"""Live streams come first."""
FORMATS = """
aac ac3 aiff amr amrnb amrwb ape asf asf_o au avi caf dsf dts dtshd eac3 flac flv gsm iff ilbc ircam live_flv loas
matroska mlp mov mp3 mpc mpc8 mpeg mpegts mxf nistsphere nsv nut ogg oma qcp rm shn sox spdif tak truehd tta voc w64 wav
wtv wv xwma
""".split()
"""Demuxers that read sound from the file alone. Others open further files and addresses, which a playlist names."""

_DAMAGED = re.compile("premature|partial file|truncat|invalid|exceed|corrupt|error", re.IGNORECASE)
"""Messages of ffmpeg about lost audio, for which its exit status is 0."""


class Ffmpeg:
    """A running ffmpeg, as a context manager; `output` is its standard output."""

    def __init__(self, program: str, file: IO[bytes], name: str, reason: str, begin_s: float = 0.0) -> None:
        """program: see `find_ffmpeg`. file: a file with a `fileno`, read from its beginning. name: for messages.
        reason: why libsndfile cannot read the file; empty if it was not tried. begin_s: seconds of audio to skip.
        """
        self._name, self._reason = name, reason
        num_mb = os.fstat(file.fileno()).st_size / 1e6
        self._max_cpu_s = round(MAX_CPU_S + MAX_CPU_S_PER_MB * num_mb)
        self.max_wait_s = MAX_WAIT_S + MAX_WAIT_S_PER_MB * num_mb
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115, closed by __exit__
        os.lseek(file.fileno(), 0, os.SEEK_SET)  # `file.seek` may move only within its buffer
        command = [program, "-nostdin", "-v", "error", "-protocol_whitelist", "file,pipe", "-threads", "1"]
        # Without an offset, MPEG-TS would begin with its audio, although the video may begin earlier.
        command += ["-itsoffset", "0.000001", "-format_whitelist", ",".join(FORMATS)]
        command += [*(("-ss", f"{begin_s:.6f}") if begin_s else ()), "-i", "file:/dev/stdin"]
        # AU, because libsndfile reads at most 4 GiB of a WAV stream: two hours of six channels.
        command += ["-map", "0:a:0", *IN_TIME, "-c:a", "pcm_s16be", "-f", "au", "pipe:1"]
        if os.name == "posix":  # the shell sets the limits before the program begins, whatever other threads do
            limits = f"ulimit -v {MAX_MEMORY // 1024}; ulimit -t {self._max_cpu_s}"
            command = ["/bin/sh", "-c", f'{{ {limits}; }} 2>/dev/null; exec "$@"', "sh", *command]
        self._process = subprocess.Popen(
            command, stdin=file.fileno(), stdout=subprocess.PIPE, stderr=self._errors, bufsize=0
        )
        assert self._process.stdout is not None
        self.output: Any = self._process.stdout
        if hasattr(os, "setpriority"):
            with contextlib.suppress(OSError):
                os.setpriority(os.PRIO_PROCESS, self._process.pid, NICENESS)

    def check(self, has_audio: bool, is_late: bool) -> str:
        """What ffmpeg says about trouble that cost no audio, after `output` has ended; empty if there was none.

        has_audio: whether some audio came. is_late: whether the reader has given up after `max_wait_s`.
        Raises AudioFileError if ffmpeg could not read the whole file.
        """
        if is_late:
            self._process.kill()
        self.output.close()  # otherwise ffmpeg would wait forever if the reader left some of its output
        status = self._process.wait()
        self._errors.seek(0)
        text = self._errors.read(1 << 16).decode(errors="replace")
        lines = [printable(_PREFIX.sub("", line)) for line in text.splitlines() if line.strip()]
        said = f"ffmpeg says: {lines[0]}" if lines else f"ffmpeg says: exit status {status}"
        if is_late or status in _STOPPED:
            limit = f"{self.max_wait_s:.0f} s of waiting" if is_late else f"{self._max_cpu_s} s of processor time"
            raise AudioFileError(f"{self._name} is damaged: ffmpeg may take {limit} for its size, then it is stopped")
        if "matches no streams" in text:
            raise AudioFileError(f"{self._name} has no sound: ffmpeg finds no audio track in it")
        if "Cannot allocate memory" in text:
            limit = f"{MAX_MEMORY / 1e9:g} GB"
            raise AudioFileError(f"{self._name} is damaged: its header asks for more than {limit} of memory")
        if self._reason and not has_audio:
            raise AudioFileError(f"cannot read {self._name}: {self._reason} {said}")
        if not has_audio and not lines:  # it is silent when memory for the index cannot be had
            limit = f"{MAX_MEMORY / 1e9:g} GB"
            raise AudioFileError(
                f"{self._name} is damaged: ffmpeg finds no audio, or needs more than {limit} of memory"
            )
        if status or any(map(_DAMAGED.search, lines)):
            raise AudioFileError(f"{self._name} is damaged or cut short: {said}")
        return said if lines else ""

    def __enter__(self) -> Ffmpeg:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.kill()
        self._process.wait()
        self.output.close()
        self._errors.close()


def find_ffmpeg() -> str | None:
    """The path of the program, if it is installed."""
    return shutil.which("ffmpeg")


_PREFIX = re.compile(r"^\[[^]]* @ 0x[0-9a-f]+\] |^file:/dev/stdin: ")
_STOPPED = (-signal.SIGXCPU, -signal.SIGKILL) if os.name == "posix" else ()
"""Exit statuses after the limit of processor time; the kernel may also have killed it because memory ran out."""
