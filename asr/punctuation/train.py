"""Training of the punctuation network."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import Tensor

from asr.config import OptimConfig
from asr.punctuation.batches import IGNORED, Batch, BatchMaker
from asr.punctuation.checkpoint import PunctuationCheckpoint
from asr.punctuation.config import PunctuatorConfig
from asr.punctuation.corpus import Corpus
from asr.punctuation.evaluate import Scores, evaluate, tune
from asr.punctuation.model import Punctuator
from asr.training.checkpoint import CheckpointError
from asr.training.optim import WeightAverage, build_optimizer
from asr.training.precision import autocast, precision_on
from asr.training.short import Report, TrainOptions

CPU = torch.device("cpu")
CASE_WEIGHT = 0.5
"""Weight of the loss of cases, relative to that of marks, which are harder."""
AVERAGE_DECAY = 0.998
WARMUP_STEPS = 200
REPORT_EVERY = 20
"""Steps between two reports, after the first ones."""


def train(
    corpus: Corpus,
    held_out: Sequence[tuple[str, Corpus]],
    path: Path,
    options: TrainOptions,
    config: PunctuatorConfig,
    *,
    minutes: float = float("inf"),
    resume: PunctuationCheckpoint | None = None,
    on_step: Callable[[Report], object] = lambda report: None,
    on_scores: Callable[[int, str, Scores], object] = lambda step, name, scores: None,
) -> PunctuationCheckpoint:
    """Trains, or continues `resume`, and writes the checkpoint to `path`: periodically, at the end, and on Ctrl-C.

    It ends after `options.steps` or `minutes`, both over all its sessions, and its schedule ends there.

    Raises KeyboardInterrupt after Ctrl-C, once the checkpoint is written.
    """
    torch.manual_seed(options.seed)
    model = Punctuator(config)
    optimizer = build_optimizer(model, OptimConfig(lr=options.lr, weight_decay=0.01))
    average = WeightAverage(model, AVERAGE_DECAY)
    step, elapsed_s = 0, 0.0
    if resume is not None:
        if resume.config != config:
            raise CheckpointError(f"{path} has a different network, {resume.config}, than {config}")
        model.load_state_dict(resume.weights)
        average.weights = {name: value.clone() for name, value in resume.average.items()}
        step = average.num_updates = resume.step
        elapsed_s = float(resume.summary["minutes"]) * 60
        optimizer.load_state_dict(resume.optimizer)
    mixed = corpus.mixed if resume is None else resume.mixed | corpus.mixed
    maker = BatchMaker(corpus, options.seed)
    began = time.monotonic() - elapsed_s

    def checkpoint() -> PunctuationCheckpoint:
        summary = {
            "steps": step,
            "minutes": (time.monotonic() - began) / 60,
            "words": step * options.rows * options.length,
            "torch": torch.__version__.split("+")[0],
        }
        return PunctuationCheckpoint(
            config, model.state_dict(), average.weights, mixed, 0.0, step, optimizer.state_dict(), summary
        )

    def share() -> float:
        return min(1.0, max(step / options.steps, (time.monotonic() - began) / 60 / minutes))

    warmup = min(WARMUP_STEPS, max(1, options.steps // 10))
    losses: list[Tensor] = []
    since, num_words = time.monotonic(), 0
    with ThreadPoolExecutor(1) as pool:
        following = pool.submit(maker, step, options.rows, options.length)
        try:
            while share() < 1.0:
                batch = following.result()
                following = pool.submit(maker, step + 1, options.rows, options.length)
                # Linear warm-up, then linear decay to zero by the completed share of the training.
                rate = options.lr * min((step + 1) / warmup, 1.0 - share())
                for group in optimizer.param_groups:
                    group["lr"] = rate
                loss = batch_loss(model, batch)
                optimizer.zero_grad()
                loss.backward()
                torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
                optimizer.step()
                average.update(model)
                step += 1
                losses.append(loss.detach())
                num_words += int((batch.marks != IGNORED).sum())
                if step % REPORT_EVERY == 0 or step < REPORT_EVERY:  # early, to show the remaining time soon
                    now = time.monotonic()
                    mean = float(torch.stack(losses).mean())
                    on_step(Report(step, share(), mean, num_words / (now - since)))
                    losses, since, num_words = [], now, 0
                if step % options.save_every == 0 and share() < 1.0:
                    saved = checkpoint()
                    saved.save(path)
                    _score(saved, held_out, on_scores)
        except KeyboardInterrupt:
            checkpoint().save(path)
            raise
    saved = checkpoint()
    saved.save(path)  # saved first, in case `tune` is interrupted
    if held_out:
        saved.none_offset = tune(saved.model(), [text for _, text in held_out])
    saved.save(path)
    _score(saved, held_out, on_scores)
    return saved


def batch_loss(model: Punctuator, batch: Batch) -> Tensor:
    """Cross-entropy of the marks plus the weighted cross-entropy of the cases."""
    with autocast(precision_on(CPU, "bf16"), CPU):
        marks, cases = model(
            torch.from_numpy(batch.features).long(),
            torch.from_numpy(batch.pauses).long(),
            torch.from_numpy(batch.segments).long(),
        )
    total = F.cross_entropy(marks.float().flatten(0, 1), torch.from_numpy(batch.marks).flatten())
    return total + CASE_WEIGHT * F.cross_entropy(cases.float().flatten(0, 1), torch.from_numpy(batch.cases).flatten())


def _score(
    checkpoint: PunctuationCheckpoint,
    held_out: Sequence[tuple[str, Corpus]],
    on_scores: Callable[[int, str, Scores], object],
) -> None:
    model = checkpoint.model()
    for name, corpus in held_out:
        on_scores(checkpoint.step, name, evaluate(model, corpus, max_words=20_000))
