"""`asr train RECIPE --dry-run`: estimates memory, operations, time and cost of a recipe, before anything is rented.

Nothing is measured: the training step itself (`asr.training.step`) runs on tensors without data, which takes seconds on
any machine. Two operations are replaced by what they store for the backward pass: CTC, whose shapes depend on values,
and the fused attention of GPUs, which a CPU lacks. Prices and peak rates are in `GPUS`; change them there.
"""

from __future__ import annotations

import dataclasses
import os
import weakref
from contextlib import ExitStack
from functools import lru_cache
from typing import Any, NamedTuple
from unittest import mock

import torch
from rich.console import Console
from rich.table import Table
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_map_only
from torch.utils.flop_counter import FlopCounterMode

from asr.config import Config, ConfigError
from asr.data.batches import Batch, load_training_cuts
from asr.features import FRAME_SHIFT_S, NUM_MEL_BINS
from asr.lexicon.phones import num_phone_tokens
from asr.model import layers, model
from asr.model.denominator import Denominator
from asr.model.model import AsrModel, with_vocab
from asr.training.inputs import scarcity
from asr.training.step import Learner, num_views

UTTERANCE_S = 12.3
"""Mean length of LibriSpeech's training utterances."""
TOKENS_PER_S = {"char": 15.0}
"""Text units per second of read English, at 2.7 words; PIECES_PER_S for kinds with word pieces."""
PIECES_PER_S = 5.0
PHONES_PER_S = 11.0
NUM_LETTERS = 32
"""Number of units of kind char, which depends on the text."""
NUM_PHONES = 39
"""Phones of CMUdict, without stress."""
UTILIZATION = (0.02, 0.4)
"""Share of the peak rate that training reaches. On an H100 beside 16 busy processes, the recipes for LibriSpeech
reached 0.02 to 0.04 in batches of the longest utterances; slower GPUs reach more of theirs."""
OVERHEAD_GB = 1.0
"""CUDA's context and libraries."""
FRAGMENTATION = 0.2
"""Share of a GPU's memory that the calculation misses or the allocator cannot use: on an H100, PyTorch used 1.11 times
the calculated peak and held 1.19 to 1.24 times as much."""
CPU_FRAGMENTATION = 0.45
"""The same for glibc's allocator, which keeps freed memory: measured, it held 1.7 to 1.8 times the memory in use."""


CPU = torch.device("cpu")


class Gpu(NamedTuple):
    """Peak rates in TFLOP/s without sparsity; the price per hour is an assumption."""

    memory_gb: float
    bf16: float
    fp32: float
    euros: float


GPUS = {
    "l4": Gpu(24, 121, 30, 0.7),
    "rtx4090": Gpu(24, 165, 83, 0.5),
    "a100-40": Gpu(40, 312, 19.5, 1.2),
    "a100-80": Gpu(80, 312, 19.5, 1.6),
    "h100": Gpu(80, 989, 67, 2.5),
    "h200": Gpu(141, 989, 67, 3.3),
}


class Rows(NamedTuple):
    """Shape of a batch: number of utterances, counted once for all views, and their length."""

    number: int
    seconds: float


class Cost(NamedTuple):
    peak_bytes: int
    flops: int
    """Over all batches of the step."""
    num_parameters: int


class _Memory(TorchDispatchMode):
    """Counts the bytes of all live tensors. PyTorch's own MemTracker supports only one batch per step."""

    def __init__(self) -> None:
        super().__init__()
        self.peak_bytes = 0
        self._bytes = 0
        self._alive: set[int] = set()

    def add(self, tensor: Tensor) -> None:
        storage = tensor.untyped_storage()
        key = storage._cdata
        if key in self._alive:
            return
        self._alive.add(key)
        self._bytes += storage.nbytes()
        self.peak_bytes = max(self.peak_bytes, self._bytes)
        weakref.finalize(storage, self._remove, key, storage.nbytes()).atexit = False

    def _remove(self, key: int, num_bytes: int) -> None:
        self._alive.remove(key)
        self._bytes -= num_bytes

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        results = func(*args, **(kwargs or {}))
        tree_map_only(Tensor, self.add, results)
        return results


