"""What a person sees while training: a progress bar, lines for validation, TensorBoard curves."""

from __future__ import annotations

import math
from pathlib import Path
from types import TracebackType
from typing import Any

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)
from torch.utils.tensorboard import SummaryWriter

from asr.model import Losses

SMOOTHING = 0.97
PLAIN_EVERY = 100
"""Steps between progress lines where there is no terminal for a bar."""


class TrainingProgress:
    """Reports one training run; a silent one (`visible=False`) in all processes but the first."""

    def __init__(self, folder: Path, max_steps: int, step: int, console: Console, visible: bool) -> None:
        self._visible = visible
        self._console = console
        self._smooth: dict[str, float] = {}
        if visible:
            self._writer = SummaryWriter(str(folder / "tensorboard"), purge_step=step)
            self._bar = Progress(
                TextColumn("epoch {task.fields[epoch]}"),
                BarColumn(),
                MofNCompleteColumn(),
                TextColumn("{task.fields[status]}"),
                TimeElapsedColumn(),
                TextColumn("ETA"),
                TimeRemainingColumn(elapsed_when_finished=False),
                console=console,
                disable=not console.is_terminal,
            )
            self._task = self._bar.add_task("train", total=max_steps, completed=step, epoch=0, status="starting")

    def __enter__(self) -> TrainingProgress:
        if self._visible:
            self._bar.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._visible:
            self._bar.stop()
            self._writer.close()

    def update(
        self, step: int, losses: Losses, grad_norm: Any, lr: float, audio_s: float, wall_s: float, epoch: int
    ) -> None:
        """After an optimizer step: `audio_s` seconds of audio took `wall_s` seconds."""
        if not self._visible:
            return
        values = {name: float(value) for name, value in losses._asdict().items()}
        values |= {"grad_norm": float(grad_norm), "audio_hours_per_s": audio_s / wall_s / 3600}
        for name, value in values.items():
            if math.isfinite(value):
                self._smooth[name] = SMOOTHING * self._smooth.get(name, value) + (1 - SMOOTHING) * value
        status = (
            f"loss {self._smooth.get('total', math.nan):.3f} (ctc {self._smooth.get('ctc', math.nan):.3f}, "
            f"att {self._smooth.get('attention', math.nan):.3f})  lr {lr:.2e}  "
            f"{self._smooth['audio_hours_per_s']:.4f} h audio/s"
        )
        self._bar.update(self._task, completed=step, epoch=epoch, status=status)
        if step % PLAIN_EVERY == 0:
            if not self._console.is_terminal:
                self._console.print(f"epoch {epoch}  step {step}  {status}", soft_wrap=True)
            for name, value in values.items():
                self._writer.add_scalar(f"train/{name}", value, step)
            self._writer.add_scalar("train/lr", lr, step)

    def validated(self, step: int, rates: dict[str, float]) -> None:
        """Word error rates of a validation, by the name of the latency."""
        if not self._visible:
            return
        self._console.print(f"step {step}: WER " + ", ".join(f"{name} {rate:.1%}" for name, rate in rates.items()))
        for name, rate in rates.items():
            self._writer.add_scalar(f"valid/wer_{name}", rate, step)
