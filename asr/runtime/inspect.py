"""`asr inspect`: shows the contents of a model file, for people or programs, and checks that it works.

docs/reference/onnx.md describes the file format. Imports no PyTorch.
"""

from __future__ import annotations

import argparse
import json
import math
from dataclasses import fields
from pathlib import Path
from typing import Any

import numpy as np

from asr._core import FORMAT_VERSION, ONNX_OPSET
from asr.features import ENCODER_FRAME_MS, LOG_FLOOR
from asr.runtime.metadata import EXPORT_AGAIN, ModelMetadata
from asr.runtime.onnx_decoder import OnnxDecoder, decoder_beside, decoder_of, decoder_signature
from asr.runtime.onnx_model import OnnxModel, bundled_model, step_signature
from asr.runtime.onnx_session import ModelError, Signature, Tensors
from asr.text import printable
from asr.tokenizer import SOS_EOS_ID

MAX_CHECKED = 128
"""Encoder frames: the check limits chunk and left context to this, whatever a file states."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("model", nargs="?", default="bundled", help="an .onnx file; default: the bundled one")
    parser.add_argument("--json", action="store_true", help="print JSON, for programs")


def run(args: argparse.Namespace) -> int:
    """Entry of `asr inspect`."""
    path = bundled_model() if args.model == "bundled" else Path(args.model)
    model = OnnxModel(path)
    decoder = decoder_of(model) if decoder_beside(path).is_file() else None
    check(model, decoder)
    try:
        text = json.dumps(contents(model, decoder)) if args.json else summary(model, decoder)
    except RecursionError as error:
        raise ModelError(f"{path} is damaged: its metadata nests too deep; {EXPORT_AGAIN}") from error
    print(text)
    return 0


def check(model: OnnxModel, decoder: OnnxDecoder | None) -> None:
    """Runs both graphs on silence.

    Raises ModelError, with the name of the model, if a graph cannot be opened or run, its outputs are not logarithms of
    probabilities, or it needs features that no runtime computes.
    """
    meta = model.metadata
    num_new = min(meta.default_chunk_size, MAX_CHECKED)
    num_frames = meta.subsampling * num_new + meta.feature_overlap
    features = np.full((1, num_frames, meta.num_mel_bins), LOG_FLOOR, np.float32)
    cache = model.init_cache(1, min(meta.default_left_context, MAX_CHECKED))
    for _ in range(2):  # the second run uses the cache of the first
        output = model.step(features, np.array([num_frames], np.int64), cache)
        encoder_out, new_cache = output.encoder_out, output.cache
        heads = [array for array in (output.log_probs, output.phone_log_probs) if array is not None]
        arrays = (*heads, encoder_out, *new_cache)
        sizes = [meta.vocab_size, *([meta.num_phone_tokens] if meta.phones else []), meta.dim]
        shapes = [array.shape for array in arrays]
        wanted = [*((1, num_new, size) for size in sizes), *(array.shape for array in cache)]
        _require(model, shapes == wanted, f"a step gives shapes {shapes}, not {wanted}")
        for log_probs in heads:
            sums = np.exp(log_probs.astype(np.float64)).sum(-1)
            _require(model, bool((abs(sums - 1) < 1e-3).all()), f"probabilities of silence sum to {sums.min()}, not 1")
        finite = all(np.isfinite(array).all() for array in arrays)
        _require(model, finite, "a step on silence gives values that are not finite")
        for state, before, after in zip(meta.state_tensors, cache, new_cache, strict=True):
            kept = after.size > 0 and np.array_equal(before, after)
            _require(model, not kept, f"its step does not change the state {state.name}")
        cache = new_cache
    if decoder is not None:
        scores = decoder.score([[], [meta.vocab_size - 1]], encoder_out[0])
        _require(model, bool((np.isfinite(scores) & (scores <= 0)).all()), f"its decoder scores {scores.tolist()}")
        log_probs, _ = decoder.step(np.array([SOS_EOS_ID]), decoder.begin(encoder_out[0]))
        total = float(np.exp(log_probs.astype(np.float64)).sum())
        _require(model, abs(total - 1) < 1e-3, f"the first probabilities of its decoder sum to {total}, not 1")


def contents(model: OnnxModel, decoder: OnnxDecoder | None) -> dict[str, Any]:
    """Contents of the file without its weights, for JSON; sizes are in bytes and encoder frames of 40 ms."""
    meta = model.metadata
    described: dict[str, Any] = {
        "path": str(model.path),
        "num_bytes": model.path.stat().st_size,
        "format_version": FORMAT_VERSION,
        "opset": ONNX_OPSET,
        **_nodes(step_signature(meta)),
        "decoder": None,
        "metadata": {f.name: getattr(meta, f.name) for f in fields(meta)} | {"training": _training(meta)},
    }
    if decoder is not None:
        path, nodes = decoder_beside(model.path), _nodes(decoder_signature(decoder.metadata))
        described["decoder"] = {"path": str(path), "num_bytes": path.stat().st_size, **nodes}
    return described


def _nodes(signature: Signature) -> dict[str, Any]:
    return {
        direction: [{"name": name, "type": kind, "shape": shape} for name, (kind, shape) in tensors.items()]
        for direction, tensors in signature._asdict().items()
    }


def summary(model: OnnxModel, decoder: OnnxDecoder | None) -> str:
    """The contents of the file as a few lines for users."""
    meta = model.metadata
    size = model.path.stat().st_size / 1e6
    kept, more = (_num_state_bytes(meta, meta.default_left_context + number) for number in (0, 1))
    chunk_ms, left_ms = (n * ENCODER_FRAME_MS for n in (meta.default_chunk_size, meta.default_left_context))
    chunk = meta.config.get("chunk")
    trained_on = chunk.get("sizes") if isinstance(chunk, dict) else None
    lines = {
        "file": f"{size:.1f} MB, format {FORMAT_VERSION}, opset {ONNX_OPSET}, quantization {meta.quantization}, "
        f"license {meta.license or 'not stated'}, language {meta.language or 'not stated'}",
        "encoder": f"{meta.num_layers} layers, width {meta.dim}; a stream's cache takes "
        f"{kept / 1e3:.0f} kB ({(more - kept) / 1e3:.1f} kB per frame of left context)",
        "latency": f"any chunk that is a multiple of {ENCODER_FRAME_MS} ms, by default {chunk_ms} ms and {left_ms} ms "
        f"of left context; trained on chunks of {_flat(trained_on or 'unknown size')} frames",
        "tokens": f"{meta.vocab_size}: {_some(meta.tokens)}",
        "phones": f"{len(meta.phones)}: {_some(meta.phones)}" if meta.phones else "none: words are spelled",
        "decoder": _decoder(model, decoder),
        "features": f"{meta.num_mel_bins} log-mel bins, {meta.low_freq:g} to {meta.high_freq:g} Hz, windows of "
        f"{meta.frame_length_ms:g} ms every {meta.frame_shift_ms:g} ms ({meta.window}), {meta.sample_rate} Hz mono, "
        f"pre-emphasis {meta.preemphasis:g}",
        "training": _flat(_training(meta)) or "not stated",
        "inputs": _names(step_signature(meta).inputs),
        "outputs": _names(step_signature(meta).outputs),
        "checked": "the graph opens and runs; probabilities of silence sum to 1"
        if decoder is None
        else "both graphs open and run; probabilities of silence sum to 1",
    }
    body = "".join(f"\n  {name:<9} {printable(text)}" for name, text in lines.items())
    return f"{model.path}{body}"


def _decoder(model: OnnxModel, decoder: OnnxDecoder | None) -> str:
    if decoder is None:
        return "none beside the file: search greedy or beam"
    path, weight = decoder_beside(model.path), model.metadata.rescore_ctc_weight
    size = path.stat().st_size / 1e6
    return f"{path.name}, {size:.1f} MB; a hypothesis counts {weight:g} x CTC + {1 - weight:g} x decoder"


def _training(meta: ModelMetadata) -> dict[str, Any]:
    """The summary of the training. In older files, models with phones have their phone error rates under "wer"."""
    return {"phone_error_rate" if name == "wer" and meta.phones else name: x for name, x in meta.training.items()}


def _num_state_bytes(metadata: ModelMetadata, left_context: int) -> int:
    """Size of the states of one stream in bytes."""
    states = metadata.state_tensors
    return sum(math.prod(state.shape(1, left_context)) * np.dtype(state.dtype).itemsize for state in states)


def _some(tokens: tuple[str, ...], most: int = 40) -> str:
    return " ".join(tokens) if len(tokens) <= most else " ".join((*tokens[: most - 1], "...", tokens[-1]))


def _flat(value: Any) -> str:
    """{"steps": 9, "wer": {"full": 0.5}, "data": {}} -> "steps 9, wer (full 0.5)"."""
    if isinstance(value, dict):
        parts = (
            (name, f"({_flat(inner)})" if isinstance(inner, dict) else _flat(inner))
            for name, inner in value.items()
            if inner != {}
        )
        return ", ".join(f"{name} {text}" for name, text in parts)
    return " ".join(map(_flat, value)) if isinstance(value, list) else str(value)


def _names(tensors: Tensors) -> str:
    return ", ".join(f"{name} ({', '.join(map(str, shape))}) {kind[7:-1]}" for name, (kind, shape) in tensors.items())


def _require(model: OnnxModel, condition: bool, damage: str) -> None:
    if not condition:
        raise ModelError(f"{model.path} is damaged: {damage}; {EXPORT_AGAIN}")
