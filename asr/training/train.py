"""`asr train`: one process per device, dynamic chunk training, exact resume.

- Batches, what is drawn for them, chunk masks and dropout depend only on the seed, the epoch and the step. So a resumed
  run continues as if it had not stopped, and any number of processes that share the same batches trains the same model,
  up to rounding. With `train.minutes` the learning rate follows the clock.
- The loop reads values from the device only every `train.log_every` steps, so that it does not wait for it.
- Ctrl-C, SIGTERM or SIGHUP finishes the step, saves a checkpoint and prints how to resume. A checkpoint is also saved
  if messages or curves cannot be written, as in `asr train | head`.
- The moving average of the weights is validated and exported.
"""

from __future__ import annotations

import contextlib
import dataclasses
import os
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from rich.console import Console
from torch import Tensor

from asr.command import on_ending_signals
from asr.config import Config
from asr.cores import num_cores
from asr.data.speech import Clip, Speech, evenly_spread
from asr.evaluation.wer import WordErrors
from asr.lexicon.phones import PhoneTokenizer
from asr.model.model import AsrModel, with_vocab
from asr.tables import Refusal, print_left_out
from asr.tokenizer import Tokenizer
from asr.training.batches import Batches, Gathered, ahead
from asr.training.checkpoint import Checkpoint, check_shape, check_units, checkpoints, load_pretrained
from asr.training.cost import Flops, flops_per_s, memory_gb, peak_flops, synchronize
from asr.training.inputs import (
    absent_letters,
    check_letters,
    estimate_cmvn,
    hours_of_epoch,
    load_noise,
    load_phones,
    load_training_data,
    phone_denominator,
    scarcity,
    train_tokenizer,
)
from asr.training.plans import Planner
from asr.training.precision import autocast
from asr.training.pretrained import Pretrained, with_new_layers, with_new_units
from asr.training.progress import TrainingProgress
from asr.training.sounds import read_rooms
from asr.training.step import Learner
from asr.training.validate import VALIDATION_CHUNKS, validate

TRIAL_WARMUP = 3
"""Steps of a trial before its time is measured."""


