"""One step of training: losses of the batches, gradients, optimizer, moving average.

It needs no data set.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

from asr.config import Config
from asr.model.denominator import Denominator
from asr.model.masks import draw_chunk
from asr.model.model import AsrModel, Losses
from asr.training.batches import Batch
from asr.training.optim import WeightAverage, build_optimizer, learning_rate
from asr.training.precision import autocast, precision_on
from asr.training.progress import StepStats
from asr.training.short import MAX_SKIPPED, TrainingError


class LossModule(nn.Module):
    """Computes the training losses in a module's forward, where data-parallel training synchronizes."""

    def __init__(self, model: AsrModel, config: Config, denominator: Denominator | None) -> None:
        super().__init__()
        self.model = model
        self.config = config.loss
        self.denominator = denominator

    def forward(self, batch: Batch, chunks: list[tuple[int, int]], num_tokens: Tensor) -> Losses:
        phones = (batch.phones, batch.phone_lengths, self.denominator) if self.model.phone_ctc is not None else ()
        speech = (batch.features, batch.num_frames, batch.targets, batch.target_lengths)
        return self.model.losses(*speech, self.config, chunks, num_tokens, *phones)


class Learner:
    """A network with its optimizer and moving average; a call takes a step on this process's batches.

    model, denominator: already on `device`.
    """

    def __init__(
        self, model: AsrModel, config: Config, denominator: Denominator | None, device: torch.device, world_size: int
    ) -> None:
        self.model = model
        self.config = config
        self.device = device
        self.precision = precision_on(device, config.train.precision)
        self.world_size = world_size
        self.average = WeightAverage(model, config.optim.ema_decay)
        self.optimizer = build_optimizer(model, config.optim)
        self.skipped = torch.zeros((), device=device)  # consecutive steps without a finite gradient
        self.losses: nn.Module = LossModule(model, config, denominator)
        if world_size > 1:
            self.losses = DistributedDataParallel(self.losses, broadcast_buffers=False)

    def __call__(self, batches: Sequence[Batch], step: int, share: float | None = None) -> tuple[StepStats, float]:
        """Takes step number `step`, counted from 1. Returns its measurements, on the device, and the learning rate.

        batches: on the device. share: see `learning_rate`. A step with a non-finite gradient changes no weight.
        """
        config = self.config
        chunks = [
            draw_chunk(config.chunk, f"{config.train.seed} {step} {view}") for view in range(config.loss.num_views)
        ]
        num_tokens = torch.stack([batch.num_tokens for batch in batches]).sum().float()
        if self.world_size > 1:  # the mean over processes: DDP averages gradients
            dist.all_reduce(num_tokens)
            num_tokens /= self.world_size
        sums: list[Tensor] = []
        for number, batch in enumerate(batches, 1):
            torch.manual_seed(batch.seed)  # dropout
            with self._gradients_stay_here() if number < len(batches) else nullcontext():
                with autocast(self.precision, self.device):
                    losses = self.losses(batch, chunks, num_tokens)
                losses.total.backward()
            sums.append(torch.stack(losses).detach())
        grad_norm = nn.utils.clip_grad_norm_(self.model.parameters(), config.optim.max_grad_norm)
        lr = learning_rate(config.optim, step, config.train.max_steps, share)
        for group in self.optimizer.param_groups:
            group["lr"] = lr
        # The fused kernel skips a step that is marked on the device; an `if` here would wait for the device.
        self.optimizer.found_inf = (~grad_norm.isfinite()).float()  # type: ignore[attr-defined]
        self.skipped = (self.skipped + 1) * self.optimizer.found_inf  # type: ignore[attr-defined]
        self.optimizer.step()
        self.optimizer.zero_grad()
        self.average.update(self.model)
        return StepStats(Losses(*torch.stack(sums).sum(0).unbind()), grad_norm), lr

    def require_finite(self, step: int) -> None:
        """Raises TrainingError after MAX_SKIPPED steps in a row without a finite gradient; waits for the device."""
        if (count := int(self.skipped)) >= MAX_SKIPPED:
            raise TrainingError(
                f"the gradients of the last {count} steps, up to step {step}, are not finite: lower optim.lr = "
                f"{self.config.optim.lr:g}, and continue the last checkpoint with --resume"
            )

    def averaged(self) -> AsrModel:
        """A new network with the moving average of the weights, on `device` and in evaluation mode."""
        model = AsrModel(self.model.config)
        model.load_state_dict(self.average.weights)
        return model.to(self.device).eval()

    def _gradients_stay_here(self) -> AbstractContextManager[Any]:
        """Context in which data-parallel training accumulates gradients without synchronizing them."""
        return self.losses.no_sync() if isinstance(self.losses, DistributedDataParallel) else nullcontext()
