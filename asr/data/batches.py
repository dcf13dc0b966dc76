"""Batches of prepared speech: bucketed by duration, limited in size, augmented, reproducible to the bit.

- A batch depends only on the seed, the epoch and its number in the epoch, not on when or in which process it is made.
  So training can resume in mid-epoch, on any number of processes, by skipping batch numbers, without reading audio.
- An utterance that cannot be used is left out and named; it is not fatal. Facts of the manifest (no text, too long) are
  checked before training, damaged features when the batch is made.
"""

from __future__ import annotations

import hashlib
import random
import signal
import warnings
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any, NamedTuple

import numpy as np
import torch
from lhotse import CutSet
from lhotse.cut import Cut
from lhotse.dataset import DynamicBucketingSampler
from lhotse.dataset.sampling.base import TimeConstraint
from lhotse.dataset.sampling.dynamic_bucketing import estimate_duration_buckets
from torch import Tensor
from torch.utils.data import DataLoader, Dataset, Sampler

from asr.command import ending_signals, split_weight
from asr.config import AugmentConfig, Config, DataConfig
from asr.data.augment import Augmenter, Example
from asr.data.cuts import is_without_speech, read_all, usable_cuts
from asr.features import FRAME_SHIFT_S, NUM_MEL_BINS
from asr.lexicon.phones import PhoneTokenizer
from asr.model.decoder import IGNORE_ID
from asr.tables import Refusal
from asr.tokenizer import Tokenizer

MAX_SORTED = 50_000
"""Maximum number of utterances that are sorted into batches of similar lengths. lhotse shuffles a bucket for each
batch. With all utterances of 960 hours at three speeds in a bucket, that takes a fifth of a training step on a GPU."""
SILENT_FRAMES = 40
"""Length of the silence that replaces a batch without readable utterances."""


class Batch(NamedTuple):
    features: Tensor
    """(N, T, 80) float32 log-mel, padded with zeros"""
    num_frames: Tensor
    """(N,) int64"""
    targets: Tensor
    """(N, U) int64, padded with IGNORE_ID"""
    target_lengths: Tensor
    """(N,) int64"""
    phones: Tensor
    """(N, P) int64 phone tokens, padded with IGNORE_ID; P is 0 without a lexicon"""
    phone_lengths: Tensor
    """(N,) int64"""
    seconds: float
    """Seconds of audio in the batch, without padding; 0 if nothing was readable and silence was substituted."""
    seed: int
    """Random seed of dropout."""
    unreadable: tuple[Refusal, ...]
    """Utterances that are missing from the batch."""

    def to(self, device: torch.device) -> Batch:
        """The batch with its tensors on `device`; the copy is asynchronous."""
        fields = self._asdict().items()
        moved: dict[str, Any] = {name: x.to(device, non_blocking=True) for name, x in fields if isinstance(x, Tensor)}
        return self._replace(**moved)

    @property
    def num_tokens(self) -> Tensor:
        """The divisor of the losses, () int64. It counts at least one per utterance, so that a batch of noise does not
        weigh as much as a batch of words; 0 if nothing was readable."""
        return self.target_lengths.clamp(min=1).sum() * (self.seconds > 0)


class BatchPlan(NamedTuple):
    """The input from which a worker makes one batch."""

    cuts: Sequence[Any]
    seed: int
    augment: bool
    max_frames: int
    """Maximum feature frames, including padding, after augmentation."""


@dataclass(frozen=True)
class Position:
    """A place in the training data: the next batch to read."""

    epoch: int = 0
    batch: int = 0


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


