"""int8 matrix products whose scales are constants: of the encoder, and of the network for case and punctuation.

Each product takes its rows in steps of one size: their largest magnitude in examples that are run through the float
graph, with a margin, over 127, or over 255 where there are no negative numbers. So a row of activations has the same
bits whatever stands beside it, and a product is six operators, which ONNX Runtime joins to two. asr.export.quantize
finds a scale for each row at run time, which is a dozen operators. Activations behind norms vary little: the largest
magnitude of a row is that of most rows within a factor of two.

Weights are those of asr.export.quantize: 7 bits and a scale for each column.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
import onnxruntime
from onnx.helper import make_node
from onnx.numpy_helper import from_array, to_array

from asr.export.quantize import MAX_WEIGHT, NON_NEGATIVE

MIN_MATRIX = 4096
"""Elements of a matrix that is worth storing in 8 bits, by default."""
MARGIN = 1.25
"""Range of an activation over the largest value that the examples have; what is beyond is clipped."""

Array = npt.NDArray[np.generic]


def quantize_statically(
    graph: onnx.ModelProto, run_examples: Callable[[Recorder], object], min_matrix: int = MIN_MATRIX
) -> None:
    """Makes integers of the constant matrices of `graph` of at least `min_matrix` elements: of those that are multiplied
    with, and of tables whose rows are looked up, which become float32 row by row.

    run_examples: runs the float graph over examples, by a session that notes how large activations become.
    """
    matrices = {
        tensor.name: to_array(tensor)
        for tensor in graph.graph.initializer
        if tensor.data_type == onnx.TensorProto.FLOAT and len(tensor.dims) == 2 and np.prod(tensor.dims) >= min_matrix
    }
    products = [node for node in graph.graph.node if node.op_type == "MatMul" and node.input[1] in matrices]
    recorder = Recorder(graph, sorted({node.input[0] for node in products}))
    run_examples(recorder)
    operators = {name: node.op_type for node in graph.graph.node for name in node.output}

    one, nodes = _one(graph)
    constants: dict[str, Array] = {}
    for node in graph.graph.node:
        output = node.output[0]
        if node.op_type == "MatMul" and node.input[1] in matrices:
            rows, weight = node.input
            levels, zero = (255, 0) if operators.get(rows) in NON_NEGATIVE else (127, 128)
            step = np.float32(MARGIN * recorder.largest[rows] / levels)
            integers, columns = _by_column(matrices[weight], MAX_WEIGHT)
            small = [rows, f"{rows}_step", f"{rows}_zero"]
            constants |= {small[1]: np.asarray(step), small[2]: np.asarray(zero, np.uint8)}
            constants |= {f"{weight}_int8": integers, f"{weight}_scale": columns * step}
            nodes += [
                make_node("QuantizeLinear", small, [f"{output}_rows"]),
                make_node("MatMulInteger", [f"{output}_rows", f"{weight}_int8", small[2]], [f"{output}_sums"]),
                make_node("Mul", [one, f"{weight}_scale"], [f"{output}_scale"]),
                *_to_float(f"{output}_sums", f"{output}_scale", output),
            ]
        elif node.op_type == "Gather" and node.input[0] in matrices and not node.attribute:
            table = node.input[0]
            integers, columns = _by_column(matrices[table], 127)
            constants |= {f"{table}_int8": integers, f"{table}_scale": columns}
            node.input[0], node.output[0] = f"{table}_int8", f"{output}_rows"
            nodes += [node, *_to_float(f"{output}_rows", f"{table}_scale", output)]
        else:
            nodes.append(node)
    used = {name for node in nodes for name in node.input}
    kept = [tensor for tensor in graph.graph.initializer if tensor.name in used]
    del graph.graph.node[:], graph.graph.initializer[:]
    graph.graph.node.extend(nodes)
    graph.graph.initializer.extend([*kept, *(from_array(value, name) for name, value in constants.items())])
    onnx.checker.check_model(graph, full_check=True)


class Recorder:
    """A session of a graph as ONNX Runtime's, which notes the largest magnitude of inner values."""

    def __init__(self, graph: onnx.ModelProto, names: Sequence[str]) -> None:
        """names: of the inner values."""
        self.largest = dict.fromkeys(names, 1e-12)
        probe = onnx.ModelProto()
        probe.CopyFrom(graph)
        probe.graph.output.extend(onnx.helper.make_empty_tensor_value_info(name) for name in names)
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = 1
        options.log_severity_level = 4
        self._session = onnxruntime.InferenceSession(
            probe.SerializeToString(), options, providers=["CPUExecutionProvider"]
        )

    def get_inputs(self) -> list[Any]:
        return self._session.get_inputs()

    def get_outputs(self) -> list[Any]:
        return [output for output in self._session.get_outputs() if output.name not in self.largest]

    def run(self, outputs: Sequence[str] | None, feeds: Mapping[str, Array]) -> list[Array]:
        outputs = [output.name for output in self.get_outputs()] if outputs is None else outputs
        values = self._session.run([*outputs, *self.largest], feeds)
        for name, value in zip(self.largest, values[len(outputs) :], strict=True):
            self.largest[name] = max(self.largest[name], float(np.abs(value).max(initial=0.0)))
        return values[: len(outputs)]


def _one(graph: onnx.ModelProto) -> tuple[str, list[onnx.NodeProto]]:
    """The number 1, and the nodes that compute it: min(1, size of the first input). ONNX Runtime joins a product, the
    scales of its rows and columns and a bias to one operator where the scales are multiplied in the graph, and folds
    them to a constant beforehand where both are constants."""
    name, limit = "one", "one_limit"
    graph.graph.initializer.append(from_array(np.float32(1), limit))
    return name, [
        make_node("Size", [graph.graph.input[0].name], ["input_size"]),
        make_node("Cast", ["input_size"], ["input_size_float"], to=onnx.TensorProto.FLOAT),
        make_node("Min", ["input_size_float", limit], [name]),
    ]


def _by_column(matrix: Array, most: int) -> tuple[Array, Array]:
    """Integers of a matrix up to `most`, and the scale of each column."""
    scale = np.maximum(np.abs(matrix).max(0) / most, 1e-12).astype(np.float32)
    return np.rint(matrix / scale).astype(np.int8), scale


def _to_float(values: str, scale: str, output: str) -> list[onnx.NodeProto]:
    return [
        make_node("Cast", [values], [f"{output}_cast"], to=onnx.TensorProto.FLOAT),
        make_node("Mul", [f"{output}_cast", scale], [output]),
    ]
