"""Opens the recordings in a file or a pipe: with libsndfile, else with ffmpeg, if that is installed."""

from __future__ import annotations

import contextlib
import itertools
import os
import stat
import sys
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from io import BytesIO, FileIO
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from asr.containers import (
    FFMPEG_KINDS,
    MAX_PARTS,
    UNKNOWN_SIZE,
    AudioFileError,
    chunk_of,
    kind_of,
    knows_length,
    parts,
    unusual_layout,
    wav_chunks,
    wav_format,
    wav_header,
)
from asr.streaming.audio.ffmpeg import HOW_TO_INSTALL, IN_TIME, Ffmpeg, find_ffmpeg
from asr.streaming.audio.pipe import Pipe, Section
from asr.text import printable

if TYPE_CHECKING:
    from asr.streaming.audio.sequential_file import SequentialFile

STDIN = "-"
INTO_A_PIPE = f"ffmpeg -v error -nostdin -i FILE {' '.join(IN_TIME)} -f wav - |"
_STREAMED = (b"RIFF", b"RF64", b"FORM", b".snd", b"fLaC")
"""Magic numbers of the formats that libsndfile reads without seeking to the end."""
_ENDLESS = ("G72", "MS_ADPCM", "GSM610")
"""Beginnings of the encodings, such as G.721 and G.723, of which libsndfile never sees the end in a pipe."""
_SDS = b"\xf0\x7e"
"""Magic number of MIDI sample dumps. For a damaged one, libsndfile writes thousands of lines to standard output."""
_HEAD = 16


@dataclass(frozen=True)
class Opened:
    """The recordings of a file, each with whether its header has the length.

    check: called with the seconds of audio after the last recording. Raises AudioFileError if audio was lost that the
        headers of the recordings do not show.
    can_seek: whether their content is a file. begin_s: seconds of audio that were skipped before the first of them.
    """

    recordings: Iterator[tuple[SequentialFile, bool]]
    check: Callable[[float], None] = lambda done_s: None
    can_seek: bool = False
    begin_s: float = 0.0


@contextlib.contextmanager
def open_recordings(
    path: str | Path | IO[bytes],
    raw_rate: int | None,
    stopped: Callable[[], object],
    warn: Callable[[str], object],
    start_s: float = 0.0,
) -> Iterator[Opened]:
    """For the arguments see `read_blocks`. start_s: audio before it is not needed, but may be there, see `begin_s`.

    Raises the errors of libsndfile, OSError and AudioFileError.
    """
    name = name_of(path)
    with contextlib.ExitStack() as stack:
        file: Any = _open_file(path, stack)
        if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
            pipe = Pipe(file, stopped)
            head = pipe.peek(_HEAD)
            opened = None
            if raw_rate is not None or head.startswith(_STREAMED):
                opened = _of_pipe(pipe, raw_rate, name, warn)
            if opened:
                yield opened
                return
            # A file that begins with zeros is not audio and may be endless, like /dev/zero.
            content = pipe.read_all() if head.strip(b"\0") else head
            file = _open_file(BytesIO(content), stack)
        elif raw_rate is not None:
            yield Opened(iter([(_sound_file(file.fileno(), raw_rate), True)]), can_seek=True)
            return
        head = file.read(_HEAD)
        if not head:
            hint = f"; send audio into it: {INTO_A_PIPE} ..." if path == STDIN else ""
            raise AudioFileError(f"{name} is empty{hint}")
        if head.startswith(_SDS):
            raise AudioFileError(f"{name} is a MIDI sample dump, which is not supported; convert it to WAV")
        kind, reason = kind_of(head), ""
        if kind not in FFMPEG_KINDS:
            found = _of_libsndfile(path, file, kind, stopped, warn)
            if isinstance(found, Opened):
                yield found
                return
            reason = found
        program = find_ffmpeg()
        if program is None:
            trouble = f"cannot read {name}: {reason} ffmpeg may read it, but it"
            if not reason:
                trouble = f"{name} is {FFMPEG_KINDS[kind]}, which needs ffmpeg, and ffmpeg"
            raise AudioFileError(f"{trouble} is not installed: {HOW_TO_INSTALL}")
        # In other containers, such as MPEG-TS, ffmpeg may miss the position, or decode half a frame.
        begin_s = start_s if kind in FFMPEG_KINDS else 0.0
        ffmpeg = stack.enter_context(Ffmpeg(program, file, name, reason, begin_s))
        yield _of_ffmpeg(ffmpeg, name, stopped, warn, begin_s)


