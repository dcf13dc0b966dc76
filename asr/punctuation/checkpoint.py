"""Checkpoints of the punctuation network: one file with the state of a training run."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from asr.punctuation.corpus import NONE
from asr.punctuation.model import Punctuator, PunctuatorConfig
from asr.training.checkpoint import read_kind, write_values

KIND = "asr_stream_punctuation"
FORMAT_VERSION = 1


@dataclass
class PunctuationCheckpoint:
    config: PunctuatorConfig
    weights: dict[str, Tensor]
    """The weights as trained."""
    average: dict[str, Tensor]
    """Their moving average, which is evaluated and exported."""
    mixed: dict[str, str]
    """Spelling of words of mixed case: mcdonald -> McDonald."""
    none_offset: float = 0.0
    """Subtracted from the logit of no mark; see asr.punctuation.evaluate.tune."""
    step: int = 0
    optimizer: dict[str, Any] = field(default_factory=dict)
    summary: dict[str, Any] = field(default_factory=dict)
    """Summary of the training for the metadata of a model file."""

    def model(self) -> Punctuator:
        """The network with its averaged weights and `none_offset`, in evaluation mode."""
        model = Punctuator(self.config)
        model.load_state_dict(self.average)
        with torch.no_grad():
            model.head.bias[NONE] -= self.none_offset
        return model.eval()

    def save(self, path: Path) -> None:
        """Writes atomically. Raises OSError if it cannot."""
        fields = vars(self) | {"config": self.config.to_dict()}
        write_values(path, {"kind": KIND, "format_version": FORMAT_VERSION, **fields})

    @staticmethod
    def load(path: Path) -> PunctuationCheckpoint:
        """Raises CheckpointError, with the name of the file, if it is not one or is damaged."""

        def build(values: dict[str, Any]) -> PunctuationCheckpoint:
            return PunctuationCheckpoint(PunctuatorConfig.from_dict(values.pop("config")), **values)

        return read_kind(path, KIND, "`asr text train`", FORMAT_VERSION, build)
