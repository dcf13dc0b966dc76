"""The arguments of `asr export`. PyTorch is imported after they have been read, because that takes seconds."""

from __future__ import annotations

import argparse
from pathlib import Path

from asr._core import is_language
from asr.command import add_option
from asr.features import ENCODER_FRAME_MS
from asr.neural_lm.config import INTERPOLATION, LM_WEIGHT
from asr.runtime.metadata import ModelMetadata


def add_arguments(parser: argparse.ArgumentParser) -> None:
    defaults = ModelMetadata.default_chunk_size, ModelMetadata.default_left_context
    chunk_ms, left_context_ms = (ENCODER_FRAME_MS * frames for frames in defaults)
    parser.add_argument(
        "checkpoint",
        help="the folder of a training run (its best checkpoint), a checkpoint, a .safetensors or float32 .onnx file, "
        "or bundled; runs of the recipes neural-lm and punctuation give the files of these networks",
    )
    parser.add_argument(
        "--target",
        choices=("native", "sherpa-onnx"),
        default="native",
        help="native: a model for asr-stream, and its decoder beside it; sherpa-onnx: its zipformer2_ctc files, with "
        "--lm also a decoding graph",
    )
    parser.add_argument(
        "-o",
        "--output",
        required=True,
        type=Path,
        metavar="PATH",
        help="MODEL.onnx, or MODEL.safetensors for further training; for other targets a folder",
    )
    parser.add_argument(
        "--average",
        type=int,
        metavar="K",
        help="average the weights of the run's newest K checkpoints; default: the best checkpoint's moving average",
    )
    parser.add_argument("--int8", action="store_true", help="8-bit weights: half of the size, faster on CPUs")
    parser.add_argument(
        "--chunk-ms",
        metavar="MS",
        help=f"default chunk; any chunk works at run time ({chunk_ms}, or that of an .onnx file). sherpa-onnx: one "
        "file for each of MS,...",
    )
    parser.add_argument(
        "--left-context-ms",
        type=int,
        metavar="MS",
        help=f"default left context of a chunk ({left_context_ms}, or that of an .onnx file)",
    )
    parser.add_argument(
        "--rescore-ctc-weight",
        type=float,
        metavar="W",
        help="weight of CTC relative to the decoder when rescoring "
        f"({ModelMetadata.rescore_ctc_weight:g}, or that of an .onnx file)",
    )
    parser.add_argument(
        "--language",
        metavar="CODE",
        help="language of the model: en, de, de-CH, ... (bundled: en; or that of an .onnx file; if not stated, numbers "
        "stay words)",
    )
    add_option(parser, "--share", INTERPOLATION, "S", "share of a neural language model when combined with n-grams")
    add_option(
        parser, "--weight", LM_WEIGHT, "W", "weight of both models together, relative to the weight of n-grams alone"
    )
    parser.add_argument(
        "--lm",
        metavar="PATH",
        help="sherpa-onnx: a file of asr lm, or bundled; words are found by its pronunciations",
    )
    parser.add_argument(
        "--megabytes",
        type=float,
        default=5.0,
        metavar="M",
        help="size to which the n-grams of --lm are pruned before the graph is built (%(default)g)",
    )
    parser.add_argument("--license", default="", help="license of the weights, an SPDX identifier: CC-BY-4.0, ...")


def run(args: argparse.Namespace) -> int:
    """Entry of `asr export`."""
    from asr.export.commands import export

    parser = argparse.ArgumentParser()
    add_arguments(parser)
    defaults = vars(parser.parse_args([args.checkpoint, "-o", str(args.output)]))
    args.given = [name for name, value in defaults.items() if getattr(args, name) != value]
    args.language = stated_language(args.language, args.checkpoint)
    return export(args)


def stated_language(given: str | None, source: str) -> str:
    """The language of a model made from the weights `source`; empty if not stated, or only in an .onnx file. Raises
    ValueError for an invalid code."""
    if given is None:
        return "en" if source == "bundled" else ""
    if not is_language(given):
        raise ValueError(f"--language {given} must be a BCP 47 code, such as en or de-CH")
    return given
