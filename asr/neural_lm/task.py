"""The neural language model as a task of `asr train`: rows of text, and the cross entropy of each next piece."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from asr._core import read_onnx_properties
from asr.command import split_weight
from asr.files import distinct_names
from asr.neural_lm.config import NeuralLmConfig, NeuralLmRecipe
from asr.neural_lm.model import NeuralLm
from asr.neural_lm.text import Text, learn_pieces, read, rows
from asr.recipe import from_dict
from asr.runtime.neural_lm import bundled_neural_lm
from asr.tokenizer import SOS_EOS_ID, Tokenizer
from asr.training.checkpoint import Checkpoint, CheckpointError, check_shape, check_tokens, resolve
from asr.training.cost import flops_per_unit
from asr.training.task import Job, Scores, TextTask, Unit

COMPILED_FROM = 200
"""Minimum steps that are worth compiling for."""
SCORED_PIECES = 20_000
"""Maximum held-out pieces of each text that a validation scores."""


class Rows(NamedTuple):
    pieces: Tensor
    """(N, length + 1) int64"""
    divisor: Tensor
    """() int64, the number of predicted pieces"""
    seed: int


class Loss(NamedTuple):
    total: Tensor


class NeuralLmLoss(nn.Module):
    """The cross entropy of a batch."""

    def __init__(self, model: NeuralLm) -> None:
        super().__init__()
        self.model = model

    def forward(self, batch: Rows, step: int, num_pieces: Tensor) -> Loss:
        logits = self.model(batch.pieces[:, :-1])
        total = F.cross_entropy(logits.flatten(0, 1).float(), batch.pieces[:, 1:].flatten(), reduction="sum")
        return Loss(total / num_pieces)


class NeuralLmTask(TextTask):
    unit = Unit("pieces", 1.0, "pieces", " pieces/s")
    advice = "asr export {} -o lm.onnx --int8"
    config: NeuralLmRecipe
    network: NeuralLm
    tokenizer: Tokenizer

    @staticmethod
    def build(config: NeuralLmRecipe, tokenizer: Tokenizer) -> NeuralLm:
        return NeuralLm(replace(config.model, num_pieces=tokenizer.vocab_size))

    @staticmethod
    def flops(config: NeuralLmRecipe) -> float:
        shape = replace(config.model, num_pieces=config.tokenizer.vocab_size)
        with torch.device("meta"):
            num_weights = sum(parameter.numel() for parameter in NeuralLm(shape).parameters())
        return flops_per_unit(num_weights, shape.num_layers, shape.dim, config.data.length)

    def __init__(self, config: NeuralLmRecipe, previous: Checkpoint | None, job: Job) -> None:
        super().__init__(config, job)
        self.extra = {}
        paths, weights = zip(*(split_weight(name, "weight") for name in config.data.train), strict=True)
        names = distinct_names(paths, "data.train")
        start = None
        if previous:
            start = previous.required_tokenizer, previous.weights
            check_shape(previous.config, config, config.train.output)
            check_tokens(previous.required_tokenizer, previous.config.tokenizer, config.tokenizer, config.train.output)
        elif config.train.init:
            start = load(config)
        if start:
            self.tokenizer = start[0]
        else:
            with job.console.status("learning word pieces"):
                self.tokenizer = learn_pieces([Path(path) for path in paths], config.tokenizer.vocab_size)
        self.texts: list[Text] = []
        for path, name, weight in zip(paths, names, weights, strict=True):
            with job.console.status(f"reading {path}"):
                self.texts.append(read(Path(path), name, weight, self.tokenizer))
            job.print(f"{path}: {len(self.texts[-1].pieces) / 1e6:.2f} M pieces, weight {weight:g}")
        self.is_scored = any(len(text.held_out) for text in self.texts)
        torch.manual_seed(config.train.seed)
        self.network = self.build(config, self.tokenizer)
        if start:
            self.network.load_state_dict(start[1])
        self.network.to(job.device)

    def losses(self) -> Any:
        """On a CPU, a compiled step takes two thirds of the time, but the first one takes a minute longer."""
        config, loss = self.config.train, NeuralLmLoss(self.network)
        is_long = config.minutes > 0 or config.max_steps >= COMPILED_FROM
        return torch.compile(loss) if self._job.device.type == "cpu" and is_long else loss

    def draw(self, number: int) -> tuple[int, np.ndarray]:
        data = self.config.data
        return number, rows(self.texts, data.rows, data.length, (self.config.train.seed, number))

    def batch(self, gathered: tuple[int, np.ndarray]) -> Rows:
        number, pieces = gathered
        divisor = torch.tensor(pieces[:, 1:].size, device=self._job.device)
        return Rows(torch.from_numpy(pieces).to(self._job.device), divisor, number)

    def score(self, network: NeuralLm) -> Scores:
        """Perplexity per piece of each held-out text; judged by their mean with the weights of the texts."""
        found = {
            text.name: (text.weight, perplexity(network, text.held_out[:SCORED_PIECES]))
            for text in self.texts
            if len(text.held_out)
        }
        total = sum(weight for weight, _ in found.values())
        mean = math.exp(sum(weight * math.log(value) for weight, value in found.values()) / total)
        return Scores("perplexity", {name: value for name, (_, value) in found.items()}, mean, ".2f")


@torch.no_grad()
def perplexity(model: NeuralLm, pieces: np.ndarray, length: int = 256) -> float:
    """Perplexity per piece of utterances (num_pieces,), in parts of `length`."""
    total, count = 0.0, 0
    device = model.embedding.weight.device
    padded = np.append(pieces, SOS_EOS_ID).astype(np.int64)
    for start in range(0, len(padded) - 1, length):
        stretch = torch.from_numpy(padded[None, start : start + length + 1]).to(device)
        logits = model(stretch[:, :-1])
        total += float(F.cross_entropy(logits[0].float(), stretch[0, 1:], reduction="sum"))
        count += stretch.shape[1] - 1
    return math.exp(total / max(count, 1))


def load(config: NeuralLmRecipe) -> tuple[Tokenizer, dict[str, Tensor]]:
    """The word pieces and weights of `train.init`: "bundled", an .onnx file, a checkpoint, or the folder of a run.

    Raises CheckpointError if it is none of these, or if it belongs to another network than the recipe describes.
    """
    source = config.train.init
    path = bundled_neural_lm() if source == "bundled" else resolve(source)
    if path is None:
        raise CheckpointError("asr-stream was installed without its neural language model: train.init takes a file")
    if path.suffix == ".onnx":
        shape, tokenizer, weights = from_onnx(path)
        check_shape(replace(config, model=shape), config, source)
        return tokenizer, weights
    checkpoint = Checkpoint.load(path).of(NeuralLmRecipe, path)
    check_shape(checkpoint.config, config, source)
    return checkpoint.required_tokenizer, checkpoint.average


def from_onnx(path: Path) -> tuple[NeuralLmConfig, Tokenizer, dict[str, Tensor]]:
    """Shape, word pieces and weights of a file written by `asr export`. int8 weights keep their rounded values.

    Raises CheckpointError with the name of the file if it is not a neural language model.
    """
    import onnx
    from onnx.numpy_helper import to_array

    try:
        data = path.read_bytes()
        properties = read_onnx_properties(data)
        graph = onnx.load_from_string(data)
        tensors = {tensor.name: torch.from_numpy(to_array(tensor).copy()) for tensor in graph.graph.initializer}
        config = from_dict(NeuralLmConfig, json.loads(properties["config"]))
        weights = NeuralLm(config).state_dict()
        for name in weights:
            whole = tensors.get(f"model.{name}")
            if whole is None:  # an int8 matrix, transposed, with a scale per column
                quantized, scale = (tensors[f"model.{name}.T_{part}"].float() for part in ("quantized", "scale"))
                whole = (quantized * scale).T
            weights[name] = whole.float().contiguous()
        NeuralLm(config).load_state_dict(weights)
        return config, Tokenizer("wordpiece", tuple(properties["pieces"].split("\n"))), weights
    except OSError:
        raise
    except Exception as error:  # from protobuf, a missing name, or a wrong shape
        reason = str(error).splitlines()[0]
        raise CheckpointError(f"{path} is not a neural language model of asr export: {reason}") from error
