"""What a training costs: its operations by a formula, and the days and euros that they take on a GPU.

`asr train RECIPE --dry-run` prints this within a second, for any GPU. `asr train RECIPE --trial 20` measures the device
of this machine.
"""

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING, NamedTuple

from asr.config import Config, ConfigError, Recipe
from asr.features import ENCODER_FRAME_MS, NUM_MEL_BINS

if TYPE_CHECKING:
    import torch
    from rich.console import Console

UTTERANCE_S = 12.3
"""Mean length of LibriSpeech's training utterances."""
TOKENS_PER_S = {"char": 15.0}
"""Tokens per second of read English, at 2.7 words; PIECES_PER_S for kinds with word pieces."""
PIECES_PER_S = 5.0
NUM_LETTERS = 32
"""Number of tokens of kind char, which depends on the text."""
NUM_PHONE_TOKENS = 79
"""Blank, and two tokens for each phone of CMUdict."""
UTILIZATION = (0.02, 0.4)
"""Share of the peak rate that training reaches. On an H100 beside 16 busy processes, the recipes for LibriSpeech
reached 0.02 to 0.04; slower GPUs reach more of theirs."""


class Gpu(NamedTuple):
    """Peak rates in TFLOP/s without sparsity; the price per hour is an assumption."""

    bf16: float
    fp32: float
    euros: float


GPUS = {
    "l4": Gpu(121, 30, 0.7),
    "rtx4090": Gpu(165, 83, 0.5),
    "a100-40": Gpu(312, 19.5, 1.2),
    "a100-80": Gpu(312, 19.5, 1.6),
    "h100": Gpu(989, 67, 2.5),
    "h200": Gpu(989, 67, 3.3),
}


def tokens_per_s(config: Config) -> float:
    return TOKENS_PER_S.get(config.tokenizer.kind, PIECES_PER_S)


def flops_per_unit(num_weights: int, num_layers: int, dim: int, length: int) -> float:
    """Floating-point operations of training a Transformer per token, forward and backward.

    num_weights: of its matrices without the embeddings, with the output layer; length: tokens that one attends to.
    """
    return 6.0 * num_weights + 12.0 * num_layers * dim * length


def flops_per_s(config: Config, utterance_s: float) -> float:
    """Floating-point operations of training per second of audio, in all views: those of the matrix products and
    convolutions, forward and backward. Without the sum over phone sequences and what is drawn for a batch."""
    model = config.model
    dim, channels = model.dim, model.subsampling_channels
    frames, tokens = 1000 / ENCODER_FRAME_MS * utterance_s, 1 + tokens_per_s(config) * utterance_s
    units = NUM_LETTERS if config.tokenizer.kind == "char" else config.tokenizer.vocab_size
    first, second = (NUM_MEL_BINS - 1) // 2, ((NUM_MEL_BINS - 1) // 2 - 1) // 2  # bins after each convolution
    subsampling = 9 * channels * (2 * first + channels * second) + channels * second * dim
    layer = 4 * dim**2 + 2 * dim * model.encoder_ff_dim + 2 * frames * dim
    inner = len(model.condition_layers) or 1
    heads = dim * units * (1 + inner + len(model.condition_layers)) + dim * NUM_PHONE_TOKENS * bool(config.data.lexicon)
    encoder = frames * (subsampling + model.encoder_layers * layer + heads)
    to_tokens = 6 * dim**2 + 2 * (tokens + frames) * dim + 2 * dim * model.decoder_ff_dim
    decoder = model.decoder_layers * (tokens * to_tokens + frames * 2 * dim**2) + tokens * dim * units
    return 2 * 3 * config.loss.num_views * (encoder + decoder) / utterance_s


