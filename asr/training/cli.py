"""The arguments of `asr train`. PyTorch is imported after they have been checked, because that takes seconds."""

from __future__ import annotations

import argparse

from rich.console import Console

from asr.recipe import RECIPES, load_config

EPILOG = """\
recipes: {recipes}

examples:
  asr train tiny data.train=data/train.jsonl.gz data.valid=data/dev.jsonl.gz
  asr train tiny ... --resume                   continues after Ctrl-C
  asr train librispeech-100h --dry-run --on h100
  torchrun --nproc_per_node=4 -m asr.cli train librispeech-960h
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.epilog = EPILOG.format(recipes=", ".join(sorted(path.stem for path in RECIPES.glob("*.yaml"))))
    parser.add_argument("config", help="a YAML file, or the name of a bundled recipe")
    parser.add_argument("overrides", nargs="*", metavar="key=value", help="e.g. optim.lr=5e-4 train.output=runs/mine")
    parser.add_argument("--resume", action="store_true", help="continue from the newest checkpoint in train.output")
    parser.add_argument(
        "--dry-run", action="store_true", help="do not train: print memory, time and cost, in a table of GPUs"
    )
    parser.add_argument(
        "--on",
        metavar="DEVICE",
        default="",
        help="with --dry-run: only this device of the table, or cpu (this machine)",
    )


def run(args: argparse.Namespace) -> int:
    config = load_config(args.config, args.overrides)
    if args.dry_run or args.on:
        from asr.training.plan import dry_run

        dry_run(config, args.config, args.on, Console())
        return 0
    from asr.training.train import train

    return train(config, args.resume, Console())
