"""The features of the model: Kaldi-compatible log-mel filterbank energies of 16 kHz audio.

One definition for training, export and live recognition, with the encoder's stride:
- 16 kHz mono samples in ±1, 25 ms windows every 10 ms, centered frames (`snip_edges=False`);
- DC removed per frame, pre-emphasis 0.97, Povey window, no dither;
- power spectrum, 80 mel bins from 20 Hz to 7600 Hz, natural log with the float32 epsilon as floor.

The constants are those of csrc/contract.h. Importing this module does not import PyTorch.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from asr import _core
from asr._core import (
    FRAME_LENGTH,
    FRAME_SHIFT,
    HIGH_FREQ_HZ,
    LOW_FREQ_HZ,
    NUM_MEL_BINS,
    PREEMPHASIS,
    SAMPLE_RATE,
    SUBSAMPLING,
)

if TYPE_CHECKING:
    import numpy as np
    import torch

FRAME_LENGTH_S = FRAME_LENGTH / SAMPLE_RATE
FRAME_SHIFT_S = FRAME_SHIFT / SAMPLE_RATE
WINDOW = "povey"

FEATURE_OVERLAP = _core.FEATURE_OVERLAP
"""A chunk of c encoder frames needs SUBSAMPLING * c + 3 feature frames and advances by SUBSAMPLING * c."""
ENCODER_FRAME_S = SUBSAMPLING * FRAME_SHIFT_S
ENCODER_FRAME_MS = _core.ENCODER_FRAME_MS

LOG_FLOOR = math.log(2.0**-23)
"""The feature of digital silence: the logarithm of the float32 epsilon."""

# The window extends this far before the first sample and after the last one (mirrored samples).
_EDGE = FRAME_LENGTH // 2 - FRAME_SHIFT // 2


def num_frames(num_samples: int) -> int:
    """Number of feature frames of `num_samples` samples: one per 10 ms, rounded half up."""
    return (num_samples + FRAME_SHIFT // 2) // FRAME_SHIFT


def fbank(samples: torch.Tensor | np.ndarray) -> torch.Tensor:
    """Log-mel filterbank of a whole recording.

    samples: (num_samples,) float32 in ±1, 16 kHz.
    Returns (num_frames, 80) float32, `num_frames = round(num_samples / 160)`, on the device of `samples`.
    Raises ValueError for another shape or dtype and for NaN or infinite samples.
    """
    import torch
    from torchaudio.compliance import kaldi

    waveform = torch.as_tensor(samples)
    if waveform.ndim != 1:
        raise ValueError(
            f"samples have shape {tuple(waveform.shape)}; expected (num_samples,): "
            "average the channels and pass one recording at a time"
        )
    if waveform.dtype != torch.float32:
        raise ValueError(f"samples have dtype {waveform.dtype}; expected float32 in ±1 (divide int16 by 32768)")
    if not torch.isfinite(waveform).all():
        raise ValueError("samples contain NaN or infinite values; expected finite float32 in ±1")
    frames = num_frames(waveform.numel())
    if frames == 0:
        return waveform.new_zeros(0, NUM_MEL_BINS)
    # torchaudio refuses less than one window. Kaldi mirrors repeatedly until the window is full:
    # the signal alternates between forward and backward.
    if waveform.numel() < FRAME_LENGTH:
        period = torch.cat([waveform, waveform.flip(0)])
        start = -_EDGE % period.numel()
        need = (frames - 1) * FRAME_SHIFT + FRAME_LENGTH
        tiled = period.repeat((start + need) // period.numel() + 1)
        waveform, snip_edges = tiled[start : start + need], True
    else:
        snip_edges = False
    return kaldi.fbank(
        waveform.unsqueeze(0),
        sample_frequency=float(SAMPLE_RATE),
        frame_length=FRAME_LENGTH_S * 1000,
        frame_shift=FRAME_SHIFT_S * 1000,
        num_mel_bins=NUM_MEL_BINS,
        low_freq=LOW_FREQ_HZ,
        high_freq=HIGH_FREQ_HZ,
        preemphasis_coefficient=PREEMPHASIS,
        window_type=WINDOW,
        remove_dc_offset=True,
        snip_edges=snip_edges,
        dither=0.0,
        use_energy=False,
    )
