"""`asr shard`. PyTorch is imported after its arguments have been read, because that takes seconds."""

from __future__ import annotations

import argparse
from functools import partial
from pathlib import Path

from rich.console import Console
from rich.progress import Progress

from asr.tables import print_left_out


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("manifests", nargs="+", metavar="DATA.jsonl.gz", help="written by `asr prepare`")
    parser.add_argument("--out", type=Path, required=True, metavar="DIR", help="new directory, for data.train")
    parser.add_argument(
        "--size", type=int, default=2000, metavar="N", help="utterances per shard (default: %(default)s)"
    )  # about 400 MB of LibriSpeech


def run(args: argparse.Namespace) -> int:
    """Entry of `asr shard`."""
    from asr.data.cuts import iterate_cuts
    from asr.data.shards import write_shards

    console = Console()
    sets = [iterate_cuts(path) for path in args.manifests]
    with Progress(console=console, transient=True) as progress:
        task = progress.add_task("shards", total=None)
        result = write_shards(
            (cut for cuts in sets for cut in cuts), args.out, args.size, partial(progress.advance, task)
        )
    print_left_out(console, result.refusals)
    console.print(f"{args.out}: {result.num_utterances} utterances in {result.num_shards} shards", soft_wrap=True)
    return 0
