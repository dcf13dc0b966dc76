"""A trainer made from the arguments of `asr train`."""

from __future__ import annotations

from pathlib import Path

from rich.console import Console

from asr.config import TrainConfig
from asr.recipe import load_recipe
from asr.training.progress import TrainingProgress
from asr.training.recognizer import Recognizer
from asr.training.train import Trainer


def new_trainer(arguments: list[str]) -> Trainer:
    return Trainer(load_recipe(arguments[1], arguments[2:]), False, Console())


def progress_of(
    folder: Path, log_every: int, console: Console, step: int = 0, visible: bool = True
) -> TrainingProgress:
    """The progress of a recognizer on a device that trains on 500 s of audio a second."""
    return TrainingProgress(folder, TrainConfig(log_every=log_every), step, console, visible, Recognizer.unit, 2e-3)


def recognizer(trainer: Trainer) -> Recognizer:
    assert isinstance(trainer.task, Recognizer)
    return trainer.task


def become(trainer: Trainer, rank: int, world_size: int) -> None:
    """Makes `trainer` one of several processes."""
    trainer.job = trainer.job._replace(rank=rank, world_size=world_size)
    recognizer(trainer)._job = trainer.job