def load_training_cuts(config: DataConfig) -> tuple[list[tuple[CutSet, float]], list[Refusal]]:
    """The training manifests of `config`, each with the share of it to use in an epoch.

    Returns the usable utterances of each manifest with its share, and the utterances that were left out.
    """
    parts: list[tuple[CutSet, float]] = []
    left_out: list[Refusal] = []
    for name in config.train:
        path, fraction = split_weight(name, "share of data.train", most=1)
        kept, refused = usable_cuts(path, config.min_utterance_s, config.max_utterance_s)
        parts.append((CutSet.from_cuts(kept), fraction))
        left_out += refused
    if all(is_without_speech(cut) for cuts, _ in parts for cut in cuts):
        raise ValueError(
            f"no training data: data.train = {list(config.train)} holds no utterance with words of "
            f"{config.min_utterance_s} to {config.max_utterance_s} s; run `asr prepare` first"
        )
    return parts, left_out


@dataclass
class PaddedDuration(TimeConstraint):
    """At most `max_duration` seconds per batch, including padding.

    Every utterance counts as the longest of its bucket: lhotse closes a batch before the next utterance of the same
    length is added, so a longer one that comes last would exceed the limit.
    """

    limits: tuple[float, ...] = ()
    """Longest duration of each bucket, ascending."""

    def add(self, example: Cut) -> None:
        self.num_cuts += 1
        limit = self.limits[bisect_left(self.limits, example.duration)]
        self.longest_seen: float = max(self.longest_seen, limit)


