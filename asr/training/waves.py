"""The waveforms of a batch, computed on the device: speed, rooms, noise, telephone lines. Drawn anew in every epoch."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import torch
import torchaudio
from torch import Tensor

from asr.features import FRAME_SHIFT, SAMPLE_RATE
from asr.training.plans import ALONE, WITH_SPEECH, Plan
from asr.training.sounds import ROOM_TAPS

LINE_RATE = 8000
BAND_EDGES_HZ = (200.0, 300.0, 3400.0, 3700.0)
"""Stop bands are below the first and above the last frequency, the pass band is between the inner two."""
_PEAK = 0.99
_MU, _A = 255.0, 87.6  # of G.711
_QUIET = 0.01  # parts of a recording more than 20 dB below the whole are not raised to the wanted ratio


class Waves:
    """Computes the sound of plans. rooms: (num_rooms, ROOM_TAPS) impulse responses."""

    def __init__(self, rooms: np.ndarray, speeds: Sequence[float], device: torch.device) -> None:
        self._rooms = torch.from_numpy(rooms).to(device)
        # Faster playback corresponds to a lower sampling rate.
        self._resamplers = {
            speed: torchaudio.transforms.Resample(round(SAMPLE_RATE * speed), SAMPLE_RATE).to(device)
            for speed in speeds
            if speed != 1.0
        }

    def __call__(self, plan: Plan, spoken: Tensor, noise: Tensor, noise_power: Tensor) -> Tensor:
        """(N, 160 * frames) float32 in ±1. The plan, and its samples as in `Gathered`, are on the device."""
        samples = self._at_speed(spoken.float() / 32768, plan.speed, plan.frames * FRAME_SHIFT)
        power = samples.square().sum(1) / plan.num_spoken.clamp(min=1)  # without pauses and margins
        if plan.num_rooms:
            dry = slice(plan.num_rooms)
            samples[dry] = self._reverberant(samples[dry], power[dry], plan.num_spoken[dry], plan.rooms[dry])
        samples += _scaled_noise(plan, power, noise.float() / 32768, noise_power)
        if plan.num_lines:
            lines = slice(-plan.num_lines, None)
            samples[lines] = telephone(samples[lines], power[lines], plan.line_db[lines], plan.line_law[lines])
        peak = samples.abs().amax(1, keepdim=True)
        return samples * (_PEAK / peak.clamp(min=_PEAK))

    def _at_speed(self, samples: Tensor, speed: float, size: int) -> Tensor:
        if speed != 1.0:
            with torch.backends.cudnn.flags(allow_tf32=False):  # a convolution in full precision
                samples = self._resamplers[speed](samples)
        return torch.nn.functional.pad(samples, (0, max(0, size - samples.shape[1])))[:, :size].contiguous()

    def _reverberant(self, samples: Tensor, power: Tensor, num_spoken: Tensor, rooms: Tensor) -> Tensor:
        """Samples (N, num_samples) in rooms; the power (N,) of the words is preserved."""
        size = samples.shape[1]
        length = _fft_length(size + ROOM_TAPS)
        spectrum = torch.fft.rfft(samples, n=length) * torch.fft.rfft(self._rooms[rooms].float(), n=length)
        wet = torch.fft.irfft(spectrum, n=length)[:, :size]
        wet_power = wet.square().sum(1) / num_spoken.clamp(min=1)
        return wet * (power / wet_power.clamp(min=1e-20)).sqrt()[:, None]


def _scaled_noise(plan: Plan, power: Tensor, noise: Tensor, whole: Tensor) -> Tensor:
    """(N, num_samples): the noise of each row, for speech with the power (N,). whole: power of the whole noise."""
    whole = whole.clamp(min=1e-12)
    reference = torch.maximum(noise.square().mean(1), _QUIET * whole)
    with_speech = power / reference * 10 ** (-plan.noise_db / 10)
    alone = 10 ** (plan.noise_db / 10) / whole
    gain = torch.where(plan.kind == WITH_SPEECH, with_speech, torch.where(plan.kind == ALONE, alone, 0.0)).sqrt()
    return gain[:, None] * noise


def telephone(samples: Tensor, power: Tensor, level_db: Tensor, law: Tensor) -> Tensor:
    """Samples (N, num_samples) through a telephone line: 300 to 3400 Hz at 8 kHz, G.711.

    power: (N,) of the speech, which becomes level_db (N,) relative to full scale; law: (N,) int64, 0 for mu-law, 1 for
    A-law.
    """
    size = samples.shape[1]
    length = _fft_length(size + ROOM_TAPS // 12)
    hertz = torch.arange(length // 2 + 1, device=samples.device) * (SAMPLE_RATE / length)
    lowest, low, high, highest = BAND_EDGES_HZ
    band = ((hertz - lowest) / (low - lowest)).clamp(0, 1) * ((highest - hertz) / (highest - high)).clamp(0, 1)
    factor = SAMPLE_RATE // LINE_RATE
    kept = length // factor // 2 + 1  # frequencies of the line
    spectrum = (torch.fft.rfft(samples, n=length) * band)[:, :kept]
    line = torch.fft.irfft(spectrum, n=length // factor) / factor
    line = (line * (10 ** (level_db / 20) / power.clamp(min=1e-12).sqrt())[:, None]).clamp(-1, 1)
    coded = torch.where(law[:, None] == 0, _mu_law(line.abs()), _a_law(line.abs())).clamp(max=1) * line.sign()
    return torch.fft.irfft(torch.fft.rfft(coded), n=length)[:, :size] * factor


def _mu_law(size: Tensor) -> Tensor:
    """Absolute values in [0, 1] after coding with 7-bit mu-law."""
    code = torch.round(torch.log1p(_MU * size) / math.log1p(_MU) * 127) / 127
    return torch.expm1(code * math.log1p(_MU)) / _MU


def _a_law(size: Tensor) -> Tensor:
    """Absolute values in [0, 1] after coding with 7-bit A-law."""
    full = 1 + math.log(_A)
    code = torch.where(size < 1 / _A, _A * size, 1 + (_A * size.clamp(min=1e-9)).log()) / full
    code = (torch.floor(code * 128).clamp(max=127) + 0.5) / 128 * full
    return torch.where(code < 1, code, (code - 1).exp()) / _A


def _fft_length(least: int) -> int:
    """The smallest length, at least `least`, that is a small factor times a power of two, for a fast FFT."""
    power = 1 << max(3, least.bit_length() - 4)
    return -(-least // power) * power
