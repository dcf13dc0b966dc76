"""`asr train`: one process per device, dynamic chunk training, exact resume.

- Batches, chunk masks and dropout of a step depend only on (seed, step). So a resumed run continues as if it had not
  stopped, and any number of processes that share the same batches trains the same model, up to rounding.
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
from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from rich.console import Console
from torch import Tensor

from asr.command import on_ending_signals
from asr.config import Config
from asr.data.batches import Batch, BatchSampler, Position, SpeechDataset, batches, batches_per_step, load_training_cuts
from asr.data.cuts import evenly_spread, read_all, usable_cuts
from asr.evaluation.wer import WordErrors
from asr.lexicon.phones import PhoneTokenizer
from asr.model.model import AsrModel, with_vocab
from asr.tables import Refusal, print_left_out
from asr.tokenizer import Tokenizer
from asr.training.checkpoint import Checkpoint, check_shape, check_units, checkpoints, load_pretrained
from asr.training.inputs import (
    absent_letters,
    check_letters,
    estimate_cmvn,
    load_phones,
    phone_denominator,
    scarcity,
    train_tokenizer,
)
from asr.training.precision import autocast
from asr.training.pretrained import Pretrained, with_new_layers, with_new_units
from asr.training.progress import TrainingProgress
from asr.training.step import Learner, num_views
from asr.training.validate import VALIDATION_CHUNKS, validate

MAX_UNREADABLE = (10, 0.05)
"""Training ends if more utterances than this number, and more than this share, could not be read."""


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

        self.parts, refused = load_training_cuts(config.data)
        self.print(f"{sum(len(c) for c, _ in self.parts)} training utterances; {len(refused)} left out")
        self._name_left_out(refused)
        if warning := scarcity(self.parts, config.train.init):
            self.print(warning)
        self.valid_cuts = self._load_valid_cuts()
        if config.train.patience and not self.valid_cuts:
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
            self.model.encoder.set_cmvn(*estimate_cmvn(self.parts, config.train.seed))
        else:
            self._load_weights(start.weights)
        self.model.to(self.device)
        denominator = phone_denominator(config.loss, self.phone_tokenizer, self._texts())
        denominator = denominator and denominator.to(self.device)
        self.learner = Learner(self.model, config, denominator, self.device, self.world_size)
        self.average, self.optimizer = self.learner.average, self.learner.optimizer
        self.step = 0
        self.position = Position()
        self.audio_hours = 0.0
        self.history: list[dict[str, Any]] = []
        if previous:
            self._restore(previous)
        self.num_views = num_views(config)
        self._unreadable: set[str] = set()
        self._num_seen = self._num_unreadable = 0
        self._stop = self._stalled = False

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
            tokenizer = train_tokenizer(config.tokenizer, self._texts())
            if absent := absent_letters(tokenizer):
                self.print(
                    f"no transcript has {absent}: this model will never write them; add utterances that have them"
                )
        check_letters(tokenizer, self._texts())
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
        transcripts = (*self._texts(), *(cut.supervisions[0].text for cut in self.valid_cuts))
        return load_phones(lexicon, transcripts, phones) if lexicon else None

    def run(self) -> bool:
        """Trains until `train.max_steps` or an interruption, and saves; returns whether it was not interrupted.

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
                    self.folder, config.max_steps, self.step, self.console, config.log_every, self.rank == 0
                ) as progress:
                    while self.step < config.max_steps and not (self._stalled or self._agreed_to_stop()):
                        self._run_epoch(progress)
                self.save()
            except (OSError, SystemExit):
                self.save()
                raise
        if self._stalled:
            self.print(f"no improvement in {config.patience} validations: done; the best weights are in best.pt")
        return not self._stop

    def _run_epoch(self, progress: TrainingProgress) -> None:
        config = self.config
        sampler = BatchSampler(
            self.parts,
            config.data,
            config.train.seed,
            self.position,
            self.batches_per_step,
            self.rank,
            self.world_size,
        )
        dataset = SpeechDataset(self.tokenizer, config.augment, self.num_views, self.phone_tokenizer)
        loader = iter(batches(sampler, dataset, config.data.num_workers))
        while own := list(islice(loader, self.batches_per_step // self.world_size)):
            self._note_unreadable(own)
            stats, lr = self.learner(own, self.step + 1)
            self.step += 1
            self.position = Position(self.position.epoch, self.position.batch + self.batches_per_step)
            audio_s = sum(batch.seconds for batch in own) * self.world_size
            self.audio_hours += audio_s / 3600
            progress.update(self.step, self.position.epoch, stats, lr, audio_s)
            if self.step % config.train.valid_every == 0 and self.valid_cuts:
                self._validate(progress)
            if self.step % config.train.save_every == 0:
                self.save()
            if self.step >= config.train.max_steps or self._stalled or self._agreed_to_stop():
                return
        if self.position.batch == 0:
            raise ValueError(
                f"an epoch has fewer batches than one step takes, {self.batches_per_step}; "
                "lower data.max_batch_s, train.batches_per_step or the number of processes"
            )
        self.position = Position(self.position.epoch + 1, 0)

    def _validate(self, progress: TrainingProgress) -> None:
        started = time.monotonic()
        model = self.learner.averaged()
        share = self.valid_cuts[self.rank :: self.world_size]
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
        progress.validated(self.step, rates, time.monotonic() - started, unit)
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
            "epoch": self.position.epoch,
            "batch": self.position.batch,
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
        self.position = Position(state["epoch"], state["batch"])
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

    def _load_valid_cuts(self) -> list[Any]:
        config = self.config.data
        cuts: list[Any] = []
        for name in config.valid:
            kept, refused = usable_cuts(name, 0.0, config.max_batch_s)
            cuts += kept
            self._name_left_out(refused, " of validation")
        cuts, _, unreadable = read_all(evenly_spread(cuts, config.valid_utterances))
        self._name_left_out(unreadable, " of validation")
        return cuts

    def _name_left_out(self, refusals: Sequence[Refusal], where: str = "") -> None:
        if self.rank == 0:
            print_left_out(self.console, refusals, where=where)

    def _note_unreadable(self, batches: Sequence[Batch]) -> None:
        """Lists the utterances that batches left out. Raises ValueError if there are too many."""
        for batch in batches:
            self._num_unreadable += len(batch.unreadable)
            self._num_seen += len(batch.unreadable) + len(batch.num_frames) // self.num_views
            for refusal in batch.unreadable:
                if refusal.id not in self._unreadable:  # each one recurs in every epoch
                    self._unreadable.add(refusal.id)
                    print_left_out(self.console, [refusal])
        if self._num_unreadable > max(MAX_UNREADABLE[0], MAX_UNREADABLE[1] * self._num_seen):
            raise ValueError(
                f"{self._num_unreadable} of {self._num_seen} utterances could not be read; run `asr prepare` again"
            )

    def _load_weights(self, weights: dict[str, Tensor]) -> None:
        """Loads `weights`. A missing phone head keeps its random weights, a missing running mean its zeros; a phone
        head that is not trained is dropped."""
        differing = {name for keys in self.model.load_state_dict(weights, strict=False) for name in keys}
        if others := sorted(name for name in differing if not name.startswith(("phone_ctc.", "encoder.speaker."))):
            raise ValueError(f"the weights do not fit the configuration: {', '.join(others)}")

    def _texts(self) -> Iterator[str]:
        return (cut.supervisions[0].text for cuts, _ in self.parts for cut in cuts)

    def _grown(self, pretrained: Pretrained) -> Pretrained:
        """`pretrained` with the configured number of encoder layers, if that is larger, and with units for new letters
        if `train.new_units` is set."""
        had, wanted = pretrained.config.model.encoder_layers, self.config.model.encoder_layers
        if wanted > had:
            self.print(f"the encoder grows from {had} to {wanted} layers")
            pretrained = with_new_layers(pretrained, wanted)
        letters = pretrained.tokenizer.unknown_letters(self._texts()) if self.config.train.new_units else None
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
        """Whether any process was asked to stop. All must leave the loop at the same step."""
        if self.world_size > 1:
            flag = torch.tensor(int(self._stop))  # on the CPU, to avoid waiting for a GPU
            dist.all_reduce(flag, dist.ReduceOp.MAX)
            if not flag:
                return False  # if this process was asked since, the others learn of it the next time
            self._stop = True
        return self._stop

    def print(self, text: str) -> None:
        """Prints in the first process only."""
        if self.rank == 0:
            self.console.print(text, markup=False, soft_wrap=True)


def _device(name: str) -> torch.device:
    if name == "cuda" and not torch.cuda.is_available():
        raise ValueError("train.device = 'cuda', but PyTorch finds no CUDA device; use cpu or auto")
    if name == "cpu" or not torch.cuda.is_available():
        return torch.device("cpu")
    device = torch.device("cuda", int(os.environ.get("LOCAL_RANK", "0")))
    torch.cuda.set_device(device)
    return device


def train(config: Config, resume: bool, console: Console) -> int:
    """Trains, and prints what to do next. Returns the exit status of `asr train`."""
    try:
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
    except torch.OutOfMemoryError as error:
        raise ValueError(
            f"a batch does not fit into the memory: lower data.max_batch_s = {config.data.max_batch_s:g} "
            "(`asr train RECIPE --dry-run` finds one that fits), and continue with --resume"
        ) from error
    finally:
        if dist.is_initialized():
            dist.destroy_process_group()
