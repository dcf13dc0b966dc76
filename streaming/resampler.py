"""Resampling of live audio to 16 kHz, and checks of pushed audio."""

from __future__ import annotations

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


def check_samples(samples: np.ndarray) -> None:
    """Raises ValueError unless `samples` is a one-dimensional array of float32 or int16."""
    if not isinstance(samples, np.ndarray):
        raise ValueError(f"samples have the type {type(samples).__name__}; expected a NumPy array of float32 or int16")
    if samples.dtype != np.float32 and samples.dtype != np.int16:
        raise ValueError(
            f"samples have dtype {samples.dtype}; expected float32 in ±1 or int16: convert with "
            "astype(numpy.float32), and divide whole numbers by their full scale"
        )
    if samples.ndim != 1:
        raise ValueError(
            f"samples have shape {samples.shape}; expected (num_samples,), or (num_samples, num_channels) with at most "
            f"{MAX_CHANNELS} channels"
        )


def mono(samples: np.ndarray) -> np.ndarray:
    """(num_samples,), or (num_samples, num_channels) with channels to average; float32 or int16 -> (num_samples,).

    The average of several channels of int16 is float32. Raises ValueError for anything else.
    """
    if isinstance(samples, np.ndarray) and samples.ndim == 2 and 1 <= samples.shape[1] <= MAX_CHANNELS:
        check_samples(samples[:, 0])
        if samples.shape[1] == 1:
            return samples[:, 0]
        average = samples.mean(axis=1, dtype=np.float32)
        return average / np.float32(32768) if samples.dtype == np.int16 else average
    check_samples(samples)
    return samples
