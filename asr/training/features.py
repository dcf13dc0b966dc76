"""Features of a batch of waveforms as in `asr.features.fbank`, and their augmentation, on the device.

Voices are warped frequencies (vocal tract length perturbation, Jaitly and Hinton 2013), microphones random frequency
responses; the masks are those of SpecAugment (Park et al. 2019).
"""

from __future__ import annotations

import math

import numpy as np
import torch
from torch import Tensor
from torchaudio.compliance import kaldi

from asr.config import AugmentConfig
from asr.features import (
    FRAME_LENGTH,
    FRAME_SHIFT,
    HIGH_FREQ_HZ,
    LOG_FLOOR,
    LOW_FREQ_HZ,
    NUM_MEL_BINS,
    PREEMPHASIS,
    SAMPLE_RATE,
)

NEPERS_PER_DB = math.log(10) / 10  # for a power spectrum
MICROPHONE_SHARE = 0.6
"""Share of rows with the frequency response of a random microphone."""
_FFT = 512
_EDGE = (FRAME_LENGTH - FRAME_SHIFT) // 2  # samples of the window before the first one of the waveform
_NUM_WARPS = 41
_WARP_BOUNDARY_HZ = 4800.0  # formants are below it


class BatchFbank:
    """`asr.features.fbank` of many waveforms of one length."""

    def __init__(self, device: torch.device) -> None:
        # The arguments after the band are for warped vocal tracts; a factor of 1 makes them unused.
        mel, _ = kaldi.get_mel_banks(
            NUM_MEL_BINS, _FFT, float(SAMPLE_RATE), LOW_FREQ_HZ, HIGH_FREQ_HZ, 100.0, -500.0, 1.0
        )
        self._mel = torch.nn.functional.pad(mel, (0, 1)).T.contiguous().to(device)
        self._window = torch.hann_window(FRAME_LENGTH, periodic=False, device=device).pow(0.85)  # Povey's

    def __call__(self, samples: Tensor) -> Tensor:
        """(N, 160 T) float32 -> (N, T, 80), T at least 1."""
        edges = samples[:, :_EDGE].flip(1), samples[:, -_EDGE:].flip(1)
        frames = torch.cat((edges[0], samples, edges[1]), 1).unfold(1, FRAME_LENGTH, FRAME_SHIFT)
        frames = frames - frames.mean(2, keepdim=True)
        before = torch.cat((frames[..., :1], frames[..., :-1]), 2)
        spectrum = torch.fft.rfft((frames - PREEMPHASIS * before) * self._window, n=_FFT)
        power = torch.view_as_real(spectrum).square().sum(-1)
        return (power @ self._mel).clamp(min=torch.finfo(torch.float32).eps).log()


