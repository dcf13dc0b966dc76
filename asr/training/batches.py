"""Batches of speech: samples and transcripts are gathered on the host, everything after that is computed on the device.

The gathering runs in a thread, so that the next batch is ready when the device has finished the last one.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple, TypeVar

import numpy as np
import torch
from torch import Tensor

from asr.config import Config
from asr.data.speech import Speech
from asr.features import FRAME_SHIFT
from asr.lexicon.phones import PhoneTokenizer
from asr.model.decoder import IGNORE_ID
from asr.tokenizer import Tokenizer
from asr.training.features import BatchFbank, FeatureAugmenter
from asr.training.plans import Plan, on_device, segments
from asr.training.sounds import Noise
from asr.training.waves import Waves

T = TypeVar("T")


class Batch(NamedTuple):
    features: Tensor
    """(N, T, 80) float32 log-mel"""
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
    """Seconds of audio in the batch, without padding."""
    seed: int
    """Random seed of dropout."""

    @property
    def divisor(self) -> Tensor:
        """The number of tokens, () int64. It counts at least one per utterance, so that a batch of noise does not
        weigh as much as a batch of words."""
        return self.target_lengths.clamp(min=1).sum()


class Gathered(NamedTuple):
    """What the host reads for a plan of N rows."""

    plan: Plan
    spoken: Tensor
    """(N, num_samples) int16: the utterances at their places, before the speed changes"""
    noise: Tensor
    """(N, 160 * frames) int16"""
    noise_power: Tensor
    """(N,) float32 mean square of the whole noise, relative to full scale"""
    tokens: tuple[Tensor, Tensor, Tensor, Tensor]
    """targets, target_lengths, phones and phone_lengths of `Batch`"""


def padded(rows: list[list[int]]) -> tuple[Tensor, Tensor]:
    """Token ids of each utterance -> (N, U) int64 padded with IGNORE_ID, U at least 1, and lengths (N,) int64."""
    lengths = torch.tensor([len(row) for row in rows])
    tokens = torch.full((len(rows), max(1, int(lengths.max()))), IGNORE_ID)
    for index, row in enumerate(rows):
        tokens[index, : len(row)] = torch.tensor(row, dtype=torch.int64)
    return tokens, lengths


class Batches:
    """Turns plans into batches. rooms: see `read_rooms`."""

    def __init__(
        self,
        speech: Speech,
        noise: Noise,
        rooms: np.ndarray,
        config: Config,
        tokenizer: Tokenizer,
        phones: PhoneTokenizer | None,
        device: torch.device,
    ) -> None:
        self._speech, self._noise, self._tokenizer, self._phones = speech, noise, tokenizer, phones
        self._device = device
        self._num_views = config.loss.num_views
        self._waves, self._fbank = Waves(rooms, config.augment.speeds, device), BatchFbank(device)
        self._augment = FeatureAugmenter(config.augment, device)

    def gather(self, plan: Plan) -> Gathered:
        """Reads the samples of a plan, and encodes its transcripts; on the host."""
        size = plan.frames * FRAME_SHIFT
        # The last words may end half a frame after the last frame.
        spoken = torch.zeros(len(plan.rows), math.ceil((size + FRAME_SHIFT) * plan.speed), dtype=torch.int16)
        array = spoken.numpy()
        for line, row in enumerate(plan.rows):
            clips = [self._speech.samples(utterance) for utterance in row.utterances]
            for clip, place in zip(clips, segments(row, [len(clip) for clip in clips], plan.speed), strict=True):
                array[line, place : place + len(clip)] = clip
        noise = np.zeros((len(plan.rows), size), np.int16)
        power = torch.zeros(len(plan.rows))
        for line in map(int, np.flatnonzero(plan.kind.numpy())):
            number, start = map(int, plan.noises[line])
            noise[line] = self._noise.part(number, start, size)
            power[line] = self._noise.power(number)
        texts = [" ".join(self._speech.texts[i] for i in row.utterances) for row in plan.rows]
        targets = padded([self._tokenizer.encode(text) for text in texts])
        phones: tuple[Tensor, Tensor] = torch.zeros(len(texts), 0).long(), torch.zeros(len(texts)).long()
        if self._phones is not None:
            phones = padded([self._phones.encode(text) for text in texts])
        return Gathered(plan, spoken, torch.from_numpy(noise), power, (*targets, *phones))

    @torch.no_grad()
    def __call__(self, gathered: Gathered) -> Batch:
        """The batch of a plan on the device, in one or two views."""
        plan = gathered.plan.to(self._device)
        spoken, noise, power = (on_device(each, self._device) for each in gathered[1:4])
        torch.manual_seed(plan.seed)  # what is drawn on the device
        features = self._fbank(self._waves(plan, spoken, noise, power))
        views = [self._augment(features, plan.num_frames) if plan.masked else features for _ in range(self._num_views)]
        targets, target_lengths, phones, phone_lengths = (
            on_device(torch.cat([each] * self._num_views), self._device) for each in gathered.tokens
        )
        num_frames, seconds = torch.cat([plan.num_frames] * self._num_views), gathered.plan.seconds
        return Batch(torch.cat(views), num_frames, targets, target_lengths, phones, phone_lengths, seconds, plan.seed)


def ahead(items: Iterable[T]) -> Iterator[T]:
    """The items of an iterator, each computed in a thread while the caller uses the one before."""
    iterator, end = iter(items), object()
    with ThreadPoolExecutor(1) as pool:
        following = pool.submit(next, iterator, end)
        while (item := following.result()) is not end:
            following = pool.submit(next, iterator, end)
            yield item  # type: ignore[misc]
