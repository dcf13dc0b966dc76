"""Audio files as a live source: WAV, FLAC, Ogg, Opus, MP3 and the other formats of libsndfile, block by block.

If ffmpeg is installed, it reads what libsndfile cannot: WebM, MP4, M4A, AAC, WMA, AMR. Standard input is a source, too.
WAV, AIFF, AU, FLAC and raw samples are decoded from a pipe as they arrive; other formats only after the pipe has ended.
"""

from __future__ import annotations

import contextlib
import io
import os
import select
import stat
import sys
import tempfile
from collections.abc import Callable, Generator, Iterator
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from asr.containers import (
    FFMPEG_KINDS,
    MAX_PARTS,
    UNKNOWN_FRAMES,
    AudioFileError,
    kind_of,
    knows_length,
    parts,
    share_present,
)
from asr.text import printable

if TYPE_CHECKING:
    import numpy as np

BLOCK_S = 0.1
MAX_BLOCK_SIZE = 1 << 20
"""Maximum samples of a block, over all channels; bounds memory for any rate and number of channels in a header."""
MAX_PIPED = 1 << 29
"""Maximum bytes from a pipe in a format that cannot be decoded as it arrives; they are kept until the pipe ends."""
STDIN = "-"
INTO_A_PIPE = "ffmpeg -v error -nostdin -i FILE -f wav - |"
_STREAMED = (b"RIFF", b"RF64", b"FORM", b".snd", b"fLaC")
"""Magic numbers of the formats that libsndfile reads without seeking to the end."""
_SDS = b"\xf0\x7e"
"""Magic number of MIDI sample dumps. For a damaged one, libsndfile writes thousands of lines to standard output."""
_HEAD = 16
_TOLERANCE = 2 * 1152
"""Maximum number of samples that an MP3 may lack compared with its header, because its last frames are padding."""


def read_blocks(
    path: str | Path | IO[bytes],
    raw_rate: int | None = None,
    stopped: Callable[[], object] = lambda: False,
    block_s: float = BLOCK_S,
    max_s: float = float("inf"),
) -> Generator[tuple[np.ndarray, int], None, None]:
    """Yields blocks of `block_s` seconds: (num_samples,) float32 in ±1, and the sample rate in Hz.

    Channels are averaged; if they cancel each other, the first one is taken.

    path: a path, "-" for standard input, or an open file with a `fileno`, which stays open.
    raw_rate: the content is raw samples at this rate: int16, little-endian, mono.
    stopped: called while the reader waits for a pipe or searches a file; if true, the audio has ended.
    max_s: maximum duration of the audio, in seconds.

    Concatenated Ogg or MP3 recordings in one file are read one after the other.
    Raises AudioFileError for unreadable content; for a truncated file, after its last block.
    """
    name = name_of(path)
    done_s = 0.0
    try:
        with _open(path, raw_rate is not None, stopped) as (sources, whole):
            for source, mp3_length in sources:
                for samples, sample_rate in _read(source, mp3_length, name, raw_rate, block_s, done_s, max_s):
                    done_s += len(samples) / sample_rate
                    if done_s > max_s:
                        raise AudioFileError(f"{name} lasts more than {max_s:g} s; the maximum is {max_s:g} s")
                    yield samples, sample_rate
            if done_s == 0 and not stopped():
                raise AudioFileError(f"{name} holds no audio")
            if not whole and not stopped():
                raise AudioFileError(f"{name} is cut short: it ends in the middle of a recording, after {done_s:.1f} s")
    except (RuntimeError, TypeError, OSError) as error:  # TypeError: a headerless format, by suffix
        reason = getattr(error, "error_string", "") or getattr(error, "strerror", "") or str(error)
        if done_s:
            raise AudioFileError(f"cannot read {name} after {done_s:.1f} s: {printable(reason)}") from error
        if "does not exist" in reason:  # libsndfile reports a damaged MP3 this way
            reason = "It is damaged, or not audio."
        hint = ""
        if isinstance(error, TypeError):
            hint = "; for raw 16-bit samples give --raw-rate"
        elif isinstance(path, (str, Path)) and hasattr(error, "error_string"):
            hint = f" Another program may read it: {INTO_A_PIPE} asr-stream -"
        raise AudioFileError(f"cannot read {name}: {printable(reason)}{hint}") from error


def duration_s(path: str | Path, raw_rate: int | None = None) -> float:
    """Duration in the file's header, in seconds; 0 if unknown."""
    import soundfile

    with contextlib.suppress(RuntimeError, TypeError, OSError, ValueError):
        if Path(path).is_file():  # reading a pipe would consume its header
            with soundfile.SoundFile(os.fsencode(path), **_raw(raw_rate)) as file:
                return file.frames / file.samplerate if file.frames < UNKNOWN_FRAMES else 0.0
    return 0.0