class FeatureAugmenter:
    """Augments features, every row differently; keeps their shape.

    Random numbers are those of the device's global generator.
    """

    def __init__(self, config: AugmentConfig, device: torch.device) -> None:
        self.config = config
        most = config.max_frequency_warp
        sources = [warped_bins(factor) for factor in np.linspace(1 - most, 1 + most, _NUM_WARPS)]
        self._sources = torch.from_numpy(np.stack(sources)).to(device)  # (_NUM_WARPS, 80)
        self._ends = torch.tensor([[0.0, NUM_MEL_BINS - 1.0]], device=device)

    def __call__(self, features: Tensor, num_frames: Tensor) -> Tensor:
        """(N, T, 80), (N,) -> (N, T, 80) with another voice, microphone, gain, and masks."""
        config = self.config
        warped = self._warped(features)
        is_digital = warped <= LOG_FLOOR + 0.01
        gain = _between(-config.max_gain_db, config.max_gain_db, len(features), 1, device=features.device)
        change = gain * NEPERS_PER_DB + self._microphones(len(features), features.device)
        changed = torch.where(is_digital, warped, (warped + change[:, None]).clamp(min=LOG_FLOOR))
        frame = torch.arange(features.shape[1], device=features.device)
        valid = frame < num_frames[:, None]
        mean = (changed.mean(2) * valid).sum(1) / num_frames.clamp(min=1)
        return torch.where(self._masks(num_frames, features.shape[1]), mean[:, None, None], changed)

    def _warped(self, features: Tensor) -> Tensor:
        """The features of longer and shorter vocal tracts."""
        which = torch.randint(_NUM_WARPS, (len(features),), device=features.device)
        source = self._sources[which]
        below = source.floor().clamp(max=NUM_MEL_BINS - 2)
        share = (source - below)[:, None]
        index = below.long()[:, None].expand(features.shape)
        return torch.lerp(features.gather(2, index), features.gather(2, index + 1), share.expand(features.shape))

    def _microphones(self, count: int, device: torch.device) -> Tensor:
        """(count, 80) nepers: piecewise linear between four random gains, at both ends and at two random bins."""
        most = self.config.max_response_db * NEPERS_PER_DB
        inner = _between(1.0, NUM_MEL_BINS - 2.0, count, 2, device=device).sort(1).values
        ends = self._ends.expand(count, 2)
        nodes = torch.cat((ends[:, :1], inner, ends[:, 1:]), 1)
        gains = _between(-most, most, count, 4, device=device)
        gains = gains * (torch.rand(count, 1, device=device) < MICROPHONE_SHARE)
        bins = torch.arange(NUM_MEL_BINS, device=device)[:, None]
        left, right = nodes[:, None, :-1], nodes[:, None, 1:]
        along = ((bins - left) / (right - left).clamp(min=1e-3)).clamp(0, 1)  # (count, 80, 3) of each line
        return gains[:, :1] + (along * gains.diff(dim=1)[:, None]).sum(2)

    def _masks(self, num_frames: Tensor, length: int) -> Tensor:
        """(N, length, 80) bool: True where SpecAugment masks."""
        config, count, device = self.config, len(num_frames), num_frames.device
        widths = _integers(torch.full((count, config.num_freq_masks), config.max_freq_bins, device=device))
        bands = _stripes(widths, torch.full((count,), NUM_MEL_BINS, device=device), NUM_MEL_BINS)
        most = config.max_time_fraction * num_frames
        number = (most / max(config.max_time_frames, 1)).ceil().clamp(max=config.num_time_masks)
        widest = (most / number.clamp(min=1)).floor().clamp(max=config.max_time_frames)
        widths = _integers(widest[:, None].expand(count, config.num_time_masks))
        widths = widths * (torch.arange(config.num_time_masks, device=device) < number[:, None])
        spans = _stripes(widths, num_frames, length)
        masked = torch.rand(count, device=device) < config.mask_probability
        return (bands[:, None] | spans[:, :, None]) & masked[:, None, None]


def warped_bins(factor: float) -> np.ndarray:
    """The bin that each bin of a longer (factor above 1) or shorter vocal tract is read from, (80,) float32.

    Energy at the frequency f * factor moves to f, below 4.8 kHz; above it the scale returns to the identity at the
    highest frequency.
    """

    def mel(hertz: np.ndarray | float) -> np.ndarray:
        return 1127.0 * np.log1p(np.asarray(hertz) / 700.0)

    low, high = mel(LOW_FREQ_HZ), mel(HIGH_FREQ_HZ)
    centers = 700.0 * np.expm1(np.linspace(low, high, NUM_MEL_BINS + 2)[1:-1] / 1127.0)
    boundary = _WARP_BOUNDARY_HZ * min(factor, 1.0)
    source = np.interp(centers, [0.0, boundary / factor, HIGH_FREQ_HZ], [0.0, boundary, HIGH_FREQ_HZ])
    bins = (mel(source) - low) * (NUM_MEL_BINS + 1) / (high - low) - 1.0
    return bins.clip(0, NUM_MEL_BINS - 1).astype(np.float32)


def _between(low: float, high: float, *shape: int, device: torch.device) -> Tensor:
    return low + (high - low) * torch.rand(*shape, device=device)


def _integers(most: Tensor) -> Tensor:
    """Random integers from 0 to each element of `most`, as float32."""
    return (torch.rand(most.shape, device=most.device) * (most + 1)).floor()


def _stripes(widths: Tensor, lengths: Tensor, size: int) -> Tensor:
    """(N, size) bool: stripes with the given widths (N, number) at random positions within the lengths (N,)."""
    starts = (torch.rand(widths.shape, device=widths.device) * (lengths[:, None] - widths + 1)).floor()
    place = torch.arange(size, device=widths.device)
    return ((place >= starts[..., None]) & (place < (starts + widths)[..., None])).any(1)