class BatchSampler(Sampler):
    """The batches of one epoch, starting at a position, in steps of `batches_per_step` batches that are split among
    `world_size` processes. Batches at the end of an epoch that do not fill a step are skipped; they differ per
    epoch."""

    def __init__(
        self,
        parts: list[tuple[CutSet, float]],
        config: DataConfig,
        seed: int,
        position: Position,
        batches_per_step: int = 1,
        rank: int = 0,
        world_size: int = 1,
    ) -> None:
        warming_up = position.epoch < config.curriculum_epochs
        order = _hash(f"{seed} {position.epoch}")
        longest = config.curriculum_s if warming_up else config.max_utterance_s
        chosen = [
            cut
            for cuts, share in parts
            for cut in cuts
            # A network that does not output words yet would learn from noise to output nothing.
            if cut.duration <= longest
            and not (warming_up and is_without_speech(cut))
            and _hash(f"{seed} {position.epoch} {cut.id}") < share * 2**32
        ]
        if len(chosen) > MAX_SORTED:  # lhotse reads them in order, and a manifest may be sorted by kind of speech
            random.Random(order).shuffle(chosen)
        epoch_cuts = CutSet.from_cuts(chosen)
        if not len(epoch_cuts):
            remedy = "raise data.curriculum_s" if warming_up else "raise the shares after * in data.train"
            raise ValueError(f"no utterance of at most {longest} s for epoch {position.epoch}: {remedy}")
        longest = max(cut.duration for cut in epoch_cuts)
        # Drawn from all data: lhotse would sample only the beginning, and a manifest may be sorted by kind of speech.
        bins = estimate_duration_buckets(epoch_cuts, max(2, min(config.num_buckets, len(epoch_cuts) // 100)))
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", message="You are using DynamicBucketingSampler with an eagerly")
            self._sampler = DynamicBucketingSampler(
                epoch_cuts,
                constraint=PaddedDuration(config.max_batch_s, limits=(*bins, longest)),
                duration_bins=bins,
                buffer_size=MAX_SORTED,
                shuffle=True,
                seed=order,  # set_epoch would add the two, so that neighboring seeds coincide
                rank=0,  # every process plans all batches, so that they do not depend on the number of processes
                world_size=1,
                drop_last=False,
            )
        self._seed = seed
        self._position = position
        self._augment = not warming_up
        self._max_frames = int(config.max_batch_s / FRAME_SHIFT_S)
        self._batches_per_step = batches_per_step
        self._rank = rank
        self._world_size = world_size

    def __iter__(self) -> Iterator[BatchPlan]:
        numbered = islice(enumerate(iter(self._sampler)), self._position.batch, None)
        while len(step := list(islice(numbered, self._batches_per_step))) == self._batches_per_step:
            for index, cuts in step[self._rank :: self._world_size]:
                seed = _hash(f"{self._seed} {self._position.epoch} {index}")
                yield BatchPlan(list(cuts), seed, self._augment, self._max_frames)


class SpeechDataset(Dataset):
    """Turns a `BatchPlan` into a `Batch`: reads features, augments, encodes the transcripts."""

    def __init__(
        self,
        tokenizer: Tokenizer,
        augment: AugmentConfig | None = None,
        num_views: int = 1,
        phone_tokenizer: PhoneTokenizer | None = None,
    ) -> None:
        self._tokenizer = tokenizer
        self._phone_tokenizer = phone_tokenizer
        self._augmenter = None if augment is None else Augmenter(augment)
        self._num_views = num_views

    def __getitem__(self, plan: BatchPlan) -> Batch:
        random.seed(plan.seed)
        np.random.seed(plan.seed)
        torch.manual_seed(plan.seed)
        cuts, matrices, unreadable = read_all(plan.cuts)
        rows = [Example(m, cut.supervisions[0].text) for cut, m in zip(cuts, matrices, strict=True)]
        if not rows:
            rows = [Example(torch.zeros(SILENT_FRAMES, NUM_MEL_BINS), "")]
        augmenter = self._augmenter if plan.augment else None
        if augmenter is not None:
            rows = augmenter.arrange(rows, plan.max_frames)
        num_frames = torch.tensor([len(row.features) for row in rows])
        views = [
            torch.nn.utils.rnn.pad_sequence(
                [augmenter.view(row.features) if augmenter else row.features for row in rows], batch_first=True
            )
            for _ in range(self._num_views)
        ]
        targets, lengths = padded([self._tokenizer.encode(row.text) for row in rows])
        phones, phone_lengths = torch.zeros(len(rows), 0, dtype=torch.int64), torch.zeros(len(rows), dtype=torch.int64)
        if self._phone_tokenizer is not None:
            phones, phone_lengths = padded([self._phone_tokenizer.encode(row.text) for row in rows])
        repeat = self._num_views
        return Batch(
            features=torch.cat(views),
            num_frames=num_frames.repeat(repeat),
            targets=targets.repeat(repeat, 1),
            target_lengths=lengths.repeat(repeat),
            phones=phones.repeat(repeat, 1),
            phone_lengths=phone_lengths.repeat(repeat),
            seconds=float(num_frames.sum()) * FRAME_SHIFT_S if cuts else 0.0,
            seed=plan.seed,
            unreadable=tuple(unreadable),
        )


def padded(rows: list[list[int]]) -> tuple[Tensor, Tensor]:
    """Token ids of each utterance -> (N, U) int64 padded with IGNORE_ID, U at least 1, and lengths (N,) int64."""
    lengths = torch.tensor([len(row) for row in rows])
    tokens = torch.full((len(rows), max(1, int(lengths.max()))), IGNORE_ID)
    for index, row in enumerate(rows):
        tokens[index, : len(row)] = torch.tensor(row, dtype=torch.int64)
    return tokens, lengths


def batches(sampler: BatchSampler, dataset: SpeechDataset, num_workers: int) -> DataLoader[Any]:
    """Batches in the sampler's order, prepared in `num_workers` processes (0: in this one)."""
    return DataLoader(
        dataset,
        sampler=sampler,
        batch_size=None,
        num_workers=num_workers,
        prefetch_factor=4 if num_workers else None,
        pin_memory=torch.cuda.is_available(),  # makes copies to the GPU asynchronous
        worker_init_fn=_init_worker,
    )


def _init_worker(_: int) -> None:
    torch.set_num_threads(1)
    for number in ending_signals():  # sent to the whole process group; the main process handles them
        signal.signal(number, signal.SIG_IGN)


def _hash(text: str) -> int:
    """A 32-bit hash of `text`.

    A checksum is unsuitable because it is linear: another epoch would change the values of all utterances by the same
    constant, and half of the data would always be one of the same two halves.
    """
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=4).digest(), "little")
