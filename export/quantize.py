"""Smaller weights: int8 matrix products for CPUs, and float16 storage for the rest.

int8: weights are symmetric, with one scale per output column. Activations are quantized to uint8 at run time. Rows
(frames) of a known range share a constant scale; any other row has its own scale, which takes about ten operators more.
So a row is bit-identical in any batch. Convolutions stay float: they are less than a hundredth of the weights.

Two choices make the numbers equal on most processors. Weights use 7 of the 8 bits: without VNNI, ONNX Runtime's x86
kernels add two uint8 x int8 products in 16 bits, where 2 x 255 x 127 saturates and 2 x 255 x 64 does not. Scales of
rows have 8 bits of precision (bfloat16): float kernels of different processors differ in the last of 24 bits, and
rounding the scale keeps these differences from spreading through the network.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

import numpy as np
import onnx
from onnx.helper import make_node
from onnx.numpy_helper import from_array, to_array

from asr.export.graph import ExportError

MAX_WEIGHT = 64
"""Largest magnitude of an int8 weight."""
MIN_SCALE = 1e-30
"""Added to the scale of a row, so that a row of zeros is not divided by zero."""
SMALLEST = 1 / 8
"""`smallest` of the encoder: the operators of a smaller product take longer than the product in float."""
NON_NEGATIVE = ("Relu", "Softmax")
"""Operators with non-negative results, which use all 8 bits for the magnitude."""


def quantize(
    graph: onnx.ModelProto,
    ranges: Mapping[str, float] = MappingProxyType({}),
    *,
    tables: bool = False,
    smallest: float = 0.0,
) -> onnx.ModelProto:
    """The same graph with its constant matrices in int8; a graph without any is returned unchanged.

    ranges: the largest magnitude of values with one scale for all rows; other values get a scale per row at run time.
    tables: also of matrices whose rows are looked up; the rows are converted to float32.
    smallest: matrices smaller than this share of the largest one stay float.
    """
    out = onnx.ModelProto()
    out.CopyFrom(graph)
    matrices = {i.name: to_array(i) for i in graph.graph.initializer if i.data_type == onnx.TensorProto.FLOAT}
    multiplied = {node.input[1] for node in graph.graph.node if node.op_type == "MatMul"} & matrices.keys()
    least = smallest * max((matrices[name].size for name in multiplied), default=0)
    inferred = onnx.shape_inference.infer_shapes(graph).graph.value_info
    two_axes = {value.name for value in inferred if len(value.type.tensor_type.shape.dim) == 2}
    operators: dict[str, str] = {}
    for node in graph.graph.node:
        moves = node.op_type in ("Reshape", "Transpose")
        operators |= dict.fromkeys(node.output, operators.get(node.input[0], "") if moves else node.op_type)
    rewriter = _Rewriter(graph.graph.input[0].name, operators, two_axes, ranges)
    for node in graph.graph.node:
        if node.op_type == "MatMul" and node.input[1] in multiplied and matrices[node.input[1]].size >= least:
            rewriter.multiply(node.input[0], node.input[1], matrices[node.input[1]], node.output[0])
        elif tables and node.op_type == "Gather" and matrices.get(node.input[0], np.empty(0)).ndim == 2:
            rewriter.look_up(node, matrices[node.input[0]])
        else:
            rewriter.nodes.append(node)
    replace_nodes(out, rewriter.nodes, list(rewriter.constants.values()))
    return out


class _Rewriter:
    """The nodes of the new graph in order, and its new constants. Existing values are reused."""

    def __init__(
        self, any_input: str, operators: dict[str, str], two_axes: set[str], ranges: Mapping[str, float]
    ) -> None:
        """operators: the operator that computes the numbers of each value. two_axes: values known to be matrices."""
        self.nodes: list[onnx.NodeProto] = []
        self.constants: dict[str, onnx.TensorProto] = {}
        self._input = any_input
        self._operators = operators
        self._two_axes = two_axes
        self._ranges = ranges
        self._made: set[str] = set()

    def multiply(self, rows: str, weight: str, matrix: np.ndarray, product: str) -> None:
        """Computes `product` = `rows` (..., K) float32 x `matrix` (K, M) float32; `weight` is the matrix's name."""
        depth, width = matrix.shape
        is_signed = self._operators.get(rows) not in NON_NEGATIVE
        zero = self._constant(f"zero_point_{128 * is_signed}", np.uint8(128 * is_signed))
        levels = 127 if is_signed else 255
        columns = np.maximum(np.abs(matrix).max(0) / MAX_WEIGHT, MIN_SCALE).astype(np.float32)
        integers = self._constant(f"{weight}_quantized", np.rint(matrix / columns).astype(np.int8))
        if rows in self._ranges:
            step = np.float32(self._ranges[rows] / levels)
            linear = [rows, self._constant(f"{rows}_step", step), zero]
            small = self._node("QuantizeLinear", linear, f"{rows}_quantized")
            sums = self._node("MatMulInteger", [small, integers, zero], f"{product}_sums")
            sums = self._node("Cast", [sums], f"{product}_cast", to=onnx.TensorProto.FLOAT)
            scales = [self._one(), self._constant(f"{product}_columns", columns * step)]
            self._node("Mul", [sums, self._node("Mul", scales, f"{product}_scale")], product)
            return
        flat = rows
        if rows not in self._two_axes:
            shape = self._constant(f"rows_of_{depth}", np.array([-1, depth]))
            flat = self._node("Reshape", [rows, shape], f"{rows}_rows")
        magnitude = self._node("Abs", [flat], f"{rows}_abs") if is_signed else flat
        last = self._constant("last", np.array([-1]))
        largest = self._node("ReduceMax", [magnitude, last], f"{rows}_max", keepdims=0)
        level = self._constant(f"level_of_{levels}", np.float32(1 / levels))
        step = self._node("Mul", [largest, level], f"{rows}_step")
        step = self._node("Cast", [step], f"{rows}_bfloat16", to=onnx.TensorProto.BFLOAT16)
        step = self._node("Cast", [step], f"{rows}_rounded", to=onnx.TensorProto.FLOAT)
        scale = self._node("Add", [step, self._constant("min_scale", np.float32(MIN_SCALE))], f"{rows}_scale")
        zeros = [zero, self._node("Shape", [largest], f"{rows}_count")]
        zeros = [self._node("Expand", zeros, f"{rows}_zero_points")] if is_signed else []
        small = self._node("QuantizeLinear", [flat, scale, *zeros], f"{rows}_quantized", axis=0)

        sums = self._node("MatMulInteger", [small, integers, zero], f"{product}_sums")
        scaled = self._node("DequantizeLinear", [sums, scale], f"{product}_by_row", axis=0)
        column_scale = self._constant(f"{weight}_scale", columns)
        if flat == rows:
            self._node("Mul", [scaled, column_scale], product)
            return
        result = self._node("Mul", [scaled, column_scale], f"{product}_rows")
        lead = self._node("Shape", [rows], f"{rows}_lead", start=0, end=-1)
        sizes = [lead, self._constant(f"width_{width}", np.array([width]))]
        shape = self._node("Concat", sizes, f"{product}_shape", axis=0)
        self._node("Reshape", [result, shape], product, allowzero=1)  # an utterance may have 0 new frames

    def look_up(self, gather: onnx.NodeProto, table: np.ndarray) -> None:
        """Computes the result of `gather`, rows of `table` (K, M) float32."""
        (name, rows), (result,) = gather.input, gather.output
        columns = np.maximum(np.abs(table).max(0) / 127, MIN_SCALE).astype(np.float32)
        integers = self._constant(f"{name}_quantized", np.rint(table / columns).astype(np.int8))
        found = self._node("Gather", [integers, rows], f"{result}_quantized")
        found = self._node("Cast", [found], f"{result}_cast", to=onnx.TensorProto.FLOAT)
        self._node("Mul", [found, self._constant(f"{name}_scale", columns)], result)

    def _one(self) -> str:
        """The number 1, computed as the minimum of 1 and the size of the first input. ONNX Runtime fuses a product, its
        scales and the bias into one operator only if the graph multiplies the scales, and constant folding would remove
        that."""
        size = self._node("Size", [self._input], "input_size")
        size = self._node("Cast", [size], "input_size_float", to=onnx.TensorProto.FLOAT)
        return self._node("Min", [size, self._constant("limit", np.float32(1))], "one")

    def _node(self, operator: str, inputs: list[str], output: str, **attributes: Any) -> str:
        if output not in self._made:
            self.nodes.append(make_node(operator, inputs, [output], **attributes))
            self._made.add(output)
        return output

    def _constant(self, name: str, value: Any) -> str:
        self.constants.setdefault(name, from_array(np.asarray(value), name))
        return name