class Trainer:
    """A training run: its state and its loop."""

    stopping = "stopping: this step is finished, then a checkpoint is saved"
    """Printed after Ctrl-C."""

    def __init__(self, config: Config, resume: bool, console: Console) -> None:
        self.config = config
        self.console = console
        self.world_size = int(os.environ.get("WORLD_SIZE", "1"))
        self.rank = int(os.environ.get("RANK", "0"))
        self.batches_per_step = batches_per_step(config, self.world_size)
        self.device = _device(config.train.device)
        if self.world_size > 1 and not dist.is_initialized():
            dist.init_process_group("cpu:gloo,cuda:nccl" if self.device.type == "cuda" else "gloo")
        self.folder = Path(config.train.output)
        self.folder.mkdir(parents=True, exist_ok=True)
        previous = self._find_previous(resume)
        if previous:
            self.config = config = self._with_init_of(previous)

        self.speech, shares, refused = load_training_data(config.data)
        hours = hours_of_epoch(self.speech, shares)
        self.print(f"{len(self.speech)} training utterances, {hours:.2f} hours in an epoch; {len(refused)} left out")
        self._name_left_out(refused)
        if warning := scarcity(hours, config.train.init):
            self.print(warning)
        self.valid = self._load_valid()
        if config.train.patience and not self.valid:
            self.print("data.valid is empty, so train.patience has no effect: training ends at train.max_steps")

        start: Checkpoint | Pretrained | None = previous
        if not previous and config.train.init:
            start = self._grown(load_pretrained(config.train.init))
        self.tokenizer = self._tokenizer_of(start)
        self.phone_tokenizer = self._phone_tokenizer_of(start)
        phones = self.phone_tokenizer.phones if self.phone_tokenizer else ()
        self.config = config = dataclasses.replace(config, model=dataclasses.replace(config.model, phones=phones))
        torch.manual_seed(config.train.seed)
        self.model = AsrModel(with_vocab(config.model, self.tokenizer.vocab_size))
        if start is None:
            self.model.encoder.set_cmvn(*estimate_cmvn(self.speech, config.train.seed))
        else:
            self._load_weights(start.weights)
        self.model.to(self.device)
        denominator = phone_denominator(config.loss, self.phone_tokenizer, self.speech.texts)
        denominator = denominator and denominator.to(self.device)
        self.learner = Learner(self.model, config, denominator, self.device, self.world_size)
        self.average, self.optimizer = self.learner.average, self.learner.optimizer
        noise = load_noise(config.data, config.train.seed)
        rooms = read_rooms(config.data.rooms, config.data.num_rooms, num_cores(), config.train.seed)
        self.planner = Planner(self.speech, shares, noise, len(rooms), config)
        self.batches = Batches(self.speech, noise, rooms, config, self.tokenizer, self.phone_tokenizer, self.device)
        self.step = 0
        self.epoch = self.batch = 0  # the next batch to read
        self.minutes = 0.0
        self.audio_hours = 0.0
        self.history: list[dict[str, Any]] = []
        if previous:
            self._restore(previous)
        self._stop = self._stalled = False
        self._resumed = time.monotonic()  # when this run would have begun without interruptions

    def _tokenizer_of(self, start: Checkpoint | Pretrained | None) -> Tokenizer:
        """Raises ValueError if `start` does not fit the configuration, or the transcripts have other letters."""
        config = self.config
        if start:
            tokenizer = start.tokenizer
            source = str(self.folder) if isinstance(start, Checkpoint) else config.train.init
            check_shape(start.config, config, source)
            check_units(start, config.tokenizer, source)
        else:
            if config.train.new_units:
                raise ValueError(
                    "train.new_units adds letters to the weights of train.init, which is empty: name weights there, "
                    "or leave out train.new_units, since a new model has all letters of data.train"
                )
            tokenizer = train_tokenizer(config.tokenizer, self.speech.texts)
            if absent := absent_letters(tokenizer):
                self.print(
                    f"no transcript has {absent}: this model will never write them; add utterances that have them"
                )
        check_letters(tokenizer, self.speech.texts)
        return tokenizer

    def _phone_tokenizer_of(self, start: Checkpoint | Pretrained | None) -> PhoneTokenizer | None:
        """None for training without phones. Raises ValueError if the lexicon lacks words of the transcripts."""
        phones = start.phones if start else ()
        lexicon = self.config.data.lexicon
        if lexicon == "bundled" and start and not phones:  # too little data to train a new phone head
            self.print("the weights to start from have no phone head: the model continues without phones")
            lexicon = ""
        elif phones and not lexicon:
            self.print("the phone head is dropped, because data.lexicon is empty; data.lexicon=bundled keeps it")
        transcripts = (*self.speech.texts, *(clip.text for clip in self.valid))
        return load_phones(lexicon, transcripts, phones) if lexicon else None

    def run(self) -> bool:
        """Trains until `train.max_steps`, `train.minutes` or an interruption, and saves; returns whether it was not
        interrupted.

        Saves also before it raises OSError, or SystemExit, which rich raises for a closed pipe."""
        config, precision = self.config.train, self.learner.precision
        if precision != config.precision:
            self.print(f"this CPU has no instructions for {config.precision}: training computes in {precision}")
        parameters = sum(p.numel() for p in self.model.parameters())
        self.print(
            f"{parameters / 1e6:.2f} M parameters, {self.tokenizer.vocab_size} {self.tokenizer.kind} units, "
            f"{self.world_size} x {self.device.type}, {precision}, batches per step: {self.batches_per_step}"
        )
        with on_ending_signals(self._request_stop):
            try:
                with TrainingProgress(
                    self.folder, config, self.step, self.console, self.rank == 0, self._flops()
                ) as progress:
                    self._resumed = time.monotonic() - 60 * self.minutes
                    while not self._is_over():
                        self._run_epoch(progress)
                    is_validated = bool(self.history) and self.history[-1]["step"] == self.step
                    if self.valid and not self._stop and not is_validated:
                        self._validate(progress)
                self.save()
            except (OSError, SystemExit):
                self.save()
                raise
        if self._stalled:
            self.print(f"no improvement in {config.patience} validations: done; the best weights are in best.pt")
        return not self._stop

    def _run_epoch(self, progress: TrainingProgress) -> None:
        config = self.config.train
        for own in ahead(self._steps()):
            stats, lr = self.learner([self.batches(each) for each in own], self.step + 1, self._time_share())
            self.step += 1
            self.batch += self.batches_per_step
            audio_s = sum(each.plan.seconds for each in own) * self.world_size
            self.audio_hours += audio_s / 3600
            progress.update(self.step, self.epoch, stats, lr, audio_s, self._share())
            if self.step % config.log_every == 0:
                self.learner.require_finite(self.step)
            if self.step % config.valid_every == 0 and self.valid:
                self._validate(progress)
            if self.step % config.save_every == 0:
                self.save()
            if self._is_over():
                return
        self.epoch, self.batch = self.epoch + 1, 0

    def _steps(self) -> Iterator[list[Gathered]]:
        """The batches of this process for each step of the rest of the epoch. Batches at the end of an epoch that do
        not fill a step are skipped; they differ per epoch."""
        epoch, size = self.epoch, self.batches_per_step
        planned = self.planner.epoch(epoch)
        if len(planned) < size:
            raise ValueError(
                f"an epoch has {len(planned)} batches, fewer than one step takes, {size}; "
                "lower data.max_batch_s, train.batches_per_step or the number of processes"
            )
        for first in range(self.batch, len(planned) - size + 1, size):
            numbers = range(first + self.rank, first + size, self.world_size)
            yield [self.batches.gather(self.planner.plan(epoch, n, planned[n])) for n in numbers]

    def _flops(self) -> Flops:
        """The operations of this training, and the rate of the devices."""
        seconds = self.speech.seconds / len(self.speech)
        peak = peak_flops(self.device, self.learner.precision)
        return Flops(flops_per_s(self.config, seconds), peak * self.world_size)

    def trial(self, num_steps: int) -> None:
        """Takes steps, of which the first has the largest batch, and prints memory, time and what all steps will take.
        Saves nothing."""
        planned = self.planner.epoch(self.epoch)
        order = sorted(range(len(planned)), key=lambda n: -planned[n].frames * len(planned[n].rows))[:1]
        order += [n for n in range(len(planned)) if n not in order][: num_steps * self.batches_per_step]
        plans = [self.planner.plan(self.epoch, n, planned[n]) for n in order]
        seconds, audio_s = 0.0, 0.0
        for step, gathered in enumerate(ahead(map(self.batches.gather, plans)), 1):
            began = time.monotonic()
            self.learner([self.batches(gathered)], step)
            synchronize(self.device)
            if step > TRIAL_WARMUP:
                seconds, audio_s = seconds + time.monotonic() - began, audio_s + gathered.plan.seconds
        speed, flops = audio_s / max(seconds, 1e-9), self._flops()
        per_step = audio_s / max(len(plans) - TRIAL_WARMUP, 1) * self.batches_per_step
        hours = per_step * self.config.train.max_steps / 3600
        self.print(
            f"{memory_gb(self.device):.1f} GB; {speed:.3g}x real time, {speed * flops.per_s / flops.peak:.0%} of the "
            f"{flops.peak / 1e12:.3g} TFLOP/s that the device multiplies in {self.learner.precision}\n"
            f"all {self.config.train.max_steps} steps: {hours:.1f} h of audio, {hours / max(speed, 1e-9):.1f} h"
        )

    def _time_share(self) -> float | None:
        """Completed share of `train.minutes` in [0, 1]; None without it."""
        minutes = self.config.train.minutes
        return min(1.0, self.minutes / minutes) if minutes else None

    def _share(self) -> float:
        """Completed share of the training in [0, 1]."""
        by_time = self._time_share()
        return self.step / self.config.train.max_steps if by_time is None else by_time

    def _is_over(self) -> bool:
        return self._agreed_to_stop() or self._stalled or self._share() >= 1

    def _validate(self, progress: TrainingProgress) -> None:
        started = time.monotonic()
        model = self.learner.averaged()
        share = self.valid[self.rank :: self.world_size]
        with autocast(self.learner.precision, self.device):
            errors = validate(
                model, self.tokenizer, share, self.config.data.max_batch_s, self.device, self.phone_tokenizer
            )
        counts = torch.tensor([[getattr(e, n) for n in e.__dataclass_fields__] for e in errors.values()])
        if self.world_size > 1:
            dist.all_reduce(counts)
        rates = {name: WordErrors(*c).rate for name, c in zip(errors, counts.tolist(), strict=True)}
        self.history.append({"step": self.step, "audio_hours": self.audio_hours, "wer": rates})
        unit = "PER" if self.phone_tokenizer else "WER"
        took_s = time.monotonic() - started
        self._resumed += took_s  # the minutes are those of training
        progress.validated(self.step, rates, took_s, unit)
        judged = 0 if self.config.chunk.full_probability == 1 else 1  # chunks must be trained first
        past = [h["wer"][VALIDATION_CHUNKS[judged][0]] for h in self.history]
        best = past.index(min(past))
        if best == len(past) - 1 and self.rank == 0:
            self._checkpoint().save(self.folder / "best.pt")
        self._stalled = 0 < self.config.train.patience <= len(past) - 1 - best

    def save(self) -> None:
        """Writes the checkpoint of this step and removes the oldest beyond `train.keep_checkpoints`."""
        if self.rank == 0:
            self._checkpoint().save_step(self.folder, self.config.train.keep_checkpoints)

    def _checkpoint(self) -> Checkpoint:
        training = {
            "step": self.step,
            "epoch": self.epoch,
            "batch": self.batch,
            "minutes": self.minutes,
            "world_size": self.world_size,
            "audio_hours": self.audio_hours,
            "history": self.history,
            "average_updates": self.average.num_updates,
            "optimizer": self.optimizer.state_dict(),
        }
        return Checkpoint(self.config, self.tokenizer, self.model.state_dict(), self.average.weights, training)

    def _restore(self, checkpoint: Checkpoint) -> None:
        state = checkpoint.training
        self.average.weights = {name: value.to(self.device) for name, value in checkpoint.average.items()}
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
        self.step, self.audio_hours, self.history = state["step"], state["audio_hours"], state["history"]
        self.epoch, self.batch, self.minutes = state["epoch"], state["batch"], state["minutes"]
        self.print(f"resuming at step {self.step}, {self.audio_hours:.1f} hours of audio seen")

    def _find_previous(self, resume: bool) -> Checkpoint | None:
        found = checkpoints(self.folder)
        if found and not resume:
            raise ValueError(
                f"{self.folder} has a training run (step {found[-1].stem.split('-')[1]}): "
                "add --resume to continue, or choose another train.output"
            )
        if resume and not found:  # allowed, because scripts also pass --resume to the first run
            self.print(f"no checkpoint in {self.folder}: training starts from the beginning")
        return Checkpoint.load(found[-1]) if found else None

    def _with_init_of(self, previous: Checkpoint) -> Config:
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

    def _load_valid(self) -> list[Clip]:
        config = self.config.data
        parts = []
        for name in config.valid:
            kept, refused = Speech.load(name).usable(0.0, config.max_batch_s)
            parts.append(kept)
            self._name_left_out(refused, " of validation")
        return evenly_spread(Speech.joined(parts), config.valid_utterances)

    def _name_left_out(self, refusals: Sequence[Refusal], where: str = "") -> None:
        if self.rank == 0:
            print_left_out(self.console, refusals, where=where)

    def _load_weights(self, weights: dict[str, Tensor]) -> None:
        """Loads `weights`. A missing phone head keeps its random weights, a missing running mean its zeros; a phone
        head that is not trained is dropped."""
        differing = {name for keys in self.model.load_state_dict(weights, strict=False) for name in keys}
        if others := sorted(name for name in differing if not name.startswith(("phone_ctc.", "encoder.speaker."))):
            raise ValueError(f"the weights do not fit the configuration: {', '.join(others)}")

    def _grown(self, pretrained: Pretrained) -> Pretrained:
        """`pretrained` with the configured number of encoder layers, if that is larger, and with units for new letters
        if `train.new_units` is set."""
        had, wanted = pretrained.config.model.encoder_layers, self.config.model.encoder_layers
        if wanted > had:
            self.print(f"the encoder grows from {had} to {wanted} layers")
            pretrained = with_new_layers(pretrained, wanted)
        letters = pretrained.tokenizer.unknown_letters(self.speech.texts) if self.config.train.new_units else None
        if letters:
            self.print(f"new units: {' '.join(sorted(letters))}")
            torch.manual_seed(self.config.train.seed)
            pretrained = with_new_units(pretrained, sorted(letters))
        return pretrained

    def _request_stop(self, *_: object) -> None:
        was_asked, self._stop = self._stop, True
        if not was_asked:
            with contextlib.suppress(OSError, SystemExit):  # the terminal, or `tee` in a pipe, may be gone
                self.print(self.stopping)

    def _agreed_to_stop(self) -> bool:
        """Updates the time; whether any process was asked to stop. All must leave the loop at the same step."""
        self.minutes = (time.monotonic() - self._resumed) / 60
        if self.world_size > 1:
            # On the CPU, to avoid waiting for a GPU.
            agreed = torch.tensor([float(self._stop), self.minutes], dtype=torch.float64)
            dist.all_reduce(agreed, dist.ReduceOp.MAX)
            self.minutes = float(agreed[1])
            if not agreed[0]:
                return False  # if this process was asked since, the others learn of it the next time
            self._stop = True
        return self._stop

    def print(self, text: str) -> None:
        """Prints in the first process only."""
        if self.rank == 0:
            self.console.print(text, markup=False, soft_wrap=True)


