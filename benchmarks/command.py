"""What the command lines of benchmarks share: a data set, a model, and rows of numbers that come of it."""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, TypeVar

from rich.console import Console
from rich.progress import track

from asr.data.cuts import evenly_spread, load_cuts

T = TypeVar("T")


def new_parser(description: str | None, model: str = "default: the bundled one") -> argparse.ArgumentParser:
    """`model`: the help text of --model."""
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path, help="written by `asr prepare`; the recordings are read again")
    parser.add_argument("--model", help=model)
    parser.add_argument("--num-utterances", type=int, metavar="N", help="evenly spread; default: all")
    parser.add_argument("--json", action="store_true", help="print rows for programs")
    return parser


def utterances(args: argparse.Namespace) -> list[Any]:
    """The cuts that are asked for."""
    return evenly_spread(list(load_cuts(args.data)), args.num_utterances)


def progress(items: Iterable[T], name: str) -> Iterable[T]:
    """`items`, with a bar on standard error."""
    return track(items, name, console=Console(stderr=True))


def show(rows: Iterable[Mapping[str, Any]], args: argparse.Namespace) -> None:
    """A line for each row, or JSON."""
    if args.json:
        print(json.dumps(list(rows)))
        return
    for row in rows:
        print(
            "  ".join(
                f"{key} {value:.4g}" if isinstance(value, float) else f"{key} {value}" for key, value in row.items()
            )
        )
