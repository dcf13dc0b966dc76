"""The arguments of `asr train`. PyTorch is imported after they have been checked, because that takes seconds."""

from __future__ import annotations

import argparse
from textwrap import fill

from rich.console import Console

from asr.recipe import RECIPES, load_recipe

EPILOG = """\
recipes:
{recipes}

examples:
  asr train tiny data.train=data/train data.valid=data/dev
  asr train tiny ... --resume                   continues after Ctrl-C
  asr train finetune data.train=data/mine train.minutes=10
  asr train neural-lm 'data.train=[lines.txt*0.8,sentences.txt*0.2]'
  asr train librispeech-100h --dry-run --on h100
  asr train librispeech-100h --trial 20
  torchrun --nproc_per_node=4 -m asr.cli train librispeech-960h
"""

MIN_TRIAL = 10


def add_arguments(parser: argparse.ArgumentParser) -> None:
    names = ", ".join(sorted(path.stem for path in RECIPES.glob("*.yaml")))
    wrapped = fill(names, 76, initial_indent="  ", subsequent_indent="  ", break_on_hyphens=False)
    parser.epilog = EPILOG.format(recipes=wrapped)
    parser.add_argument("config", help="a YAML file, or the name of a bundled recipe")
    parser.add_argument("overrides", nargs="*", metavar="key=value", help="e.g. optim.lr=5e-4 train.output=runs/mine")
    parser.add_argument("--resume", action="store_true", help="continue from the newest checkpoint in train.output")
    parser.add_argument(
        "--dry-run", action="store_true", help="do not train: print operations, time and cost, in a table of GPUs"
    )
    parser.add_argument(
        "--on",
        metavar="DEVICE",
        default="",
        help="with --dry-run: only this device of the table",
    )
    parser.add_argument(
        "--trial",
        type=int,
        metavar="N",
        help="do not train: take N steps on this machine, and print memory, speed and the time of all steps",
    )


def run(args: argparse.Namespace) -> int:
    config = load_recipe(args.config, args.overrides)
    if args.dry_run or args.on:
        from asr.training.cost import dry_run

        dry_run(config, args.config, args.on, Console())
        return 0
    if args.trial is not None:
        if args.trial < MIN_TRIAL:
            raise ValueError(f"--trial {args.trial} must be at least {MIN_TRIAL}: the first steps are slower")
        from asr.training.trial import trial

        return trial(config, args.trial, Console())
    from asr.training.train import train

    return train(config, args.resume, Console())
