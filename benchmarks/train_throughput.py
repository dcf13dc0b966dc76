"""Training speed against a plain Transformer: python benchmarks/train_throughput.py [--recipe R] [--device cuda]

Both sides have the same subsampling convolutions, width, depth, CTC head, loss, optimizer and batch; one has this
project's encoder with its chunk mask, positions and dropout, the other `torch.nn.TransformerEncoder` with a padding
mask. They take turns, in float32 and in bf16. The ratio is the plain one's time over ours: 1.00 or more is good. On a
CPU, CPU time is measured, which other programs disturb less; on a GPU the model FLOPs utilization is also printed,
relative to `--peak`.
"""

from __future__ import annotations

import argparse
import dataclasses
import statistics
import time
from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.utils.flop_counter import FlopCounterMode

from asr.config import ModelConfig, OptimConfig
from asr.features import FEATURE_OVERLAP, NUM_MEL_BINS, SUBSAMPLING
from asr.model.encoder import Encoder
from asr.model.masks import length_mask
from asr.recipe import load_config
from asr.training.optim import build_optimizer

UTTERANCE_S = (15.0, 13.0, 11.0, 9.0)
"""Durations in a batch, repeated, longest first, so that padding is included."""
TOKENS_PER_S = 5
VOCAB_SIZE = 500
CHUNK = (16, 64)
MODES = (("fp32", None), ("bf16", torch.bfloat16))


class Ours(nn.Module):
    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.encoder = Encoder(config)
        self.ctc = nn.Linear(config.dim, VOCAB_SIZE)

    def forward(self, features: Tensor, num_frames: Tensor) -> tuple[Tensor, Tensor]:
        x, lengths, _ = self.encoder(self.ctc, features, num_frames, (CHUNK,))
        return self.ctc(x), lengths


class Plain(Ours):
    """A plain Transformer with PyTorch's layers."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__(config)
        layer = nn.TransformerEncoderLayer(
            config.dim, config.num_heads, config.encoder_ff_dim, config.dropout, batch_first=True, norm_first=True
        )
        self.encoder.layers = nn.ModuleList()
        self.layers = nn.TransformerEncoder(layer, config.encoder_layers, enable_nested_tensor=False)

    def forward(self, features: Tensor, num_frames: Tensor) -> tuple[Tensor, Tensor]:
        lengths = num_frames // SUBSAMPLING
        x = self.encoder._subsample(F.pad(features, (0, 0, 0, FEATURE_OVERLAP)), num_frames)
        padding = ~length_mask(lengths, x.shape[1])
        return self.ctc(self.encoder.final_norm(self.layers(x, src_key_padding_mask=padding))), lengths


def make_batch(batch_s: float, device: str) -> tuple[Tensor, ...]:
    """Noise of `batch_s` seconds including padding, with random transcripts."""
    durations = [UTTERANCE_S[i % len(UTTERANCE_S)] for i in range(max(1, int(batch_s / max(UTTERANCE_S))))]
    num_frames = torch.tensor([int(100 * s) for s in durations])
    lengths = torch.tensor([int(TOKENS_PER_S * s) for s in durations])
    features = torch.randn(len(durations), int(num_frames.max()), NUM_MEL_BINS)
    targets = torch.randint(1, VOCAB_SIZE, (len(durations), int(lengths.max())))
    return tuple(t.to(device) for t in (features, num_frames, targets, lengths))


def training_step(module: Ours, batch: tuple[Tensor, ...], dtype: torch.dtype | None) -> Callable[[], None]:
    optimizer = build_optimizer(module, OptimConfig())
    features, num_frames, targets, target_lengths = batch

    def step() -> None:
        with torch.autocast(features.device.type, dtype, enabled=dtype is not None):
            logits, lengths = module(features, num_frames)
        log_probs = logits.float().log_softmax(-1).transpose(0, 1)
        F.ctc_loss(log_probs, targets, lengths, target_lengths, zero_infinity=True).backward()
        nn.utils.clip_grad_norm_(module.parameters(), 5.0)
        optimizer.step()
        optimizer.zero_grad()

    return step


def measure(step: Callable[[], None], steps: int, cuda: bool) -> float:
    """Seconds per step."""
    clock = time.perf_counter if cuda else time.process_time
    if cuda:
        torch.cuda.synchronize()
    started = clock()
    for _ in range(steps):
        step()
    if cuda:
        torch.cuda.synchronize()
    return (clock() - started) / steps


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--recipe", default="tiny", help="whose encoder (default: tiny)")
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    parser.add_argument("--batch-s", type=float, help="audio per batch (default: the recipe's)")
    parser.add_argument("--rounds", type=int, default=5, help="turns of each side; the median counts (default: 5)")
    parser.add_argument("--steps", type=int, default=1, help="steps a turn (default: 1)")
    parser.add_argument(
        "--peak", type=float, default=989.0, help="TFLOP/s of the GPU in bf16 (default: 989, H100, H200)"
    )
    args = parser.parse_args()
    config = load_config(args.recipe)
    batch = make_batch(args.batch_s or config.data.max_batch_s, args.device)
    cuda = args.device == "cuda"
    torch.manual_seed(0)
    shape = dataclasses.replace(config.model, condition_layers=())  # PyTorch's encoder does not have these
    sides = [kind(shape).to(args.device).train() for kind in (Ours, Plain)]
    ours, plain = (sum(p.numel() for p in side.parameters()) for side in sides)
    print(f"{args.recipe}: {ours} parameters, plain {plain}; batch of {len(batch[0])} x {batch[0].shape[1]} frames")
    with FlopCounterMode(display=False) as counter:
        training_step(sides[0], batch, None)()
    for name, dtype in MODES:
        steps = [training_step(side, batch, dtype) for side in sides]
        for step in steps:  # excludes allocations and lazy initialization
            step()
        times: list[list[float]] = [[], []]
        for _ in range(args.rounds):
            for side, step in enumerate(steps):
                times[side].append(measure(step, args.steps, cuda))
        own, other = (statistics.median(values) for values in times)
        line = (
            f"{name}: ours {1000 * own:.1f} ms, plain {1000 * other:.1f} ms a step; ratio {other / own:.2f} (goal 1.00)"
        )
        if cuda and dtype is not None:
            share = counter.get_total_flops() / own / (args.peak * 1e12)
            line += f"; model FLOPs utilization {share:.1%} of {args.peak:g} TFLOP/s (goal 40 %)"
        print(line)


if __name__ == "__main__":
    main()
