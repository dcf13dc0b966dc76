"""What `asr train` trains: a task gives the network, its batches, its losses and its scores to the one loop.

The recognizer, the neural language model and the punctuation network are tasks. The loop (asr.training.train) does the
rest: processes, optimizer, moving average, checkpoints, time, progress, the end.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from itertools import count
from pkgutil import resolve_name
from typing import Any, ClassVar, NamedTuple, Protocol

import torch
from rich.console import Console
from torch import Tensor, nn

from asr.config import Recipe
from asr.tokenizer import Tokenizer


class Job(NamedTuple):
    """A process of a training run."""

    device: torch.device
    rank: int
    world_size: int
    batches_per_step: int
    """Over all processes."""
    console: Console
    """Silent in all processes but the first."""

    def own(self, first: int) -> range:
        """The batches of this process in the step whose first batch has the number `first`."""
        return range(first + self.rank, first + self.batches_per_step, self.world_size)

    def print(self, text: str) -> None:
        self.console.print(text, markup=False, highlight=False, soft_wrap=True)


class Batch(Protocol):
    """A batch on its device; a named tuple of each task."""

    @property
    def seed(self) -> int:
        """Random seed of dropout."""

    @property
    def divisor(self) -> Tensor:
        """The numbers by which the losses are divided, of any shape; summed over the batches of a step."""


class Step(NamedTuple):
    """The batches of an optimizer step."""

    gathered: list[Any]
    """What the host has read for each batch of this process."""
    amount: float
    """How much this process trains on, in units of `Task.unit`."""
    place: dict[str, int]
    """Where the next step begins."""
    name: str = ""
    """The part of the training that it belongs to, such as "epoch 3"."""


class Unit(NamedTuple):
    """What the amount of training is counted in."""

    name: str
    """Key of the amount in summaries, such as audio_hours."""
    size: float
    """Amounts of `Step.amount` in one of it, such as 3600 s."""
    shown: str
    """As in "12.5 h of audio": the text after the number."""
    speed: str
    """The text after the number of amounts per second, such as "x real time"."""


class Scores(NamedTuple):
    """The result of a validation. Lower is better."""

    name: str
    """What is scored, such as WER."""
    values: dict[str, float]
    judged: float
    """The value that chooses the best weights."""
    style: str = ".1%"
    """Format of the values."""


class Task(ABC):
    """A network to train. Its constructor reads the data.

    Attributes:
        unit: what the amount of training is counted in.
        config: the recipe, completed with what depends on the data.
        network: on the device.
        tokenizer: None if the task has none.
        extra: plain values that belong to the network, stored in each checkpoint.
        flops_per_unit: operations of training per amount of 1.
        is_scored: whether there is data to validate on.
        advice: what to do with the folder of a complete run; `{}` stands for it.
    """

    unit: ClassVar[Unit]
    advice: ClassVar[str]
    config: Recipe
    network: nn.Module
    tokenizer: Tokenizer | None = None
    extra: dict[str, Any]
    flops_per_unit: float
    is_scored: bool

    @staticmethod
    @abstractmethod
    def build(config: Any, tokenizer: Any) -> nn.Module:
        """The network that a recipe describes, with random weights. tokenizer: None if the task has none."""

    @abstractmethod
    def losses(self) -> nn.Module:
        """A module whose call (batch, step, divisor) computes a named tuple of scalar losses, float32, of which `total`
        is the first."""

    @abstractmethod
    def steps(self, place: dict[str, int]) -> Iterator[Step]:
        """All steps from `place`, an empty dictionary at the beginning, on. It depends on nothing but the seed and the
        place, and runs in a thread."""

    @abstractmethod
    def batch(self, gathered: Any) -> Batch:
        """A batch on the device."""

    @abstractmethod
    def score(self, network: Any) -> Scores:
        """Validates `network`; equal in all processes."""

    def trial(self) -> Iterator[Step]:
        """Steps of a trial, which have one batch each, and the largest first."""
        for step in self.steps({}):
            yield step._replace(gathered=step.gathered[:1], amount=step.amount / len(step.gathered))


class TextTask(Task):
    """A task whose batches have `data.rows` rows of `data.length` pieces or words and are drawn by their number."""

    def __init__(self, config: Recipe, job: Job) -> None:
        config.data.require_text()
        self.config, self._job = config, job
        self.flops_per_unit = self.flops(config)

    @staticmethod
    @abstractmethod
    def flops(config: Any) -> float:
        """`flops_per_unit` of a recipe."""

    @abstractmethod
    def draw(self, number: int) -> Any:
        """What the host reads for batch `number`, counted from 0 over the whole training."""

    def steps(self, place: dict[str, int]) -> Iterator[Step]:
        data, size = self.config.data, self._job.batches_per_step
        for first in count(place.get("batch", 0), size):
            own = [self.draw(number) for number in self._job.own(first)]
            yield Step(own, float(data.rows * data.length * len(own)), {"batch": first + size})


def task_class(config: Recipe) -> type[Task]:
    """The task that trains with a recipe."""
    found: type[Task] = resolve_name(config.TASK)
    return found


def build_network(config: Recipe, tokenizer: Tokenizer | None) -> nn.Module:
    """The network of a recipe, with random weights. Raises ValueError if it needs a tokenizer and there is none."""
    if hasattr(config, "tokenizer") and tokenizer is None:
        raise ValueError(f"a network of the task {config.task} needs a tokenizer, and there is none")
    return task_class(config).build(config, tokenizer)
