"""The recognizer as a task of `asr train`: speech, transcripts, and the network of asr.model.

Batches, what is drawn for them, chunk masks and dropout depend only on the seed, the epoch and the step. So any number
of processes that share the same batches trains the same model, up to rounding.
"""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Iterator, Sequence
from typing import cast

import torch
import torch.distributed as dist
from torch import Tensor, nn

from asr.config import Config
from asr.cores import num_cores
from asr.data.speech import Clip, Speech, evenly_spread
from asr.evaluation.wer import WordErrors
from asr.lexicon.phones import PhoneTokenizer
from asr.model.denominator import Denominator
from asr.model.masks import draw_chunk
from asr.model.model import AsrModel, Losses, with_vocab
from asr.tables import Refusal, print_left_out
from asr.tokenizer import Tokenizer
from asr.training.batches import Batch, Batches, Gathered
from asr.training.checkpoint import Checkpoint, check_shape, check_tokens, load_pretrained
from asr.training.cost import flops_per_s
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
from asr.training.pretrained import Pretrained, with_new_layers, with_new_tokens
from asr.training.sounds import read_rooms
from asr.training.task import Job, Scores, Step, Task, Unit
from asr.training.validate import VALIDATION_CHUNKS, validate


class RecognizerLosses(nn.Module):
    """The losses of a batch, with the chunk masks of its step."""

    def __init__(self, model: AsrModel, config: Config, denominator: Denominator | None) -> None:
        super().__init__()
        self.model = model
        self.config = config
        self.denominator = denominator

    def forward(self, batch: Batch, step: int, num_tokens: Tensor) -> Losses:
        seed, views = self.config.train.seed, range(self.config.loss.num_views)
        chunks = [draw_chunk(self.config.chunk, f"{seed} {step} {view}") for view in views]
        phones = (batch.phones, batch.phone_lengths, self.denominator) if self.model.phone_ctc is not None else ()
        speech = (batch.features, batch.num_frames, batch.targets, batch.target_lengths)
        return self.model.losses(*speech, self.config.loss, chunks, num_tokens, *phones)


