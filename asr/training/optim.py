"""The optimizer, its learning-rate schedule, and the moving average of the weights."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import nn
from torch.optim import AdamW

from asr.config import OptimConfig


def learning_rate(config: OptimConfig, step: int, max_steps: int) -> float:
    """The rate of optimizer step `step`, counted from 1: linear warm-up to `config.lr`, then decay.

    noam: inverse square root of the step (Vaswani et al. 2017); linear, cosine: to zero at `max_steps`.
    """
    warmup = config.warmup_steps
    if step <= warmup:
        return config.lr * step / warmup
    if config.schedule == "noam":
        return config.lr * math.sqrt(max(warmup, 1) / step)
    rest = min((step - warmup) / max(max_steps - warmup, 1), 1.0)
    return config.lr * (1 - rest if config.schedule == "linear" else 0.5 * (1 + math.cos(math.pi * rest)))


def build_optimizer(model: nn.Module, config: OptimConfig) -> AdamW:
    """AdamW over all parameters; biases, norms and other vectors are not decayed."""
    parameters = [p for p in model.parameters() if p.requires_grad]
    groups: list[dict[str, Any]] = [
        {"params": [p for p in parameters if p.ndim >= 2]},
        {"params": [p for p in parameters if p.ndim < 2], "weight_decay": 0.0},
    ]
    return AdamW(groups, lr=config.lr, betas=config.betas, weight_decay=config.weight_decay, fused=True)


class WeightAverage:
    """Exponential moving average of all weights (Polyak and Juditsky 1992), short at first: the decay after
    n updates is min(decay, (1 + n) / (10 + n))."""

    def __init__(self, model: nn.Module, decay: float) -> None:
        self._decay = decay
        self.num_updates = 0
        self.weights = {name: value.detach().clone() for name, value in model.state_dict().items()}

    @torch.no_grad()
    def update(self, model: nn.Module) -> None:
        self.num_updates += 1
        decay = min(self._decay, (1 + self.num_updates) / (10 + self.num_updates))
        averages, values = [], []
        for name, value in model.state_dict().items():
            averages.append(self.weights[name])
            values.append(value)
        torch._foreach_lerp_(averages, values, 1 - decay)
