"""Features on the device: those of a recording, with other voices and microphones, and masked."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from support.synth import SAMPLE_RATE, hum

from asr.config import AugmentConfig
from asr.features import LOG_FLOOR, fbank
from asr.training.features import NEPERS_PER_DB, BatchFbank, FeatureAugmenter, warped_bins

CPU = torch.device("cpu")
OFF = AugmentConfig(max_gain_db=0.0, max_frequency_warp=0.0, max_response_db=0.0, mask_probability=0.0)


def views(features: torch.Tensor, num_frames: torch.Tensor | None = None, **changes: float) -> torch.Tensor:
    """Another view of features (N, T, 80), in which only `changes` of the configuration are on."""
    torch.manual_seed(1)
    frames = torch.full((len(features),), features.shape[1]) if num_frames is None else num_frames
    return FeatureAugmenter(replace(OFF, **changes), CPU)(features, frames)  # type: ignore[arg-type]


def test_features_are_those_of_a_recording() -> None:
    rows = np.stack([hum(1.2, seed=1), 0.01 * hum(1.2, seed=2), np.zeros(round(1.2 * SAMPLE_RATE), np.float32)])
    found = BatchFbank(CPU)(torch.from_numpy(rows))
    for row, features in zip(rows, found, strict=True):
        torch.testing.assert_close(features, fbank(row), atol=2e-3, rtol=0)


def test_without_changes_features_stay() -> None:
    features = torch.randn(4, 100, 80)
    torch.testing.assert_close(views(features), features, atol=1e-4, rtol=0)


@pytest.mark.parametrize("change", [{"max_frequency_warp": 0.1}, {"max_response_db": 6.0}, {"max_gain_db": 25.0}])
def test_each_change_differs_by_row_and_spares_digital_silence(change: dict[str, float]) -> None:
    """Also in bins above the band of recordings at 8 kHz."""
    features = torch.randn(1, 60, 80).repeat(8, 1, 1) - 6
    features[:, 40:] = features[:, :, 60:] = LOG_FLOOR
    seen = views(features, **change)
    assert torch.equal(seen[:, 40:], features[:, 40:]) and torch.equal(seen[:, :, 66:], features[:, :, 66:])
    differences = (seen - features)[:, :40, :55].abs().mean((1, 2))
    assert (differences > 0.01).sum() >= 4 and len(differences.unique()) > 4


@pytest.mark.parametrize("factor", [0.85, 0.95, 1.1, 1.2])
@pytest.mark.parametrize("hertz", [500.0, 1500.0, 3500.0])
def test_a_tone_moves_by_the_factor(hertz: float, factor: float) -> None:
    def peak(hertz: float) -> int:
        time = np.arange(SAMPLE_RATE // 2) / SAMPLE_RATE
        return int(fbank(0.3 * np.sin(2 * np.pi * hertz * time).astype(np.float32)).mean(0).argmax())

    moved = np.abs(warped_bins(factor) - peak(hertz)).argmin()
    assert abs(int(moved) - peak(hertz / factor)) <= 1


@pytest.mark.parametrize("factor", [0.8, 1.0, 1.25])
def test_the_ends_of_the_scale_stay(factor: float) -> None:
    bins = warped_bins(factor)
    assert bins[0] == pytest.approx(0.0, abs=0.5) and bins[-1] == pytest.approx(79.0, abs=0.5)
    assert (np.diff(bins) >= 0).all()
    assert (factor == 1.0) == np.allclose(bins, np.arange(80), atol=1e-3)


def test_voices_reach_the_largest_change() -> None:
    features = torch.arange(80.0).expand(500, 3, 80)
    seen = views(features, max_frequency_warp=0.1)[:, 0]
    least, most = (torch.from_numpy(warped_bins(factor)) for factor in (0.9, 1.1))
    low, high = torch.minimum(least, most), torch.maximum(least, most)
    assert (seen >= low - 1e-3).all() and (seen <= high + 1e-3).all()
    assert torch.allclose(seen.amin(0), low, atol=1e-3) and torch.allclose(seen.amax(0), high, atol=1e-3)


def test_microphones_cover_their_range_and_stay_inside() -> None:
    responses = (views(torch.zeros(1000, 1, 80), max_response_db=6.0)[:, 0]) / NEPERS_PER_DB
    assert responses.abs().max() <= 6.0 + 1e-3 and responses.max() > 5.5 and responses.min() < -5.5
    assert responses.mean(0).abs().max() < 0.6
    used = responses.abs().amax(1) > 0
    assert used.float().mean() == pytest.approx(0.6, abs=0.06)
    assert (responses[used].std(1) > 0.1).float().mean() > 0.95, "not just a gain"


def test_gains_cover_their_range() -> None:
    gains = views(torch.zeros(500, 2, 80), max_gain_db=10.0) / NEPERS_PER_DB
    assert torch.equal(gains.amin((1, 2)), gains.amax((1, 2))), "one for all bins and frames"
    assert -10 <= gains.min() < -9 and 9 < gains.max() <= 10
    quiet = views(torch.full((50, 2, 80), LOG_FLOOR + 1), max_gain_db=60.0)
    assert quiet.min() == pytest.approx(LOG_FLOOR), "never below digital silence"


def test_masks_have_their_number_width_and_fraction() -> None:
    features = torch.randn(200, 300, 80)
    num_frames = torch.randint(50, 301, (200,))
    features[torch.arange(300) >= num_frames[:, None]] = LOG_FLOOR
    options = {"mask_probability": 1.0, "num_freq_masks": 2, "max_freq_bins": 20}
    options |= {"num_time_masks": 12, "max_time_frames": 35, "max_time_fraction": 0.15}
    masked = views(features, num_frames, **options)
    bins, frames = [], []
    for row, before, count in zip(masked, features, num_frames.tolist(), strict=True):
        hidden = row[:count] != before[:count]
        bands = hidden.all(0)
        spans = hidden[:, ~bands].all(1)
        assert torch.equal(hidden, bands | spans[:, None]), "whole bins and whole frames"
        torch.testing.assert_close(row[:count][hidden], before[:count].mean().expand(int(hidden.sum())))
        bins.append(int(bands.sum()))
        frames.append(int(spans.sum()) / count)
    assert 30 < max(bins) <= 40 and min(bins) < 5
    assert 0.1 < max(frames) <= 0.15 and np.mean(frames) > 0.03


def test_masks_come_with_their_probability() -> None:
    features = torch.randn(1000, 30, 80)
    changed = (views(features, mask_probability=0.7) != features).flatten(1).any(1)
    assert changed.float().mean() == pytest.approx(0.7, abs=0.06)  # a few masks have no width
