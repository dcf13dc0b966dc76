"""The optimizer, its learning-rate schedule, and the moving average of the weights."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim import AdamW

from asr.config import OptimConfig
from asr.training.precision import multiplies_bfloat16


def learning_rate(config: OptimConfig, step: int, max_steps: int, share: float | None = None) -> float:
    """The rate of optimizer step `step`, counted from 1: linear warm-up to `config.lr`, then decay.

    noam: inverse square root of the step (Vaswani et al. 2017); linear, cosine: to zero at `max_steps`; constant: none.
    `config.cooldown` is the last share of the training, in which each of them also falls linearly to zero.
    share: completed share of the training in [0, 1] if it ends by time, in place of `step` of `max_steps`.
    """
    warmup = config.warmup_steps
    done = min((step - 1) / max_steps, 1.0) if share is None else share
    rest = min(max(step - warmup, 0) / max(max_steps - warmup, 1), 1.0) if share is None else share
    rate = config.lr * min(1.0, (1 - done) / config.cooldown) if config.cooldown else config.lr
    if step <= warmup:
        return rate * step / warmup
    if config.schedule == "noam":
        return rate * math.sqrt(max(warmup, 1) / step)
    if config.schedule == "constant":
        return rate
    return rate * (1 - rest if config.schedule == "linear" else 0.5 * (1 + math.cos(math.pi * rest)))


def build_optimizer(model: nn.Module, config: OptimConfig) -> AdamW:
    """AdamW over all parameters, or Muon for the matrices of the layers. Biases and norms do not decay."""
    parameters = {name: p for name, p in model.named_parameters() if p.requires_grad}
    inner = {n: p for n, p in parameters.items() if ".layers." in n and p.ndim == 2 and config.kind == "muon"}
    rest = [p for name, p in parameters.items() if name not in inner]
    groups: list[dict[str, Any]] = [
        {"params": [p for p in rest if p.ndim >= 2]},
        {"params": [p for p in rest if p.ndim < 2], "weight_decay": 0.0},
    ]
    options: dict[str, Any] = {
        "lr": config.lr,
        "betas": config.betas,
        "weight_decay": config.weight_decay,
        "fused": True,
    }
    if not inner:
        return AdamW(groups, **options)
    stacked = ("qkv.weight", "key_value.weight")  # stacked projections, orthogonalized separately
    for split in (False, True):
        members = [p for name, p in inner.items() if name.endswith(stacked) == split]
        groups.append({"params": members, "orthogonal": True, "split": split})
    return Muon(groups, **options)


class Muon(AdamW):
    """AdamW; for groups marked `orthogonal`, the step is the momentum with all singular values set to about 1.

    Muon (Jordan et al. 2024) with Nesterov momentum 0.95 and five Newton-Schulz iterations; its step is scaled to the
    root mean square of AdamW's (Liu et al. 2025, "Muon is scalable for LLM training"), so both share one learning rate.
    """

    MOMENTUM = 0.95
    UPDATE_RMS = 0.2

    @torch.no_grad()
    def step(self, closure: None = None) -> None:  # type: ignore[override]
        groups = self.param_groups
        try:
            self.param_groups = [group for group in groups if not group.get("orthogonal")]
            super().step()
        finally:
            self.param_groups = groups
        for group in groups:
            if group.get("orthogonal"):
                self._step_orthogonal(group)

    def _step_orthogonal(self, group: dict[str, Any]) -> None:
        by_shape: dict[torch.Size, list[Tensor]] = {}
        for parameter in group["params"]:
            if parameter.grad is not None:
                by_shape.setdefault(parameter.shape, []).append(parameter)
        # As in AdamW's fused kernel, a step that is marked on the device changes nothing.
        keep = 1.0 - getattr(self, "found_inf", group["params"][0].new_zeros(()))
        for (rows, columns), parameters in by_shape.items():
            gradient = torch.stack([p.grad for p in parameters if p.grad is not None])
            gradient = torch.where(keep > 0, gradient, 0.0)
            states = [self.state[p] for p in parameters]
            for state, parameter in zip(states, parameters, strict=True):
                if "momentum" not in state:
                    state.update(momentum=torch.zeros_like(parameter), step=torch.zeros(()))  # AdamW reads `step`
            momentum = torch.stack([state["momentum"] for state in states])
            momentum = momentum.lerp(gradient, (1 - self.MOMENTUM) * keep)
            torch._foreach_copy_([state["momentum"] for state in states], list(momentum))
            update = gradient.lerp(momentum, self.MOMENTUM)
            size = columns if group["split"] else rows
            update = orthogonalize(update.reshape(-1, size, columns)).reshape(-1, rows, columns)
            scale = group["lr"] * self.UPDATE_RMS * max(size, columns) ** 0.5
            torch._foreach_mul_(parameters, 1 - group["lr"] * group["weight_decay"] * keep)
            torch._foreach_sub_(parameters, list(update * (scale * keep)))


def orthogonalize(matrices: Tensor) -> Tensor:
    """(N, rows, columns) float32 -> the same singular vectors with singular values of about 0.7 to 1.2.

    Newton-Schulz iteration with the quintic of Jordan et al. 2024, in bfloat16 where the device multiplies it.
    """
    x = matrices.bfloat16() if multiplies_bfloat16(matrices.device) else matrices
    tall = x.shape[1] > x.shape[2]
    x = x.mT if tall else x
    x = x / (x.norm(dim=(1, 2), keepdim=True) + 1e-7)
    for _ in range(5):
        square = x @ x.mT
        polynomial = torch.baddbmm(square, square, square, beta=-4.7750, alpha=2.0315)
        x = torch.baddbmm(x, polynomial, x, beta=3.4445)
    return (x.mT if tall else x).to(matrices.dtype)


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
