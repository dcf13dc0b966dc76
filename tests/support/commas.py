"""A case and punctuation model with obvious output: every word gets a capital and a comma."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from onnx import TensorProto, helper, numpy_helper

from asr._core import (
    ONNX_OPSET,
    PUNCTUATION_INPUTS,
    PUNCTUATION_OUTPUTS,
    PUNCTUATION_TYPE,
    PUNCTUATION_VERSION,
)

LOOK_AHEAD, LEFT_CONTEXT = 2, 3


def write_punctuation(path: Path) -> Path:
    """An .onnx file that `asr.runtime.punctuation.Punctuation` reads."""
    from asr.export.write import with_checksum  # imports PyTorch

    answers = {"mark": [0, 1, 0, 0], "case": [0, 1, 0]}
    constants = [
        numpy_helper.from_array(np.array([-1], np.int64), "axis"),
        numpy_helper.from_array(np.zeros(1, np.float32), "zero"),
        *(numpy_helper.from_array(np.array([[row]], np.float32), name) for name, row in answers.items()),
    ]
    nodes = [
        helper.make_node("ReduceSum", ["features", "axis"], ["sum"], keepdims=1),
        helper.make_node("Add", ["pauses", "num_units"], ["used"]),
        helper.make_node("Unsqueeze", ["used", "axis"], ["column"]),
        helper.make_node("Add", ["sum", "column"], ["all"]),
        helper.make_node("Cast", ["all"], ["float"], to=TensorProto.FLOAT),
        helper.make_node("Mul", ["float", "zero"], ["zeros"]),
        *(helper.make_node("Add", ["zeros", name], [f"{name}_probs"]) for name in answers),
    ]
    shapes: dict[str, list[str | int]] = {"features": ["N", "T", 5], "pauses": ["N", "T"], "num_units": ["N"]}
    graph = helper.make_graph(
        nodes,
        "punctuation",
        [helper.make_tensor_value_info(name, TensorProto.INT64, shapes[name]) for name in PUNCTUATION_INPUTS],
        [helper.make_tensor_value_info(name, TensorProto.FLOAT, ["N", "T", "C"]) for name in PUNCTUATION_OUTPUTS],
        constants,
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", ONNX_OPSET)])
    model.ir_version = 8
    properties = {
        "model_type": PUNCTUATION_TYPE,
        "format_version": str(PUNCTUATION_VERSION),
        "look_ahead": str(LOOK_AHEAD),
        "left_context": str(LEFT_CONTEXT),
        "mixed_case": "{}",
    }
    helper.set_model_props(model, properties)
    path.write_bytes(with_checksum(model))
    return path
