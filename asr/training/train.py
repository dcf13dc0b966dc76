"""The one training loop: one process per device, exact resume, and an end by steps, by time or by a signal.

- What is drawn depends only on the seed and the place in the data. So a resumed run continues as if it had not stopped.
  With `train.minutes` the learning rate follows the clock.
- The loop reads values from the device only every `train.log_every` steps, so that it does not wait for it.
- Ctrl-C, SIGTERM or SIGHUP finishes the step, saves a checkpoint and prints how to resume. A checkpoint is also saved
  if messages or curves cannot be written, as in `asr train | head`.
- The moving average of the weights is validated and exported.
"""

from __future__ import annotations

import contextlib
import dataclasses
import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from rich.console import Console
from torch import nn

from asr.command import on_ending_signals
from asr.config import Recipe
from asr.evaluation.plots import plot_scores
from asr.training.batches import ahead
from asr.training.checkpoint import Checkpoint, checkpoints
from asr.training.compiled import is_compiled
from asr.training.cost import peak_flops, synchronize
from asr.training.precision import autocast
from asr.training.progress import TrainingProgress
from asr.training.step import Learner, TrainingError
from asr.training.task import Job, Scores, Task, task_class


class Trainer:
    """A training run: its state and its loop."""

    stopping = "stopping: this step is finished, then a checkpoint is saved"
    """Printed after Ctrl-C."""

    def __init__(self, config: Recipe, resume: bool, console: Console) -> None:
        world_size = int(os.environ.get("WORLD_SIZE", "1"))
        size = batches_per_step(config, world_size)
        device = _device(config.train.device)
        if world_size > 1 and not dist.is_initialized():
            dist.init_process_group("cpu:gloo,cuda:nccl" if device.type == "cuda" else "gloo")
        rank = int(os.environ.get("RANK", "0"))
        self.job = Job(device, rank, world_size, size, console if rank == 0 else Console(quiet=True))
        self.config = config
        self.folder = Path(config.train.output)
        self.folder.mkdir(parents=True, exist_ok=True)
        previous = self._find_previous(resume)
        if previous:
            self.config = self._with_init_of(previous)
        self.task: Task = task_class(config)(self.config, previous, self.job)  # type: ignore[call-arg]
        self.config = self.task.config
        if config.train.patience and not self.task.is_scored:
            self.job.print("there is nothing to validate on, so train.patience has no effect")
        self.learner = Learner(self.task.network, self.task.losses(), self.config, device, world_size)
        self.average, self.optimizer = self.learner.average, self.learner.optimizer
        self.step = 0
        self.place: dict[str, int] = {}  # of the next batch to read
        self.minutes = 0.0
        self.amount = 0.0
        self.history: list[dict[str, Any]] = []
        if previous:
            self._restore(previous)
        self._stop = False
        self._resumed = time.monotonic()  # when this run would have begun without interruptions

    def run(self) -> bool:
        """Trains until `train.max_steps`, `train.minutes` or an interruption, and saves; returns whether it was not
        interrupted.

        After the first step, it also saves before it raises OSError, ValueError but for TrainingError, or SystemExit,
        which rich raises for a closed pipe."""
        config, task, precision = self.config.train, self.task, self.learner.precision
        if precision != config.precision:
            self.job.print(f"this CPU has no instructions for {config.precision}: training computes in {precision}")
        parameters = sum(p.numel() for p in task.network.parameters())
        tokens = f"{task.tokenizer.vocab_size} {task.tokenizer.kind} tokens, " if task.tokenizer else ""
        self.job.print(
            f"{parameters / 1e6:.2f} M parameters, {tokens}{self.job.world_size} x {self.job.device.type}, "
            f"{precision}, batches per step: {self.job.batches_per_step}"
        )
        share_of_peak = task.flops_per_unit / (peak_flops(self.job.device, precision) * self.job.world_size)
        report = (self.folder, config, self.step, self.job.console, self.job.rank == 0, task.unit, share_of_peak)
        with on_ending_signals(self._request_stop):
            try:
                with TrainingProgress(*report) as progress:
                    self._resumed = time.monotonic() - 60 * self.minutes
                    self._run_steps(progress)
                    is_validated = bool(self.history) and self.history[-1]["step"] == self.step
                    if task.is_scored and not is_validated and not self._agreed_to_stop():
                        self._validate(progress)
                self.save()
            except (OSError, SystemExit, ValueError) as error:
                if self.step and not isinstance(error, TrainingError):
                    self.save()
                raise
        if self._is_stalled():
            self.job.print(f"no improvement in {config.patience} validations: done; the best weights are in best.pt")
        return not self._stop

    def _run_steps(self, progress: TrainingProgress) -> None:
        config = self.config.train
        if self._is_over():
            return
        compiles = is_compiled(self.job.device)
        for own in ahead(self.task.steps(self.place)):
            began = time.monotonic()
            batches = [self.task.batch(each) for each in own.gathered]
            stats, lr = self.learner(batches, self.step + 1, self._time_share())
            if compiles:
                synchronize(self.job.device)
                self._resumed += time.monotonic() - began  # the minutes are those of training
                compiles = False
            self.step += 1
            self.place = own.place
            amount = own.amount * self.job.world_size
            self.amount += amount
            progress.update(self.step, own.name, stats, lr, amount, self._share())
            if self.step % config.log_every == 0:
                self.learner.require_finite(self.step)
            if self.step % config.valid_every == 0 and self.task.is_scored:
                self._validate(progress)
            if self.step % config.save_every == 0:
                self.save()
            if self._is_over():
                return

    def _time_share(self) -> float | None:
        """Completed share of `train.minutes` in [0, 1]; None without it."""
        minutes = self.config.train.minutes
        return min(1.0, self.minutes / minutes) if minutes else None

    def _share(self) -> float:
        """Completed share of the training in [0, 1]."""
        by_time = self._time_share()
        return self.step / self.config.train.max_steps if by_time is None else by_time

    def _is_over(self) -> bool:
        return self._agreed_to_stop() or self._is_stalled() or self._share() >= 1

    def _is_stalled(self) -> bool:
        """Whether the last `train.patience` validations brought no improvement."""
        past = [each["judged"] for each in self.history]
        return bool(past) and 0 < self.config.train.patience <= len(past) - 1 - past.index(min(past))

    def averaged(self) -> nn.Module:
        """A new network with the moving average of the weights, on the device and in evaluation mode."""
        network: nn.Module = self._checkpoint().network().to(self.job.device)
        return network

    def _validate(self, progress: TrainingProgress) -> None:
        started = time.monotonic()
        with autocast(self.learner.precision, self.job.device):
            scores = self.task.score(self.averaged())
        amount = self.amount / self.task.unit.size
        self.history.append({"step": self.step, "amount": amount, **scores._asdict()})
        past = [each["judged"] for each in self.history]
        if past.index(min(past)) == len(past) - 1 and self.job.rank == 0:  # before the output, which may fail
            self._checkpoint().save(self.folder / "best.pt")
        if self.job.rank == 0:
            self._draw(scores)
        took_s = time.monotonic() - started
        self._resumed += took_s  # the minutes are those of training
        progress.validated(self.step, scores, took_s)

    def _draw(self, scores: Scores) -> None:
        """Writes the scores of all validations against the amount of training as an image."""
        factor = 100 if scores.style.endswith("%") else 1
        curves = {
            name: [(row["amount"], factor * row["values"][name]) for row in self.history if name in row["values"]]
            for name in scores.values
        }
        score = f"{scores.name} in %" if factor > 1 else scores.name
        plot_scores(curves, self.folder / "scores.png", self.task.unit.shown, score)

    def save(self) -> None:
        """Writes the checkpoint of this step and removes the oldest beyond `train.keep_checkpoints`."""
        if self.job.rank == 0:
            self._checkpoint().save_step(self.folder, self.config.train.keep_checkpoints)

    def _checkpoint(self) -> Checkpoint:
        training = {
            "step": self.step,
            "place": self.place,
            "minutes": self.minutes,
            "world_size": self.job.world_size,
            self.task.unit.name: self.amount / self.task.unit.size,
            "history": self.history,
            "average_updates": self.average.num_updates,
            "optimizer": self.optimizer.state_dict(),
        }
        weights = self.task.network.state_dict()
        return Checkpoint(self.config, self.task.tokenizer, weights, self.average.weights, training, self.task.extra)

    def _restore(self, checkpoint: Checkpoint) -> None:
        state, unit = checkpoint.training, self.task.unit
        self.average.weights = {name: value.to(self.job.device) for name, value in checkpoint.average.items()}
        self.average.num_updates = state["average_updates"]
        if checkpoint.config.optim.kind != self.config.optim.kind:
            kind = checkpoint.config.optim.kind
            raise ValueError(
                f"{self.folder} was trained with optim.kind={kind}: keep it, or start a new run with train.init"
            )
        chosen = [{k: v for k, v in group.items() if k != "params"} for group in self.optimizer.param_groups]
        self.optimizer.load_state_dict(state["optimizer"])
        for group, values in zip(self.optimizer.param_groups, chosen, strict=True):
            group.update(values)  # values of this configuration, such as weight decay
        self.step, self.place, self.history = state["step"], state["place"], state["history"]
        self.minutes, self.amount = state["minutes"], state[unit.name] * unit.size
        self.job.print(f"resuming at step {self.step}, after {self.amount / unit.size:,.4g} {unit.shown}")

    def _find_previous(self, resume: bool) -> Checkpoint | None:
        found = checkpoints(self.folder)
        if found and not resume:
            raise ValueError(
                f"{self.folder} has a training run (step {found[-1].stem.split('-')[1]}): "
                "add --resume to continue, or choose another train.output"
            )
        if resume and not found:  # allowed, because scripts also pass --resume to the first run
            self.job.print(f"no checkpoint in {self.folder}: training starts from the beginning")
        return Checkpoint.load(found[-1]).of(type(self.config), found[-1]) if found else None

    def _with_init_of(self, previous: Checkpoint) -> Recipe:
        """The configuration, with `train.init` of the run that it continues. Raises ValueError if it names other
        weights, because a run that has begun would not load them."""
        wanted, former = self.config.train.init, previous.config.train.init
        if wanted not in ("", former):
            raise ValueError(
                f"train.init = {wanted!r} cannot be loaded into {self.folder}, a run that began with "
                f"train.init={former!r}: give that to continue it, or choose another train.output to start from "
                f"{wanted!r}"
            )
        return dataclasses.replace(self.config, train=dataclasses.replace(self.config.train, init=former))

    def _request_stop(self, *_: object) -> None:
        was_asked, self._stop = self._stop, True
        if not was_asked:
            with contextlib.suppress(OSError, SystemExit):  # the terminal, or `tee` in a pipe, may be gone
                self.job.print(self.stopping)

    def _agreed_to_stop(self) -> bool:
        """Updates the time; whether any process was asked to stop. All must leave the loop at the same step."""
        self.minutes = (time.monotonic() - self._resumed) / 60
        if self.job.world_size > 1:
            # On the CPU, to avoid waiting for a GPU.
            agreed = torch.tensor([float(self._stop), self.minutes], dtype=torch.float64)
            dist.all_reduce(agreed, dist.ReduceOp.MAX)
            self.minutes = float(agreed[1])
            if not agreed[0]:
                return False  # if this process was asked since, the others learn of it the next time
            self._stop = True
        return self._stop


