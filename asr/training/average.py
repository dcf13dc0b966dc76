"""`asr average`: the mean of the weights of several training runs that began with the same weights.

Such runs stay so close that their mean is a network of its own, often better than each (model soups, Wortsman et al.
2022): it costs nothing at run time and has some of what each run learned.
"""

from __future__ import annotations

import argparse
import dataclasses
from collections.abc import Sequence
from pathlib import Path

from asr.command import split_weight
from asr.training.checkpoint import Checkpoint, check_same_network, resolve


def average(sources: Sequence[tuple[str, float]]) -> Checkpoint:
    """A checkpoint whose weights and moving averages are the means of those of `sources`, files with shares above 0.

    Its configuration and text units are those of the first. It has no state to resume from, and no errors of
    validation: nobody measured them. Steps and audio are sums. Raises CheckpointError for checkpoints of other networks
    or text units than the first.
    """
    first = Checkpoint.load(resolve(sources[0][0]))
    training = {name: first.training[name] for name in ("step", "audio_hours")}
    total = sources[0][1]
    for path, share in sources[1:]:
        other = Checkpoint.load(resolve(path))
        check_same_network(other, first, path, sources[0][0])
        total += share
        for name in training:
            training[name] += other.training[name]
        for ours, theirs in ((first.weights, other.weights), (first.average, other.average)):
            for name, value in ours.items():
                value.lerp_(theirs[name], share / total)
    return dataclasses.replace(first, training=training)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.epilog = (
        "example:\n  asr average runs/ctc*0.4 runs/mmi*0.6 -o mean.pt\n  asr evaluate mean.pt --data data/dev.jsonl.gz"
    )
    parser.add_argument(
        "checkpoints",
        nargs="+",
        metavar="CHECKPOINT[*SHARE]",
        help="checkpoints, or folders of training runs (their best ones), that began with the same weights; "
        "share: any number above 0, 1 where there is none",
    )
    parser.add_argument("-o", "--output", required=True, type=Path, metavar="PATH", help="the checkpoint to write")


def run(args: argparse.Namespace) -> int:
    """Entry of `asr average`."""
    sources = [split_weight(text, "share") for text in args.checkpoints]
    average(sources).save(args.output)
    total = sum(share for _, share in sources)
    print(f"{args.output}: " + ", ".join(f"{100 * share / total:.0f} % {path}" for path, share in sources))
    return 0
