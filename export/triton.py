"""A model repository for NVIDIA Triton Inference Server: the step function, whose caches the server keeps, and the
decoder's scores. Both run in its ONNX Runtime backend.

    REPOSITORY/encoder/config.pbtxt, 1/model.onnx, tokens.txt
    REPOSITORY/decoder/config.pbtxt, 1/model.onnx

A stream is a sequence; its caches are the sequence's implicit states, which begin as zeros. Triton's states have a
batch axis and at least one more, and no `reshape`: counts are (N, 1). The server pairs the states that go in with those
that come out by the order of their names (triton-inference-server/server#8586): `STATES` has both in order.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import torch
from torch import Tensor, nn

from asr._core import DECODER_INPUTS, DECODER_OUTPUTS, PHONE_OUTPUT
from asr.export.graph import ExportError, StepGraph, decoder_graph, require_relative, trace
from asr.export.parity import MAX_SCORE_ERROR, Case, chunks, hold, whole_lengths
from asr.export.quantize import quantize
from asr.export.sherpa import NUM_CHUNKS, ExportedFile, FloatArray, Parts, tokens_text, write_gated
from asr.features import FEATURE_OVERLAP, NUM_MEL_BINS, SUBSAMPLING
from asr.model.model import AsrModel
from asr.runtime.onnx_session import open_session

STATES = {"key_cache": "new_key_cache", "num_frames": "new_num_frames", "value_cache": "new_value_cache"}
"""Inputs and outputs that hold the past. Either side is sorted, so that the server finds the same pairs."""
MAX_BATCH_SIZE = 64
"""Streams that take a step together, at most."""
MAX_STREAMS = 1024
"""Streams that the server keeps at a time; more wait."""
IDLE_S = 60
"""A stream that sends nothing for so long is forgotten."""
_TYPES: dict[int, str] = {onnx.TensorProto.FLOAT: "TYPE_FP32", onnx.TensorProto.INT64: "TYPE_INT64"}


class TritonGraph(nn.Module):
    """`AsrModel.step` with counts of shape (N, 1)."""

    def __init__(self, model: AsrModel) -> None:
        super().__init__()
        self.step = StepGraph(model)

    def forward(
        self, x: Tensor, num_valid: Tensor, key_cache: Tensor, num_frames: Tensor, value_cache: Tensor
    ) -> tuple[Tensor, ...]:
        """
        Args:
            x: (N, T, 80) float32
            num_valid, num_frames: (N, 1) int64
            key_cache, value_cache: (N, num_layers, C, dim) float32
        Returns log_probs, encoder_out, the new states in the order of `STATES`, and phone_log_probs if there are any.
        """
        log_probs, encoder_out, keys, values, count, *phones = self.step(
            x, num_valid[:, 0], key_cache, value_cache, num_frames[:, 0]
        )
        return log_probs, encoder_out, keys, count[:, None], values, *phones


def encoder_graph(model: AsrModel, chunk_size: int, left_context: int) -> onnx.ModelProto:
    """The graph of one latency, of any batch; sizes in encoder frames."""
    require_relative(model)
    config = model.config
    window = SUBSAMPLING * chunk_size + FEATURE_OVERLAP
    cache = torch.zeros(2, config.encoder_layers, left_context, config.dim)
    counts = torch.zeros(2, 1, dtype=torch.int64)
    example = (torch.zeros(2, window, NUM_MEL_BINS), counts + window, cache, counts, cache.clone())
    outputs = ["log_probs", "encoder_out", *STATES.values()]
    if model.phone_ctc is not None:
        outputs.append(PHONE_OUTPUT)
    batch = {0: "N"}
    return trace(TritonGraph(model), example, [batch] * 5, [batch] * len(outputs), ("x", "num_valid", *STATES), outputs)


def scores_graph(model: AsrModel) -> onnx.ModelProto:
    """The decoder's graph with what scores sentences alone: a server keeps no hypotheses."""
    graph = decoder_graph(model)
    inputs = [value for value in graph.graph.input if value.name in DECODER_INPUTS]
    outputs = [value for value in graph.graph.output if value.name in DECODER_OUTPUTS]
    del graph.graph.input[:], graph.graph.output[:]
    graph.graph.input.extend(inputs)
    graph.graph.output.extend(outputs)
    onnx.checker.check_model(graph, full_check=True)
    return graph


def export_triton(
    model: AsrModel,
    tokens: tuple[str, ...],
    folder: str | Path,
    *,
    int8: bool = False,
    chunk_size: int = 16,
    left_context: int = 64,
    license: str = "",
) -> ExportedFile:
    """Writes the repository; returns the encoder's file. Arguments as of `export_sherpa`.

    Raises ExportError where the model cannot be exported or differs from PyTorch; OSError from writing.
    """
    if left_context < 1 or chunk_size < 1:
        raise ExportError(f"chunk_size {chunk_size} and left_context {left_context} must be at least 1 encoder frame")
    folder = Path(folder)
    encoder, decoder = folder / "encoder", folder / "decoder"
    with Parts() as parts:
        path = encoder / "1" / "model.onnx"
        graph = encoder_graph(model, chunk_size, left_context)
        cases = [Case(n, chunk_size, left_context, NUM_CHUNKS) for n in (1, 3)]
        written = write_gated(model, graph, path, parts.of(path), cases, run_by_triton, int8, license)
        parts.of(encoder / "config.pbtxt").write_text(encoder_config(graph), encoding="utf-8")
        parts.of(encoder / "tokens.txt").write_text(tokens_text(tokens), encoding="utf-8")
        if model.config.decoder_layers:
            scores = scores_graph(model)
            parts.of(decoder / "config.pbtxt").write_text(decoder_config(scores), encoding="utf-8")
            part = parts.of(decoder / "1" / "model.onnx")
            scores = quantize(scores) if int8 else scores
            part.write_bytes(scores.SerializeToString(deterministic=True))
            _check_scores(model, part, int8)
    return written


