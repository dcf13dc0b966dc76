"""Weights to start from: the names in an exported file, and files that lack some or hold numbers that are none."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import onnx
import pytest
import torch
from onnx import numpy_helper

from asr.cli import main
from asr.export.graph import decoder_graph, step_graph
from asr.training.checkpoint import Checkpoint, CheckpointError
from asr.training.pretrained import load_model, load_pretrained

if TYPE_CHECKING:
    from asr.model.model import AsrModel


def test_an_exported_graph_names_every_weight_as_pytorch_does(tiny_model: AsrModel) -> None:
    weights = dict(tiny_model.named_parameters())
    graphs = ((step_graph(tiny_model), "model."), (decoder_graph(tiny_model), ""))
    for graph, prefix in graphs:
        for tensor in graph.graph.initializer:
            name = tensor.name.removeprefix(prefix)
            value = torch.from_numpy(numpy_helper.to_array(tensor).copy())
            if name.removesuffix(".T") in weights:
                assert torch.equal(weights.pop(name.removesuffix(".T")), value.T if name.endswith(".T") else value)
    assert not weights


def edited(path: Path, target: Path, change: Callable[[onnx.TensorProto], None]) -> Path:
    proto = onnx.load(path)
    for tensor in proto.graph.initializer:
        change(tensor)
    onnx.save(proto, target)
    return target


def test_a_weight_that_is_no_number_is_named(tiny_onnx: Path, tmp_path: Path) -> None:
    def damage(tensor: onnx.TensorProto) -> None:
        if tensor.name == "model.encoder.layers.1.attention.qkv.bias":
            value = numpy_helper.to_array(tensor).copy()
            value[3] = float("nan")
            tensor.CopyFrom(numpy_helper.from_array(value, tensor.name))

    path = edited(tiny_onnx, tmp_path / "nan.onnx", damage)
    for load in (load_pretrained, load_model):
        with pytest.raises(
            ValueError, match=r"nan\.onnx .* not finite numbers, in encoder\.layers\.1\.attention\.qkv\.bias"
        ):
            load(path)


def test_a_checkpoint_with_a_weight_that_is_no_number_is_neither_exported_nor_trained_further(
    arguments: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([*arguments, "train.max_steps=1"]) == 0
    path = tmp_path / "run" / "checkpoint-1.pt"
    checkpoint = Checkpoint.load(path)
    checkpoint.average["ctc.bias"][0] = float("inf")
    checkpoint.save(tmp_path / "damaged.pt")
    with pytest.raises(CheckpointError, match=r"not finite numbers, in ctc\.bias"):
        Checkpoint.load(tmp_path / "damaged.pt")
    for command in (
        ["export", str(tmp_path / "damaged.pt"), "-o", str(tmp_path / "out.onnx")],
        [*arguments, f"train.init={tmp_path / 'damaged.pt'}", f"train.output={tmp_path / 'second'}"],
    ):
        capsys.readouterr()
        assert main(command) == 1
        assert re.search(r"damaged\.pt .*ctc\.bias", " ".join(capsys.readouterr().err.split()))
    assert not (tmp_path / "out.onnx").exists()


def test_weights_without_the_phone_head_of_their_configuration_are_refused(
    phone_model: tuple[Path, Path], tmp_path: Path
) -> None:
    def hide(tensor: onnx.TensorProto) -> None:
        if tensor.name.startswith("model.phone_ctc."):
            hidden[tensor.name] = tensor.name = tensor.name.replace("model.phone_ctc", "hidden").replace(".", "_")

    hidden: dict[str, str] = {}
    path = edited(phone_model[0], tmp_path / "headless.onnx", hide)
    proto = onnx.load(path)
    for node in proto.graph.node:
        for index, name in enumerate(node.input):
            node.input[index] = hidden.get(name, name)
    onnx.save(proto, path)
    with pytest.raises(ValueError, match=r"headless\.onnx .* another network .*phone_ctc\.bias, phone_ctc\.weight"):
        load_pretrained(path)
