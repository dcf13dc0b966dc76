"""Resampling of live audio to 16 kHz, and checks of pushed audio."""

from __future__ import annotations

import os

import numpy as np

from asr._core import MAX_SAMPLE_RATE, MIN_SAMPLE_RATE, Resampler
from asr.features import SAMPLE_RATE

MAX_CHANNELS = 64
"""Maximum number of channels in an array of samples. With more, its axes are probably swapped."""

__all__ = ["MAX_SAMPLE_RATE", "MIN_SAMPLE_RATE", "SAMPLE_RATE", "Resampler", "check_sample_rate", "check_samples"]


def check_sample_rate(sample_rate: int) -> None:
    """Raises ValueError unless `sample_rate` is a whole number of Hz in [1000, 768000]."""
    whole = isinstance(sample_rate, (int, np.integer)) and not isinstance(sample_rate, bool)
    if not whole or not MIN_SAMPLE_RATE <= sample_rate <= MAX_SAMPLE_RATE:
        raise ValueError(
            f"sample_rate is {sample_rate!r}; it must be a whole number of Hz in [{MIN_SAMPLE_RATE}, {MAX_SAMPLE_RATE}]"
        )


def as_samples(samples: object) -> np.ndarray:
    """An array of float32 or int16: other floats, other byte orders, and lists of floats are converted.

    Raises ValueError, with the conversion to use, for whole numbers of other ranges and for anything else.
    """
    if isinstance(samples, (list, tuple)):
        try:
            samples = np.array(samples)
        except ValueError:
            raise ValueError("samples are a list of lists of different lengths; expected numbers") from None
    if isinstance(samples, (str, os.PathLike)) or hasattr(samples, "read"):
        raise ValueError(
            f"samples have the type {type(samples).__name__}; for a file, pass the blocks of asr.streaming.read_blocks"
        )
    if not isinstance(samples, np.ndarray):
        raise ValueError(
            f"samples have the type {type(samples).__name__}; expected an array of float32 in ±1 or int16: use "
            "numpy.frombuffer(samples, numpy.int16) for bytes of int16, numpy.asarray(samples) for other arrays"
        )
    samples = samples.astype(samples.dtype.newbyteorder("="), copy=False)
    if samples.dtype == np.float32 or samples.dtype == np.int16:
        return samples
    if samples.dtype.kind == "f":
        with np.errstate(over="ignore"):  # it becomes infinity, which the stream reports
            return samples.astype(np.float32)
    cures = {
        "int32": ": pass (samples / 2**31).astype(numpy.float32)",
        "uint8": ": pass (samples.astype(numpy.float32) - 128) / 128",
        "int64": ": pass numpy.asarray(samples, numpy.int16) if they are in [-32768, 32767]",
    }
    cure = cures.get(samples.dtype.name, "")
    raise ValueError(f"samples have dtype {samples.dtype}; expected float32 in ±1 or int16{cure}")


def check_samples(samples: object) -> np.ndarray:
    """(num_samples,) float32 or int16, see `as_samples`. Raises ValueError for another shape."""
    converted = as_samples(samples)
    if converted.ndim != 1:
        cure = ": pass samples.T" if converted.ndim == 2 and converted.shape[0] <= MAX_CHANNELS else ""
        raise ValueError(
            f"samples have shape {converted.shape}; expected (num_samples,), or (num_samples, num_channels) with at "
            f"most {MAX_CHANNELS} channels{cure}"
        )
    return converted


def mono(samples: object) -> np.ndarray:
    """(num_samples,), or (num_samples, num_channels) with channels to average -> (num_samples,), see `as_samples`.

    The average of several channels of int16 is float32. Raises ValueError for anything else.
    """
    converted = as_samples(samples)
    if converted.ndim != 2 or not 1 <= converted.shape[1] <= MAX_CHANNELS:
        return check_samples(converted)
    if converted.shape[1] == 1:
        return converted[:, 0]
    with np.errstate(invalid="ignore"):  # infinite samples of both signs, which the stream reports
        average = converted.mean(axis=1, dtype=np.float64).astype(np.float32)  # the sum may exceed float32
    return average / np.float32(32768) if converted.dtype == np.int16 else average
