"""Checkpoints of the neural language model: one file with the state of a training."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from torch import Tensor

from asr.neural_lm.model import NeuralLm, NeuralLmConfig
from asr.tokenizer import Tokenizer
from asr.training.checkpoint import CheckpointError, read_values, write_values

KIND = "asr_stream_neural_lm"
FORMAT_VERSION = 1


@dataclass
class NeuralLmCheckpoint:
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

    def save(self, path: Path) -> None:
        """Writes atomically. Raises OSError if it cannot."""
        fields = vars(self) | {"config": self.config.to_dict(), "tokenizer": self.tokenizer.to_dict()}
        write_values(path, {"kind": KIND, "format_version": FORMAT_VERSION, **fields})

    @staticmethod
    def load(path: Path) -> NeuralLmCheckpoint:
        """Raises CheckpointError, naming the file, where it is not one or is damaged."""
        values = read_values(path)
        if not isinstance(values, dict) or values.pop("kind", None) != KIND:
            raise CheckpointError(f"{path} is not a checkpoint of a neural language model")
        if values.pop("format_version", None) != FORMAT_VERSION:
            raise CheckpointError(f"{path} has another format; this version reads format {FORMAT_VERSION}")
        try:
            config, tokenizer = NeuralLmConfig.from_dict(values.pop("config")), values.pop("tokenizer")
            checkpoint = NeuralLmCheckpoint(config, Tokenizer.from_dict(tokenizer), **values)
            checkpoint.model()
        except (KeyError, TypeError, ValueError, RuntimeError, AttributeError) as error:
            reason = str(error).splitlines()[0]
            raise CheckpointError(f"{path} is damaged, or of another version: {reason}") from error
        return checkpoint
