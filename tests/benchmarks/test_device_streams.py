"""benchmarks/device_streams.py: every chunk is counted, and unrecognized ones count as late."""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
import pytest
from support.benchmark_module import load_benchmark

from asr import Recognizer
from asr.runtime.onnx_model import OnnxModel

ARGS = argparse.Namespace(threads=1, max_batch=8, limit_ms=500.0, seconds=4.0)


benchmark = load_benchmark("device_streams")


@pytest.fixture
def recognizer(tiny_onnx: Path) -> Recognizer:
    model = OnnxModel(tiny_onnx)
    return Recognizer(model, chunk_ms=160, search="greedy", lm=None, second_pass=False)


@pytest.fixture
def audio(conversation: np.ndarray) -> np.ndarray:
    return (32767 * conversation).astype(np.int16)


def test_each_chunk_is_recognized_when_it_is_spoken(
    recognizer: Recognizer, audio: np.ndarray, monkeypatch: pytest.MonkeyPatch
) -> None:
    num_chunks = []
    encoder = recognizer.onnx.encoder
    run = encoder.run
    monkeypatch.setattr(encoder, "run", lambda inputs, *a: num_chunks.append(len(inputs["x"])) or run(inputs, *a))
    found = benchmark.speak(recognizer, audio, 3, ARGS)
    assert found.num_streams == 3 and found.mean_batch >= 1 and found.cpu_ms > 0
    # 4 s minus the phases of the streams, in chunks of 160 ms, without those in the first 2 s.
    assert 3 * 23 <= sum(num_chunks) <= 3 * 25
    assert len(found.delays_ms) == sum(num_chunks) - 3 * 12 and (found.delays_ms > 0).all()


def test_what_is_not_recognized_counts_as_late(
    recognizer: Recognizer, audio: np.ndarray, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(benchmark.Speaker, "_report", lambda speaker, report: None)
    found = benchmark.speak(recognizer, audio, 2, ARGS)
    assert found.delays_ms.min() >= ARGS.limit_ms and found.delays_ms.max() == pytest.approx(2500, abs=700)
