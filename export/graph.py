"""ONNX graphs of PyTorch modules: the encoder's step and the decoder's step.

Both trace AsrModel's own code. This module names the dynamic axes and removes traces of the exporting machine. Only
standard operators are used.
"""

from __future__ import annotations

import copy
import inspect
import io
import logging
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, redirect_stdout
from pathlib import Path

import numpy as np
import onnx
import onnx_ir
import torch
from torch import Tensor, nn

from asr._core import (
    DECODER_INPUTS,
    DECODER_OUTPUTS,
    DECODER_STEP_INPUT,
    DECODER_STEP_OUTPUT,
    ENCODER_INPUTS,
    ENCODER_OUTPUTS,
    ONNX_OPSET,
    PHONE_OUTPUT,
    StateTensor,
)
from asr.features import FEATURE_OVERLAP, NUM_MEL_BINS, SUBSAMPLING
from asr.files import require_folder
from asr.model.decoder import DecoderCache, sentence_scores
from asr.model.model import AsrModel
from asr.runtime.onnx_decoder import decoder_beside
from asr.tokenizer import SOS_EOS_ID

_DYNAMIC = torch.export.Dim.DYNAMIC


class ExportError(ValueError):
    """A model that cannot be exported, or an export that failed its checks."""


def output_path(path: str | Path, *inputs: str | Path) -> Path:
    """`path` as a Path. Raises ExportError if it does not end in .onnx, and ValueError if it or its decoder cannot be
    written there, or if it would replace one of the files `inputs` or the decoder of one."""
    path = Path(path)
    if path.suffix != ".onnx":
        raise ExportError(f"output {path} must end in .onnx")
    decoders = [decoder_beside(each) for each in inputs if Path(each).suffix == ".onnx"]
    for output in (path, decoder_beside(path)):
        require_folder(output, *inputs, *decoders)
    return path


class Product(nn.Linear):
    """nn.Linear as a product and a sum. The exporter would emit a Gemm, which no pass in this package handles."""

    def forward(self, x: Tensor) -> Tensor:
        product = x @ self.weight.t()
        return product if self.bias is None else product + self.bias


def with_products(model: AsrModel) -> AsrModel:
    """A copy of the model with `Product`s as linear layers, which an export of `AsrModel.step` needs."""
    model = copy.deepcopy(model)
    for module in model.modules():
        if type(module) is nn.Linear:
            module.__class__ = Product
    return model


def state_rows(model: AsrModel) -> tuple[str, ...]:
    """The fields of the encoder's cache as rows of `ModelMetadata.states`, in order.

    The batch axis and the left-context axis are found by creating caches of other sizes. Raises ExportError unless the
    cache is a named tuple of float32 and int64 tensors with one batch axis each.
    """
    cache = model.encoder.init_cache(2, 8)
    more_streams, longer = model.encoder.init_cache(3, 8), model.encoder.init_cache(2, 9)
    rows = []
    for name, *tensors in zip(cache._fields, cache, more_streams, longer, strict=True):
        sizes = [
            "N" if other_batch != size else "C" if other_left != size else str(size)
            for size, other_batch, other_left in zip(*(tensor.shape for tensor in tensors), strict=True)
        ]
        row = f"state_{name} {str(tensors[0].dtype).removeprefix('torch.')} {','.join(sizes)}"
        try:
            state = StateTensor(row)
        except ValueError as error:
            raise ExportError(f"the encoder's state {name} cannot be exported: {error}") from error
        if state.batch_axis == len(sizes):
            raise ExportError(f"the encoder's state {name} cannot be exported: it has no batch axis")
        rows.append(row)
    return tuple(rows)


class StepGraph(nn.Module):
    """`AsrModel.step` with the fields of the cache as tensors."""

    def __init__(self, model: AsrModel) -> None:
        super().__init__()
        self.model = with_products(model)
        self.cache_type = type(model.encoder.init_cache(1, 1))

    def forward(self, x: Tensor, num_valid: Tensor, *states: Tensor) -> tuple[Tensor, ...]:
        """Inputs and outputs as in asr.runtime.onnx_model.step_signature."""
        out = self.model.step(x, num_valid, self.cache_type(*states))
        phones = [] if out.phone_log_probs is None else [out.phone_log_probs]
        return out.log_probs, out.encoder_out, *out.cache, *phones


