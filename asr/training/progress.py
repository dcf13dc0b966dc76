"""Progress of a training run: a progress bar, lines for validation, TensorBoard curves.

The measurements of a step stay on the device; their mean over `train.log_every` steps is read and shown.
"""

from __future__ import annotations

import math
import time
from pathlib import Path

import torch
import torch.distributed as dist
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn
from rich.table import Column
from torch import Tensor
from torch.utils.tensorboard import SummaryWriter

from asr.config import TrainConfig
from asr.training.step import StepStats
from asr.training.task import Scores, Unit

PLAIN_EVERY = 5
"""Points of the curves per progress line, without a terminal."""


MIN_PACE_STEPS = 2
"""Steps before the remaining time is estimated."""
STARTING = "starting"
WIDE = 120
"""Minimum columns of a terminal for showing the parts of the loss."""


class TrainingProgress:
    """Reports one training run; silent (`visible=False`) in all processes but the first.

    unit: of the amounts. share_of_peak: what an amount of 1 per second uses of the rate of the devices.
    All processes must call `update` for the same steps, because their losses are averaged.
    """

    def __init__(
        self,
        folder: Path,
        config: TrainConfig,
        step: int,
        console: Console,
        visible: bool,
        unit: Unit,
        share_of_peak: float,
    ) -> None:
        self._visible = visible
        self._console = console
        self._log_every = config.log_every
        self._unit = unit
        self._share_of_peak = share_of_peak
        self._stats: list[Tensor] = []
        self._amount = 0.0
        self._started = time.monotonic()
        self._first: tuple[int, float, float] | None = None  # a step, the share of the training and the time after it
        self._status = STARTING
        if visible:
            self._writer = SummaryWriter(str(folder / "tensorboard"), purge_step=step + 1)
            self._bar = Progress(
                TextColumn("{task.fields[name]}"),
                BarColumn(bar_width=None, table_column=Column(ratio=1)),
                TextColumn("step {task.fields[step]}"),
                TextColumn("{task.fields[status]}"),
                TextColumn("{task.fields[left]}"),
                expand=True,
                console=console,
                disable=not console.is_terminal,
            )
            self._task = self._bar.add_task("train", total=1.0, step=step, name="", status=self._status, left="")

    def __enter__(self) -> TrainingProgress:
        if self._visible:
            self._bar.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._visible:
            self._bar.stop()
            self._writer.close()

    def update(self, step: int, name: str, stats: StepStats, lr: float, amount: float, share: float) -> None:
        """Records an optimizer step. name, amount: see `asr.training.task.Step`; the amount of all processes.

        share: completed share of the training."""
        self._stats.append(torch.stack((*stats.losses.values(), stats.grad_norm)))
        self._amount += amount
        if step % self._log_every == 0:
            self._log(step, name, tuple(stats.losses), lr, share)
        if self._visible:
            left = self._time_left(step, share)
            self._status = self._status.removeprefix(STARTING)
            self._bar.update(self._task, completed=share, step=step, name=name, status=self._status, left=left)

    def _time_left(self, step: int, share: float) -> str:
        """Remaining time at the mean pace so far, including validation; empty during the first steps."""
        now = time.monotonic()
        if self._first is None:
            self._first = step, share, now
        first_step, first_share, started = self._first
        if step - first_step < MIN_PACE_STEPS:
            return ""
        minutes = round((1 - share) * (now - started) / max(share - first_share, 1e-9) / 60)
        return f"{minutes // 60} h {minutes % 60:02d} min left" if minutes >= 60 else f"{minutes} min left"

    def _log(self, step: int, name: str, losses: tuple[str, ...], lr: float, share: float) -> None:
        stats = torch.stack(self._stats)
        if dist.is_initialized():
            dist.all_reduce(stats)
            stats /= dist.get_world_size()
        finite = stats.isfinite().all(1)
        means = torch.where(finite[:, None], stats, 0.0).sum(0) / finite.sum()
        *values, num_skipped = torch.cat((means, (~finite).sum()[None])).tolist()  # waits for the device
        now = time.monotonic()
        speed = self._amount / max(now - self._started, 1e-9)
        self._stats, self._amount, self._started = [], 0.0, now
        if not self._visible:
            return
        curves = dict(zip((*losses, "grad_norm"), values, strict=True))
        parts = [f"{key} {curves[key]:.3f}" for key in losses[1:] if curves[key]]
        share_of_peak = speed * self._share_of_peak
        curves |= {"lr": lr, f"{self._unit.name}_per_s": speed / self._unit.size, "skipped_steps": num_skipped}
        curves["share_of_peak"] = share_of_peak
        wide = self._console.width >= WIDE or not self._console.is_terminal
        self._status = f"loss {curves['total']:.3f}"
        if wide:
            self._status += (f" ({', '.join(parts)})" if parts else "") + f"  lr {lr:.2e}"
        if num_skipped:
            self._status += f"  {num_skipped:.0f} of {len(finite)} steps skipped"
            self._status += ": gradient not finite" if wide else ""
        else:
            self._status += f"  {speed:{'.3g' if speed < 100 else ',.0f'}}{self._unit.speed}"
            self._status += f", {share_of_peak:.0%} of peak" if wide else ""
        if step % (PLAIN_EVERY * self._log_every) == 0 and not self._console.is_terminal:
            line = f"{name}  step {step}  {self._status}  {self._time_left(step, share)}"
            self._console.print(line.strip(), soft_wrap=True)
        for name, value in curves.items():
            if math.isfinite(value):
                self._writer.add_scalar(f"train/{name}", value, step)

    def validated(self, step: int, scores: Scores, took_s: float) -> None:
        """Reports the result of a validation."""
        self._started += took_s  # excluded from the training speed
        if not self._visible:
            return
        values = ", ".join(f"{name} {value:{scores.style}}" for name, value in scores.values.items())
        self._console.print(f"step {step}: {scores.name} {values}", highlight=False, soft_wrap=True)
        for name, value in scores.values.items():
            self._writer.add_scalar(f"valid/{scores.name.lower()}_{name}", value, step)