def run_by_triton(session: Any, features: FloatArray, case: Case) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Steps an opened file as the server does: zeros at first, then states paired by the order of their names."""
    shapes = {value.name: value.shape for value in session.get_inputs()}
    types = {value.name: np.int64 if "int64" in value.type else np.float32 for value in session.get_inputs()}
    states = {name: np.zeros((case.batch_size, *shapes[name][1:]), types[name]) for name in STATES}
    names = [value.name for value in session.get_outputs()]
    log_probs = []
    for chunk, num_valid in chunks(features, whole_lengths(features), case):
        outputs = dict(
            zip(names, session.run(None, {"x": chunk, "num_valid": num_valid[:, None], **states}), strict=True)
        )
        states = {old: outputs[new] for old, new in zip(sorted(STATES), sorted(STATES.values()), strict=True)}
        log_probs.append(outputs["log_probs"])
    return np.concatenate(log_probs, 1), states["key_cache"], states["value_cache"]


def encoder_config(graph: onnx.ModelProto) -> str:
    """config.pbtxt of the step function."""
    values = {value.name: value for value in (*graph.graph.input, *graph.graph.output)}
    inputs = [_tensor(value, batched=True) for value in graph.graph.input if value.name not in STATES]
    outputs = [_tensor(value, batched=True) for value in graph.graph.output if value.name not in STATES.values()]
    states = []
    for name, new in STATES.items():
        kind = _kind(values[name], batched=True)
        zeros = f'initial_state [ {{ name: "zeros of {name}", {kind}, zero_data: true }} ]'
        states.append(
            f'    {{\n      input_name: "{name}"\n      output_name: "{new}"\n      {kind}\n      {zeros}\n    }}'
        )
    return (
        'name: "encoder"\nbackend: "onnxruntime"\n'
        f"max_batch_size: {MAX_BATCH_SIZE}\n"
        f"{_list('input', inputs)}{_list('output', outputs)}"
        "sequence_batching {\n"
        f"  max_sequence_idle_microseconds: {IDLE_S * 1_000_000}\n"
        f"  oldest {{ max_candidate_sequences: {MAX_STREAMS}, max_queue_delay_microseconds: 5000 }}\n"
        "  state [\n" + ",\n".join(states) + "\n  ]\n}\n"
    )


def decoder_config(graph: onnx.ModelProto) -> str:
    """config.pbtxt of the scores. The first axis of its tensors is hypotheses of one utterance, not a batch."""
    inputs = [_tensor(value, batched=False) for value in graph.graph.input]
    outputs = [_tensor(value, batched=False) for value in graph.graph.output]
    return (
        'name: "decoder"\nbackend: "onnxruntime"\nmax_batch_size: 0\n'
        f"{_list('input', inputs)}{_list('output', outputs)}"
    )


def _list(name: str, tensors: list[str]) -> str:
    return f"{name} [\n" + ",\n".join(f"  {tensor}" for tensor in tensors) + "\n]\n"


def _tensor(value: onnx.ValueInfoProto, batched: bool) -> str:
    return f'{{ name: "{value.name}", {_kind(value, batched)} }}'


def _kind(value: onnx.ValueInfoProto, batched: bool) -> str:
    """Type and shape: without the axis of the batch, and with -1 for what varies."""
    tensor = value.type.tensor_type
    dims = [dim.dim_value if dim.HasField("dim_value") else -1 for dim in tensor.shape.dim][batched:]
    return f"data_type: {_TYPES[tensor.elem_type]}, dims: [ {', '.join(map(str, dims))} ]"


def _check_scores(model: AsrModel, file: Path, int8: bool) -> None:
    """ExportError where the decoder's file scores otherwise than PyTorch."""
    generator = torch.Generator().manual_seed(0)
    lengths = torch.tensor([5, 0, 3])
    tokens = torch.randint(3, model.config.vocab_size, (3, 5), generator=generator)
    memory = torch.randn(1, 40, model.config.dim, generator=generator)
    with torch.no_grad():
        expected = model.decoder.score(tokens, lengths, memory.expand(3, -1, -1), torch.full((3,), 40)).numpy()
    session = open_session(file.read_bytes(), file.name, "cpu", 1)
    inputs = (tokens, lengths, memory)
    (found,) = session.run(None, {name: each.numpy() for name, each in zip(DECODER_INPUTS, inputs, strict=True)})
    error = float((np.abs(found - expected) / (lengths.numpy() + 1)).max())
    hold([("error of a score per token", error, MAX_SCORE_ERROR["int8" if int8 else "none"])], int8)