class DecoderGraph(nn.Module):
    """`Decoder.step` of N hypotheses of one utterance, and the scores of the given sentences."""

    def __init__(self, model: AsrModel) -> None:
        super().__init__()
        self.decoder = with_products(model).decoder

    def forward(
        self, tokens: Tensor, token_lengths: Tensor, encoder_out: Tensor, previous: Tensor, *cache: Tensor
    ) -> tuple[Tensor, ...]:
        """Inputs and outputs as in asr.runtime.onnx_decoder.decoder_signature."""
        # By default, these inputs begin a sentence and have one row, which is expanded to all hypotheses.
        num_rows = token_lengths.shape[0]
        keys, values = (tensor.expand(num_rows, -1, -1, -1) for tensor in cache[:2])
        past = self.decoder.extend(DecoderCache(keys, values, *cache[2:]), encoder_out)
        previous = previous.expand(num_rows)
        logits, new = self.decoder.step(torch.cat((previous[:, None], tokens), dim=1), past)
        log_probs = logits.float().log_softmax(-1)
        return sentence_scores(log_probs, tokens, token_lengths), log_probs, *new


def step_graph(model: AsrModel) -> onnx.ModelProto:
    """The native step graph; batch, chunk and left context are dynamic. Raises ExportError for absolute positions."""
    require_relative(model)
    num_frames = SUBSAMPLING * 4 + FEATURE_OVERLAP
    num_valid = torch.full((2,), num_frames)
    example = (torch.zeros(2, num_frames, NUM_MEL_BINS), num_valid, *model.encoder.init_cache(2, 8))
    rows = [StateTensor(row) for row in state_rows(model)]
    states = [{axis: size for axis, size in enumerate(row.sizes) if isinstance(size, str)} for row in rows]
    frames = {0: "N", 1: "(T-3)/4"}
    out = [frames, frames, *states]
    names = [*ENCODER_OUTPUTS, *(f"new_{row.name}" for row in rows)]
    if model.phone_ctc is not None:
        out, names = [*out, frames], [*names, PHONE_OUTPUT]
    inputs = (*ENCODER_INPUTS, *(row.name for row in rows))
    return trace(StepGraph(model), example, [{0: "N", 1: "T"}, {0: "N"}, *states], out, inputs, names)


def require_relative(model: AsrModel) -> None:
    """Raises ExportError for absolute positions: the graph would need the stream's offset, and the table is finite."""
    if model.encoder.positions.is_absolute:
        raise ExportError(
            f"model.position = {model.config.position!r} cannot be exported: absolute positions grow without bound "
            "in a live stream; train with position rope, relative or none"
        )


def decoder_rows(model: AsrModel) -> tuple[str, ...]:
    """The fields of the decoder's cache as rows of its metadata, in order; the hypotheses share the last two."""
    sizes = f"{model.config.decoder_layers},C,{model.config.dim}"
    batches = {"key_cache": "N", "value_cache": "N", "memory_keys": "1", "memory_values": "1"}
    return tuple(f"{name} float32 {batch},{sizes}" for name, batch in batches.items())


def decoder_graph(model: AsrModel) -> onnx.ModelProto:
    """The decoder's graph; N and the lengths of tokens, utterance and cache are dynamic. Without a cache it begins a
    sentence."""
    config = model.config
    past = [StateTensor(row).name for row in decoder_rows(model)]
    # The cache of the example has one row, so that the graph expands it: an input may have N rows, or one by default.
    cache = [torch.zeros(1, config.decoder_layers, size, config.dim) for size in (2, 2, 4, 4)]
    sentence = (
        torch.full((3, 5), 3),
        torch.tensor([5, 4, 3]),
        torch.zeros(1, 7, config.dim),
        torch.tensor([SOS_EOS_ID]),
    )
    static: dict[int, str] = {}
    shapes = ({0: "N", 1: "U"}, {0: "N"}, {1: "T"}, static, {2: "P"}, {2: "P"}, {2: "M"}, {2: "M"})
    out = ({0: "N"}, {0: "N", 1: "U+1"}, {0: "N", 2: "P+U+1"}, {0: "N", 2: "P+U+1"}, {2: "M+T"}, {2: "M+T"})
    inputs = (*DECODER_INPUTS, DECODER_STEP_INPUT, *past)
    outputs = (*DECODER_OUTPUTS, DECODER_STEP_OUTPUT, *(f"new_{name}" for name in past))
    graph = trace(DecoderGraph(model), (*sentence, *cache), shapes, out, inputs, outputs)
    none = np.zeros((1, config.decoder_layers, 0, config.dim), np.float32)
    for name, value in {DECODER_STEP_INPUT: np.array([SOS_EOS_ID]), **dict.fromkeys(past, none)}.items():
        graph.graph.initializer.append(onnx.numpy_helper.from_array(value, name))
    for value in graph.graph.input:
        if value.name in (DECODER_STEP_INPUT, *past[:2]):
            value.type.tensor_type.shape.dim[0].dim_param = "B"  # 1 or N
    onnx.checker.check_model(graph, full_check=True)
    return graph


