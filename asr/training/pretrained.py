"""Weights to start a training or another export from: a checkpoint, or the float weights inside an exported .onnx file.

An exported graph keeps PyTorch's names for all parameters. The matrices of its products are stored transposed, as
"NAME.T" (see asr.export.graph), and those of the decoder in half precision, as "NAME_half".
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor

from asr.config import Config, from_dict
from asr.model.model import AsrModel, with_vocab
from asr.runtime.metadata import ModelMetadata
from asr.runtime.onnx_model import OnnxModel, bundled_model
from asr.tokenizer import Tokenizer
from asr.training.checkpoint import Checkpoint, check_weights, resolve

if TYPE_CHECKING:
    import onnx


@dataclass(frozen=True)
class Pretrained:
    config: Config
    """That of its training."""
    tokenizer: Tokenizer
    weights: dict[str, Tensor]

    @property
    def phones(self) -> tuple[str, ...]:
        """Names of the phones of its phone head; empty without one."""
        return self.config.model.phones


def load_pretrained(source: str | Path) -> Pretrained:
    """Weights and tokenizer of `source`: "bundled", a float32 file of `asr export`, a checkpoint or its folder.

    Raises ValueError where it is none of these, or where the file is quantized.
    """
    path = _file(source)
    if path.suffix != ".onnx":
        checkpoint = Checkpoint.load(path)
        return Pretrained(checkpoint.config, checkpoint.tokenizer, checkpoint.average)
    metadata, config, weights = _from_onnx(path)
    kind = config.tokenizer.kind
    if kind != "char":
        raise ValueError(f"{path} holds the tokens of its {kind} tokenizer, not its rules: start from a checkpoint")
    return Pretrained(config, Tokenizer("char", metadata.tokens), weights)


def with_new_units(pretrained: Pretrained, letters: Iterable[str]) -> Pretrained:
    """The same model with these letters as further units; what belongs to them is fresh.

    ValueError for a model whose units are not letters.
    """
    tokenizer = pretrained.tokenizer
    if tokenizer.kind != "char":
        raise ValueError(f"train.new_units adds letters, and the model of train.init writes {tokenizer.kind} units")
    tokenizer = Tokenizer("char", (*tokenizer.tokens, *letters))
    weights = AsrModel(with_vocab(pretrained.config.model, tokenizer.vocab_size)).state_dict()
    for name, value in pretrained.weights.items():
        weights[name][tuple(map(slice, value.shape))] = value  # the units it knows come first
    return replace(pretrained, tokenizer=tokenizer, weights=weights)


def with_new_layers(pretrained: Pretrained, num_layers: int) -> Pretrained:
    """The same function computed by an encoder of `num_layers` layers, at least as many as it has.

    The new layers are spread evenly. Each is a copy of the layer below it whose output projections are zero, so that it
    adds nothing until it is trained (Chen et al. 2016, "Net2Net"). `condition_layers` move with their layers.
    ValueError for layers with post-norm, which change what passes through them.
    """
    shape = pretrained.config.model
    if shape.norm != "pre":
        raise ValueError(f"model.norm is {shape.norm!r}: only an encoder with model.norm=pre can grow new layers")
    position = [(layer + 1) * num_layers // shape.encoder_layers - 1 for layer in range(shape.encoder_layers)]
    prefix = "encoder.layers."
    weights = {name: value for name, value in pretrained.weights.items() if not name.startswith(prefix)}
    source = -1
    for new in range(num_layers):
        added = new not in position
        source += not added
        old = f"{prefix}{max(source, 0)}."
        for name in [name for name in pretrained.weights if name.startswith(old)]:
            silent = added and name.removeprefix(old).startswith(("attention.out.", "feed_forward.down."))
            value = pretrained.weights[name]
            weights[f"{prefix}{new}.{name.removeprefix(old)}"] = torch.zeros_like(value) if silent else value.clone()
    moved = tuple(position[layer - 1] + 1 for layer in shape.condition_layers)
    grown = replace(shape, encoder_layers=num_layers, condition_layers=moved)
    return replace(pretrained, config=replace(pretrained.config, model=grown), weights=weights)


def load_model(source: str | Path) -> tuple[AsrModel, tuple[str, ...], str]:
    """The network of the same sources in evaluation mode, the spelling of its tokens, and its license if stated."""
    path = _file(source)
    if path.suffix != ".onnx":
        checkpoint = Checkpoint.load(path)
        return checkpoint.model(), tuple(checkpoint.tokenizer.tokens), ""
    metadata, config, weights = _from_onnx(path)
    model = AsrModel(with_vocab(config.model, metadata.vocab_size))
    model.load_state_dict(weights)
    return model.eval(), metadata.tokens, metadata.license


def _file(source: str | Path) -> Path:
    path = bundled_model("float32") if str(source) == "bundled" else Path(source)
    return path if path.suffix == ".onnx" else resolve(path)


def _from_onnx(path: Path) -> tuple[ModelMetadata, Config, dict[str, Tensor]]:
    import onnx

    metadata = OnnxModel(path).metadata  # opened by the runtime first: its errors are the clear ones
    if metadata.quantization != "none":
        raise ValueError(
            f"{path} is quantized ({metadata.quantization}): start from its float32 export or a checkpoint"
        )
    weights = _parameters(onnx.load(path), "model.")
    weights |= _parameters(onnx.load_from_string(metadata.decoder_onnx), "")
    weights["encoder.mean"] = torch.tensor(metadata.cmvn_mean)
    weights["encoder.inverse_std"] = 1.0 / torch.tensor(metadata.cmvn_std)
    try:
        config = from_dict(Config, metadata.config)
        check_weights(weights, with_vocab(config.model, metadata.vocab_size))
    except ValueError as error:
        raise ValueError(f"{path} cannot be trained or exported again: {error}") from error
    return metadata, config, weights


def _parameters(model: onnx.ModelProto, prefix: str) -> dict[str, Tensor]:
    """Every parameter of a graph by PyTorch's name, `prefix` taken off, in float32."""
    from onnx import numpy_helper

    found = {}
    for initializer in model.graph.initializer:
        name = initializer.name.removesuffix("_half").removeprefix(prefix)
        value = numpy_helper.to_array(initializer)
        if name.endswith(".T"):
            name, value = name.removesuffix(".T"), value.T
        if name.endswith((".weight", ".bias", "_bias")):
            found[name] = torch.from_numpy(np.array(value, np.float32))
    return found
