"""Spectral augmentation: tones move as with another vocal tract, levels and ratios are as requested."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from test_augment import seed_all

from asr.config import AugmentConfig, ConfigError
from asr.data.augment import LOG_FLOOR, Augmenter
from asr.data.spectral import NEPERS_PER_DB, add_noise, random_response, warp_frequencies
from asr.features import SAMPLE_RATE, fbank

OFF = AugmentConfig(probability=0, max_gain_db=0)


def tone(hertz: float, seconds: float = 0.5) -> torch.Tensor:
    return fbank(0.3 * np.sin(2 * np.pi * hertz * np.arange(int(seconds * SAMPLE_RATE)) / SAMPLE_RATE).astype("f"))


@pytest.mark.parametrize("factor", [0.85, 0.95, 1.1, 1.2])
@pytest.mark.parametrize("hertz", [500.0, 1500.0, 3500.0])
def test_a_tone_moves_by_the_factor(hertz: float, factor: float) -> None:
    moved = warp_frequencies(tone(hertz), factor).mean(0).argmax()
    assert abs(int(moved) - int(tone(hertz / factor).mean(0).argmax())) <= 1


@pytest.mark.parametrize("factor", [0.8, 1.25])
def test_the_ends_of_the_scale_stay(factor: float) -> None:
    features = torch.arange(80.0).expand(3, 80)
    warped = warp_frequencies(features, factor)
    assert warped[0, 0] == pytest.approx(0.0, abs=0.5)
    assert warped[0, -1] == pytest.approx(79.0, abs=0.5)
    assert (warped[:, 1:] >= warped[:, :-1]).all()


def test_a_factor_of_one_changes_nothing() -> None:
    features = torch.randn(20, 80)
    assert torch.allclose(warp_frequencies(features, 1.0), features, atol=1e-4)


def test_responses_cover_their_range_and_stay_inside() -> None:
    seed_all(0)
    responses = torch.stack([random_response(6.0) for _ in range(300)]) / NEPERS_PER_DB
    assert responses.abs().max() <= 6.0 + 1e-4
    assert responses.max() > 5.5
    assert responses.min() < -5.5
    assert responses.mean(0).abs().max() < 1.0
    assert (responses.std(1) > 0.1).float().mean() > 0.95  # not just a gain


@pytest.mark.parametrize("snr_db", [0.0, 10.0, 20.0])
def test_noise_has_the_asked_power(snr_db: float) -> None:
    seed_all(1)
    speech = torch.full((500, 80), -5.0)
    speech[:250] = LOG_FLOOR  # the mean over all frames counts
    noisy = add_noise(speech, snr_db)
    added = (noisy.double().exp() - speech.double().exp()).mean()
    ratio_db = 10 * math.log10(float(speech.double().exp().mean() / added))
    assert ratio_db == pytest.approx(snr_db, abs=0.5)
    assert (noisy >= speech).all()


def test_noise_is_another_each_time_and_fluctuates() -> None:
    seed_all(2)
    first, second = (add_noise(torch.full((100, 80), -10.0), -20.0) for _ in range(2))
    assert (first.mean(0) - second.mean(0)).abs().mean() > 0.4
    assert first.std(0).mean() > 0.1


def test_bins_without_sound_stay_so() -> None:
    """Recordings of 8 kHz have no sound above 4 kHz, whatever their loudness."""
    seed_all(5)
    features = torch.full((50, 80), -8.0)
    features[:, 60:] = LOG_FLOOR
    seen = Augmenter(replace(OFF, max_gain_db=25.0, max_response_db=6.0)).view(features)
    assert torch.equal(seen[:, 60:], features[:, 60:])
    assert not torch.equal(seen[:, :60], features[:, :60])


def test_noise_also_fills_what_a_band_lacks() -> None:
    seed_all(6)
    features = torch.full((50, 80), -8.0)
    features[:, 60:] = LOG_FLOOR
    seen = Augmenter(replace(OFF, noise_probability=1.0, min_snr_db=0.0)).view(features)
    assert seen[:, 60:].mean() > LOG_FLOOR + 1


@pytest.mark.parametrize(
    "change", [{"max_frequency_warp": 0.1}, {"max_response_db": 6.0}, {"noise_probability": 1.0, "min_snr_db": 0.0}]
)
def test_each_option_changes_sound_and_spares_digital_silence(change: dict[str, float]) -> None:
    seed_all(3)
    features = torch.cat((tone(700.0), torch.full((30, 80), LOG_FLOOR)))
    augmenter = Augmenter(replace(OFF, **change))
    assert torch.equal(Augmenter(OFF).view(features), features)
    seen = augmenter.view(features)
    assert torch.equal(seen[-30:], features[-30:])
    assert (seen[:-30] - features[:-30]).abs().mean() > 0.05
    assert not torch.equal(augmenter.view(features), seen)


def test_the_share_of_noisy_utterances_is_the_probability() -> None:
    seed_all(4)
    augmenter = Augmenter(replace(OFF, noise_probability=0.3))
    features = tone(700.0, 0.1)
    assert sum(not torch.equal(augmenter.view(features), features) for _ in range(500)) == pytest.approx(150, abs=40)


@pytest.mark.parametrize("value", [-21.0, 61.0, float("inf"), float("nan")])
def test_ratios_beyond_reason_are_refused(value: float) -> None:
    with pytest.raises(ConfigError, match=r"augment.min_snr_db = .* must be in \[-20, 60\]"):
        AugmentConfig(min_snr_db=value)
