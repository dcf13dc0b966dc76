"""Options of `asr train-gpu`. Does not import PyTorch."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Options:
    """minutes: training time without reading; batch_s: seconds of audio in a batch, including padding; lr: maximum
    rate."""

    minutes: float
    batch_s: float = 1000.0
    lr: float = 1.4e-3
    seed: int = 1
