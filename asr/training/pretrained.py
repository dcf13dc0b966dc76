"""Weights to start a training or another export from: a checkpoint, or the float weights inside an exported .onnx file.

An exported graph keeps PyTorch's names for all parameters but the matrices of its products, which are stored
transposed under names of the exporter's. Each of those products is followed by the addition of a bias that
kept its name, and that names the matrix.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from asr.config import Config, from_dict
from asr.model.model import AsrModel, with_vocab
from asr.runtime.metadata import ModelMetadata
from asr.runtime.onnx_model import OnnxModel, bundled_model
from asr.tokenizer import Tokenizer
from asr.training.checkpoint import Checkpoint, resolve


@dataclass(frozen=True)
class Pretrained:
    config: dict[str, Any]
    """What the model was trained with."""
    tokenizer: Tokenizer
    weights: dict[str, Tensor]


def load_pretrained(source: str | Path) -> Pretrained:
    """Weights and tokenizer of `source`: "bundled", a float32 file of `asr export`, a checkpoint or its folder.

    Raises ValueError where it is none of these, or where the file is quantised.
    """
    path = _file(source)
    if path.suffix != ".onnx":
        checkpoint = Checkpoint.load(path)
        return Pretrained(checkpoint.config.to_dict(), checkpoint.tokenizer, checkpoint.average)
    metadata, weights = _from_onnx(path)
    kind = metadata.config["tokenizer"]["kind"]
    if kind != "char":
        raise ValueError(f"{path} holds the tokens of its {kind} tokenizer, not its rules: start from a checkpoint")
    return Pretrained(metadata.config, Tokenizer("char", metadata.tokens), weights)


def with_new_units(pretrained: Pretrained, letters: Iterable[str]) -> Pretrained:
    """The same model with these letters as further units; what belongs to them is fresh.

    ValueError for a model whose units are not letters.
    """
    tokenizer = pretrained.tokenizer
    if tokenizer.kind != "char":
        raise ValueError(f"train.new_units adds letters, and the model of train.init writes {tokenizer.kind} units")
    tokenizer = Tokenizer("char", (*tokenizer.tokens, *letters))
    shape = with_vocab(from_dict(Config, pretrained.config).model, tokenizer.vocab_size)
    weights = AsrModel(shape).state_dict()
    for name, value in pretrained.weights.items():
        weights[name][tuple(map(slice, value.shape))] = value  # the units it knows come first
    return replace(pretrained, tokenizer=tokenizer, weights=weights)


def load_model(source: str | Path) -> tuple[AsrModel, tuple[str, ...], str]:
    """The network of the same sources in evaluation mode, the spelling of its tokens, and its licence if stated."""
    path = _file(source)
    if path.suffix != ".onnx":
        checkpoint = Checkpoint.load(path)
        return checkpoint.model(), tuple(checkpoint.tokenizer.tokens), ""
    metadata, weights = _from_onnx(path)
    model = AsrModel(with_vocab(from_dict(Config, metadata.config).model, metadata.vocab_size))
    model.load_state_dict(weights)
    return model.eval(), metadata.tokens, metadata.licence


def _file(source: str | Path) -> Path:
    path = bundled_model("float32") if str(source) == "bundled" else Path(source)
    return path if path.suffix == ".onnx" else resolve(path)


def _from_onnx(path: Path) -> tuple[ModelMetadata, dict[str, Tensor]]:
    import onnx

    metadata = OnnxModel(path).metadata  # opened by the runtime first: its errors are the clear ones
    if metadata.quantization != "none":
        raise ValueError(
            f"{path} is quantised ({metadata.quantization}): start from its float32 export or a checkpoint"
        )
    weights = _parameters(onnx.load(path), "model.")
    weights |= _parameters(onnx.load_from_string(metadata.decoder_onnx), "")
    weights["encoder.mean"] = torch.tensor(metadata.cmvn_mean)
    weights["encoder.inverse_std"] = 1.0 / torch.tensor(metadata.cmvn_std)
    return metadata, weights


def _parameters(model: object, prefix: str) -> dict[str, Tensor]:
    """Every parameter of a graph by PyTorch's name, `prefix` taken off, in float32."""
    from onnx import numpy_helper

    graph = model.graph  # type: ignore[attr-defined]
    stored = {i.name.removesuffix("_half"): numpy_helper.to_array(i) for i in graph.initializer}
    found = {name: value for name, value in stored.items() if name.endswith((".weight", ".bias", "_bias"))}
    # Half-precision weights reach their product through a cast.
    source = {n.output[0]: n.input[0].removesuffix("_half") for n in graph.node if n.op_type == "Cast"}
    products = {
        n.output[0]: source.get(n.input[1], n.input[1]).removesuffix("_half")
        for n in graph.node
        if n.op_type == "MatMul"
    }
    for node in graph.node:
        if node.op_type == "Add":
            for product, bias in (node.input, reversed(node.input)):
                if product in products and bias.endswith(".bias") and products[product] in stored:
                    found[bias.removesuffix(".bias") + ".weight"] = stored[products[product]].T
    return {name.removeprefix(prefix): torch.from_numpy(np.array(value, np.float32)) for name, value in found.items()}
