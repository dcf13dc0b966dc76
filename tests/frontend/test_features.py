"""The features of a model equal Kaldi's."""

import numpy as np
import pytest
import torch
from support.kaldi import kaldi_fbank
from support.synth import speech

from asr.features import NUM_MEL_BINS, fbank, num_frames


def test_features_are_kaldis():
    samples = speech("the quick brown fox")
    features = fbank(samples)
    assert features.dtype == torch.float32
    assert features.shape == (num_frames(len(samples)), NUM_MEL_BINS)
    assert torch.equal(features, kaldi_fbank(samples))


def test_one_frame_every_ten_milliseconds():
    assert [num_frames(n) for n in (0, 79, 80, 239, 240, 16000)] == [0, 0, 1, 1, 2, 100]


@pytest.mark.parametrize("num_samples", [0, 1, 79, 80, 100, 120, 240, 399])
def test_less_than_a_window_is_mirrored(num_samples):
    samples = torch.randn(num_samples, generator=torch.Generator().manual_seed(1)) * 0.1
    features = fbank(samples)
    assert features.shape == (num_frames(num_samples), NUM_MEL_BINS)
    if len(features):
        edge = (400 - 160) // 2
        padded = np.pad(samples.numpy(), (edge, 800), mode="symmetric")[: 400 + 160 * (len(features) - 1)]
        assert torch.equal(features, kaldi_fbank(padded, snip_edges=True))


@pytest.mark.parametrize(
    ("samples", "message"),
    [
        (np.zeros((2, 400), np.float32), r"shape \(2, 400\)"),
        (np.zeros(400, np.int16), "dtype torch.int16; expected float32"),
        (np.full(400, np.nan, np.float32), "NaN"),
        (np.full(400, np.inf, np.float32), "infinite"),
    ],
)
def test_features_of_strange_samples_are_refused(samples, message):
    with pytest.raises(ValueError, match=message):
        fbank(samples)
