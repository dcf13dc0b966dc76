"""Resampling of live audio to 16 kHz, and the checks that every push of audio passes."""

from __future__ import annotations

from typing import Any

import numpy as np

SAMPLE_RATE = 16000
"""Of everything behind the resampler, in Hz."""
MIN_SAMPLE_RATE, MAX_SAMPLE_RATE = 4000, 384000
MAX_CHANNELS = 64
"""Of an array of samples: with more, its axes are likely to be in the other order."""
MAX_MAGNITUDE = 1e9
"""Beyond it a sample counts as not finite, as in `asr._core.Fbank`: its square would overflow."""


class Resampler:
    """Any rate to 16 kHz, piece by piece (soxr, high quality). The output does not depend on the pieces."""

    def __init__(self, sample_rate: int) -> None:
        self._sample_rate = sample_rate
        self._soxr = self._open()

    def accept(self, samples: np.ndarray) -> tuple[np.ndarray, int]:
        """(num_samples,) float32 or int16 -> what is ready, float32, and how many samples were not finite.

        Those become 0: one NaN in the filter would spoil all that follows.
        """
        num_nonfinite = 0
        if samples.dtype == np.int16:
            samples = samples.astype(np.float32) / 32768.0
        else:
            usable = np.abs(samples) <= MAX_MAGNITUDE
            num_nonfinite = len(samples) - int(np.count_nonzero(usable))
            if num_nonfinite:
                samples = np.where(usable, samples, np.float32(0.0))
        return self._soxr.resample_chunk(samples), num_nonfinite

    def finish(self) -> np.ndarray:
        """The end of the audio so far, float32. The resampler then starts afresh."""
        rest = self._soxr.resample_chunk(np.zeros(0, np.float32), last=True)
        self._soxr = self._open()
        return rest

    def _open(self) -> Any:
        import soxr  # here: most audio is 16 kHz

        return soxr.ResampleStream(self._sample_rate, SAMPLE_RATE, 1, dtype="float32", quality="HQ")


def check_sample_rate(sample_rate: int) -> None:
    """ValueError unless `sample_rate` is a whole number of Hz in [4000, 384000]."""
    whole = isinstance(sample_rate, (int, np.integer)) and not isinstance(sample_rate, bool)
    if not whole or not MIN_SAMPLE_RATE <= sample_rate <= MAX_SAMPLE_RATE:
        raise ValueError(
            f"sample_rate is {sample_rate!r}; it must be a whole number of Hz in [{MIN_SAMPLE_RATE}, {MAX_SAMPLE_RATE}]"
        )


def check_samples(samples: np.ndarray) -> None:
    """ValueError unless `samples` is a one-dimensional array of float32 or int16."""
    if not isinstance(samples, np.ndarray):
        raise ValueError(f"samples are a {type(samples).__name__}; expected a NumPy array of float32 or int16")
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
    """(num_samples,), or (num_samples, num_channels) whose channels are averaged; float32 or int16 -> (num_samples,).

    ValueError for everything else.
    """
    if isinstance(samples, np.ndarray) and samples.ndim == 2 and 1 <= samples.shape[1] <= MAX_CHANNELS:
        check_samples(samples[:, 0])
        if samples.shape[1] == 1:
            return samples[:, 0]
        average = samples.mean(axis=1, dtype=np.float32)
        return average / np.float32(32768) if samples.dtype == np.int16 else average
    check_samples(samples)
    return samples