class _FusedAttention(torch.autograd.Function):
    """Stores what the fused kernel stores for the backward pass, and nothing else."""

    @staticmethod
    def forward(ctx: Any, query: Tensor, key: Tensor, value: Tensor, bias: Tensor) -> Tensor:
        out = torch.empty_like(query)
        ctx.save_for_backward(query, key, value, bias, out)
        return out

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        return (*(torch.empty_like(saved) for saved in ctx.saved_tensors[:3]), None)


class _Ctc(torch.autograd.Function):
    """Stores the forward variables of PyTorch's CTC for the backward pass, which has as many of its own."""

    @staticmethod
    def forward(ctx: Any, log_probs: Tensor, targets: Tensor) -> Tensor:
        alpha = log_probs.new_empty(*log_probs.shape[:2], 2 * targets.shape[1] + 1)
        ctx.save_for_backward(log_probs, alpha)
        return alpha.sum()

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        log_probs, alpha = ctx.saved_tensors
        beta = torch.empty_like(alpha)
        return torch.empty_like(log_probs) * beta.sum(), None


def learner(config: Config, device: torch.device = CPU) -> Learner:
    """A network with random weights, as `config` describes it, with a typical number of units and phones."""
    units = NUM_LETTERS if config.tokenizer.kind == "char" else config.tokenizer.vocab_size
    phones = tuple(f"p{number}" for number in range(NUM_PHONES if config.data.lexicon else 0))
    network = AsrModel(with_vocab(dataclasses.replace(config.model, phones=phones), units))
    denominator = Denominator([], NUM_PHONES) if phones and config.loss.denominator_weight > 0 else None
    if device != CPU:  # tensors without data cannot be moved
        network, denominator = network.to(device), denominator and denominator.to(device)
    return Learner(network, config, denominator, device, world_size=1)


def batch_of(config: Config, rows: Rows) -> Batch:
    """Noise of this shape, with a transcript of one repeated unit."""
    count = rows.number * num_views(config)
    num_frames = round(rows.seconds / FRAME_SHIFT_S)
    num_tokens = max(1, round(rows.seconds * TOKENS_PER_S.get(config.tokenizer.kind, PIECES_PER_S)))
    num_phones = round(rows.seconds * PHONES_PER_S) if config.data.lexicon else 0
    tokens, phones = (torch.arange(n).repeat(count, 1) % 2 + 3 for n in (num_tokens, num_phones))
    return Batch(
        features=torch.randn(count, num_frames, NUM_MEL_BINS),
        num_frames=torch.full((count,), num_frames),
        targets=tokens,
        target_lengths=torch.full((count,), num_tokens),
        phones=phones,
        phone_lengths=torch.full((count,), num_phones),
        seconds=rows.number * rows.seconds,
        seed=1,
        unreadable=(),
    )


def take_steps(learns: Learner, config: Config, rows: Rows) -> int:
    """Takes a short step, which creates the optimizer's state, and a step with batches of the given shape.

    Returns the floating-point operations of a whole step. At most two batches are run: the second one starts with
    existing gradients, like all later ones.
    """
    num_batches = max(1, config.train.batches_per_step)
    num_run = min(2, num_batches)
    learns([batch_of(config, Rows(1, 1.0))], 1)
    batch = batch_of(config, rows)
    with FlopCounterMode(display=False) as counter:
        learns([batch] * num_run, 2)
    return counter.get_total_flops() * num_batches // num_run


