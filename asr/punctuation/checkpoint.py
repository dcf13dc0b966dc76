"""Checkpoints of the punctuation network: one file with the state of a training run."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from asr.punctuation.config import PunctuatorConfig
from asr.punctuation.corpus import NONE
from asr.punctuation.model import Punctuator
from asr.training.checkpoint import CheckpointFile


@dataclass
class PunctuationCheckpoint(CheckpointFile):
    KIND = "asr_stream_punctuation"
    SOURCE = "`asr text train`"

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

    def check(self) -> None:
        self.model()
