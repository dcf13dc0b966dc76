"""Other voices, microphones and background noise, applied to log-mel features.

They vary in every epoch and cost microseconds, whereas `asr prepare` makes a fixed number of copies of the waveforms.
Each function takes and returns (T, 80) float32 and uses the global NumPy and PyTorch generators.
"""

from __future__ import annotations

import math

import numpy as np
import torch
from torch import Tensor

from asr.features import HIGH_FREQ_HZ, LOW_FREQ_HZ, NUM_MEL_BINS

NEPERS_PER_DB = math.log(10) / 10  # for a power spectrum

_WARP_BOUNDARY_HZ = 4800.0  # as in Jaitly and Hinton (2013); formants are below it
_MAX_NODES = 6
# Each bin averages this many independent values of the power spectrum, more in the wider bins of high frequencies.
_VALUES_PER_BIN = torch.linspace(1.0, 5.0, NUM_MEL_BINS)


def _mel(hertz: np.ndarray | float) -> np.ndarray:
    return 1127.0 * np.log1p(np.asarray(hertz) / 700.0)


_CENTERS_HZ = 700.0 * np.expm1(np.linspace(_mel(LOW_FREQ_HZ), _mel(HIGH_FREQ_HZ), NUM_MEL_BINS + 2)[1:-1] / 1127.0)


def warp_frequencies(features: Tensor, factor: float) -> Tensor:
    """The same words from a longer (factor above 1) or shorter vocal tract (VTLP; Jaitly and Hinton 2013).

    Energy at the frequency f * factor moves to f, below 4.8 kHz; above it the scale returns to the identity at the
    highest frequency. Bins are interpolated linearly.
    """
    boundary = _WARP_BOUNDARY_HZ * min(factor, 1.0)
    source = np.interp(_CENTERS_HZ, [0.0, boundary / factor, HIGH_FREQ_HZ], [0.0, boundary, HIGH_FREQ_HZ])
    step = (_mel(HIGH_FREQ_HZ) - _mel(LOW_FREQ_HZ)) / (NUM_MEL_BINS + 1)
    position = ((_mel(source) - _mel(LOW_FREQ_HZ)) / step - 1.0).clip(0, NUM_MEL_BINS - 1)
    below = np.minimum(position.astype(np.int64), NUM_MEL_BINS - 2)
    share = torch.from_numpy((position - below).astype(np.float32))
    index = torch.from_numpy(below)
    return torch.lerp(features[:, index], features[:, index + 1], share)


def random_response(max_db: float) -> Tensor:
    """The random frequency response of a microphone, (80,) in nepers of power (linear FilterAugment; Nam et al. 2022).

    Piecewise linear between 2 to 6 random bins, whose gains are within ±`max_db`."""
    inner = np.sort(np.random.uniform(0, NUM_MEL_BINS - 1, np.random.randint(_MAX_NODES - 1)))
    nodes = np.concatenate(([0.0], inner, [NUM_MEL_BINS - 1.0]))
    gains = np.random.uniform(-max_db, max_db, len(nodes)) * NEPERS_PER_DB
    return torch.from_numpy(np.interp(np.arange(NUM_MEL_BINS), nodes, gains).astype(np.float32))


def add_noise(features: Tensor, snr_db: float) -> Tensor:
    """Adds stationary noise with a random spectrum; `snr_db` relates the mean powers of `features` and the noise."""
    spectrum = random_response(max_db=12.0)
    power = torch.logsumexp(features.flatten(), 0) - math.log(features.numel())
    level = power - (torch.logsumexp(spectrum, 0) - math.log(NUM_MEL_BINS)) - snr_db * NEPERS_PER_DB
    shape = _VALUES_PER_BIN.expand(len(features), -1)
    ripple = (torch._standard_gamma(shape) / shape).clamp(min=1e-6).log()
    return torch.logaddexp(features, spectrum + level + ripple)
