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
PREROLL_S = 0.5
"""Audio that is decoded and dropped after a seek, because MP3, Opus and AAC frames depend on those before them."""
MAX_BLOCK_SIZE = 1 << 20
"""Maximum samples of a block, over all channels; bounds memory for any rate and number of channels in a header."""
MPEG_1_RATE = 32000
"""The lowest sample rate of MPEG 1 in Hz; lower ones are MPEG 2, with smaller frames."""
_TOLERANCE = 2 * 1152
"""Maximum number of samples that an MP3 may lack compared with its header, because its last frames are padding."""


class StartAfterEndError(AudioFileError):
    """The part to read begins after the end of the audio."""


def read_blocks(
    path: str | Path | IO[bytes],
    raw_rate: int | None = None,
    stopped: Callable[[], object] = lambda: False,
    block_s: float = BLOCK_S,
    max_s: float = float("inf"),
    channel: Channel = "mix",
    warn: Callable[[str], object] = lambda warning: None,
    start_s: float = 0.0,
    duration_s: float = float("inf"),
) -> Generator[tuple[np.ndarray, int], None, None]:
    """Yields blocks of `block_s` seconds: (num_samples,) float32 in ±1, and the sample rate in Hz.

    path: a path, "-" for standard input, or a file opened in binary mode, which stays open: a file, which is read from
        its beginning, the pipe of a process, or any other object with `read`, such as `io.BytesIO`, which is read to
        its end before the first block.
    raw_rate: the content is raw samples at this rate: int16, little-endian, mono.
    stopped: called between blocks, and while the reader waits for a pipe or searches a file; if true, the audio has
        ended.
    max_s: maximum duration of the audio that is yielded, in seconds.
    channel: "mix": the average of all channels; if they cancel each other, the first one. A number from 1: this one.
        "each": all channels, (num_samples, num_channels).
    warn: called with a sentence about trouble that does not end the audio.
    start_s, duration_s: the part to yield, in seconds: where it begins, and its length, which may reach beyond the end.
        What comes before it is skipped without decoding if the format allows, what comes after it is not read.

    Concatenated Ogg or MP3 recordings in one file are read one after the other.
    Raises AudioFileError for unreadable content and if the audio ends before `start_s`; for a truncated file, after its
    last block. Raises ValueError for a negative `start_s`, and if `duration_s` is not positive. Raises MemoryError.
    """
    if not start_s >= 0:
        raise ValueError(f"start_s is {start_s}; it must be at least 0")
    if not duration_s > 0:
        raise ValueError(f"duration_s is {duration_s}; it must be greater than 0")
    name = name_of(path)
    end_s = start_s + duration_s
    done_s = 0.0  # position in the recording
    yielded_s = 0.0
    selection = Selection(channel, name, warn)
    try:
        with open_recordings(path, raw_rate, stopped, warn, max(0.0, start_s - PREROLL_S)) as opened:
            done_s = opened.begin_s
            for file, is_sized in opened.recordings:
                begin_s, sample_rate = done_s, file.samplerate
                promised = _num_promised(file, is_sized)
                if (length_s := min(begin_s + promised / sample_rate, end_s) - start_s) > max_s:
                    raise AudioFileError(f"{name} lasts {length_s:.0f} s; the maximum is {max_s:g} s")
                first, last = (_position(at_s - begin_s, sample_rate) for at_s in (start_s, end_s))
                skipped = first if opened.can_seek and promised else 0
                for position, block in _read(file, is_sized, promised, name, block_s, skipped, stopped):
                    done_s = begin_s + (position + len(block)) / sample_rate
                    wanted = block[max(0, first - position) : max(0, last - position)]
                    if len(wanted):
                        yielded_s += len(wanted) / sample_rate
                        if yielded_s > max_s:
                            raise AudioFileError(f"{name} lasts more than {max_s:g} s; the maximum is {max_s:g} s")
                        yield selection.of(wanted), sample_rate
                    if position + len(block) >= last:
                        return
            if not stopped():
                opened.check(done_s)
                if done_s == 0:
                    raise AudioFileError(f"{name} holds no audio")
                if not yielded_s:
                    length = f"less than {start_s:g} s" if done_s == opened.begin_s else f"{done_s:.1f} s"
                    reason = f"{name} lasts {length}; the start is {start_s:g} s: choose one before its end"
                    raise StartAfterEndError(reason)
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


def _position(seconds: float, sample_rate: int) -> int:
    """The sample at this time; a very large number for infinity."""
    return round(min(seconds * sample_rate, float(1 << 62)))


def _num_promised(file: SequentialFile, is_sized: bool) -> int:
    """The samples of each channel in the header; 0 if unknown. is_sized: whether the header has the length."""
    if file.subtype.startswith("MPEG") and file.format != "MP3":  # of MP3 in WAV, libsndfile estimates the length
        return 0
    return file.frames if is_sized and file.frames < UNKNOWN_FRAMES else 0


def _read(
    file: SequentialFile,
    is_sized: bool,
    promised: int,
    name: str,
    block_s: float,
    skipped: int,
    stopped: Callable[[], object],
) -> Iterator[tuple[int, np.ndarray]]:
    """Yields the blocks of one recording, (num_samples, num_channels), each with its position in samples; closes it.

    is_sized, promised: see `_num_promised`. skipped: samples that need not be yielded, of a file of known length that
    is not a pipe; an empty block shows where the first one begins. stopped: see `read_blocks`.
    Raises AudioFileError after the last block if the recording is truncated.
    """
    with file:
        sample_rate = file.samplerate
        begin = num_frames = _seek(file, name, skipped, promised) if skipped > 0 else 0
        if begin:
            yield begin, file.read(0, dtype="float32", always_2d=True)
        block_size = max(1, min(int(block_s * sample_rate), MAX_BLOCK_SIZE // file.channels))
        while len(block := file.read(block_size, dtype="float32", always_2d=True)):
            yield num_frames, block
            num_frames += len(block)
            if stopped():
                break
        present_s = num_frames / sample_rate
        promised_s = promised / sample_rate
        if is_sized and (share := share_present(file.extra_info)) < 1:
            promised_s = present_s / max(share, 1e-9)
        elif promised <= num_frames + (_TOLERANCE if file.subtype.startswith("MPEG") else 0) or stopped():
            return
    present = f"{'less than ' if promised > begin == num_frames > 0 else ''}{present_s:.1f} s"
    raise AudioFileError(f"{name} is cut short: it holds {present} of the {promised_s:.1f} s in its header")


def _seek(file: SequentialFile, name: str, first: int, num_frames: int) -> int:
    """Moves to PREROLL_S before the sample `first`; returns the position, 0 if the encoding cannot seek.

    Raises AudioFileError if there is no such position, although the header has `num_frames` samples.
    """
    import soundfile

    # After a seek, libmpg123 decodes 4 frames in advance. At low rates they are too small, so it writes errors to file
    # descriptor 2.
    if not file.can_seek or (file.format == "MP3" and file.samplerate < MPEG_1_RATE):
        return 0
    position = min(max(0, first - round(PREROLL_S * file.samplerate)), num_frames)
    try:
        return file.seek(position)
    except soundfile.LibsndfileError as error:
        at_s = position / file.samplerate
        raise AudioFileError(f"{name} is damaged or cut short before {at_s:.1f} s: {reason_of(error)}") from error
