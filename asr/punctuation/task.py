"""The punctuation network as a task of `asr train`: marks and cases of the words of cased prose."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from asr.files import distinct_names
from asr.punctuation.batches import BatchMaker
from asr.punctuation.config import PunctuationRecipe
from asr.punctuation.corpus import HELD_OUT, NONE, Corpus, CorpusReader, read, read_corpus
from asr.punctuation.evaluate import evaluate, tune
from asr.punctuation.model import Punctuator
from asr.training.checkpoint import Checkpoint, check_shape, resolve
from asr.training.cost import flops_per_unit
from asr.training.task import Job, Scores, TextTask, Unit

CASE_WEIGHT = 0.5
"""Weight of the loss of cases, relative to that of marks, which are harder."""
SCORED_WORDS = 20_000
"""Maximum held-out words of each file that a validation scores."""


class Batch(NamedTuple):
    """`asr.punctuation.batches.Batch` as int64 tensors on the device."""

    seed: int
    features: Tensor
    pauses: Tensor
    segments: Tensor
    marks: Tensor
    cases: Tensor

    @property
    def divisor(self) -> Tensor:
        """(2,) int64: words with a mark or its absence, words with a case."""
        return torch.stack([(self.marks >= 0).sum(), (self.cases >= 0).sum()])


class Losses(NamedTuple):
    total: Tensor
    marks: Tensor
    cases: Tensor


class PunctuationLosses(nn.Module):
    """Cross entropies of the marks and of the cases, each per word that has a label."""

    def __init__(self, network: nn.Module) -> None:
        super().__init__()
        self.network = network

    def forward(self, batch: Batch, step: int, num_labels: Tensor) -> Losses:
        logits = self.network(batch.features, batch.pauses, batch.segments)
        marks, cases = (
            F.cross_entropy(found.float().flatten(0, 1), labels.flatten(), reduction="sum") / count
            for found, labels, count in zip(logits, (batch.marks, batch.cases), num_labels.clamp(min=1), strict=True)
        )
        return Losses(marks + CASE_WEIGHT * cases, marks, cases)


class PunctuationTask(TextTask):
    """extra: `mixed`, the spelling of words of mixed case (mcdonald -> McDonald), and `none_offset`, which is
    subtracted from the logit of no mark (see `asr.punctuation.evaluate.tune`)."""

    unit = Unit("words", 1.0, "words", " words/s")
    advice = "asr text evaluate {} TEXT --held-out, asr export {} -o punctuation.onnx --int8"
    config: PunctuationRecipe
    network: Punctuator

    @staticmethod
    def build(config: PunctuationRecipe, tokenizer: None) -> Punctuator:
        return Punctuator(config.model)

    @staticmethod
    def flops(config: PunctuationRecipe) -> float:
        shape = config.model
        with torch.device("meta"):
            weights = dict(Punctuator(shape).named_parameters())
        num_weights = sum(value.numel() for name, value in weights.items() if not name.startswith("features."))
        return flops_per_unit(num_weights, len(shape.look_ahead), shape.dim, config.data.length)

    def __init__(self, config: PunctuationRecipe, previous: Checkpoint | None, job: Job) -> None:
        super().__init__(config, job)
        start, source = previous, config.train.output
        if not previous and config.train.init:
            source = str(resolve(config.train.init))
            start = Checkpoint.load(source).of(PunctuationRecipe, source)
        paths = [Path(name) for name in config.data.train]
        names = distinct_names(config.data.train, "data.train")
        num_words = max(1, round(config.data.words * 1e6))
        reader = CorpusReader()
        for path in paths:
            before = len(reader)
            with job.console.status(f"reading {path.name}"):
                read(path, num_words, (0.0, 1.0 - HELD_OUT), reader)
            job.print(f"{path.name}: {(len(reader) - before) / 1e6:.2f} M words")
        corpus = reader.corpus()
        self.held_out: list[tuple[str, Corpus]] = [
            (name, read_corpus(path, SCORED_WORDS, (1.0 - HELD_OUT, 1.0)))
            for name, path in zip(names, paths, strict=True)
        ]
        self.is_scored = True
        self.extra = {"mixed": corpus.mixed, "none_offset": 0.0}
        self._maker = BatchMaker(corpus, config.train.seed)
        torch.manual_seed(config.train.seed)
        self.network = self.build(config, None)
        if start:
            check_shape(start.config, config, source)
            self.network.load_state_dict(previous.weights if previous else start.average)
            self.extra = {"mixed": start.extra["mixed"] | corpus.mixed, "none_offset": start.extra["none_offset"]}
        self.network.to(job.device)

    def losses(self) -> PunctuationLosses:
        return PunctuationLosses(self.network)

    def draw(self, number: int) -> Batch:
        drawn = self._maker(number, self.config.data.rows, self.config.data.length)
        return Batch(number, *(torch.from_numpy(each).long() for each in drawn))

    def batch(self, gathered: Batch) -> Batch:
        return Batch(gathered.seed, *(each.to(self._job.device) for each in gathered[1:]))

    def score(self, network: Punctuator) -> Scores:
        """Wrong, missing and extra marks of each held-out text, with the best offset of no mark."""
        network.cpu()
        self.extra["none_offset"] = tune(network, [corpus for _, corpus in self.held_out])
        shifted = with_offset(network, self.extra["none_offset"])
        rates = {name: evaluate(shifted, corpus).mark_error_rate for name, corpus in self.held_out}
        return Scores("mark errors", rates, sum(rates.values()) / len(rates))


def with_offset(network: Punctuator, none_offset: float) -> Punctuator:
    """`network`, changed in place: its logit of no mark is lower by `none_offset`."""
    with torch.no_grad():
        network.head.bias[NONE] -= none_offset
    return network


def load(source: str | Path) -> tuple[Punctuator, Checkpoint]:
    """The network of a checkpoint or of the folder of a run, with its offset, and the checkpoint.

    Raises CheckpointError if it is not of a punctuation network.
    """
    path = resolve(source)
    checkpoint = Checkpoint.load(path).of(PunctuationRecipe, path)
    return with_offset(checkpoint.network(), checkpoint.extra["none_offset"]), checkpoint
