"""The core's resampler, compared with exact resampling and with soxr HQ, on noise of the full band."""

from __future__ import annotations

import numpy as np
import pytest
import soxr

from asr._core import MAX_SAMPLE_RATE, MIN_SAMPLE_RATE, Resampler
from asr.features import SAMPLE_RATE

RATES = [4000, 8000, 11025, 22050, 24000, 32000, 44100, 48000, 96000, 192000]


def resampled(samples: np.ndarray, rate: int) -> np.ndarray:
    resampler = Resampler(rate)
    return np.concatenate([resampler.accept(samples), resampler.finish()])


def band_noise(rate: int, low: float, high: float) -> np.ndarray:
    """2 s of noise between two frequencies in Hz, float32, faded in and out."""
    count = 2 * rate
    rng = np.random.default_rng(rate)
    spectrum = rng.normal(size=count // 2 + 1) + 1j * rng.normal(size=count // 2 + 1)
    frequencies = np.fft.rfftfreq(count, 1 / rate)
    noise = np.fft.irfft(np.where((frequencies >= low) & (frequencies <= high), spectrum, 0), count)
    noise *= np.hanning(count)
    return (noise / np.abs(noise).max()).astype(np.float32)


def level(samples: np.ndarray) -> float:
    """dB of full scale, root mean square."""
    return float(10 * np.log10(np.mean(np.square(samples, dtype=np.float64)) + 1e-30))


def error(samples: np.ndarray, original: np.ndarray) -> float:
    """Level in dB of the difference from an exact resampling of `original`, relative to the signal."""
    spectrum = np.zeros(SAMPLE_RATE + 1, complex)
    found = np.fft.rfft(original.astype(np.float64))[: len(spectrum)]
    spectrum[: len(found)] = found
    exact = np.fft.irfft(spectrum) * 2 * SAMPLE_RATE / len(original)
    return level(samples - exact) - level(exact)


@pytest.mark.parametrize("rate", RATES)
def test_what_passes_is_exact(rate: int) -> None:
    noise = band_noise(rate, 20, 0.9 * min(rate, SAMPLE_RATE) / 2)
    ours = resampled(noise, rate)
    assert len(ours) == 2 * SAMPLE_RATE
    assert error(ours, noise) < -100
    # At the rates of sound cards, soxr's error is about -75 dB, because of a small time offset.
    theirs = error(soxr.resample(noise, rate, SAMPLE_RATE, quality="HQ"), noise)
    assert theirs < -70 and (rate not in (11025, 22050, 44100) or error(ours, noise) < theirs)


def test_rates_outside_the_range_are_refused() -> None:
    for rate in (0, MIN_SAMPLE_RATE - 1, MAX_SAMPLE_RATE + 1):
        with pytest.raises(ValueError, match=rf"sample_rate is {rate}; .* \[1000, 768000\]"):
            Resampler(rate)
