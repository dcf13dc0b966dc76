"""Recordings: reading whole files in any format, and finding them in folders.

A recording that training could not use (truncated, NaN, out of range) raises ValueError with the reason.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from asr.channels import mixed
from asr.containers import kind_of, parts, share_present
from asr.features import SAMPLE_RATE
from asr.tables import AUDIO_SUFFIXES

if TYPE_CHECKING:
    import numpy as np

MAX_NOISE_S = 600.0
SLACK_S = 0.1
"""How much later than its recording a segment may end; manifests round their times."""


@dataclass(frozen=True)
class Audio:
    """A decoded recording. samples: (num_samples,) float32 in ±1, 16 kHz mono. The other fields describe the file."""

    samples: np.ndarray
    num_file_samples: int
    file_rate: int
    num_channels: int


class TooLongError(ValueError):
    """A recording longer than allowed, which was not decoded."""


def read_audio(
    path: str | Path, max_duration_s: float = 3600.0, start_s: float = 0.0, segment_s: float | None = None
) -> Audio:
    """Decodes a recording: FLAC, WAV, MP3, Ogg Vorbis, Opus and other formats of libsndfile.

    start_s, segment_s: decode only this part of it; None: to its end.

    Any sampling rate becomes 16 kHz; channels are averaged, unless they cancel each other: then the first one counts.
    Raises ValueError for a file that cannot be read to its end, holds several recordings, is longer than
    `max_duration_s`, has NaN or infinite samples, or does not contain the segment.
    """
    import numpy as np
    import soundfile
    import soxr

    try:
        with open(path, "rb") as raw, soundfile.SoundFile(path) as file:
            rate, stated = file.samplerate, file.frames
            if not 1000 <= rate <= 384000 or file.channels > 64:
                raise ValueError(f"has {file.channels} channels at {rate} Hz; expected at most 64, 1 to 384 kHz")
            first = round(start_s * rate)
            wanted = stated - first if segment_s is None else round(segment_s * rate)
            if not 0 <= first < max(stated, 1) or not 0 <= wanted <= stated - first + SLACK_S * rate:
                raise ValueError(
                    f"lasts {stated / rate:.2f} s; the segment is {start_s:.2f} to {start_s + wanted / rate:.2f} s"
                )
            wanted = min(wanted, stated - first)
            if wanted > max_duration_s * rate:  # decoding might exhaust the memory
                raise TooLongError(f"{wanted / rate:.1f} s")
            sections, whole = parts(raw, kind_of(raw.read(16)), raw.seek(0, os.SEEK_END))
            if len(sections) > 1:
                raise ValueError("holds several recordings, one after the other; split it")
            if not whole or share_present(file.extra_info) < 1:
                raise ValueError("is cut off: it ends in the middle of the recording")
            file.seek(first)
            samples = file.read(wanted, dtype="float32", always_2d=True)
    # soundfile raises TypeError for a suffix that means headerless audio
    except (soundfile.SoundFileError, OSError, TypeError, MemoryError) as error:
        raise ValueError(f"cannot be read: {error}") from error
    if len(samples) != wanted:
        raise ValueError(f"is cut off: {len(samples)} of {wanted} samples")
    if not np.isfinite(samples).all():
        raise ValueError("holds NaN or infinite samples")
    if len(samples) and np.abs(samples).max() > 10:  # floating point may slightly exceed ±1
        raise ValueError(
            f"reaches {np.abs(samples).max():.4g}; expected samples in ±1: divide those in the range of int16 by 32768"
        )
    mono, _ = mixed(samples)
    if rate != SAMPLE_RATE and len(mono):
        mono = soxr.resample(mono, rate, SAMPLE_RATE)
    return Audio(np.ascontiguousarray(mono), len(samples), rate, samples.shape[1])


def find_sounds(folder: str | Path, what: str) -> tuple[str, ...]:
    """Absolute paths of all audio files under `folder`, sorted; `what` names them in errors.

    Raises ValueError if there is none, or if a folder or the header of a file cannot be read.
    """
    import soundfile

    def refuse(error: OSError) -> None:
        raise ValueError(f"{what} folder {error.filename} cannot be read: {error.strerror}") from error

    if not Path(folder).is_dir():
        raise ValueError(f"{what} folder {folder} does not exist or is not a folder")
    found = (Path(place, name) for place, _, names in os.walk(folder, onerror=refuse) for name in names)
    paths = sorted(p.absolute() for p in found if p.suffix.lower() in AUDIO_SUFFIXES and p.is_file())
    if not paths:
        raise ValueError(f"{what} folder {folder} holds no audio; expected {', '.join(sorted(AUDIO_SUFFIXES))}")
    for path in paths:
        try:
            duration_s = soundfile.info(str(path)).duration
        except (soundfile.SoundFileError, OSError, TypeError) as error:
            raise ValueError(f"{what} file {path} cannot be read: {error}; repair or remove it") from error
        if not 0 < duration_s <= MAX_NOISE_S:
            raise ValueError(
                f"{what} file {path} lasts {duration_s:.1f} s; expected more than 0 and at most {MAX_NOISE_S:.0f} s: "
                "cut or remove it"
            )
    return tuple(map(str, paths))