def trace(
    module: nn.Module,
    example: tuple[Tensor, ...],
    input_dims: Sequence[dict[int, str]],
    output_dims: Sequence[dict[int, str]],
    input_names: Sequence[str],
    output_names: Sequence[str],
) -> onnx.ModelProto:
    """Traces `module` over inputs like `example`; `*_dims` names the dynamic axes of each tensor."""
    shapes: tuple[object, ...] = tuple({axis: _DYNAMIC for axis in dims} for dims in input_dims)
    parameters = inspect.signature(module.forward).parameters.values()
    num_named = sum(parameter.kind is not parameter.VAR_POSITIONAL for parameter in parameters)
    if num_named < len(parameters):  # the exporter expects the shapes of `*tensors` in a nested tuple
        shapes = (*shapes[:num_named], shapes[num_named:])
    with torch.no_grad(), _quiet():
        program = torch.onnx.export(
            module.eval(),
            example,
            dynamo=True,
            opset_version=ONNX_OPSET,
            dynamic_shapes=shapes,
            verbose=False,
            optimize=False,
        )
        assert program is not None
        _name_transposed(program.model.graph)
        program.optimize()
        # Named after the optimization, which separates an output that is also an input.
        for values, names in ((program.model.graph.inputs, input_names), (program.model.graph.outputs, output_names)):
            for value, name in zip(values, names, strict=True):
                value.name = name
    graph = _clean(program.model_proto)
    for value, dims in zip((*graph.graph.input, *graph.graph.output), (*input_dims, *output_dims), strict=True):
        for axis, name in dims.items():
            value.type.tensor_type.shape.dim[axis].dim_param = name
    onnx.checker.check_model(graph, full_check=True)
    return graph


def _name_transposed(graph: onnx_ir.Graph) -> None:
    """Names the transpose of every parameter "NAME.T".

    The optimizer turns these transposes into constants with the same names; later passes identify weights by name. A
    parameter shared by several products is transposed once.
    """
    transposed: dict[str, onnx_ir.Value] = {}
    for node in list(graph):
        source = node.inputs[0] if node.op_type == "Transpose" else None
        if source is None or not source.is_initializer():
            continue
        assert source.name is not None  # initializers have names
        (output,) = node.outputs
        if first := transposed.get(source.name):
            output.replace_all_uses_with(first)
            graph.remove(node, safe=True)
        else:
            output.name = f"{source.name}.T"
            transposed[source.name] = output


def _clean(graph: onnx.ModelProto) -> onnx.ModelProto:
    """Drops debug data: source lines, module names, and the inferred inner shapes."""
    for holder in (
        graph,
        graph.graph,
        *graph.graph.node,
        *graph.graph.input,
        *graph.graph.output,
        *graph.graph.initializer,
    ):
        holder.ClearField("doc_string")
        del holder.metadata_props[:]
    del graph.graph.value_info[:]
    graph.graph.name = "asr_stream"
    return graph


@contextmanager
def _quiet() -> Iterator[None]:
    # The exporter reports progress on stdout, through warnings and through loggers.
    loggers = [logging.getLogger(name) for name in ("torch.onnx", "onnxscript", "onnx_ir")]
    levels = [logger.level for logger in loggers]
    for logger in loggers:
        logger.setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings(), redirect_stdout(io.StringIO()):
            warnings.simplefilter("ignore")
            yield
    finally:
        for logger, level in zip(loggers, levels, strict=True):
            logger.setLevel(level)