def dry_run(recipe: Recipe, name: str, device: str, console: Console) -> None:
    """Prints the cost of training. device: a name of GPUS, or "" for all of them. Raises ConfigError for another."""
    from rich.table import Table

    if device not in ("", *GPUS):
        raise ConfigError(f"--on {device!r} is not in the table: take one of {', '.join(GPUS)}")
    flops, what = _speech(recipe, console) if isinstance(recipe, Config) else _text(recipe)
    console.print(
        f"{name}: {recipe.train.max_steps} steps of {what}; {flops / 1e18:.3g} EFLOP in {recipe.train.precision}\n"
        f"measure memory and time on a device: asr train {name} --trial 20",
        markup=False,
        highlight=False,
        soft_wrap=True,
    )
    low, high = UTILIZATION
    table = Table("device", f"days at {high:.0%} to {low:.0%} of its peak rate", "EUR")
    for each in [device] if device else GPUS:
        gpu = GPUS[each]
        rate = 1e12 * (gpu.bf16 if recipe.train.precision == "bf16" else gpu.fp32)
        days = [flops / (rate * share) / 86400 for share in (high, low)]
        euros = [24 * gpu.euros * each for each in days]
        table.add_row(each, *(" to ".join(map(_rounded, pair)) for pair in (days, euros)))
    console.print(table)


def _speech(config: Config, console: Console) -> tuple[float, str]:
    """Operations of a whole training of a recognizer, and the size of its steps."""
    hours, utterance_s = _data(config, console)
    step_s = config.data.max_batch_s * max(1, config.train.batches_per_step)
    total_s = step_s * config.train.max_steps
    epochs = f", {total_s / 3600 / hours:.1f} epochs of {hours:.1f} h" if hours else ""
    what = f"{step_s:g} s of audio with its padding: at most {total_s / 3600:.0f} h{epochs}"
    return flops_per_s(config, utterance_s) * total_s, what


def _text(recipe: Recipe) -> tuple[float, str]:
    """The same for a task on text."""
    from asr.training.task import TextTask, task_class

    task, data = task_class(recipe), recipe.data
    if not issubclass(task, TextTask):
        raise TypeError(f"{recipe.task} is not a task on text")
    units = data.rows * data.length * max(1, recipe.train.batches_per_step)
    total = units * recipe.train.max_steps
    return task.flops(recipe) * total, f"{units} {task.unit.shown}: {total / 1e6:,.0f} million"


def _rounded(value: float) -> str:
    return f"{value:.0f}" if value >= 100 else f"{value:.2g}"


def _data(config: Config, console: Console) -> tuple[float | None, float]:
    """Hours per epoch, and the mean length of an utterance; without data, None and an assumed length."""
    from asr.training.inputs import hours_of_epoch, load_training_data, scarcity

    try:
        speech, shares, _ = load_training_data(config.data)
    except ValueError as error:
        seconds = min(UTTERANCE_S, config.data.max_utterance_s)
        console.print(f"utterances of {seconds:g} s are assumed: {error}", markup=False, soft_wrap=True)
        return None, seconds
    hours = hours_of_epoch(speech, shares)
    if warning := scarcity(hours, config.train.init):
        console.print(warning, markup=False, soft_wrap=True)
    return hours, hours * 3600 / float(shares.sum())


def peak_flops(device: torch.device, precision: str) -> float:
    """The rate of matrix products that this process measures on a device, in floating-point operations per second.

    A large product on a GPU, a smaller one on a CPU, so that it takes about a quarter of a second.
    """
    import torch

    size = 8192 if device.type == "cuda" else 1024
    dtype = torch.bfloat16 if precision == "bf16" else torch.float32
    a, b = (torch.randn(size, size, device=device, dtype=dtype) for _ in range(2))

    def seconds(count: int) -> float:
        synchronize(device)
        began = time.perf_counter()
        for _ in range(count):
            a @ b
        synchronize(device)
        return time.perf_counter() - began

    once = max(seconds(1), seconds(1), 1e-9)
    count = max(1, min(100, int(0.25 / once)))
    return 2 * size**3 * count / seconds(count)


def synchronize(device: torch.device) -> None:
    """Waits for a GPU."""
    import torch

    if device.type == "cuda":
        torch.cuda.synchronize(device)


def memory_gb(device: torch.device) -> float:
    """Peak memory of this process in GB: of the device, or of the machine."""
    import torch

    if device.type == "cuda":
        return torch.cuda.max_memory_reserved(device) / 1e9
    import resource

    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024) / 1e9
