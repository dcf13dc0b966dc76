"""The first 20 losses of every recipe, scaled down: python benchmarks/golden_losses.py [--against COMMIT] [--write]

Compares the losses of this checkout with those recorded in a commit (tests/training/golden_losses.json), and prints the
first step at which a recipe differs. They are computed from random weights and noise, drawn on the CPU with a fixed
seed, without dropout, so a GPU must give them, too: run `--device cuda --precision bf16` before a long training.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import math
import subprocess
import sys
from pathlib import Path

import torch

from asr.config import Config
from asr.features import FRAME_SHIFT_S, NUM_MEL_BINS
from asr.model.denominator import Denominator
from asr.model.model import AsrModel, with_vocab
from asr.recipe import RECIPES, load_config, load_recipe
from asr.training.batches import Batch
from asr.training.cost import NUM_LETTERS, tokens_per_s
from asr.training.recognizer import RecognizerLosses
from asr.training.step import Learner

ROOT = Path(__file__).parent.parent
GOLDEN = ROOT / "tests" / "training" / "golden_losses.json"
STEPS = 20
NUM_ROWS, ROW_S = 4, 3.0
NUM_PHONES, PHONES_PER_S = 39, 11.0
SCALED = [
    *("model.dim=32", "model.num_heads=2", "model.encoder_layers=2", "model.encoder_ff_dim=64", "model.dropout=0"),
    *(
        "model.decoder_layers=1",
        "model.decoder_ff_dim=64",
        "model.subsampling_channels=4",
        "model.condition_layers=[1]",
    ),
    *("optim.warmup_steps=5", f"train.max_steps={STEPS}", "train.batches_per_step=1"),
]
TOLERANCE = {"fp32": 1e-3, "bf16": 1e-2}
"""Relative tolerance of each loss. bf16 has eight bits; the largest difference to float32 on a CPU was 0.09 %."""


def recipes() -> list[str]:
    """The bundled recipes for recognizers."""
    names = sorted(path.stem for path in RECIPES.glob("*.yaml"))
    return [name for name in names if isinstance(load_recipe(name), Config)]


def learner(config: Config, device: torch.device) -> Learner:
    """A network with random weights, as `config` describes it, with a typical number of units and phones."""
    units = NUM_LETTERS if config.tokenizer.kind == "char" else config.tokenizer.vocab_size
    phones = tuple(f"p{number}" for number in range(NUM_PHONES if config.data.lexicon else 0))
    network = AsrModel(with_vocab(dataclasses.replace(config.model, phones=phones), units))
    denominator = Denominator([], NUM_PHONES) if phones and config.loss.denominator_weight > 0 else None
    losses = RecognizerLosses(network, config, denominator).to(device)
    return Learner(network, losses, config, device)


def batch_of(config: Config, device: torch.device) -> Batch:
    """Noise with transcripts of two alternating units."""
    count = NUM_ROWS * config.loss.num_views
    num_frames = round(ROW_S / FRAME_SHIFT_S)
    num_tokens = round(ROW_S * tokens_per_s(config))
    num_phones = round(ROW_S * PHONES_PER_S) if config.data.lexicon else 0
    tokens, phones = (torch.arange(n).repeat(count, 1) % 2 + 3 for n in (num_tokens, num_phones))
    frames_of, tokens_of, phones_of = (torch.full((count,), n) for n in (num_frames, num_tokens, num_phones))
    features = torch.randn(count, num_frames, NUM_MEL_BINS)
    tensors = (features, frames_of, tokens, tokens_of, phones, phones_of)
    return Batch(*(tensor.to(device) for tensor in tensors), seconds=NUM_ROWS * ROW_S, seed=1)  # type: ignore[misc]


def losses(recipe: str, precision: str, device: str) -> list[float]:
    """Total loss of each step."""
    config = load_config(recipe, [*SCALED, f"train.precision={precision}"])
    torch.manual_seed(1)
    learns = learner(config, torch.device(device))
    found = []
    for step in range(1, STEPS + 1):
        torch.manual_seed(step)
        stats, _ = learns([batch_of(config, torch.device(device))], step)
        found.append(float(stats.losses["total"]))
    return found


def differences(found: dict[str, list[float]], recorded: dict[str, list[float]], tolerance: float) -> list[str]:
    """A line for each recipe whose losses differ by more than `tolerance`, or that exists on one side only."""
    lines = [f"{name}: only on one side" for name in sorted(found.keys() ^ recorded.keys())]
    for name in sorted(found.keys() & recorded.keys()):
        pairs = enumerate(zip(found[name], recorded[name], strict=True), 1)
        apart = [(step, a, b) for step, (a, b) in pairs if not math.isclose(a, b, rel_tol=tolerance)]
        if apart:
            step, a, b = apart[0]
            lines.append(
                f"{name}: {len(apart)} of {STEPS} losses differ, the first at step {step}: {a:.5f}, not {b:.5f}"
            )
    return lines


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--against", metavar="COMMIT", help="whose record to compare with (default: that of the files)")
    parser.add_argument("--write", action="store_true", help="record the losses of this checkout")
    parser.add_argument("--device", default="cpu", choices=("cpu", "cuda"))
    parser.add_argument("--precision", default="fp32", choices=tuple(TOLERANCE))
    args = parser.parse_args()
    found = {recipe: losses(recipe, args.precision, args.device) for recipe in recipes()}
    if args.write:
        rows = (f'  "{name}": {json.dumps([float(f"{x:.6g}") for x in values])}' for name, values in found.items())
        GOLDEN.write_text("{\n" + ",\n".join(rows) + "\n}\n")
        return 0
    where = f"{args.against}:{GOLDEN.relative_to(ROOT)}"
    text = subprocess.check_output(["git", "show", where], cwd=ROOT) if args.against else GOLDEN.read_bytes()
    lines = differences(found, json.loads(text), TOLERANCE[args.precision])
    print("\n".join(lines) or f"{len(found)} recipes: the same losses")
    return len(lines) > 0


if __name__ == "__main__":
    sys.exit(main())
