"""The engines of `asr evaluate`: weights and devices, and searches that need the decoder's steps."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from support.export import edited

from asr.evaluation.engine import open_engine
from asr.export.calibrate import calibrate
from asr.tokenizer import SOS_EOS_ID
from asr.training.checkpoint import load_pretrained


def test_weights_are_those_of_the_file(tiny_onnx: Path, tmp_path: Path) -> None:
    path = edited(tiny_onnx, tmp_path / "model.onnx", rescore_ctc_weight="0.125")
    calibrate(path, {"lm_weights": (0.5, -1.0, 7.0, 0.25)})
    engine = open_engine(path)
    assert engine.rescore_ctc_weight == 0.125
    assert engine.lm_weights == (0.5, -1.0, 7.0, 0.25)


def test_a_file_runs_on_the_chosen_device(monkeypatch: pytest.MonkeyPatch) -> None:
    opened: list[str] = []

    def open_model(path: Path, provider: str) -> Any:
        opened.append(provider)
        metadata = SimpleNamespace(phones=(), rescore_ctc_weight=0.5, lm_weights=())
        return SimpleNamespace(tokens=(), metadata=metadata)

    monkeypatch.setattr("asr.evaluation.engine.OnnxModel", open_model)
    for device in ("cpu", "cuda"):
        open_engine("some.onnx", device)
    assert opened == ["cpu", "cuda"]


def test_a_missing_gpu_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    with pytest.raises(ValueError, match="--device cuda: PyTorch finds no CUDA device; use --device cpu"):
        open_engine("some.pt", "cuda")


def test_the_decoder_goes_on_without_any_audio(tiny_onnx: Path, tmp_path: Path) -> None:
    found = []
    load_pretrained(tiny_onnx).save(tmp_path / "tiny.safetensors")
    for path in (tiny_onnx, tmp_path / "tiny.safetensors"):
        decoder = open_engine(path).step_decoder()
        cache = decoder.begin(np.zeros((0, 64), np.float32))
        found.append(decoder.step(np.array([SOS_EOS_ID]), cache)[0])
    np.testing.assert_allclose(found[0], found[1], atol=1e-4)