@lru_cache(maxsize=64)
def cost(config: Config, rows: Rows, fused: bool) -> Cost:
    """The cost of a step of `batches_per_step` batches of this shape. fused: with the attention kernel of a GPU.

    Floating-point operations are counted without that kernel, which does not change them.
    """

    attend_here = layers.attend

    def attend(query: Tensor, key: Tensor, value: Tensor, bias: Tensor) -> Tensor:
        if not layers.is_fused("cuda", query, bias):
            return attend_here(query, key, value, bias)
        attended: Tensor = _FusedAttention.apply(query, key, value, bias.to(query.dtype))
        return attended

    def ctc_loss(log_probs: Tensor, lengths: Tensor, targets: Tensor, target_lengths: Tensor) -> Tensor:
        loss: Tensor = _Ctc.apply(log_probs, targets)
        return loss

    with ExitStack() as stack:
        stack.enter_context(FakeTensorMode())
        stack.enter_context(mock.patch.object(model, "_ctc_loss", ctc_loss))
        if fused:
            stack.enter_context(mock.patch.object(layers, "attend", attend))
        learns = learner(config)
        if fused:
            learns.precision = config.train.precision  # a GPU's, whatever this machine's CPU can
        parameters, averages = list(learns.model.parameters()), list(learns.average.weights.values())
        memory = _Memory()
        for tensor in (*parameters, *learns.losses.buffers(), *averages):
            memory.add(tensor)
        stack.enter_context(memory)
        flops = take_steps(learns, config, rows)
        num_parameters = sum(p.numel() for p in parameters)
        return Cost(memory.peak_bytes, flops, num_parameters)


def shapes(config: Config) -> list[Rows]:
    """The batches that need the most memory: the longest utterances, and rows that augmentation makes longer."""
    most, longest = config.data.max_batch_s, config.data.max_utterance_s
    joined = 3 * longest + 2 * config.augment.max_pause_s if config.augment.concat_probability else longest
    silent = longest + (config.augment.max_silence_s if config.augment.silence_probability else 0)
    lengths = dict.fromkeys(min(most, seconds) for seconds in (longest, max(joined, silent)))
    return [Rows(int(most / seconds), seconds) for seconds in lengths]


def peak_gb(config: Config, fused: bool) -> float:
    """Peak memory in GB of the largest batch."""
    return max(cost(config, rows, fused).peak_bytes for rows in shapes(config)) / 1e9


def devices() -> list[str]:
    """The GPUs, and "cpu" where Python can tell this machine's memory; on Windows it cannot."""
    return [*GPUS, *(["cpu"] if hasattr(os, "sysconf") else [])]


def room_gb(device: str) -> float:
    """GB that training may use on a device of `devices`."""
    if device == "cpu":
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") / 1e9 * (1 - CPU_FRAGMENTATION)
    return GPUS[device].memory_gb * 1.024**3 * (1 - FRAGMENTATION) - OVERHEAD_GB


def batch_that_fits(config: Config, room: float, fused: bool) -> Config | None:
    """`config` with smaller batches, but the same audio per step; None if a single utterance does not fit."""
    while peak_gb(config, fused) > room:
        smaller = config.data.max_batch_s / 2
        if smaller < config.data.max_utterance_s:
            return None
        data = dataclasses.replace(config.data, max_batch_s=smaller)
        steps = dataclasses.replace(config.train, batches_per_step=2 * max(1, config.train.batches_per_step))
        config = dataclasses.replace(config, data=data, train=steps)
    return config