def batches_per_step(config: Config, world_size: int) -> int:
    """Number of batches of a step over all processes. Raises ValueError if they cannot be split among them."""
    number = config.train.batches_per_step or world_size
    if number % world_size:
        more = -(-number // world_size) * world_size
        batch_s = max(config.data.max_batch_s * number / more, config.data.max_utterance_s)
        fewer = ", ".join(str(count) for count in range(1, number + 1) if number % count == 0)
        raise ValueError(
            f"train.batches_per_step = {number} batches cannot be split evenly among {world_size} processes: take "
            f"train.batches_per_step={more} data.max_batch_s={batch_s:g}, for the same audio in a step, or one of "
            f"these numbers of processes: {fewer}"
        )
    return number


def _device(name: str) -> torch.device:
    if name == "cuda" and not torch.cuda.is_available():
        raise ValueError("train.device = 'cuda', but PyTorch finds no CUDA device; use cpu or auto")
    if name == "cpu" or not torch.cuda.is_available():
        return torch.device("cpu")
    device = torch.device("cuda", int(os.environ.get("LOCAL_RANK", "0")))
    torch.cuda.set_device(device)
    return device


def trial(config: Config, num_steps: int, console: Console) -> int:
    """Entry of `asr train --trial`."""
    with tempfile.TemporaryDirectory(prefix="asr-train-") as folder:
        train = dataclasses.replace(config.train, output=folder)
        with _memory_named(config):
            Trainer(dataclasses.replace(config, train=train), False, console).trial(num_steps)
    return 0


@contextlib.contextmanager
def _memory_named(config: Config) -> Iterator[None]:
    """Raises ValueError with a remedy where a batch does not fit into the memory of a GPU."""
    try:
        yield
    except torch.OutOfMemoryError as error:
        raise ValueError(
            f"a batch does not fit into the memory: lower data.max_batch_s = {config.data.max_batch_s:g} "
            "with a larger train.batches_per_step, and continue with --resume"
        ) from error


def train(config: Config, resume: bool, console: Console) -> int:
    """Trains, and prints what to do next. Returns the exit status of `asr train`."""
    try:
        with _memory_named(config):
            trainer = Trainer(config, resume, console)
            is_complete = trainer.run()
        if is_complete:
            folder = config.train.output
            trainer.print(
                f"saved in {folder}; next: asr evaluate {folder} --data DATA, asr export {folder} -o model.onnx"
            )
        else:
            trainer.print(f"interrupted at step {trainer.step}, saved; continue with the same command and --resume")
        # For scripts that continue only after success. torchrun would restart the processes after another status.
        return 0 if is_complete or dist.is_initialized() else 130
    finally:
        if dist.is_initialized():
            dist.destroy_process_group()
