"""What `asr export` does: converts trained weights into one .onnx file for apps, or into files for sherpa-onnx."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from asr._core import NgramLm
from asr.export.decoding_graph import DecodingGraph, check_phones
from asr.export.graph import output_path
from asr.export.neural_lm import export_neural_lm
from asr.export.parity import CASES
from asr.export.punctuation import PunctuationReport, export_punctuation
from asr.export.sherpa import ExportedFile, export_sherpa, require_output_folder
from asr.export.write import ExportReport, export_model, in_half_precision, without_folders
from asr.features import ENCODER_FRAME_MS
from asr.files import require_folder
from asr.lm.mix import pruned
from asr.lm.packed import LmError, read_packed, unpack
from asr.neural_lm.config import NeuralLmRecipe
from asr.options import flag
from asr.punctuation.config import PunctuationRecipe
from asr.punctuation.task import load
from asr.runtime.metadata import ModelMetadata
from asr.training.checkpoint import Checkpoint, average_newest, load_pretrained, resolve, task_of
from asr.training.exported import kept_settings
from asr.training.pretrained import Pretrained


def export(args: argparse.Namespace) -> int:
    """Writes the files of `asr export`. args: its arguments, and `given`, the names of those not left at default."""
    task = task_of(args.checkpoint)
    if task == PunctuationRecipe.task:
        return _run_punctuation(args)
    if task == NeuralLmRecipe.task:
        return _run_neural_lm(args)
    given = [] if args.chunk_ms is None else args.chunk_ms.split(",")
    chunk_sizes = [_frames("--chunk-ms", ms, 1) for ms in given]
    if len(chunk_sizes) > 1 and args.target != "sherpa-onnx":
        raise ValueError(f"--chunk-ms {args.chunk_ms}: give one value; a native file takes any chunk at run time")
    if args.lm is not None and args.target == "native":
        raise ValueError(f"--lm {args.lm} is for --target sherpa-onnx; asr-stream takes a language model when it runs")
    if not args.megabytes > 0:
        raise ValueError(f"--megabytes {args.megabytes:g} must be above 0")
    if args.target != "native":
        of_sherpa = ("target", "average", "int8", "chunk_ms", "left_context_ms", "lm", "license")
        _refuse_other(args, f"--target {args.target}", *of_sherpa, "megabytes")
        if args.lm is None:
            _refuse_other(args, f"--target {args.target} without --lm", *of_sherpa)
        return _run_sherpa(args, *_weights(args), chunk_sizes or [ModelMetadata.default_chunk_size])
    if args.output.suffix == ".safetensors":
        if args.int8:
            raise ValueError("--int8 is for inference: weights for further training are not quantized")
        _refuse_other(args, "weights for further training", "average", "license")
        return _run_weights(args, *_weights(args))
    of_native = ("average", "int8", "chunk_ms", "left_context_ms", "rescore_ctc_weight", "language", "license")
    _refuse_other(args, "--target native", *of_native)
    output = output_path(args.output, args.checkpoint)
    left_context = None if args.left_context_ms is None else _frames("--left-context-ms", args.left_context_ms, 0)
    pretrained, source = _weights(args)
    report = export_model(
        pretrained,
        output,
        int8=args.int8,
        chunk_size=chunk_sizes[0] if chunk_sizes else None,
        left_context=left_context,
        rescore_ctc_weight=args.rescore_ctc_weight,
        license=args.license,
        language=args.language,
        kept=kept_settings(args.checkpoint),
        on_progress=_report_stage,
    )
    print(summary(report, source, args.int8))
    return 0


def _refuse_other(args: argparse.Namespace, what: str, *taken: str) -> None:
    """Raises ValueError if an option was given that `what` does not take."""
    if odd := [flag(name) for name in args.given if name not in taken]:
        raise ValueError(f"{' and '.join(odd)} cannot be used for {what}")


def _report_stage(stage: str) -> None:
    """Prints the next stage, because an export takes half a minute, or longer on a busy machine."""
    print(f"asr export: {stage} ...", file=sys.stderr, flush=True)


def _run_punctuation(args: argparse.Namespace) -> int:
    _refuse_other(args, "a punctuation network", "int8", "license")
    _report_stage("tracing the punctuation network")
    source = resolve(args.checkpoint)
    report = export_punctuation(*load(source), args.output, int8=args.int8, license=args.license)
    print(punctuation_summary(report, str(source), args.int8))
    return 0


def _run_neural_lm(args: argparse.Namespace) -> int:
    _refuse_other(args, "a neural language model", "int8", "share", "weight", "license")
    _report_stage("tracing the language model and comparing it with PyTorch")
    source = resolve(args.checkpoint)
    report = export_neural_lm(
        Checkpoint.load(source).of(NeuralLmRecipe, source),
        args.output,
        int8=args.int8,
        share=args.share,
        weight=args.weight,
        license=args.license,
    )
    error = f"{'mean' if args.int8 else 'largest'} error of a log-probability {report.error:.1e}"
    print(
        f"{source} -> {report.path}\n"
        f"  {report.size / 1e6:.1f} MB, {'int8' if args.int8 else 'float32'}; against PyTorch: {error}"
    )
    return 0


def punctuation_summary(report: PunctuationReport, source: str, int8: bool) -> str:
    """Describes the written file in a few lines."""
    closeness = (
        f"KL divergence {report.divergence:.2g} nats, same mark and case for {report.agreement:.2%}"
        if int8
        else f"largest error {report.max_error:.1e}"
    )
    return (
        f"{source} -> {report.path}\n"
        f"  {report.size / 1e6:.1f} MB, {'int8' if int8 else 'float32'}\n"
        f"  against PyTorch over {report.num_words} words: {closeness}"
    )


def _run_weights(args: argparse.Namespace, pretrained: Pretrained, source: str) -> int:
    require_folder(args.output, args.checkpoint)
    rounded = in_half_precision(pretrained.model()).state_dict()  # the values that an exported graph stores
    replace(
        pretrained,
        config=without_folders(pretrained.config),
        weights=rounded,
        license=args.license or pretrained.license,
    ).save(args.output)
    print(f"{source} -> {args.output}\n  {args.output.stat().st_size / 1e6:.1f} MB, matrices in half precision")
    return 0


def _run_sherpa(args: argparse.Namespace, pretrained: Pretrained, source: str, chunk_sizes: list[int]) -> int:
    require_output_folder(args.output)  # before minutes of work
    model = pretrained.model()
    left_context = ModelMetadata.default_left_context
    if args.left_context_ms is not None:
        left_context = _frames("--left-context-ms", args.left_context_ms, 1)
    words = None if args.lm is None else _decoding_graph(args, model.config.phones)
    _report_stage(f"tracing {len(chunk_sizes)} graphs and comparing each with PyTorch")
    files = export_sherpa(
        model,
        pretrained.tokenizer.tokens,
        args.output,
        int8=args.int8,
        chunk_sizes=chunk_sizes,
        left_context=left_context,
        license=args.license or pretrained.license,
        words=words,
    )
    print(f"{source} -> {args.output}, with tokens.txt")
    if words is not None:
        size = (args.output / "HLG.fst").stat().st_size
        print(f"  HLG.fst: {size / 1e6:.1f} MB, {len(words.words) - 1} words, spelled in words.txt")
    for file in files:
        print(file_summary(file, args.int8))
    return 0


def _decoding_graph(args: argparse.Namespace, phones: Sequence[str]) -> DecodingGraph:
    packed = read_packed(args.lm)
    try:
        lm, (words, levels) = NgramLm(np.frombuffer(packed, np.uint8)), unpack(packed)
    except ValueError as error:
        raise LmError(f"{args.lm}: {error}") from error
    check_phones(lm, phones)
    _report_stage(f"pruning the n-grams of {args.lm} to {args.megabytes:g} MB")
    words, levels = pruned(words, levels, 1e6 * args.megabytes)
    _report_stage("building the decoding graph (minutes)")
    return DecodingGraph(lm, words, levels, phones)


def file_summary(file: ExportedFile, int8: bool) -> str:
    """Describes a written file in one line."""
    closeness = f"KL divergence {file.divergence:.2g} nats per frame" if int8 else f"largest error {file.max_error:.1e}"
    return f"  {file.path.name}: {file.size / 1e6:.1f} MB; against PyTorch over {file.num_chunks} chunks: {closeness}"


def _weights(args: argparse.Namespace) -> tuple[Pretrained, str]:
    """The weights and a description of their source."""
    if args.average is None:
        source = args.checkpoint
        return load_pretrained(source), source if source == "bundled" else str(resolve(source))
    checkpoint = average_newest(args.checkpoint, args.average)
    source = f"{args.checkpoint}, mean of {args.average} checkpoints to step {checkpoint.training['step']}"
    return checkpoint.pretrained(), source


def summary(report: ExportReport, source: str, int8: bool) -> str:
    """Describes the written file in a few lines."""
    parity = report.parity
    if int8:
        closeness = (
            f"KL divergence {parity.divergence:.2g} nats per frame, "
            f"same best token in {parity.agreement:.2%} of frames, relative error {parity.relative_error:.2g}"
        )
    else:
        closeness = f"largest error {parity.max_error:.1e}"
    return (
        f"{source} -> {report.path}\n"
        f"  {report.size / 1e6:.1f} MB, {report.num_nodes} nodes, {'int8' if int8 else 'float32'}\n"
        f"  against PyTorch over {parity.num_chunks} chunks in {len(CASES)} settings: {closeness}; "
        f"decoder {max(parity.score_error, parity.step_error):.1e} per token\n"
        f"  {report.decoder_path}: {report.decoder_size / 1e6:.1f} MB, for the searches rescore and joint"
    )


def _frames(option: str, milliseconds: int | str, least: int) -> int:
    try:
        frames, rest = divmod(int(milliseconds), ENCODER_FRAME_MS)
    except ValueError:
        frames, rest = -1, 0
    if rest or frames < least:
        raise ValueError(
            f"{option} {milliseconds} must be a multiple of {ENCODER_FRAME_MS}, at least {least * ENCODER_FRAME_MS}"
        )
    return frames
