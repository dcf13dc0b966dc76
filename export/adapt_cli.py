"""The arguments of `asr adapt`. PyTorch is imported after they have been read, because that takes seconds."""

from __future__ import annotations

import argparse
from pathlib import Path

from asr.command import add_noise_tags, add_option


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.description = (
        "Adapts a model to one voice, with a few minutes of recordings and their texts.\n"
        "Three of eight recordings are held out: one decides when training stops, the\n"
        "others compare both models. The new one is called better only if its word errors\n"
        "fell by more than chance explains."
    )
    parser.epilog = (
        "example:\n  asr record --out recordings\n  asr adapt recordings -o mine.onnx\n"
        "  asr-stream --model mine.onnx --lm bundled"
    )
    parser.add_argument(
        "recordings",
        type=Path,
        help="the folder of `asr record`, or a table of paths and texts as for `asr prepare manifest`",
    )
    parser.add_argument("-o", "--output", type=Path, required=True, metavar="MODEL.onnx", help="the new model, in int8")
    add_option(
        parser, "--init", "bundled", "WEIGHTS", "a .safetensors or float32 .onnx file or a checkpoint to start from"
    )
    parser.add_argument("--language", metavar="CODE", help="language of the model (that of --init, if it states one)")
    add_noise_tags(parser)
    add_option(parser, "--lm", "bundled", "FILE", "language model for measuring word errors")


def run(args: argparse.Namespace) -> int:
    """Entry of `asr adapt`."""
    from asr.export.adapt import adapt

    return adapt(args)
