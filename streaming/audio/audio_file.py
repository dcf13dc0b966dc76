"""Audio files as a live source: any format libsndfile reads (WAV, FLAC, Ogg, Opus, MP3), block by block.

So is standard input. What comes through a pipe as WAV, AIFF, AU, FLAC or raw samples is read as it comes; the other
formats cannot be read before they have ended.
"""

from __future__ import annotations

import contextlib
import io
import os
import select
import sys
from collections.abc import Callable, Generator
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy as np

BLOCK_S = 0.1
MAX_BLOCK_SIZE = 1 << 20
"""Of samples in all channels: bounds memory, whatever rate and number of channels a file claims."""
STDIN = "-"
_STREAMED = (b"RIFF", b"RF64", b"FORM", b".snd", b"fLaC")
"""How formats begin that libsndfile reads without looking at the end first."""


class AudioFileError(ValueError):
    """A file that is missing, is no audio, holds none, or is damaged."""


def read_blocks(
    path: str | Path | IO[bytes],
    raw_rate: int | None = None,
    stopped: Callable[[], object] = lambda: False,
    block_s: float = BLOCK_S,
    max_s: float = float("inf"),
) -> Generator[tuple[np.ndarray, int], None, None]:
    """Blocks of `block_s` seconds: (num_samples,) float32 in ±1, channels averaged, and the sample rate in Hz.

    path: "-" is standard input; or an open file with a `fileno`, which stays open.
    raw_rate: the content is raw samples of this rate, int16, little-endian, mono.
    stopped: asked while a pipe keeps the reader waiting; when true, the audio has ended.
    max_s: longest audio that is taken, in seconds.

    Raises AudioFileError for what cannot be read; where a file ends before it should, after its last block.
    """
    import soundfile

    num_frames = 0
    name = name_of(path)
    try:
        with (
            _open(path, raw_rate is not None, stopped) as source,
            soundfile.SoundFile(source, closefd=False, **_raw(raw_rate)) as file,
        ):
            promised, sample_rate = file.frames, file.samplerate
            piped = isinstance(source, _Pipe)
            if promised > max_s * sample_rate and not piped:
                raise AudioFileError(f"{name} lasts {promised / sample_rate:.0f} s; at most {max_s:g} s are taken")
            block_size = max(1, min(int(block_s * sample_rate), MAX_BLOCK_SIZE // file.channels))
            while len(block := file.read(block_size, dtype="float32", always_2d=True)):
                num_frames += len(block)
                yield block.mean(axis=1) if block.shape[1] > 1 else block[:, 0], sample_rate
    except (RuntimeError, TypeError, OSError) as error:  # TypeError: a headerless format, known by its suffix
        if num_frames:
            raise AudioFileError(f"cannot read {name} after {num_frames / sample_rate:.1f} s: {error}") from error
        if isinstance(error, soundfile.LibsndfileError):
            hint = " Another program may: ffmpeg -i FILE -f wav - | asr-stream --file -"
            hint = hint if isinstance(path, (str, Path)) else ""
            raise AudioFileError(f"cannot read {name}: {error.error_string}{hint}") from error
        hint = "; for raw 16-bit samples give --raw-rate" if isinstance(error, TypeError) else ""
        raise AudioFileError(f"cannot read {name}: {error}{hint}") from error
    if num_frames == 0 and not stopped():
        raise AudioFileError(f"{name} holds no audio")
    if num_frames < promised and not piped:
        raise AudioFileError(
            f"{name} is cut short: it holds {num_frames / sample_rate:.1f} s of the "
            f"{promised / sample_rate:.1f} s it promises"
        )


def duration_s(path: str | Path, raw_rate: int | None = None) -> float:
    """How long a file says it is, in seconds; 0 where that cannot be known."""
    import soundfile

    with contextlib.suppress(RuntimeError, TypeError, OSError):
        if Path(path).is_file():  # not a pipe, whose header would be gone
            with soundfile.SoundFile(path, **_raw(raw_rate)) as file:
                return file.frames / file.samplerate
    return 0.0


def name_of(path: str | Path | IO[bytes]) -> str:
    """For people."""
    if not isinstance(path, (str, Path)):
        return "the file"
    return "standard input" if path == STDIN else str(path)


def _raw(rate: int | None) -> dict[str, Any]:
    if rate is None:
        return {}
    return {"format": "RAW", "subtype": "PCM_16", "endian": "LITTLE", "channels": 1, "samplerate": rate}


def _open(path: str | Path | IO[bytes], raw: bool, stopped: Callable[[], object]) -> Any:
    """What libsndfile can seek in: a path, a file, or the number of one, which it reads without Python's help."""
    if not isinstance(path, (str, Path)):
        return contextlib.nullcontext(path.fileno())
    if path == STDIN:
        if sys.stdin.isatty():
            raise AudioFileError("standard input is a terminal; send audio into it: ffmpeg -i FILE -f wav - | ...")
        file = open(sys.stdin.fileno(), "rb", buffering=0, closefd=False)  # noqa: SIM115, closed by _Pipe
        if file.seekable():
            return file
    elif Path(path).is_fifo():
        file = open(path, "rb", buffering=0)  # noqa: SIM115, closed by _Pipe
    elif Path(path).is_file():
        return contextlib.nullcontext(path)
    else:
        raise AudioFileError(f"there is no audio file {path}")
    pipe = _Pipe(file, stopped)
    return pipe if raw or pipe.peek(4).startswith(_STREAMED) else io.BytesIO(pipe.read_all())


class _Pipe:
    """A pipe that looks like a very long file to libsndfile: it wants to seek, but reads in order what we let it.

    What was read last is kept, so that it can look at a header twice; beyond the end of what has come there is nothing.
    """

    LENGTH = 1 << 60
    KEPT = 1 << 20
    PIECE = 1 << 16

    def __init__(self, file: io.FileIO, stopped: Callable[[], object]) -> None:
        self._file = file
        self._stopped = stopped
        self._content = bytearray()
        self._begin = 0  # of the content, in the file
        self._position = 0
        self._ended = False

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        self._position = offset + {os.SEEK_SET: 0, os.SEEK_CUR: self._position, os.SEEK_END: self.LENGTH}[whence]
        return self._position

    def tell(self) -> int:
        return self._position

    def read(self, size: int) -> bytes:
        at = self._position - self._begin
        if not 0 <= at <= len(self._content):
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
        while self._receive():
            pass
        return bytes(self._content)

    def _receive(self) -> bool:
        """Waits for more; false at the end."""
        if os.name == "posix":  # elsewhere pipes cannot be waited for
            while not self._ended and not select.select([self._file], [], [], BLOCK_S)[0]:
                self._ended = bool(self._stopped())
        piece = b"" if self._ended or self._stopped() else self._file.read(self.PIECE) or b""
        self._ended = not piece
        self._content += piece
        return bool(piece)

    def __enter__(self) -> _Pipe:
        return self

    def __exit__(self, *exc: object) -> None:
        self._file.close()