def dry_run(config: Config, name: str, device: str, console: Console) -> None:
    """Prints the cost of training. device: one of `devices`, or "" for all of them.

    Raises ConfigError, with a batch that fits, if it fits on none of them.
    """
    if device not in ("", *devices()):
        raise ConfigError(f"--on {device!r} is not a device of the table: take one of {', '.join(devices())}")
    hours, utterance_s = _data(config, console)
    rows = Rows(max(1, int(config.data.max_batch_s / utterance_s)), utterance_s)
    usual = cost(config, rows, fused=False)
    batches = max(1, config.train.batches_per_step)
    step_s = rows.number * rows.seconds * batches
    tokens_per_s = TOKENS_PER_S.get(config.tokenizer.kind, PIECES_PER_S)
    total_s = step_s * config.train.max_steps
    phones = f", {num_phone_tokens(('',) * NUM_PHONES)} phone tokens" if config.data.lexicon else ""
    epoch = epochs = ""
    if hours is not None:
        units = hours * 3.6e-3 * tokens_per_s
        epoch = f"an epoch: {hours:.1f} h of audio, about {units:.2f} M units, {hours * 3600 / step_s:.0f} steps\n"
        epochs = f", {total_s / 3600 / hours:.1f} epochs"
    console.print(
        f"{name}: {usual.num_parameters / 1e6:.1f} M parameters{phones}, {config.train.precision}\n"
        f"a step: {batches} x {rows.number} utterances of {rows.seconds:.1f} s, views: {num_views(config)}; "
        f"{step_s:.0f} s of audio, about {step_s * tokens_per_s:.0f} {config.tokenizer.kind} units; "
        f"{usual.flops / 1e12:.2f} TFLOP\n"
        f"{epoch}all: {config.train.max_steps} steps, {total_s / 3600:.0f} h of audio{epochs}, "
        f"{_rounded(usual.flops * config.train.max_steps / 1e18, 2)} EFLOP\n"
        f"kernels on a GPU: memory-efficient attention (the flash kernel takes no mask), CTC of PyTorch, "
        f"fused AdamW{' and Muon in bf16' if config.optim.kind == 'muon' else ''}",
        markup=False,
        highlight=False,
        soft_wrap=True,
    )
    low, high = UTILIZATION
    columns = (
        "device",
        "room, GB",
        "peak, GB",
        f"days at {high:.0%} to {low:.0%} of its peak rate",
        "EUR",
        "reads, h/h",
    )
    table = Table(*columns)
    refusals = []
    for each in [device] if device else devices():
        cells, refusal = _row(each, config, usual.flops, step_s)
        table.add_row(*cells)
        if refusal:
            refusals.append(refusal)
    console.print(table)
    if len(refusals) == table.row_count:
        raise ConfigError("; ".join(refusals))
    for refusal in refusals:
        console.print(refusal, markup=False, highlight=False, soft_wrap=True)


def _row(device: str, config: Config, flops: float, step_s: float) -> tuple[list[str], str]:
    """The cells of a device in the table, and the refusal of a batch that does not fit; "" if it fits.

    flops: of a step. step_s: seconds of audio in a step.
    """
    peak, room = peak_gb(config, device != "cpu"), room_gb(device)
    refusal = ""
    if peak > room:
        smaller = batch_that_fits(config, room, device != "cpu")
        way = (
            f"data.max_batch_s={smaller.data.max_batch_s:g} train.batches_per_step={smaller.train.batches_per_step}"
            if smaller
            else f"a shorter data.max_utterance_s than {config.data.max_utterance_s:g}, or a smaller network"
        )
        refusal = f"{peak:.1f} GB do not fit into the {room:.1f} GB of {device}: take {way}"
    cells = [device, f"{room:.1f}", f"{peak:.1f}"]
    if device == "cpu":
        return [*cells, "", "", ""], refusal
    gpu, (low, high) = GPUS[device], UTILIZATION
    rate = 1e12 * (gpu.bf16 if config.train.precision == "bf16" else gpu.fp32)
    days = [flops * config.train.max_steps / (rate * share) / 86400 for share in (high, low)]
    cells += [
        " to ".join(_rounded(each, 2) for each in days),
        " to ".join(_rounded(24 * each * gpu.euros, 0) for each in days),
        " to ".join(f"{step_s / (flops / (rate * share)):.0f}" for share in (low, high)),
    ]
    return cells, refusal


def _rounded(value: float, digits: int) -> str:
    """With `digits` decimals; a smaller value is "<0.01", never 0."""
    least = 10.0**-digits
    return f"<{least:.{digits}f}" if value < least else f"{value:.{digits}f}"


def _data(config: Config, console: Console) -> tuple[float | None, float]:
    """Hours per epoch, and the mean length of an utterance; without data, None and an assumed length."""
    try:
        parts, _ = load_training_cuts(config.data)
    except ValueError as error:
        seconds = min(UTTERANCE_S, config.data.max_utterance_s)
        console.print(f"utterances of {seconds:g} s are assumed: {error}", markup=False, soft_wrap=True)
        return None, seconds
    if warning := scarcity(parts, config.train.init):
        console.print(warning, markup=False, soft_wrap=True)
    durations = [(sum(cut.duration for cut in cuts) * share, len(cuts) * share) for cuts, share in parts]
    total, count = (sum(each) for each in zip(*durations, strict=True))
    return total / 3600, total / count