def name_of(path: str | Path | IO[bytes]) -> str:
    """The file's name for messages."""
    if not isinstance(path, (str, Path)):
        return "the file"
    return "standard input" if path == STDIN else printable(str(path))


def reason_of(error: Exception) -> str:
    """The error of libsndfile or the system, for messages."""
    reason = getattr(error, "error_string", "") or getattr(error, "strerror", "") or str(error)
    # libsndfile reports a damaged MP3 this way.
    return "It is damaged, or not audio." if "does not exist" in reason else printable(reason)


def raw_format(rate: int | None) -> dict[str, Any]:
    """The arguments of soundfile for raw samples at this rate."""
    if rate is None:
        return {}
    return {"format": "RAW", "subtype": "PCM_16", "endian": "LITTLE", "channels": 1, "samplerate": rate}


def _sound_file(source: Any, raw_rate: int | None = None) -> SequentialFile:
    from asr.streaming.audio.sequential_file import SequentialFile

    return SequentialFile(source, closefd=False, **raw_format(raw_rate))


def _open_file(path: str | Path | IO[bytes], stack: contextlib.ExitStack) -> Any:
    """The file, at its beginning, or the pipe."""
    if not isinstance(path, (str, Path)):
        file = _with_descriptor(path, stack)
        file.flush()
        is_file = stat.S_ISREG(os.fstat(file.fileno()).st_mode)
        own = open(file.fileno(), "rb", buffering=-1 if is_file else 0, closefd=False)  # noqa: SIM115, closed by `stack`
        if is_file:
            own.seek(0)
        return stack.enter_context(own)
    if path == STDIN:
        return stack.enter_context(_open_stdin())
    if Path(path).is_fifo():
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK)  # does not wait for a writer
        os.set_blocking(descriptor, True)
        return stack.enter_context(open(descriptor, "rb", buffering=0))
    if Path(path).is_file():
        return stack.enter_context(open(path, "rb"))
    if Path(path).is_dir():
        raise AudioFileError(f"{name_of(path)} is a folder: name its files, or use `asr transcribe`")
    hint = f"; download it: {INTO_A_PIPE} asr-stream -" if "://" in str(path) else ""
    raise AudioFileError(f"there is no audio file {name_of(path)}{hint}")


def _with_descriptor(source: Any, stack: contextlib.ExitStack) -> Any:
    """An open file whose descriptor has its content: itself, or a copy of what is only in memory, unpacked or
    received, as from BytesIO, gzip or a web client."""
    below = getattr(source, "file", source)  # of a named temporary file
    if isinstance(getattr(below, "raw", below), FileIO) or isinstance(source, tempfile.SpooledTemporaryFile):
        return source
    if not hasattr(source, "read"):
        raise AudioFileError(
            f"the audio has the type {type(source).__name__}; it must be a path or a file opened in binary mode, such "
            "as io.BytesIO(content)"
        )
    if hasattr(source, "seekable") and source.seekable():
        source.seek(0)
    copy: Any = stack.enter_context(tempfile.TemporaryFile())  # noqa: SIM115
    while piece := source.read(Pipe.PIECE):
        if not isinstance(piece, bytes):
            raise AudioFileError("the file is open as text; open it in binary mode: open(path, 'rb')")
        copy.write(piece)
    return copy


def _open_stdin() -> FileIO:
    if sys.stdin is None:
        raise AudioFileError(f"standard input is closed; send audio into it: {INTO_A_PIPE} ...")
    if sys.stdin.isatty():
        raise AudioFileError(f"standard input is a terminal; send audio into it: {INTO_A_PIPE} ...")
    return open(sys.stdin.fileno(), "rb", buffering=0, closefd=False)


def _of_pipe(pipe: Pipe, raw_rate: int | None, name: str, warn: Callable[[str], object]) -> Opened | None:
    """The recordings in a pipe; None if libsndfile cannot read its format as it arrives."""
    import soundfile

    try:
        file = _sound_file(pipe, raw_rate)
        if file.subtype.startswith(_ENDLESS):
            return None
        head = pipe.kept
        size = max(len(head), _size_in_header(head))
        if file.frames == 0 and (layout := unusual_layout(BytesIO(head), size)):
            pipe.begin_again(layout.header, layout.ranges[0][0])
            file = _sound_file(pipe, raw_rate)
            warn(_unsized(name))
            return Opened(iter([(file, False)]))
    except soundfile.LibsndfileError:
        return None
    return Opened(_audio_chunks(pipe, file, head))


