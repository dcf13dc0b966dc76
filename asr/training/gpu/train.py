"""The loop of `asr train-gpu`: batches computed on the device, a rate that falls with the clock, regular validation."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from asr.config import AugmentConfig, ChunkConfig, Config, OptimConfig
from asr.data.batches import Batch, padded
from asr.features import FRAME_SHIFT_S, SAMPLE_RATE, fbank
from asr.lexicon.phones import PhoneTokenizer
from asr.model.model import AsrModel
from asr.tokenizer import Tokenizer
from asr.training.gpu.options import Options
from asr.training.gpu.plans import Plan, on_device, plans
from asr.training.gpu.recordings import Noise, Speech
from asr.training.gpu.views import BatchFbank, Views
from asr.training.gpu.waves import Waves
from asr.training.inputs import phone_denominator
from asr.training.precision import autocast
from asr.training.pretrained import ERROR_RATES, Pretrained
from asr.training.short import Report
from asr.training.step import Learner, num_views
from asr.training.validate import validate

REPORT_EVERY = 20
"""Steps between two reports, after the first ones. Each report waits for the device."""
NUM_CHECKS = 3
"""How many times the average is saved and validated, evenly spread over the training."""
MAX_VALID_BATCH_S = 400.0
MAX_WAVES = 0.5
"""Largest share of the device's memory for the recordings; the rest is for the batches."""


@dataclass(frozen=True)
class HeldOut:
    """An utterance to validate on, as `asr.training.validate` reads it. features: (num_frames, 80) float32."""

    features: np.ndarray
    supervisions: Sequence[Sentence]

    @property
    def num_frames(self) -> int:
        return len(self.features)

    @property
    def duration(self) -> float:
        """Duration in seconds."""
        return self.num_frames * FRAME_SHIFT_S

    def load_features(self) -> np.ndarray:
        return self.features


@dataclass(frozen=True)
class Sentence:
    text: str


def held_out(speech: Speech) -> list[HeldOut]:
    pairs = zip(speech.waveforms(), speech.texts, strict=True)
    return [HeldOut(fbank(samples).numpy(), (Sentence(text),)) for samples, text in pairs]


def configured(start: Config, options: Options) -> Config:
    """The configuration of a network with the settings with which `asr train-gpu` trains it."""
    return replace(
        start,
        model=replace(start.model, dropout=0.05),
        augment=AugmentConfig(
            probability=0.85,
            max_freq_bins=20,
            num_time_masks=12,
            max_time_frames=35,
            max_frequency_warp=0.08,
            max_response_db=4.0,
            time_warp=0,
            offset_probability=0.0,  # this and the following: see `plans`
            concat_probability=0.0,
            silence_probability=0.0,
        ),
        chunk=ChunkConfig(full_probability=0.25),
        loss=replace(start.loss, ctc_weight=0.5, phone_weight=0.8, denominator_weight=0.4, cr_ctc_weight=0.1),
        optim=OptimConfig(kind="muon", lr=options.lr, schedule="linear", warmup_steps=100, ema_decay=0.995),
        train=replace(start.train, seed=options.seed),
    )


def rate(config: OptimConfig, step: int, share: float) -> float:
    """The learning rate of `step`, counted from 1, after `share` of the time: warm-up by steps, then linear decay by
    time."""
    return config.lr * min(1.0, step / max(config.warmup_steps, 1)) * (1 - share)


class Targets(NamedTuple):
    """Tokens (N, U) int64 and lengths (N,) int64, of `padded`: letters, then phones, of length 0 without them."""

    letters: Tensor
    letter_lengths: Tensor
    phones: Tensor
    phone_lengths: Tensor


class Batches:
    """Turns plans into batches: the sound on the device, the transcripts as tokens."""

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
        _require_room(speech, device)
        self._texts, self._tokenizer, self._phones, self._device = speech.texts, tokenizer, phones, device
        self._num_views = num_views(config)
        self._waves, self._fbank = Waves(speech, noise, rooms, device), BatchFbank(device)
        self._view = Views(config.augment, device)

    def tokens(self, plan: Plan) -> Targets:
        """The letters and phones of each row; does not need the device."""
        texts = [" ".join(self._texts[utterance] for utterance in row) for row in plan.utterances]
        targets, target_lengths = padded([self._tokenizer.encode(text) for text in texts])
        phones, phone_lengths = padded([self._phones.encode(text) if self._phones else [] for text in texts])
        return Targets(targets, target_lengths, phones, phone_lengths)

    @torch.no_grad()
    def __call__(self, plan: Plan, targets: Targets) -> Batch:
        """The batch of a plan, in one or two views."""
        seconds = plan.seconds  # while the plan is on the CPU
        plan = plan.to(self._device)
        features = self._fbank(self._waves(plan))
        views = torch.cat([self._view(features, plan.num_frames) for _ in range(self._num_views)])
        num_frames = torch.cat([plan.num_frames] * self._num_views)
        tokens = Targets(*(on_device(torch.cat([x] * self._num_views), self._device) for x in targets))
        return Batch(views, num_frames, *tokens, seconds, plan.seed, ())


