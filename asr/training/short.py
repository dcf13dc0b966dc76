"""Training of language models and punctuation: options, reports and progress bar."""

from __future__ import annotations

import signal
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

from asr.command import on_ending_signals

PLAIN_EVERY = 100
"""Steps between two progress lines, without a terminal."""
SPEED_S = 600.0
"""Seconds of recent steps for estimating the remaining time; long enough for one report per minute."""


MAX_SKIPPED = 20
"""Consecutive steps with a non-finite gradient after which a training ends with an error."""


class TrainingError(ValueError):
    """A training that cannot go on, such as one whose gradients are no longer finite."""


@dataclass(frozen=True)
class TrainOptions:
    steps: int
    """Steps of the whole training, over all its sessions; its schedule ends there."""
    rows: int
    """Rows of a batch."""
    length: int
    """Units per row: word pieces, or words and the special units around them."""
    lr: float
    save_every: int
    """Steps between checkpoints and held-out scores."""
    seed: int = 0


@dataclass(frozen=True)
class Report:
    """The argument of `on_step`."""

    step: int
    share: float
    """Completed share of the training, in [0, 1]."""
    loss: float
    units_per_s: float
    """Word pieces or words."""


class TrainBar:
    """The progress of a training run: a bar in a terminal, otherwise a line every `PLAIN_EVERY` steps.

    In its context, SIGTERM and SIGHUP act like Ctrl-C, so that the training is saved.
    share: completed share of the training before this session.
    """

    def __init__(self, console: Console, unit: str, share: float = 0.0) -> None:
        self._console = console
        self._unit = unit
        self._bar = Progress(
            TextColumn("step {task.fields[step]}"),
            BarColumn(),
            TextColumn("{task.percentage:.0f} %  loss {task.fields[loss]}  {task.fields[speed]} " + f"{unit}/s"),
            TimeRemainingColumn(),
            console=console,
            speed_estimate_period=SPEED_S,
            disable=not console.is_terminal,
        )
        self._task = self._bar.add_task("train", total=1.0, step=0, loss="", speed="")
        self._bar.tasks[self._task].completed = share  # `update` would count it as speed
        self._opened = ExitStack()

    def __enter__(self) -> TrainBar:
        self._opened.enter_context(on_ending_signals(signal.default_int_handler))
        self._opened.enter_context(self._bar)
        return self

    def __exit__(self, *_: object) -> None:
        self._opened.close()

    def step(self, report: Report) -> None:
        values: dict[str, Any] = {
            "step": report.step,
            "loss": f"{report.loss:.3f}",
            "speed": f"{report.units_per_s:.0f}",
        }
        self._bar.update(self._task, completed=report.share, **values)
        if not self._console.is_terminal and report.step % PLAIN_EVERY == 0:
            line = "step {step}  loss {loss}  {speed} ".format(**values)
            self._console.print(f"{line}{self._unit}/s  {report.share:.0%} done", highlight=False)

    def scores(self, step: int, name: str, scores: object) -> None:
        self._console.print(f"step {step}: {name}: {scores}", highlight=False, soft_wrap=True)