def name_of(path: str | Path | IO[bytes]) -> str:
    """The file's name for messages."""
    if not isinstance(path, (str, Path)):
        return "the file"
    return "standard input" if path == STDIN else printable(str(path))


def _read(
    source: Any, mp3_length: bool, name: str, raw_rate: int | None, block_s: float, done_s: float, max_s: float
) -> Iterator[tuple[np.ndarray, int]]:
    """Yields the blocks of one recording; `done_s` seconds of audio were read before, out of at most `max_s`.

    mp3_length: for an MP3, whether its header has the length.
    Raises AudioFileError before the first block if the header has more than `max_s`; after the last if it is truncated.
    """
    from asr.streaming.audio.sequential_file import SequentialFile

    num_frames = 0
    with SequentialFile(source, closefd=False, **_raw(raw_rate)) as file:
        promised, sample_rate = file.frames, file.samplerate
        if isinstance(source, _Pipe) or promised >= UNKNOWN_FRAMES or (file.format == "MP3" and not mp3_length):
            promised = 0
        elif (length_s := done_s + promised / sample_rate) > max_s:
            raise AudioFileError(f"{name} lasts {length_s:.0f} s; the maximum is {max_s:g} s")
        block_size = max(1, min(int(block_s * sample_rate), MAX_BLOCK_SIZE // file.channels))
        while len(block := file.read(block_size, dtype="float32", always_2d=True)):
            num_frames += len(block)
            yield _mono(block), sample_rate
        present_s = num_frames / sample_rate
        promised_s = promised / sample_rate
        if promised and (share := share_present(file.extra_info)) < 1:
            promised_s = present_s / max(share, 1e-9)
        elif promised <= num_frames + (_TOLERANCE if file.format == "MP3" else 0):
            return
    raise AudioFileError(f"{name} is cut short: it holds {present_s:.1f} s of the {promised_s:.1f} s in its header")


def _mono(block: np.ndarray) -> np.ndarray:
    """Averages all channels: (num_samples, num_channels) -> (num_samples,). If they cancel, as with a balanced line
    recorded in stereo, takes the first channel."""
    if block.shape[1] == 1:
        return block[:, 0]
    average, first = block.mean(axis=1), block[:, 0]
    return first if average @ average < 1e-4 * (first @ first) else average


def _raw(rate: int | None) -> dict[str, Any]:
    if rate is None:
        return {}
    return {"format": "RAW", "subtype": "PCM_16", "endian": "LITTLE", "channels": 1, "samplerate": rate}


@contextlib.contextmanager
def _open(
    path: str | Path | IO[bytes], raw: bool, stopped: Callable[[], object]
) -> Iterator[tuple[list[tuple[Any, bool]], bool]]:
    """The recordings of a file, each with whether it is an MP3 whose header has the length, and whether the last
    recording is complete according to the headers."""
    with contextlib.ExitStack() as stack:
        file: Any
        if not isinstance(path, (str, Path)):
            file = stack.enter_context(open(path.fileno(), "rb", closefd=False))
            file.seek(0)
        elif path == STDIN:
            file = stack.enter_context(_open_stdin())
        elif Path(path).is_fifo():
            descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK)  # does not wait for a writer
            file = stack.enter_context(open(descriptor, "rb", buffering=0))
            os.set_blocking(file.fileno(), True)
        elif Path(path).is_file():
            file = stack.enter_context(open(path, "rb"))
        elif Path(path).is_dir():
            raise AudioFileError(f"{name_of(path)} is a folder: name its files, or use `asr transcribe`")
        else:
            hint = f"; download it: {INTO_A_PIPE} asr-stream -" if "://" in str(path) else ""
            raise AudioFileError(f"there is no audio file {name_of(path)}{hint}")
        if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
            pipe = _Pipe(file, stopped)
            head = pipe.peek(_HEAD)
            if raw or head.startswith(_STREAMED):
                yield [(pipe, False)], True
                return
            # A file that begins with zeros is not audio and may be endless, like /dev/zero.
            content = pipe.read_all() if head.strip(b"\0") else head
            if kind_of(head) in FFMPEG_KINDS:
                file = stack.enter_context(tempfile.TemporaryFile())
                file.write(content)
                file.seek(0)
            else:
                file = io.BytesIO(content)
        if raw:
            yield [(file.fileno(), False)], True
            return
        head = file.read(_HEAD)
        if not head:
            hint = f"; send audio into it: {INTO_A_PIPE} ..." if path == STDIN else ""
            raise AudioFileError(f"{name_of(path)} is empty{hint}")
        if head.startswith(_SDS):
            raise AudioFileError(f"{name_of(path)} is a MIDI sample dump, which is not supported; convert it to WAV")
        kind = kind_of(head)
        if kind in FFMPEG_KINDS:
            from asr.streaming.audio.ffmpeg import Ffmpeg

            ffmpeg = stack.enter_context(Ffmpeg(file, kind, name_of(path)))
            yield [(_Pipe(ffmpeg.output, stopped), False)], True
            if not stopped():
                ffmpeg.check()
            return
        size = file.seek(0, os.SEEK_END)
        sections, whole = parts(file, kind, size, stopped)
        if len(sections) > MAX_PARTS:
            raise AudioFileError(f"{name_of(path)} has more than {MAX_PARTS} recordings; split it")
        mp3_lengths = [kind == "mp3" and knows_length(file, begin) for begin, _ in sections]
        file.seek(0)
        sources: list[Any] = [file]
        if len(sections) > 1:
            sources = [Section(file, begin, end) for begin, end in sections]
        elif isinstance(path, (str, Path)) and path != STDIN and Path(path).is_file():
            sources = [os.fsencode(path)]  # libsndfile recognizes headerless formats by their suffix
        elif not isinstance(file, io.BytesIO):
            os.lseek(file.fileno(), 0, os.SEEK_SET)  # `file.seek` may move only within its buffer
            sources = [file.fileno()]
        yield list(zip(sources, mp3_lengths, strict=True)), whole


def _open_stdin() -> io.FileIO:
    if sys.stdin is None:
        raise AudioFileError(f"standard input is closed; send audio into it: {INTO_A_PIPE} ...")
    if sys.stdin.isatty():
        raise AudioFileError(f"standard input is a terminal; send audio into it: {INTO_A_PIPE} ...")
    return open(sys.stdin.fileno(), "rb", buffering=0, closefd=False)


class Section:
    """A section of a file, with the interface of a file."""

    def __init__(self, file: IO[bytes], begin: int, end: int) -> None:
        self._file, self._begin, self._end = file, begin, end
        self._position = 0

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        origin = {os.SEEK_SET: 0, os.SEEK_CUR: self._position, os.SEEK_END: self._end - self._begin}[whence]
        self._position = origin + offset
        return self._position

    def tell(self) -> int:
        return self._position

    def read(self, size: int) -> bytes:
        self._file.seek(self._begin + self._position)
        data = self._file.read(max(0, min(size, self._end - self._begin - self._position)))
        self._position += len(data)
        return data


class _Pipe:
    """A pipe that looks like a very long file to libsndfile, which wants to seek but reads in order.

    The last bytes read are kept, so that it can read a header twice.
    """

    LENGTH = 1 << 60
    KEPT = 1 << 20
    PIECE = 1 << 16
    AUDIO = (b"data", b"SSND")
    """Names of the chunks with the audio in WAV and AIFF."""

    def __init__(self, file: io.FileIO, stopped: Callable[[], object]) -> None:
        self._file = file
        self._stopped = stopped
        self._content = bytearray()
        self._begin = 0  # position of the content in the file
        self._position = 0
        self._ended = False

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        self._position = offset + {os.SEEK_SET: 0, os.SEEK_CUR: self._position, os.SEEK_END: self.LENGTH}[whence]
        return self._position

    def tell(self) -> int:
        return self._position

    def read(self, size: int) -> bytes:
        at = self._position - self._begin
        # Before the audio libsndfile skips chunks. After it, it looks for more of them, which would wait for the end.
        if at < 0 or (at > len(self._content) and (at > MAX_PIPED or any(x in self._content for x in self.AUDIO))):
            return b""
        while len(self._content) < at + size and self._receive():
            pass
        data = bytes(self._content[at : at + size])
        self._position += len(data)
        if (excess := at - 2 * self.KEPT) > 0:
            del self._content[: excess + self.KEPT]
            self._begin += excess + self.KEPT
        return data

    def peek(self, size: int) -> bytes:
        data = self.read(size)
        self._position -= len(data)
        return data

    def read_all(self) -> bytes:
        """All of the input. Raises AudioFileError if it exceeds MAX_PIPED."""
        while self._receive():
            if len(self._content) > MAX_PIPED:
                raise AudioFileError(
                    f"more than {MAX_PIPED >> 20} MB came through a pipe in a format that cannot be read before the "
                    "pipe ends; write it to a file"
                )
        return bytes(self._content)

    def _receive(self) -> bool:
        """Waits for more bytes; false at the end."""
        if os.name == "posix":  # other systems cannot wait for a pipe
            while not self._ended and not select.select([self._file], [], [], BLOCK_S)[0]:
                self._ended = bool(self._stopped())
        piece = b"" if self._ended or self._stopped() else self._file.read(self.PIECE) or b""
        self._ended = not piece
        self._content += piece
        return bool(piece)
