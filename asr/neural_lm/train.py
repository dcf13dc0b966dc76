"""Training of the neural language model, on a GPU if there is one."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from asr.config import OptimConfig
from asr.neural_lm.checkpoint import NeuralLmCheckpoint
from asr.neural_lm.config import COOLDOWN, NeuralLmConfig
from asr.neural_lm.model import NeuralLm, causal
from asr.neural_lm.text import Text, rows
from asr.tokenizer import SOS_EOS_ID, Tokenizer
from asr.training.checkpoint import CheckpointError
from asr.training.optim import build_optimizer
from asr.training.precision import autocast, precision_on
from asr.training.short import MAX_SKIPPED, Report, TrainingError, TrainOptions

WARMUP_STEPS = 200
COMPILED_FROM = 200
"""Minimum steps that are worth compiling for."""
REPORT_EVERY = 20
"""Steps between two reports, after the first ones."""


def rate(options: TrainOptions, step: int, share: float, cooldown: float = COOLDOWN) -> float:
    """The learning rate of `step`, counted from 0, after `share` of the training."""
    return options.lr * min((step + 1) / WARMUP_STEPS, (1 - share) / max(1 / options.steps, cooldown), 1.0)


def train(
    texts: Sequence[Text],
    path: Path,
    tokenizer: Tokenizer,
    options: TrainOptions,
    config: NeuralLmConfig,
    *,
    minutes: float = float("inf"),
    resume: NeuralLmCheckpoint | None = None,
    cooldown: float = COOLDOWN,
    on_step: Callable[[Report], object] = lambda report: None,
    on_scores: Callable[[int, str, float], object] = lambda step, name, perplexity: None,
) -> NeuralLmCheckpoint:
    """Trains, or continues `resume`, and writes the checkpoint to `path`: periodically, at the end, and on Ctrl-C.

    It ends after `options.steps` or `minutes`, both over all its sessions.

    cooldown: the last share of the training, over which the rate falls linearly to zero.

    A step whose gradient is not finite changes no weight.

    Raises KeyboardInterrupt after Ctrl-C, once the checkpoint is written, and TrainingError after at least MAX_SKIPPED
    such steps in a row; `path` then keeps the last periodic checkpoint.
    """
    torch.manual_seed(options.seed)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    model = NeuralLm(config).to(device)
    optimizer = build_optimizer(model, OptimConfig(kind="muon", lr=options.lr, betas=(0.9, 0.95), weight_decay=0.05))
    step, elapsed, pieces_before = 0, 0.0, 0
    if resume is not None:
        if resume.config != config:
            raise CheckpointError(f"{path} has a different network, {resume.config}, than {config}")
        model.load_state_dict(resume.weights)
        if resume.optimizer:
            optimizer.load_state_dict(resume.optimizer)
        step, elapsed = resume.step, float(resume.summary.get("minutes", 0.0))
        pieces_before = int(resume.summary["pieces"]) - step * options.rows * options.length
    # On a CPU, a compiled step takes two thirds of the time, but the first one takes a minute longer.
    is_compiled = device.type == "cpu" and options.steps - step >= COMPILED_FROM
    loss_of = torch.compile(_Loss(model)) if is_compiled else _Loss(model)
    depth, mask = (each.to(device) for each in causal(options.length))
    began = time.monotonic() - 60 * elapsed

    def checkpoint() -> NeuralLmCheckpoint:
        summary = {
            "steps": step,
            "minutes": (time.monotonic() - began) / 60,
            "pieces": pieces_before + step * options.rows * options.length,
            "torch": torch.__version__.split("+")[0],
        }
        return NeuralLmCheckpoint(config, tokenizer, model.state_dict(), step, optimizer.state_dict(), summary)

    def share() -> float:
        return min(1.0, max(step / options.steps, (time.monotonic() - began) / 60 / minutes))

    losses: list[Tensor] = []
    skipped = torch.zeros((), device=device)  # consecutive steps; read with the reports, since reading waits for a GPU
    since = time.monotonic()
    with ThreadPoolExecutor(1) as pool:
        following = pool.submit(rows, texts, options.rows, options.length, (options.seed, step))
        try:
            while (done := share()) < 1.0:
                batch = torch.from_numpy(following.result()).to(device)
                following = pool.submit(rows, texts, options.rows, options.length, (options.seed, step + 1))
                for group in optimizer.param_groups:
                    group["lr"] = rate(options, step, done, cooldown)
                with autocast(precision_on(device, "bf16"), device):
                    loss = loss_of(batch, depth, mask)
                optimizer.zero_grad()
                loss.backward()
                grad_norm = torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
                optimizer.found_inf = (~grad_norm.isfinite()).float()  # type: ignore[attr-defined]
                optimizer.step()
                skipped = (skipped + 1) * optimizer.found_inf  # type: ignore[attr-defined]
                step += 1
                losses.append(loss.detach())
                if step % REPORT_EVERY == 0 or step < REPORT_EVERY:  # early, to show the remaining time soon
                    now = time.monotonic()
                    mean = float(torch.stack(losses).mean())
                    num_pieces = len(losses) * options.rows * options.length
                    on_step(Report(step, share(), mean, num_pieces / (now - since)))
                    losses, since = [], now
                    if (count := int(skipped)) >= MAX_SKIPPED:
                        raise TrainingError(
                            f"the gradients of the last {count} steps, up to step {step}, are not finite: lower the "
                            f"learning rate ({options.lr:g}) and continue the last checkpoint"
                        )
                if step % options.save_every == 0 and step < options.steps:
                    checkpoint().save(path)
                    _score(model, texts, step, on_scores)
        except KeyboardInterrupt:
            checkpoint().save(path)
            raise
    saved = checkpoint()
    saved.save(path)
    _score(model, texts, step, on_scores)
    return saved


class _Loss(nn.Module):
    """The cross entropy of a batch, as one graph to compile."""

    def __init__(self, model: NeuralLm) -> None:
        super().__init__()
        self._model = model

    def forward(self, batch: Tensor, depth: Tensor, mask: Tensor) -> Tensor:
        logits = self._model(batch[:, :-1], depth, mask)
        return F.cross_entropy(logits.flatten(0, 1).float(), batch[:, 1:].flatten())


def _score(model: NeuralLm, texts: Sequence[Text], step: int, on_scores: Callable[[int, str, float], object]) -> None:
    for text in texts:
        if len(text.held_out):
            on_scores(step, text.name, perplexity(model, text.held_out[:20_000]))


@torch.no_grad()
def perplexity(model: NeuralLm, pieces: np.ndarray, length: int = 256) -> float:
    """Perplexity per piece of utterances (num_pieces,), in parts of `length`."""
    total, count = 0.0, 0
    device = model.embedding.weight.device
    depth, mask = (each.to(device) for each in causal(length))
    padded = np.append(pieces, SOS_EOS_ID).astype(np.int64)
    for start in range(0, len(padded) - 1, length):
        stretch = torch.from_numpy(padded[None, start : start + length + 1]).to(device)
        size = stretch.shape[1] - 1
        logits = model(stretch[:, :-1], depth[:size], mask[:, :size, :size])
        target = stretch[0, 1:]
        total += float(F.cross_entropy(logits[0].float(), target, reduction="sum"))
        count += size
    return math.exp(total / max(count, 1))
