"""Checkpoints of the neural language model: one file with the state of a training run."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from asr._core import read_onnx_properties
from asr.neural_lm.config import NeuralLmConfig
from asr.neural_lm.model import NeuralLm
from asr.recipe import from_dict
from asr.tokenizer import Tokenizer
from asr.training.checkpoint import CheckpointError, CheckpointFile


@dataclass
class NeuralLmCheckpoint(CheckpointFile):
    KIND = "asr_stream_neural_lm"
    SOURCE = "a neural language model"

    config: NeuralLmConfig
    tokenizer: Tokenizer
    weights: dict[str, Tensor]
    step: int = 0
    optimizer: dict[str, Any] = field(default_factory=dict)
    summary: dict[str, Any] = field(default_factory=dict)
    """Summary of the training for the metadata of a model file."""

    def model(self) -> NeuralLm:
        model = NeuralLm(self.config)
        model.load_state_dict(self.weights)
        return model.eval()

    def check(self) -> None:
        self.model()

    @staticmethod
    def from_onnx(path: Path) -> NeuralLmCheckpoint:
        """The weights of a file written by `asr export`, for further training from step 0. int8 weights keep their
        rounded values.

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
            tokenizer = Tokenizer("wordpiece", tuple(properties["pieces"].split("\n")))
            summary = {"pieces": int(json.loads(properties["training"])["pieces"])}
            checkpoint = NeuralLmCheckpoint(config, tokenizer, weights, summary=summary)
            checkpoint.model()
        except OSError:
            raise
        except Exception as error:  # from protobuf, a missing name, or a wrong shape
            reason = str(error).splitlines()[0]
            raise CheckpointError(f"{path} is not a neural language model of asr export: {reason}") from error
        return checkpoint
