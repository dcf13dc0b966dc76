"""The running mean of the features, computed by hand."""

from __future__ import annotations

import math

import pytest
import torch

from asr.model.speaker import SpeakerMean


def test_frames_are_weighted_by_their_level() -> None:
    """Frames after the end do not count, nor those that are louder than any recording."""
    levels = torch.tensor([1.0, -2.0, 4.5, 4.0, 0.5])
    sums = SpeakerMean.added(levels[:, None].expand(5, 80), torch.tensor(4))
    weights = [math.exp(1.5 * level) for level in (1.0, -2.0, 4.0)]
    by_hand = sum(weight * level for weight, level in zip(weights, (1.0, -2.0, 4.0), strict=True))
    assert sums.tolist() == pytest.approx([by_hand] * 80 + [sum(weights)], rel=1e-5)
    assert not SpeakerMean.added(levels[:, None].expand(5, 80), torch.tensor(-3)).any()


def test_sums_decay_within_half_a_minute() -> None:
    assert SpeakerMean.decay_after(torch.tensor([0, 3000])).tolist() == pytest.approx([1.0, 1 / math.e])


def test_little_speech_gives_a_small_mean() -> None:
    mean = SpeakerMean(4)
    torch.nn.init.eye_(mean.to_features.weight)
    torch.nn.init.ones_(mean.to_layers.weight)
    sums = torch.cat((torch.full((80,), 200.0), torch.tensor([100.0])))
    to_features, to_layers = mean(sums)
    assert to_features.tolist() == pytest.approx([200 / (100 + 300)] * 80)
    assert to_layers.tolist() == pytest.approx([80 * 0.5] * 4)
