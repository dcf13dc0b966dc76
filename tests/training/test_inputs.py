"""Inputs of a training run that come from its data."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from asr.data.cuts import load_cuts
from asr.training.inputs import estimate_cmvn


def test_normalization_has_mean_and_deviation_of_all_frames(tones: tuple[Path, Path]) -> None:
    parts = [(load_cuts(path), 1.0) for path in tones]
    frames = np.concatenate([cut.load_features() for part, _ in parts for cut in part]).astype(np.float64)
    mean, std = estimate_cmvn(parts, seed=0)
    np.testing.assert_allclose(mean, frames.mean(0), rtol=1e-5)
    np.testing.assert_allclose(std, frames.std(0), rtol=1e-5)
