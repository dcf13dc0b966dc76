"""int8 matrix products with fixed scales, for the punctuation network.

A row of activations gives the same bits in any batch, as in asr.export.quantize. That module computes a scale for each
row at run time, which takes a dozen nodes per product and costs more than a product of twenty words. Here the scale of
each operand is a constant: the network's activations after its norms hardly vary, so example texts show their range.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import numpy as np
import numpy.typing as npt
import onnx
from onnx.helper import make_node
from onnx.numpy_helper import from_array, to_array

from asr.export.quantize import MAX_WEIGHT, NON_NEGATIVE, replace_nodes
from asr.export.ranges import MARGIN, Recorder

MIN_MATRIX = 4096
"""Minimum number of elements for a matrix to be stored in int8."""

Array = npt.NDArray[np.generic]


def quantize_statically(graph: onnx.ModelProto, examples: Iterable[Mapping[str, Array]]) -> None:
    """Converts the constant matrices of `graph` to int8: those of products, and tables whose rows are looked up, which
    are converted to float32 row by row. examples: inputs of the graph."""
    matrices = {
        tensor.name: to_array(tensor)
        for tensor in graph.graph.initializer
        if tensor.data_type == onnx.TensorProto.FLOAT and len(tensor.dims) == 2 and np.prod(tensor.dims) >= MIN_MATRIX
    }
    products = [node for node in graph.graph.node if node.op_type == "MatMul" and node.input[1] in matrices]
    recorder = Recorder(graph, sorted({node.input[0] for node in products}))
    for feeds in examples:
        recorder.run(None, feeds)
    operators = {name: node.op_type for node in graph.graph.node for name in node.output}

    nodes: list[onnx.NodeProto] = []
    constants: dict[str, Array] = {}
    for node in graph.graph.node:
        output = node.output[0]
        if node.op_type == "MatMul" and node.input[1] in matrices:
            rows, weight = node.input
            levels, zero = (255, 0) if operators[rows] in NON_NEGATIVE else (127, 128)
            step = np.float32(MARGIN * recorder.largest[rows] / levels)
            integers, columns = _by_column(matrices[weight], MAX_WEIGHT)
            small = [rows, f"{rows}_step", f"{rows}_zero"]
            constants |= {small[1]: np.asarray(step), small[2]: np.asarray(zero, np.uint8)}
            constants |= {f"{weight}_int8": integers, f"{weight}_scale": columns * step}
            nodes += [
                make_node("QuantizeLinear", small, [f"{output}_rows"]),
                make_node("MatMulInteger", [f"{output}_rows", f"{weight}_int8", small[2]], [f"{output}_sums"]),
                *_to_float(f"{output}_sums", f"{weight}_scale", output),
            ]
        elif node.op_type == "Gather" and node.input[0] in matrices:
            table = node.input[0]
            integers, columns = _by_column(matrices[table], 127)
            constants |= {f"{table}_int8": integers, f"{table}_scale": columns}
            node.input[0], node.output[0] = f"{table}_int8", f"{output}_rows"
            nodes += [node, *_to_float(f"{output}_rows", f"{table}_scale", output)]
        else:
            nodes.append(node)
    replace_nodes(graph, nodes, [from_array(value, name) for name, value in constants.items()])


def _by_column(matrix: Array, most: int) -> tuple[Array, Array]:
    """The matrix as integers with magnitudes up to `most`, and the scale of each column."""
    scale = np.maximum(np.abs(matrix).max(0) / most, 1e-12).astype(np.float32)
    return np.rint(matrix / scale).astype(np.int8), scale


def _to_float(values: str, scale: str, output: str) -> list[onnx.NodeProto]:
    return [
        make_node("Cast", [values], [f"{output}_cast"], to=onnx.TensorProto.FLOAT),
        make_node("Mul", [f"{output}_cast", scale], [output]),
    ]