def train(
    start: Pretrained,
    speech: Speech,
    noise: Noise,
    rooms: np.ndarray,
    valid: Sequence[HeldOut],
    phones: PhoneTokenizer | None,
    options: Options,
    path: Path,
    device: torch.device,
    *,
    on_step: Callable[[Report], object] = lambda report: None,
    on_rates: Callable[[int, dict[str, float]], object] = lambda step, rates: None,
) -> bool:
    """Trains `start` and writes the moving average of its weights to `path`: regularly, at the end, and on Ctrl-C.

    rooms: see `read_rooms`. phones: for a network with a phone head. on_rates: receives the error rates on `valid`, by
    context, as `asr.training.validate` measures them.

    Returns whether Ctrl-C did not end it. Raises ValueError for a batch that does not fit into the memory, and if no
    step has a finite gradient.
    """
    config = configured(start.config, options)
    torch.manual_seed(options.seed)
    model = AsrModel(replace(start.model_config, dropout=config.model.dropout))
    model.load_state_dict(start.weights)
    model.to(device).train()
    denominator = phone_denominator(config.loss, phones, speech.texts)
    learner = Learner(model, config, denominator and denominator.to(device), device, world_size=1)
    batch_of = Batches(speech, noise, rooms, config, start.tokenizer, phones, device)
    planned = plans(speech, noise, len(rooms), int(options.batch_s / FRAME_SHIFT_S), options.seed)
    step, audio_s, rates = 0, 0.0, dict[str, float]()

    def save() -> None:
        weights = {name: value.float().cpu().half().float() for name, value in learner.average.weights.items()}
        before = {name: value for name, value in start.training.items() if name not in ERROR_RATES}
        summary = before | {
            "steps": before.get("steps", 0) + step,
            "audio_hours": round(before.get("audio_hours", 0.0) + audio_s / 3600, 2),
            ERROR_RATES[bool(phones)]: {name: round(value, 4) for name, value in rates.items()},
            "data": list(dict.fromkeys((*before.get("data", ()), *speech.tables))),
            "torch": torch.__version__.split("+")[0],
        }
        as_trained = replace(config, train=replace(config.train, max_steps=max(step, 1)))
        replace(start, config=as_trained, weights=weights, training=summary).save(path)

    def check() -> None:
        if valid:
            with autocast(learner.precision, device):
                errors = validate(learner.averaged(), start.tokenizer, valid, MAX_VALID_BATCH_S, device, phones)
            rates.update({name: each.rate for name, each in errors.items()})
            on_rates(step, rates)

    checks, losses, recent_s = 1, list[Tensor](), 0.0
    try:
        check()
        began = reported = time.monotonic()
        for plan, targets in _ahead(planned, batch_of.tokens):
            share = (time.monotonic() - began) / 60 / options.minutes
            if share >= 1:
                break
            if share >= checks / NUM_CHECKS:
                checks, paused = checks + 1, time.monotonic()
                check()
                save()
                paused = time.monotonic() - paused
                began, reported = began + paused, reported + paused  # the minutes are those of training
            step += 1
            stats, _ = learner([batch_of(plan, targets)], step, rate(config.optim, step, share))
            audio_s, recent_s = audio_s + plan.seconds, recent_s + plan.seconds
            losses.append(torch.where(stats.grad_norm.isfinite(), stats.losses.total, torch.nan))
            if step % REPORT_EVERY == 0 or step < REPORT_EVERY:  # early, to show the remaining time soon
                loss, now = float(torch.stack(losses).nanmean()), time.monotonic()
                if math.isnan(loss) and len(losses) == REPORT_EVERY:
                    raise ValueError(f"no finite gradient in {REPORT_EVERY} steps: take an --lr below {options.lr:g}")
                on_step(Report(step, share, loss, recent_s / (now - reported)))
                losses, recent_s, reported = [], 0.0, now
        check()
        completed = True
    except KeyboardInterrupt:
        if not step:
            raise  # a previous result in `path` is kept
        completed = False
    except torch.OutOfMemoryError as error:
        raise ValueError(
            f"a batch of {options.batch_s:g} s of audio does not fit into the memory of the device: lower --batch-s"
        ) from error
    save()
    return completed


def _ahead(planned: Iterator[Plan], tokens: Callable[[Plan], Targets]) -> Iterator[tuple[Plan, Targets]]:
    """The plans with their tokens, each prepared while the device works on the previous one."""

    def make() -> tuple[Plan, Targets]:
        plan = next(planned)
        return plan, tokens(plan)

    with ThreadPoolExecutor(1) as pool:
        following = pool.submit(make)
        while True:
            ready = following.result()
            following = pool.submit(make)
            yield ready


def _require_room(speech: Speech, device: torch.device) -> None:
    """Raises ValueError if the recordings leave too little memory for the batches."""
    if device.type != "cuda":
        return
    free = torch.cuda.mem_get_info(device)[0]
    if speech.samples.nbytes > MAX_WAVES * free:
        most = MAX_WAVES * free / 2 / SAMPLE_RATE / 3600
        raise ValueError(
            f"{speech.hours:.0f} hours of recordings take {speech.samples.nbytes / 1e9:.0f} GB, and the device has "
            f"{free / 1e9:.0f} GB free: take at most {most:.0f} hours, or use `asr train`, which reads from the disk"
        )