def halve(graph: onnx.ModelProto) -> onnx.ModelProto:
    """Returns an equivalent graph with fewer bytes: tensors whose values are all float16 are stored in float16.

    They are cast to float32 when the file is opened. `asr.export.write` rounds the exported model for this.
    """
    out = onnx.ModelProto()
    out.CopyFrom(graph)
    casts, halves = [], []
    inputs = {value.name for value in out.graph.input}  # some have defaults
    for tensor in out.graph.initializer:
        if tensor.data_type != onnx.TensorProto.FLOAT or len(tensor.dims) < 2 or tensor.name in inputs:
            continue
        value = to_array(tensor)
        with np.errstate(over="ignore"):
            half = value.astype(np.float16)
        if np.array_equal(half, value):
            halves.append(from_array(half, f"{tensor.name}_half"))
            casts.append(make_node("Cast", [halves[-1].name], [tensor.name], to=onnx.TensorProto.FLOAT))
    replace_nodes(out, [*casts, *out.graph.node], halves)
    return out


def replace_nodes(model: onnx.ModelProto, nodes: list[onnx.NodeProto], constants: list[onnx.TensorProto]) -> None:
    """Replaces the nodes of the graph and adds constants. Constants that are computed or unused are removed."""
    graph = model.graph
    used = {name for node in nodes for name in node.input} - {name for node in nodes for name in node.output}
    used |= {value.name for value in graph.input}
    kept = [tensor for tensor in graph.initializer if tensor.name in used] + constants
    nodes = list(nodes)
    del graph.initializer[:], graph.node[:]
    graph.initializer.extend(kept)
    graph.node.extend(nodes)
    try:
        onnx.checker.check_model(model, full_check=True)
    except onnx.checker.ValidationError as error:
        raise ExportError(f"the exported graph is not valid ONNX: {str(error).splitlines()[0]}") from error