class Recognizer(Task):
    unit = Unit("audio_hours", 3600.0, "h of audio", "x real time")
    advice = "asr evaluate {} --data DATA, asr export {} -o model.onnx"
    config: Config
    network: AsrModel
    tokenizer: Tokenizer

    @staticmethod
    def build(config: Config, tokenizer: Tokenizer) -> AsrModel:
        return AsrModel(with_vocab(config.model, tokenizer.vocab_size))

    def __init__(self, config: Config, previous: Checkpoint | None, job: Job) -> None:
        self.config, self.extra = config, {}
        self._job = job
        self.speech, shares, refused = load_training_data(config.data)
        hours = hours_of_epoch(self.speech, shares)
        job.print(f"{len(self.speech)} training utterances, {hours:.2f} hours in an epoch; {len(refused)} left out")
        self._name_left_out(refused)
        if warning := scarcity(hours, config.train.init):
            job.print(warning)
        self.valid = self._load_valid()
        self.is_scored = bool(self.valid)

        start, source = None, config.train.init
        if previous:
            start, source = (
                Pretrained(cast(Config, previous.config), previous.required_tokenizer, previous.weights),
                config.train.output,
            )
        elif source:
            start = self._grown(load_pretrained(source))
        self.tokenizer = self._tokenizer_of(start, source)
        self.phone_tokenizer = self._phone_tokenizer_of(start, previous is not None)
        phones = self.phone_tokenizer.phones if self.phone_tokenizer else ()
        self.config = config = dataclasses.replace(config, model=dataclasses.replace(config.model, phones=phones))
        if previous:
            _require_heads_of(cast(Config, previous.config), config)
        torch.manual_seed(config.train.seed)
        self.network = self.build(config, self.tokenizer)
        if start is None:
            self.network.encoder.set_cmvn(*estimate_cmvn(self.speech, config.train.seed))
        else:
            self._load_weights(start.weights)
        self.network.to(job.device)
        self.flops_per_unit = flops_per_s(config, self.speech.seconds / len(self.speech))
        noise = load_noise(config.data, config.train.seed)
        rooms = read_rooms(config.data.rooms, config.data.num_rooms, num_cores(), config.train.seed)
        self.planner = Planner(self.speech, shares, noise, len(rooms), config)
        self.batches = Batches(self.speech, noise, rooms, config, self.tokenizer, self.phone_tokenizer, job.device)

    def losses(self) -> RecognizerLosses:
        denominator = phone_denominator(self.config.loss, self.phone_tokenizer, self.speech.texts)
        return RecognizerLosses(self.network, self.config, denominator).to(self._job.device)

    def steps(self, place: dict[str, int]) -> Iterator[Step]:
        """Batches at the end of an epoch that do not fill a step are skipped; they differ per epoch."""
        epoch, start, size = place.get("epoch", 0), place.get("batch", 0), self._job.batches_per_step
        while True:
            planned = self.planner.epoch(epoch)
            if len(planned) < size:
                warming_up = epoch < self.config.data.curriculum_epochs
                raise ValueError(
                    f"epoch {epoch} has {len(planned)} batches, fewer than one step takes, {size}; "
                    f"{'raise data.curriculum_s, or ' if warming_up else ''}lower data.max_batch_s, "
                    "train.batches_per_step or the number of processes"
                )
            for first in range(start, len(planned) - size + 1, size):
                own = [self.batches.gather(self.planner.plan(epoch, n, planned[n])) for n in self._job.own(first)]
                seconds = sum(each.plan.seconds for each in own)
                yield Step(own, seconds, {"epoch": epoch, "batch": first + size}, f"epoch {epoch}")
            epoch, start = epoch + 1, 0

    def batch(self, gathered: Gathered) -> Batch:
        return self.batches(gathered)

    def trial(self) -> Iterator[Step]:
        first = self.config.data.curriculum_epochs  # the epochs before have shorter batches, and no augmentation
        for epoch in itertools.count(first):
            planned = list(enumerate(self.planner.epoch(epoch)))
            if epoch == first:
                planned.sort(key=lambda each: each[1].frames * len(each[1].rows), reverse=True)
                planned[1:] = sorted(planned[1:], key=lambda each: each[0])
            for n, batch in planned:
                gathered = self.batches.gather(self.planner.plan(epoch, n, batch))
                yield Step([gathered], gathered.plan.seconds, {})

    def score(self, network: AsrModel) -> Scores:
        """Greedy error rates for each of VALIDATION_CHUNKS, of phones if there are any."""
        config, job = self.config, self._job
        share = self.valid[job.rank :: job.world_size]
        errors = validate(network, self.tokenizer, share, config.data.max_batch_s, job.device, self.phone_tokenizer)
        counts = torch.tensor([[getattr(e, n) for n in e.__dataclass_fields__] for e in errors.values()])
        if job.world_size > 1:
            dist.all_reduce(counts)
        rates = {name: WordErrors(*c).rate for name, c in zip(errors, counts.tolist(), strict=True)}
        judged = 0 if config.chunk.full_probability == 1 else 1  # chunks must be trained first
        return Scores("PER" if self.phone_tokenizer else "WER", rates, rates[VALIDATION_CHUNKS[judged][0]])

    def _tokenizer_of(self, start: Pretrained | None, source: str) -> Tokenizer:
        """Raises ValueError if `start` does not fit the configuration, or the transcripts have other letters."""
        config = self.config
        if start:
            tokenizer = start.tokenizer
            check_shape(start.config, config, source)
            check_tokens(tokenizer, start.config.tokenizer, config.tokenizer, source)
        else:
            if config.data.new_tokens:
                raise ValueError(
                    "data.new_tokens adds letters to the weights of train.init, which is empty: name weights there, "
                    "or leave out data.new_tokens, since a new model has all letters of data.train"
                )
            tokenizer = train_tokenizer(config.tokenizer, self.speech.texts)
            if absent := absent_letters(tokenizer):
                self._job.print(
                    f"no transcript has {absent}: this model will never write them; add utterances that have them"
                )
        check_letters(tokenizer, self.speech.texts)
        return tokenizer

    def _phone_tokenizer_of(self, start: Pretrained | None, is_resumed: bool) -> PhoneTokenizer | None:
        """None for training without phones. Raises ValueError if the lexicon lacks words of the transcripts."""
        phones = start.phones if start else ()
        lexicon = self.config.data.lexicon
        if lexicon == "bundled" and start and not phones:  # too little data to train a new phone head
            self._job.print("the weights to start from have no phone head: the model continues without phones")
            lexicon = ""
        elif phones and not lexicon and not is_resumed:
            self._job.print("the phone head is dropped, because data.lexicon is empty; data.lexicon=bundled keeps it")
        transcripts = (*self.speech.texts, *(clip.text for clip in self.valid))
        return load_phones(lexicon, transcripts, phones) if lexicon else None

    def _load_valid(self) -> list[Clip]:
        config = self.config.data
        parts = []
        for name in config.valid:
            kept, refused = Speech.load(name).usable(0.0, config.max_batch_s)
            parts.append(kept)
            self._name_left_out(refused, " of validation")
        return evenly_spread(Speech.joined(parts), config.valid_utterances)

    def _name_left_out(self, refusals: Sequence[Refusal], where: str = "") -> None:
        print_left_out(self._job.console, refusals, where=where)

    def _load_weights(self, weights: dict[str, Tensor]) -> None:
        """Loads `weights`. A missing phone head keeps its random weights, a missing running mean its zeros; a phone
        head that is not trained is dropped."""
        differing = {name for keys in self.network.load_state_dict(weights, strict=False) for name in keys}
        if others := sorted(name for name in differing if not name.startswith(("phone_ctc.", "encoder.speaker."))):
            raise ValueError(f"the weights do not fit the configuration: {', '.join(others)}")

    def _grown(self, pretrained: Pretrained) -> Pretrained:
        """`pretrained` with the configured number of encoder layers, if that is larger, and with tokens for new letters
        if `data.new_tokens` is set."""
        had, wanted = pretrained.config.model.encoder_layers, self.config.model.encoder_layers
        if wanted > had:
            self._job.print(f"the encoder grows from {had} to {wanted} layers")
            pretrained = with_new_layers(pretrained, wanted)
        letters = pretrained.tokenizer.unknown_letters(self.speech.texts) if self.config.data.new_tokens else None
        if letters:
            self._job.print(f"new tokens: {' '.join(sorted(letters))}")
            torch.manual_seed(self.config.train.seed)
            pretrained = with_new_tokens(pretrained, sorted(letters))
        return pretrained


def _require_heads_of(previous: Config, config: Config) -> None:
    """Raises ValueError unless a run trains the same weights as before: the optimizer's state is of them."""
    before, now = previous.model, config.model
    changed = {
        f"data.lexicon={previous.data.lexicon}": before.phones != now.phones,
        f"model.running_mean={str(before.running_mean).lower()}": before.running_mean != now.running_mean,
    }
    if restored := " ".join(setting for setting, is_changed in changed.items() if is_changed):
        raise ValueError(
            f"{config.train.output} has been training other weights: continue it with {restored}, or start a new run "
            f"from it with train.init={config.train.output} and another train.output"
        )
