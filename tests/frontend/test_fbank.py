"""The streaming filterbank: equal to torchaudio, independent of how audio is split, bounded in memory."""

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from support.kaldi import kaldi_fbank

from asr._core import Fbank

GOLDEN = Path(__file__).with_name("fbank_golden.npz")


def features(samples: np.ndarray) -> np.ndarray:
    fbank = Fbank()
    fbank.accept_waveform(samples)
    fbank.input_finished()
    return fbank.get_frames(0, fbank.num_frames_ready)


def noise(num_samples: int, scale: float = 0.1) -> np.ndarray:
    return np.random.default_rng(num_samples).normal(0, scale, num_samples).astype(np.float32)


def test_golden() -> None:
    golden = np.load(GOLDEN)
    names = [key.removesuffix(".samples") for key in golden if key.endswith(".samples")]
    assert len(names) == 9
    for name in names:
        samples = golden[f"{name}.samples"]
        assert samples.dtype == np.int16
        got = features(samples)
        np.testing.assert_allclose(got, golden[f"{name}.features"], rtol=0, atol=1e-4, err_msg=name)
        as_float = (samples / np.float32(32768)).astype(np.float32)
        np.testing.assert_array_equal(features(as_float), got, err_msg=name)


def sounds() -> Iterator[tuple[str, np.ndarray]]:
    time_s = np.arange(16000) / 16000
    yield "noise", noise(16000)
    yield "bursts", noise(16000) * np.sin(2 * np.pi * 2 * time_s) ** 8
    yield "tone", 0.5 * np.sin(2 * np.pi * 440 * time_s)
    yield "clipped", np.clip(noise(16000, 3.0), -1, 1)
    yield "offset", 0.9 + noise(16000, 1e-3)
    yield "faint", noise(16000, 1e-5)
    yield "silence", np.zeros(16000)
    for num_samples in (400, 401, 479, 480, 481, 560, 639, 640, 719, 720, 721, 999, 1000):
        yield f"{num_samples} samples", noise(num_samples)


def test_torchaudio() -> None:
    for name, sound in sounds():
        samples = sound.astype(np.float32)
        expected = kaldi_fbank(samples.astype(np.float64)).numpy()
        np.testing.assert_allclose(features(samples), expected, rtol=0, atol=1e-4, err_msg=name)


@pytest.mark.parametrize(
    ("samples", "error", "message"),
    [
        (np.zeros(10), TypeError, "float64"),
        (np.zeros(10, np.int32), TypeError, "int32"),
        (np.zeros(10, ">i2"), TypeError, ">i2"),
        ([0.0, 1.0], TypeError, "numpy.ndarray, got list"),
        (np.zeros((2, 5), np.float32), ValueError, "1 dimension, got 2"),
        (np.zeros(10, np.float32)[::2], ValueError, "contiguous"),
        (np.frombuffer(bytes(41), np.float32, 10, 1), ValueError, "aligned"),
    ],
)
def test_samples_are_not_cast(samples: object, error: type[Exception], message: str) -> None:
    fbank = Fbank()
    with pytest.raises(error, match=message):
        fbank.accept_waveform(samples)  # type: ignore[arg-type]
    assert fbank.num_samples == 0
