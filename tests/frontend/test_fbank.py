"""The streaming filterbank: equal to torchaudio, independent of how audio is split, bounded in memory."""

import threading
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


def test_short_inputs_are_reflected() -> None:
    for num_samples in (*range(0, 420, 7), 79, 80, 239, 240, 399):
        samples = noise(num_samples)
        got = features(samples)
        assert got.shape == ((num_samples + 80) // 160, 80)
        if got.size:
            # The same sound, reflected by hand as many times as a window needs.
            period = np.concatenate([samples, samples[::-1]])
            wide = np.tile(period, 1000 // num_samples + 2)
            start = len(period) * (160 // len(period) + 1)  # a copy of samples[0] with room for a frame before it
            shifted = wide[start - 120 :][: 400 + 160 * (len(got) - 1)]
            reference = Fbank()
            # Frame 1 of a long sound starts at its sample 40: put our frame 0 there.
            reference.accept_waveform(np.concatenate([np.zeros(40, np.float32), shifted]))
            np.testing.assert_array_equal(got, reference.get_frames(1, len(got)))


def test_frames_are_kept_until_discarded() -> None:
    fbank = Fbank()
    fbank.accept_waveform(noise(16000))
    ready = fbank.num_frames_ready
    assert (ready, fbank.first_frame, fbank.num_samples) == (99, 0, 16000)
    last = fbank.get_frames(90, 9)
    fbank.discard_frames(90)
    assert fbank.first_frame == 90
    np.testing.assert_array_equal(fbank.get_frames(90, 9), last)
    fbank.discard_frames(10)  # gone already
    assert fbank.first_frame == 90
    assert fbank.get_frames(99, 0).shape == (0, 80)
    for start, count in ((89, 1), (90, 10), (99, 1), (90, -1), (-1, 1), (95, 2**62)):
        with pytest.raises(ValueError, match="first_frame is 90 and num_frames_ready is 99"):
            fbank.get_frames(start, count)
    for before in (-1, 100):
        with pytest.raises(ValueError, match="between 0 and num_frames_ready = 99"):
            fbank.discard_frames(before)


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


def test_a_second_thread_is_refused() -> None:
    long = np.zeros(16000 * 600, np.float32)
    refused = False
    for _ in range(20):  # the first thread may be done before the second gets a turn
        fbank = Fbank()
        thread = threading.Thread(target=fbank.accept_waveform, args=(long,))
        thread.start()
        while thread.is_alive() and not refused:
            try:
                _ = fbank.num_samples
            except RuntimeError as error:
                refused = "another thread" in str(error)
        thread.join()
        if refused:
            return
    pytest.fail("two threads were inside at once, or never met")
