"""Audio files as a live source: WAV, FLAC, Ogg, Opus, MP3 and the other formats of libsndfile, block by block.

If ffmpeg is installed, it reads what libsndfile cannot: WebM, MP4, M4A, AAC, WMA, AMR, MPEG-TS, AC-3, WavPack and more.
Standard input is a source, too. WAV, AIFF, AU, FLAC and raw samples are decoded from a pipe as they arrive; other
formats only after the pipe has ended.
"""

from __future__ import annotations

import contextlib
import errno
import os
from collections.abc import Callable, Generator, Iterator
from pathlib import Path
from typing import IO, TYPE_CHECKING

from asr.channels import Channel, Selection
from asr.containers import UNKNOWN_FRAMES, AudioFileError, share_present
from asr.streaming.audio.open_file import name_of, open_recordings, raw_format, reason_of

if TYPE_CHECKING:
    import numpy as np

    from asr.streaming.audio.sequential_file import SequentialFile

BLOCK_S = 0.1
MAX_BLOCK_SIZE = 1 << 20
"""Maximum samples of a block, over all channels; bounds memory for any rate and number of channels in a header."""
_TOLERANCE = 2 * 1152
"""Maximum number of samples that an MP3 may lack compared with its header, because its last frames are padding."""


def read_blocks(
    path: str | Path | IO[bytes],
    raw_rate: int | None = None,
    stopped: Callable[[], object] = lambda: False,
    block_s: float = BLOCK_S,
    max_s: float = float("inf"),
    channel: Channel = "mix",
    warn: Callable[[str], object] = lambda warning: None,
) -> Generator[tuple[np.ndarray, int], None, None]:
    """Yields blocks of `block_s` seconds: (num_samples,) float32 in ±1, and the sample rate in Hz.

    path: a path, "-" for standard input, or a file opened in binary mode, which stays open: a file, which is read from
        its beginning, the pipe of a process, or any other object with `read`, such as `io.BytesIO`, which is read to
        its end before the first block.
    raw_rate: the content is raw samples at this rate: int16, little-endian, mono.
    stopped: called while the reader waits for a pipe or searches a file; if true, the audio has ended.
    max_s: maximum duration of the audio, in seconds.
    channel: "mix": the average of all channels; if they cancel each other, the first one. A number from 1: this one.
        "each": all channels, (num_samples, num_channels).
    warn: called with a sentence about trouble that does not end the audio.

    Concatenated Ogg or MP3 recordings in one file are read one after the other.
    Raises AudioFileError for unreadable content; for a truncated file, after its last block. Raises MemoryError.
    """
    name = name_of(path)
    done_s = 0.0
    selection = Selection(channel, name, warn)
    try:
        with open_recordings(path, raw_rate, stopped, warn) as opened:
            for file, is_sized in opened.recordings:
                for block in _read(file, is_sized, name, block_s, done_s, max_s, stopped):
                    done_s += len(block) / file.samplerate
                    if done_s > max_s:
                        raise AudioFileError(f"{name} lasts more than {max_s:g} s; the maximum is {max_s:g} s")
                    yield selection.of(block), file.samplerate
            if not stopped():
                opened.check(done_s)
                if done_s == 0:
                    raise AudioFileError(f"{name} holds no audio")
    except (RuntimeError, TypeError, OSError) as error:  # TypeError: a headerless format, by suffix
        reason = reason_of(error)
        if getattr(error, "errno", 0) == errno.ENOMEM or "malloc" in reason:
            raise MemoryError(f"there is not enough memory to read {name}") from error
        if done_s:
            raise AudioFileError(f"cannot read {name} after {done_s:.1f} s: {reason}") from error
        hint = "; for raw 16-bit samples give --raw-rate" if isinstance(error, TypeError) else ""
        raise AudioFileError(f"cannot read {name}: {reason}{hint}") from error


def duration_s(path: str | Path, raw_rate: int | None = None) -> float:
    """Duration in the file's header, in seconds; 0 if unknown."""
    import soundfile

    with contextlib.suppress(RuntimeError, TypeError, OSError, ValueError):
        if Path(path).is_file():  # reading a pipe would consume its header
            with soundfile.SoundFile(os.fsencode(path), **raw_format(raw_rate)) as file:
                return file.frames / file.samplerate if file.frames < UNKNOWN_FRAMES else 0.0
    return 0.0


def _read(
    file: SequentialFile,
    is_sized: bool,
    name: str,
    block_s: float,
    done_s: float,
    max_s: float,
    stopped: Callable[[], object],
) -> Iterator[np.ndarray]:
    """Yields the blocks of one recording, (num_samples, num_channels), and closes it; `done_s` seconds of audio were
    read before, out of at most `max_s`.

    is_sized: whether its header has the length. stopped: see `read_blocks`.
    Raises AudioFileError before the first block if the header has more than `max_s`; after the last if it is truncated.
    """
    num_frames = 0
    with file:
        sample_rate, is_mpeg = file.samplerate, file.subtype.startswith("MPEG")
        promised = file.frames if is_sized and file.frames < UNKNOWN_FRAMES else 0
        if is_mpeg and file.format != "MP3":  # of MP3 in WAV, libsndfile estimates the length
            promised = 0
        if (length_s := done_s + promised / sample_rate) > max_s:
            raise AudioFileError(f"{name} lasts {length_s:.0f} s; the maximum is {max_s:g} s")
        block_size = max(1, min(int(block_s * sample_rate), MAX_BLOCK_SIZE // file.channels))
        while len(block := file.read(block_size, dtype="float32", always_2d=True)):
            num_frames += len(block)
            yield block
        present_s = num_frames / sample_rate
        promised_s = promised / sample_rate
        if is_sized and (share := share_present(file.extra_info)) < 1:
            promised_s = present_s / max(share, 1e-9)
        elif promised <= num_frames + (_TOLERANCE if is_mpeg else 0) or stopped():
            return
    raise AudioFileError(f"{name} is cut short: it holds {present_s:.1f} s of the {promised_s:.1f} s in its header")
