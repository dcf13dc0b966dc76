"""`asr average`: averages the weights of several training runs that started from the same weights.

Such runs stay so close that their mean is a good network, often better than each of them (model soups, Wortsman et al.
2022): it costs nothing at run time and combines what the runs learned.
"""

from __future__ import annotations

import argparse
import dataclasses
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from asr.command import split_weight
from asr.files import require_folder

if TYPE_CHECKING:
    from asr.training.pretrained import Pretrained


def average(sources: Sequence[tuple[str, float]]) -> Pretrained:
    """The weighted mean of `sources` of `load_pretrained`, with shares above 0.

    Configuration, tokens and license are those of the first. Validation errors are dropped, because they were not
    measured for the mean. Steps and audio are summed. A source without the running mean of the first counts as zeros,
    the initial values. One with fewer encoder layers first gets new ones, as the training of the first did.
    Raises CheckpointError if a network or its tokens differ from the first.
    """
    import torch

    from asr.training.checkpoint import check_same_network, load_pretrained
    from asr.training.pretrained import ERROR_RATES, with_new_layers

    first = load_pretrained(sources[0][0])
    mean = {name: value.clone() for name, value in first.weights.items()}
    training = {name: value for name, value in first.training.items() if name not in ERROR_RATES.values()}
    total = sources[0][1]
    for path, share in sources[1:]:
        other = load_pretrained(path)
        if other.config.model.encoder_layers < first.config.model.encoder_layers:
            other = with_new_layers(other, first.config.model.encoder_layers)
        check_same_network(other, first, path, sources[0][0])
        total += share
        for name in ("steps", "audio_hours"):
            training[name] = training.get(name, 0) + other.training.get(name, 0)
        for name, value in mean.items():
            value.lerp_(other.weights.get(name, torch.zeros_like(value)), share / total)
    return dataclasses.replace(first, weights=mean, training=training)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.epilog = (
        "example:\n  asr average 'runs/ctc*0.4' 'bundled*0.6' -o mean.safetensors\n"
        "  asr evaluate mean.safetensors --data data/dev"
    )
    parser.add_argument(
        "checkpoints",
        nargs="+",
        metavar="WEIGHTS[*SHARE]",
        help="folders of training runs (their best checkpoints), checkpoints, .safetensors or float32 .onnx files, or "
        "bundled; all must have started from the same weights; share: any number above 0 (default 1)",
    )
    parser.add_argument("-o", "--output", required=True, type=Path, metavar="PATH", help="the .safetensors file")


def run(args: argparse.Namespace) -> int:
    """Entry of `asr average`."""
    sources = [split_weight(text, "share") for text in args.checkpoints]
    if args.output.suffix != ".safetensors":
        raise ValueError(f"--output {args.output} must end in .safetensors")
    require_folder(args.output, *(path for path, _ in sources))
    average(sources).save(args.output)
    total = sum(share for _, share in sources)
    print(f"{args.output}: " + ", ".join(f"{100 * share / total:.0f} % {path}" for path, share in sources))
    return 0
