"""int8 for CPUs: dynamic quantization of the matrix products.

Weights are int8, symmetric, one scale per output channel; activations become uint8 at run time, by the range
of each chunk, so no calibration data is needed. That range spans the batch: a stream alone and the same
stream in a batch round differently, so servers that batch streams should take the float file. The
convolutions stay float: they are less than a hundredth of the weights.

Weights use 7 of the 8 bits (`reduce_range`). On x86 without VNNI instructions the sum of two uint8 x int8
products saturates at 16 bits, and the text would depend on the machine; with 7 bits it cannot.
"""

from __future__ import annotations

import tempfile
from pathlib import Path

import numpy as np
import onnx
from onnxruntime.quantization import QuantType, quantize_dynamic


def quantize(graph: onnx.ModelProto) -> onnx.ModelProto:
    """The same graph with its constant matrices in int8; what has none is returned as it is."""
    marked = onnx.ModelProto()
    marked.CopyFrom(graph)
    # Says that the graph is as simple as it gets, which the exporter saw to: without it the quantizer warns.
    onnx.helper.set_model_props(marked, {"onnx.quant.pre_process": "onnxruntime.quant"})
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "int8.onnx"
        quantize_dynamic(
            marked,
            path,
            op_types_to_quantize=["MatMul"],
            per_channel=True,
            reduce_range=True,
            weight_type=QuantType.QInt8,
            extra_options={"WeightSymmetric": True, "MatMulConstBOnly": True},
        )
        out = onnx.load(path)
    del out.metadata_props[:]
    return out


def halve(graph: onnx.ModelProto) -> onnx.ModelProto:
    """The same graph with its matrices stored as float16 and cast to float32 when it is opened.

    For the decoder, which needs no more, and which base64 makes a third larger.
    """
    out = onnx.ModelProto()
    out.CopyFrom(graph)
    casts = []
    inputs = {value.name for value in out.graph.input}  # of which some have defaults
    for tensor in out.graph.initializer:
        if tensor.data_type == onnx.TensorProto.FLOAT and len(tensor.dims) >= 2 and tensor.name not in inputs:
            name = tensor.name
            half = onnx.numpy_helper.to_array(tensor).astype(np.float16)
            tensor.CopyFrom(onnx.numpy_helper.from_array(half, name + "_half"))
            casts.append(onnx.helper.make_node("Cast", [tensor.name], [name], to=onnx.TensorProto.FLOAT))
    nodes = list(out.graph.node)
    del out.graph.node[:]
    out.graph.node.extend(casts + nodes)
    return out
