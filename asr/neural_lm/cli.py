"""`asr neural-lm`: trains the neural language model that rescores finals."""

from __future__ import annotations

import argparse
import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Console

from asr.command import add_option, split_weight
from asr.files import require_folder
from asr.lm.packed import LmError
from asr.neural_lm.config import COOLDOWN, DEFAULTS, NeuralLmConfig
from asr.neural_lm.text import learn_pieces, read
from asr.runtime.neural_lm import bundled_neural_lm
from asr.training.short import TrainBar

if TYPE_CHECKING:
    from asr.neural_lm.checkpoint import NeuralLmCheckpoint

HEAD_DIM = 64
"""Width of a head of a network with --dim."""
NUM_PIECES = 4096
"""Default number of word pieces."""
DESCRIPTION = """\
Trains the neural language model that rescores finals, on utterances, one per
line, as `asr lm utterances` writes them, on a GPU if there is one. `asr
export` converts its checkpoint to the .onnx file that apps use.
"""
EXAMPLES = """\
examples:
  asr lm utterances books.txt talks.txt -o lines.txt
  asr neural-lm 'lines.txt*0.8' 'sentences.txt*0.2' -o lm.pt
  asr neural-lm 'lines.txt*0.8' 'sentences.txt*0.2' -o lm.pt --resume
  asr neural-lm lines.txt -o lm.pt --layers 8 --rows 512 --minutes 60 # on a GPU
  asr neural-lm domain.txt -o lm.pt --init bundled --lr 0.001 --steps 500
  asr export lm.pt -o lm.onnx --int8
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.description, parser.epilog = DESCRIPTION, EXAMPLES
    parser.add_argument(
        "text", nargs="+", metavar="TEXT*WEIGHT", help="UTF-8 text; WEIGHT is its share of each batch, 1 by default"
    )
    parser.add_argument("-o", "--output", type=Path, required=True, metavar="FILE", help="e.g. lm.pt")
    parser.add_argument("--resume", action="store_true", help="continue the training in FILE of --output")
    add_option(parser, "--steps", DEFAULTS.steps, "N", "steps of the whole training")
    parser.add_argument("--minutes", type=float, metavar="M", help="end the whole training after this many minutes")
    parser.add_argument(
        "--init",
        metavar="FILE",
        help="start with the weights of an .onnx file of `asr export`, or of the bundled one: bundled",
    )
    add_option(parser, "--lr", DEFAULTS.lr, "RATE", "peak learning rate")
    add_option(parser, "--cooldown", COOLDOWN, "SHARE", "last share of the training, over which the rate falls to zero")
    parser.add_argument("--pieces", type=int, metavar="N", help=f"number of new word pieces ({NUM_PIECES})")
    parser.add_argument(
        "--layers", type=int, metavar="N", help=f"layers of a new network ({NeuralLmConfig(1).num_layers})"
    )
    parser.add_argument(
        "--dim",
        type=int,
        metavar="N",
        help=f"width of a new network, a multiple of {HEAD_DIM} ({NeuralLmConfig(1).dim})",
    )
    parser.add_argument(
        "--rows",
        type=int,
        default=DEFAULTS.rows,
        metavar="N",
        help=f"rows of {DEFAULTS.length} pieces in a step (%(default)s); 512 on a GPU",
    )
    add_option(parser, "--seed", 0, "N", "random seed")


def _start(args: argparse.Namespace) -> NeuralLmCheckpoint | None:
    """Where the training begins; None for a new network."""
    from asr.neural_lm.checkpoint import NeuralLmCheckpoint

    if args.resume:
        return NeuralLmCheckpoint.load(args.output)
    if args.init is None:
        return None
    path = bundled_neural_lm() if args.init == "bundled" else Path(args.init)
    if path is None:
        raise LmError("asr-stream was installed without its neural language model: --init takes a file")
    return NeuralLmCheckpoint.from_onnx(path)


def run(args: argparse.Namespace) -> int:
    """Entry of `asr neural-lm`."""
    for name in ("steps", "rows", "layers", "dim", "pieces"):
        if (value := getattr(args, name)) is not None and value < 1:
            raise LmError(f"--{name} {value} must be at least 1")
    if args.minutes is not None and not args.minutes > 0:
        raise LmError(f"--minutes {args.minutes} must be above 0")
    for name in ("layers", "dim"):
        if getattr(args, name) and (args.resume or args.init):
            raise LmError(f"--{name} is for a new network: --resume and --init keep theirs")
    if args.dim and args.dim % HEAD_DIM:
        raise LmError(f"--dim {args.dim} must be a multiple of {HEAD_DIM}")
    if args.pieces and (args.resume or args.init):
        raise LmError("--pieces is for new word pieces: --resume and --init keep theirs")
    require_folder(args.output)
    if args.output.exists() and not args.resume:
        raise LmError(f"{args.output} exists: continue its training with --resume, or give another name")
    if args.resume and args.init:
        raise LmError("--resume continues with the weights of --output, so --init cannot be given with it")
    if not args.lr > 0 or not 0 <= args.cooldown <= 1:
        raise LmError(f"--lr {args.lr} must be above 0, --cooldown {args.cooldown} in [0, 1]")
    from asr.neural_lm.train import train

    resume = _start(args)
    console = Console(stderr=True)
    paths, weights = zip(*(split_weight(name, "weight") for name in args.text), strict=True)
    if resume is None:
        with console.status("learning word pieces"):
            tokenizer = learn_pieces([Path(path) for path in paths], args.pieces or NUM_PIECES)
    else:
        tokenizer = resume.tokenizer
    texts = []
    for path, weight in zip(paths, weights, strict=True):
        with console.status(f"reading {path}"):
            texts.append(read(Path(path), weight, tokenizer))
        console.print(f"{path}: {len(texts[-1].pieces) / 1e6:.2f} M pieces, weight {weight:g}", highlight=False)
    new = NeuralLmConfig(tokenizer.vocab_size)
    if args.dim:
        new = replace(new, dim=args.dim, num_heads=args.dim // HEAD_DIM, ff_dim=3 * args.dim)
    config = replace(new, num_layers=args.layers or new.num_layers) if resume is None else resume.config
    options = replace(DEFAULTS, steps=args.steps, rows=args.rows, seed=args.seed, lr=args.lr)
    with TrainBar(console, "pieces", resume.step / args.steps if resume else 0.0) as bar:

        def on_scores(step: int, name: str, perplexity: float) -> None:
            bar.scores(step, name, f"perplexity {perplexity:.2f} per piece")

        try:
            train(
                texts,
                args.output,
                tokenizer,
                options,
                config,
                minutes=args.minutes or float("inf"),
                resume=resume,
                cooldown=args.cooldown,
                on_step=bar.step,
                on_scores=on_scores,
            )
        except KeyboardInterrupt:
            print(f"asr neural-lm: stopped; {args.output} is saved, continue with --resume", file=sys.stderr)
            return 130
    print(f"{args.output}: trained; convert it for asr-stream: asr export {args.output} -o lm.onnx --int8")
    return 0
