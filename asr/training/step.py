"""One step of training: losses of the batches, gradients, optimizer, moving average. It needs no data set."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any, NamedTuple

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

from asr.config import Recipe
from asr.training.compiled import compile_layers, is_compiled
from asr.training.optim import WeightAverage, build_optimizer, learning_rate
from asr.training.precision import autocast, precision_on
from asr.training.task import Batch

MAX_SKIPPED = 20
"""Consecutive steps with a non-finite gradient after which a training ends with an error."""


class TrainingError(ValueError):
    """A training that cannot go on, such as one whose gradients are no longer finite."""


class StepStats(NamedTuple):
    """Measurements of one step, on its device."""

    losses: dict[str, Tensor]
    """scalars float32: the losses of this process's batches, divided by the mean divisor over processes"""
    grad_norm: Tensor
    """scalar float32, over all processes, before clipping"""


class Learner:
    """A network with its optimizer and moving average; a call takes a step on this process's batches.

    network, losses: see asr.training.task.Task; already on `device`.
    """

    def __init__(
        self, network: nn.Module, losses: nn.Module, config: Recipe, device: torch.device, world_size: int = 1
    ) -> None:
        self.network = network
        self.config = config
        self.device = device
        self.precision = precision_on(device, config.train.precision)
        self.world_size = world_size
        self.average = WeightAverage(network, config.optim.ema_decay)
        self.optimizer = build_optimizer(network, config.optim)
        self.skipped = torch.zeros((), device=device)  # consecutive steps without a finite gradient
        if is_compiled(device):
            compile_layers(network)
        self.losses = losses if world_size == 1 else DistributedDataParallel(losses, broadcast_buffers=False)

    def __call__(self, batches: Sequence[Batch], step: int, share: float | None = None) -> tuple[StepStats, float]:
        """Takes step number `step`, counted from 1. Returns its measurements, on the device, and the learning rate.

        batches: on the device. share: see `learning_rate`. A step with a non-finite gradient changes no weight.
        """
        config = self.config
        divisor = torch.stack([batch.divisor for batch in batches]).sum(0).float()
        if self.world_size > 1:  # the mean over processes: DDP averages gradients
            dist.all_reduce(divisor)
            divisor /= self.world_size
        sums: list[Tensor] = []
        for number, batch in enumerate(batches, 1):
            torch.manual_seed(batch.seed)  # dropout
            with self._no_gradient_sync() if number < len(batches) else nullcontext():
                with autocast(self.precision, self.device):
                    losses = self.losses(batch, step, divisor)
                losses.total.backward()
            sums.append(torch.stack(losses).detach())
        grad_norm = nn.utils.clip_grad_norm_(self.network.parameters(), config.optim.max_grad_norm)
        lr = learning_rate(config.optim, step, config.train.max_steps, share)
        for group in self.optimizer.param_groups:
            group["lr"] = lr
        # The fused kernel skips a step that is marked on the device; an `if` here would wait for the device.
        self.optimizer.found_inf = (~grad_norm.isfinite()).float()  # type: ignore[attr-defined]
        self.skipped = (self.skipped + 1) * self.optimizer.found_inf  # type: ignore[attr-defined]
        self.optimizer.step()
        self.optimizer.zero_grad()
        self.average.update(self.network)
        means = torch.stack(sums).sum(0).unbind()
        return StepStats(dict(zip(losses._fields, means, strict=True)), grad_norm), lr

    def require_finite(self, step: int) -> None:
        """Raises TrainingError after MAX_SKIPPED steps in a row without a finite gradient; waits for the device."""
        if (count := int(self.skipped)) >= MAX_SKIPPED:
            raise TrainingError(
                f"the gradients of the last {count} steps, up to step {step}, are not finite: lower optim.lr = "
                f"{self.config.optim.lr:g}, and continue the last checkpoint with --resume"
            )

    def _no_gradient_sync(self) -> AbstractContextManager[Any]:
        """Context in which data-parallel training accumulates gradients without synchronizing them."""
        return self.losses.no_sync() if isinstance(self.losses, DistributedDataParallel) else nullcontext()
