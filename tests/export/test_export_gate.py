"""The parity gate: a file that differs from PyTorch's function is never written."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
import torch
from support.export import SMALL, make_checkpoint
from support.recognition import with_metadata

from asr.export import write as export_write
from asr.export.graph import ExportError
from asr.export.parity import Stream, check_parity, hold, step_onnx
from asr.export.write import export_model, in_half_precision, with_checksum
from asr.model.model import AsrModel
from asr.runtime.onnx_decoder import decoder_of
from asr.runtime.onnx_model import OnnxModel
from asr.training.checkpoint import Checkpoint


def test_another_kind_of_model_passes_the_gate(tmp_path: Path) -> None:
    # test_export.py tests the kind with rotary positions, pre-norm, ReLU and phones, and the caches of more layers.
    kind = {"position": "relative", "norm": "post", "activation": "swiglu", "dropout": 0.3, "phones": ()}
    checkpoint = make_checkpoint(dataclasses.replace(SMALL, encoder_layers=1, decoder_layers=1, **kind))  # type: ignore[arg-type]
    report = export_model(checkpoint.pretrained(), tmp_path / "model.onnx")
    assert report.parity.max_error < 1e-4 and report.parity.num_chunks >= 50
    model = OnnxModel(tmp_path / "model.onnx")
    output = model.step(np.zeros((1, 19, 80), np.float32), np.array([19]), model.init_cache(1, 4))
    assert output.phone_log_probs is None and model.metadata.num_phone_tokens == 0 and model.metadata.phones == ()


def test_a_model_without_phones_does_not_score_them() -> None:
    with pytest.raises(ValueError, match="no phone head"):
        AsrModel(dataclasses.replace(SMALL, phones=())).phone_log_probs(torch.zeros(1, 1, SMALL.dim))


@pytest.mark.parametrize("position", ["sinusoidal", "learned"])
def test_absolute_positions_are_refused(position: str, tmp_path: Path) -> None:
    checkpoint = make_checkpoint(dataclasses.replace(SMALL, position=position))
    with pytest.raises(ExportError, match=f"{position}.*rope, relative or none"):
        export_model(checkpoint.pretrained(), tmp_path / "model.onnx")
    assert list(tmp_path.iterdir()) == []


def _change_weight(graph: onnx.ModelProto) -> None:
    weight = next(i for i in graph.graph.initializer if len(i.dims) == 2 and i.data_type == onnx.TensorProto.FLOAT)
    array = onnx.numpy_helper.to_array(weight).copy()
    array[0, 0] += 0.05
    weight.CopyFrom(onnx.numpy_helper.from_array(array, weight.name))


def _swap_operator(graph: onnx.ModelProto) -> None:
    next(n for n in graph.graph.node if n.op_type == "Cos").op_type = "Sin"


def _break_mask(graph: onnx.ModelProto) -> None:
    next(n for n in graph.graph.node if n.op_type == "Less").op_type = "Greater"


def _break_int8_weight(graph: onnx.ModelProto) -> None:
    weight = next(i for i in graph.graph.initializer if i.data_type == onnx.TensorProto.INT8 and len(i.dims) == 2)
    array = -onnx.numpy_helper.to_array(weight)
    weight.CopyFrom(onnx.numpy_helper.from_array(array, weight.name))


def _make_unrunnable(graph: onnx.ModelProto) -> None:
    next(n for n in graph.graph.node if n.op_type == "Softmax").op_type = "NoSuchOperator"


@pytest.mark.parametrize(
    ("tamper", "int8"),
    [
        (_change_weight, False),
        (_swap_operator, False),
        (_break_mask, False),
        (_make_unrunnable, False),
        (_break_int8_weight, True),
    ],
)
def test_the_gate_refuses_a_tampered_graph(
    quick: None,
    tamper: Callable[[onnx.ModelProto], None],
    int8: bool,
    checkpoint: Checkpoint,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    output = tmp_path / "model.onnx"
    output.write_bytes(b"the good file of yesterday")
    name = "quantize" if int8 else "step_graph"
    make = getattr(export_write, name)

    def tampered(*source: object, **options: object) -> onnx.ModelProto:
        graph = make(*source, **options)
        if "log_probs" in [o.name for o in graph.graph.output]:
            tamper(graph)
        return graph

    monkeypatch.setattr(export_write, name, tampered)
    with pytest.raises(ExportError, match="exported"):
        export_model(checkpoint.pretrained(), output, int8=int8)
    assert output.read_bytes() == b"the good file of yesterday"
    assert list(tmp_path.iterdir()) == [output]


def _break_causality(graph: onnx.ModelProto) -> None:
    next(n for n in graph.graph.node if n.op_type == "LessOrEqual").op_type = "GreaterOrEqual"


def _break_cache(graph: onnx.ModelProto) -> None:
    node = next(n for n in graph.graph.node if n.output[0] == "new_value_cache")
    node.CopyFrom(onnx.helper.make_node("Identity", ["new_key_cache"], ["new_value_cache"]))


@pytest.mark.parametrize(("tamper", "error"), [(_break_causality, "decoder score"), (_break_cache, "decoder step")])
def test_the_gate_refuses_a_tampered_decoder(
    quick: None,
    tamper: Callable[[onnx.ModelProto], None],
    error: str,
    checkpoint: Checkpoint,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    make = export_write.decoder_graph

    def tampered(model: AsrModel) -> onnx.ModelProto:
        graph = make(model)
        tamper(graph)
        return graph

    monkeypatch.setattr(export_write, "decoder_graph", tampered)
    with pytest.raises(ExportError, match=error):
        export_model(checkpoint.pretrained(), tmp_path / "model.onnx")
    assert list(tmp_path.iterdir()) == []


def damaged(source: Path, path: Path, head: str, amount: float) -> Path:
    """The file with another bias of one token of a head."""
    graph = onnx.load(source)
    (bias,) = (i for i in graph.graph.initializer if i.name.endswith(f".{head}.bias"))
    values = onnx.numpy_helper.to_array(bias).copy()
    values[5] += amount
    bias.CopyFrom(onnx.numpy_helper.from_array(values, bias.name))
    path.write_bytes(with_checksum(graph))
    return path


def test_damage_to_one_head_alone_is_found(
    checkpoint: Checkpoint, exported: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    threads: list[int] = []
    before = torch.get_num_threads()
    monkeypatch.setattr(torch, "set_num_threads", threads.append)
    model, decoder = in_half_precision(checkpoint.pretrained().model()), decoder_of(OnnxModel(exported))
    check_parity(model, OnnxModel(exported), decoder)
    for head in ("ctc", "phone_ctc"):
        file = OnnxModel(damaged(exported, tmp_path / "damaged.onnx", head, 0.5))
        with pytest.raises(ExportError, match="differs from PyTorch: error"):
            check_parity(model, file, decoder)
        file = OnnxModel(damaged(exported, tmp_path / "damaged.onnx", head, 5.0))
        with pytest.raises(ExportError, match=r"divergence of posteriors .* Export without --int8"):
            check_parity(model, with_metadata(file, quantization="int8"), decoder)
    assert threads == [1, before] * 5


def test_frames_counted_differently_are_an_error(
    checkpoint: Checkpoint, exported: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In int8, too, where the other numbers differ anyway."""

    def step_wrongly(*arguments: Any) -> tuple[list[Stream], tuple[np.ndarray, ...]]:
        streams, cache = step_onnx(*arguments)
        return streams, (*cache[:-1], cache[-1] + 1)

    monkeypatch.setattr("asr.export.parity.step_onnx", step_wrongly)
    model, file = in_half_precision(checkpoint.pretrained().model()), OnnxModel(exported)
    with pytest.raises(ExportError, match="counts differently from PyTorch"):
        check_parity(model, with_metadata(file, quantization="int8"), decoder_of(file))


@pytest.mark.parametrize(("which", "found"), [(0, "error nan"), (1, "error nan"), (2, "divergence of posteriors nan")])
def test_one_frame_that_is_no_number_is_found(
    which: int, found: str, checkpoint: Checkpoint, exported: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def step_wrongly(*arguments: Any) -> tuple[list[Stream], tuple[np.ndarray, ...]]:
        streams, cache = step_onnx(*arguments)
        streams[0][which][3] = math.nan
        return streams, cache

    monkeypatch.setattr("asr.export.parity.step_onnx", step_wrongly)
    model, file = in_half_precision(checkpoint.pretrained().model()), OnnxModel(exported)
    if found.startswith("divergence"):
        file = with_metadata(file, quantization="int8")
    with pytest.raises(ExportError, match=found):
        check_parity(model, file, decoder_of(file))


def test_what_is_no_number_exceeds_every_bound() -> None:
    hold([("error", 1e-3, 1e-3)], False)
    for value in (1.1e-3, math.nan, math.inf):
        with pytest.raises(ExportError, match=r"error (0\.0011|nan|inf), allowed 0\.001; nothing was written$"):
            hold([("error", value, 1e-3)], False)
