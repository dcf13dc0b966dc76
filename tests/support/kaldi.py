"""The reference for features: torchaudio's Kaldi filterbank with the settings that the project promises.

The settings are not imported from `asr.features`, so that a changed constant there fails a test.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    import torch


def kaldi_fbank(samples: np.ndarray, snip_edges: bool = False) -> torch.Tensor:
    """Log-mel features of samples (num_samples,), at least one window of them: (num_frames, 80), of their dtype.

    In float32 torchaudio is up to 1e-2 away from its own definition where a mel bin lies far below the rest of the
    spectrum; in float64 it is not.
    """
    import torch
    from torchaudio.compliance import kaldi

    return kaldi.fbank(
        torch.from_numpy(samples)[None],
        sample_frequency=16000.0,
        frame_length=25.0,
        frame_shift=10.0,
        num_mel_bins=80,
        low_freq=20.0,
        high_freq=7600.0,
        preemphasis_coefficient=0.97,
        window_type="povey",
        remove_dc_offset=True,
        snip_edges=snip_edges,
        dither=0.0,
        use_energy=False,
    )