def batches_per_step(config: Recipe, world_size: int) -> int:
    """Number of batches of a step over all processes. Raises ValueError if they cannot be split among them."""
    number = config.train.batches_per_step or world_size
    if number % world_size:
        more = -(-number // world_size) * world_size
        name, size = config.batch
        fewer = ", ".join(str(count) for count in range(1, number + 1) if number % count == 0)
        raise ValueError(
            f"train.batches_per_step = {number} batches cannot be split evenly among {world_size} processes: take "
            f"train.batches_per_step={more} {name}={size * number / more:g}, for as much in a step, or one of "
            f"these numbers of processes: {fewer}"
        )
    return number


def _device(name: str) -> torch.device:
    if name == "cuda" and not torch.cuda.is_available():
        raise ValueError("train.device = 'cuda', but PyTorch finds no CUDA device; use cpu or auto")
    if name == "cpu" or not torch.cuda.is_available():
        return torch.device("cpu")
    number, count = int(os.environ.get("LOCAL_RANK", "0")), torch.cuda.device_count()
    if number >= count:
        raise ValueError(f"process {number} has no GPU, because there are {count}; set --nproc_per_node={count}")
    device = torch.device("cuda", number)
    torch.cuda.set_device(device)
    return device


@contextlib.contextmanager
def memory_named(config: Recipe) -> Iterator[None]:
    """Raises ValueError with a remedy where a batch does not fit into the memory of a GPU."""
    try:
        yield
    except torch.OutOfMemoryError as error:
        name, size = config.batch
        raise ValueError(
            f"a batch does not fit into the memory: lower {name} = {size:g} "
            "with a larger train.batches_per_step, and continue with --resume"
        ) from error


def train(config: Recipe, resume: bool, console: Console) -> int:
    """Trains, and prints what to do next. Returns the exit status of `asr train`."""
    try:
        with memory_named(config):
            trainer = Trainer(config, resume, console)
            is_complete = trainer.run()
        if is_complete:
            folder = config.train.output
            trainer.job.print(f"saved in {folder}; next: {trainer.task.advice.replace('{}', folder)}")
        else:
            trainer.job.print(f"interrupted at step {trainer.step}, saved; continue with the same command and --resume")
        # For scripts that continue only after success. torchrun would restart the processes after another status.
        return 0 if is_complete or dist.is_initialized() else 130
    finally:
        if dist.is_initialized():
            dist.destroy_process_group()