def _size_in_header(head: bytes) -> int:
    """The size of a WAV file according to its header."""
    return 8 + int.from_bytes(head[4:8], "little")


def _audio_chunks(pipe: Pipe, file: SequentialFile, head: bytes) -> Iterator[tuple[SequentialFile, bool]]:
    """The recordings in a pipe: each chunk of a WAV file whose header has the length, else `file`. head: its first
    bytes.

    Waits for further chunks only if the size of the file in its header includes them, because the writer may leave the
    pipe open.
    """
    format, at, left = b"", 0, 0
    for chunk in wav_chunks(BytesIO(head), len(head)):
        if chunk.name == b"fmt ":
            format = wav_format(BytesIO(head), chunk)
        if chunk.name == b"data":
            at, left = chunk.begin - 8, _size_in_header(head) - chunk.begin + 8
            break
    if not format or not at:
        yield file, False
        return
    if chunk.end - chunk.begin >= UNKNOWN_SIZE:
        pipe.begin_again(wav_header(format), chunk.begin)
        yield _sound_file(pipe), False
        return
    while True:
        name, num_bytes = chunk_of(pipe.read_at(at, 8))
        at, left = at + 8, left - 8
        if name == b"data":
            begin = wav_header(format, num_bytes)
            pipe.begin_again(begin, at, num_bytes)
            yield _sound_file(pipe), True
            at = len(begin)
        num_bytes += num_bytes % 2
        at, left = at + num_bytes, left - num_bytes
        if not name or left < 8:
            return


def _of_libsndfile(
    path: str | Path | IO[bytes], file: Any, kind: str, stopped: Callable[[], object], warn: Callable[[str], object]
) -> Opened | str:
    """The recordings in a file; the reason if libsndfile cannot read its format."""
    import soundfile

    name, size = name_of(path), file.seek(0, os.SEEK_END)
    sections, whole = parts(file, kind, size, stopped)
    if len(sections) > MAX_PARTS:
        raise AudioFileError(f"{name} has more than {MAX_PARTS} recordings; split it")
    is_sized = [kind != "mp3" or knows_length(file, begin) for begin, _ in sections]
    sources: list[Any]
    if layout := unusual_layout(file, size):
        sources = [Section(file, layout.ranges, layout.header)]
        if layout.is_unsized:
            warn(_unsized(name))
    elif len(sections) > 1:
        sources = [Section(file, [section]) for section in sections]
    elif isinstance(path, (str, Path)) and Path(path).is_file() and path != STDIN:
        sources = [os.fsencode(path)]  # libsndfile recognizes headerless formats by their suffix
    else:
        os.lseek(file.fileno(), 0, os.SEEK_SET)  # `file.seek` may move only within its buffer
        sources = [file.fileno()]
    try:
        first = _sound_file(sources[0])
    except soundfile.LibsndfileError as error:
        return reason_of(error)

    def check(done_s: float) -> None:
        if not whole:
            raise AudioFileError(f"{name} is cut short: it ends in the middle of a recording, after {done_s:.1f} s")

    recordings = itertools.chain([first], map(_sound_file, sources[1:]))
    return Opened(zip(recordings, is_sized, strict=True), check, can_seek=True)


def _of_ffmpeg(
    ffmpeg: Ffmpeg, name: str, stopped: Callable[[], object], warn: Callable[[str], object], begin_s: float
) -> Opened:
    pipe = Pipe(ffmpeg.output, stopped, ffmpeg.max_wait_s)

    def check(done_s: float) -> None:
        if said := ffmpeg.check(done_s > 0, pipe.is_late):
            warn(f"{name}: {said}")

    has_audio = bool(pipe.peek(_HEAD))
    return Opened(iter([(_sound_file(pipe), False)] if has_audio else []), check, begin_s=begin_s)


def _unsized(name: str) -> str:
    return f"{name}: its header says 0 bytes of audio, as after a crash of the recorder; it is read to its end"
