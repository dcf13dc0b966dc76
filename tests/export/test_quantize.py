"""int8 products: each row has its own scale, and the sums are the same on every processor."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import onnx
import onnxruntime
import pytest
import torch
from onnx import TensorProto, helper
from onnx.numpy_helper import from_array, to_array

from asr._core import ONNX_OPSET
from asr.export.parity import Case
from asr.export.quantize import MAX_WEIGHT, halve, quantize
from asr.export.ranges import ranges_in_layers
from asr.features import NUM_MEL_BINS
from asr.runtime.onnx_model import OnnxModel, bundled_model

K, M = 96, 40


def product(before: str = "Neg", seed: int = 0, lead: tuple[str, ...] = ("N", "T")) -> onnx.ModelProto:
    """y (*lead, M) = before(x) (*lead, K) x weights"""
    weights = np.random.default_rng(seed).standard_normal((K, M)).astype(np.float32)
    weights[:, 3] = 0
    nodes = [helper.make_node(before, ["x"], ["rows"]), helper.make_node("MatMul", ["rows", "w"], ["y"])]
    tensors = [helper.make_tensor_value_info(n, TensorProto.FLOAT, [*lead, s]) for n, s in (("x", K), ("y", M))]
    graph = helper.make_graph(nodes, "product", tensors[:1], tensors[1:], [from_array(weights, "w")])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", ONNX_OPSET)], ir_version=10)


def run(model: onnx.ModelProto, x: np.ndarray) -> np.ndarray:
    return onnxruntime.InferenceSession(model.SerializeToString()).run(None, {"x": x})[0]


def activations(*shape: int) -> np.ndarray:
    """Rows of very different sizes."""
    random = np.random.default_rng(1)
    return (random.standard_normal((*shape, K)) * 10 ** random.uniform(-4, 4, (*shape, 1))).astype(np.float32)


@pytest.mark.parametrize("before", ["Neg", "Relu", "Softmax"])
def test_rows_are_close_and_independent_of_others(before: str) -> None:
    exact, quantized = product(before), quantize(product(before))
    x = activations(5, 16)
    found, expected = run(quantized, x), run(exact, x)
    errors = np.linalg.norm(found - expected, axis=-1) / np.linalg.norm(expected, axis=-1)
    assert 1e-4 < errors.max() < 0.03
    for n in range(5):
        assert run(quantized, x[n : n + 1]).tobytes() == found[n].tobytes()
        assert run(quantized, x[n : n + 1, 3:4]).tobytes() == found[n, 3].tobytes()


def test_tables_are_stored_in_int8() -> None:
    table = activations(50)
    values = [("x", TensorProto.INT64, ["N"]), ("y", TensorProto.FLOAT, ["N", K])]
    tensors = [helper.make_tensor_value_info(*value) for value in values]
    nodes = [helper.make_node("Gather", ["table", "x"], ["y"])]
    graph = helper.make_graph(nodes, "lookup", tensors[:1], tensors[1:], [from_array(table, "table")])
    exact = helper.make_model(graph, opset_imports=[helper.make_opsetid("", ONNX_OPSET)], ir_version=10)
    quantized, x = quantize(exact, tables=True), np.array([7, 49, 7, 0])
    half_steps = np.abs(table).max(0) / 127 / 2
    assert (np.abs(run(quantized, x) - table[x]) <= half_steps * 1.001).all()
    assert [t.data_type for t in quantized.graph.initializer if len(t.dims) == 2] == [TensorProto.INT8]
    assert quantize(exact) == exact


def test_small_matrices_stay_float() -> None:
    graph = product()
    larger = np.zeros((M, 3 * K), np.float32)
    graph.graph.node.append(helper.make_node("MatMul", ["y", "larger"], ["z"]))
    graph.graph.output.append(helper.make_tensor_value_info("z", TensorProto.FLOAT, ["N", "T", 3 * K]))
    graph.graph.initializer.append(from_array(larger, "larger"))
    for smallest, kept in ((0.0, set()), (1 / 3, set()), (0.34, {"w"})):
        names = {tensor.name for tensor in quantize(graph, smallest=smallest).graph.initializer}
        assert names & {"w", "larger"} == kept


def test_rows_of_one_matrix_are_not_reshaped() -> None:
    quantized, x = quantize(product(lead=("R",))), activations(80)
    assert not {node.op_type for node in quantized.graph.node} & {"Reshape", "Concat"}
    assert run(quantized, x).tobytes() == run(quantize(product()), x.reshape(5, 16, K)).tobytes()
    assert run(quantized, x[7:8]).tobytes() == run(quantized, x)[7].tobytes()


def test_rows_of_a_known_range_share_a_scale() -> None:
    exact, quantized = product(), quantize(product(), {"rows": 4.0})
    x = np.random.default_rng(1).standard_normal((5, 16, K)).astype(np.float32)
    x[2, 3, 0] = 9.0
    found, expected = run(quantized, x), run(exact, np.clip(x, -4.0, 4.0))
    errors = np.linalg.norm(found - expected, axis=-1) / np.linalg.norm(expected, axis=-1)
    assert 1e-4 < errors.max() < 0.03
    for n in range(5):
        assert run(quantized, x[n : n + 1]).tobytes() == found[n].tobytes()
    assert "ReduceMax" not in {node.op_type for node in quantized.graph.node}


def test_range_exceeds_the_largest_example_by_a_quarter() -> None:
    """Constant scales in layers; rows of the CTC heads and rows of other products get one scale each."""
    shape = ["N", "T", NUM_MEL_BINS]
    nodes = [
        helper.make_node("LayerNormalization", ["x", "scale"], ["rows"]),
        helper.make_node("LayerNormalization", ["x", "scale"], ["ctc_rows"]),
        helper.make_node("Neg", ["x"], ["negated"]),
        helper.make_node("Exp", ["negated"], ["hidden"]),
        helper.make_node("MatMul", ["rows", "w"], ["y"]),
        helper.make_node("MatMul", ["ctc_rows", "ctc.w"], ["z"]),
        helper.make_node("MatMul", ["negated", "w"], ["u"]),
        helper.make_node("MatMul", ["hidden", "feed_forward.down.w"], ["v"]),
    ]
    tensors = [helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name in "xyzuv"]
    matrix = np.eye(NUM_MEL_BINS, dtype=np.float32)
    constants = [from_array(matrix, name) for name in ("w", "ctc.w", "feed_forward.down.w")]
    constants.append(from_array(matrix.sum(0), "scale"))
    graph = helper.make_model(
        helper.make_graph(nodes, "norms", tensors[:1], tensors[1:], constants),
        opset_imports=[helper.make_opsetid("", ONNX_OPSET)],
        ir_version=10,
    )
    largest: list[tuple[float, float]] = []

    def run_whole(session: onnxruntime.InferenceSession, features: np.ndarray, case: Case) -> None:
        normed, hidden = session.run(["y", "v"], {"x": features})
        largest.append((float(abs(normed).max()), float(hidden.max())))

    encoder = SimpleNamespace(mean=torch.zeros(NUM_MEL_BINS), inverse_std=torch.ones(NUM_MEL_BINS))
    found = ranges_in_layers(graph, SimpleNamespace(encoder=encoder), run_whole, Case(1, 16, 0, 1))
    assert len(largest) == 3, "the sample, and two streams of noise"
    rows, hidden = (1.25 * max(each) for each in zip(*largest, strict=True))
    assert found == {"rows": pytest.approx(rows), "hidden": pytest.approx(hidden)}

    def run_chunks(session: onnxruntime.InferenceSession, features: np.ndarray, case: Case) -> None:
        assert case.num_chunks >= 1 and features.shape[1] >= 4 * case.chunk_size * case.num_chunks + 3

    for chunk_size in (1, 16, 71, 72, 97, 250):  # the sample has 143 encoder frames
        ranges_in_layers(graph, SimpleNamespace(encoder=encoder), run_chunks, Case(1, chunk_size, 0, 1))


def test_bundled_file_gives_equal_bits_in_any_batch() -> None:
    """Over chunks with a cache, at any position in the batch, and next to streams that are louder, shorter or
    ending."""
    model = OnnxModel(bundled_model("int8"))
    random = np.random.default_rng(2)
    caches, alone = [model.init_cache(1, 16) for _ in range(5)], model.init_cache(1, 16)
    for _ in range(4):
        x = random.normal(-9, 3, (5, 35, 80)).astype(np.float32)
        x[1] *= 100
        num_valid = np.array([35, 35, 20, 0, 35])
        order = random.permutation(5)
        batch = model.step(x[order], num_valid[order], model.encoder.stacked([caches[stream] for stream in order]))
        for place, cache in enumerate(model.encoder.split(batch.cache, len(order))):
            caches[order[place]] = cache
        single = model.step(x[4:], num_valid[4:], alone)
        alone = single.cache
        (place,) = np.flatnonzero(order == 4)
        for name in ("log_probs", "phone_log_probs", "encoder_out"):
            assert getattr(batch, name)[place].tobytes() == getattr(single, name)[0].tobytes()
        assert [array.tobytes() for array in caches[4]] == [array.tobytes() for array in alone]


def test_rows_of_zeros_empty_and_nonfinite_rows() -> None:
    quantized = quantize(product())
    x = activations(1, 6)
    clean = run(quantized, x)
    x[0, 1], x[0, 2], x[0, 3, 7], x[0, 4] = 0.0, np.nan, np.inf, 1e-42
    found = run(quantized, x)
    assert not found[0, 1].any() and not found[0, 4].any()
    assert np.isnan(found[0, 2]).all() and not np.isfinite(found[0, 3]).any()
    assert found[0, [0, 5]].tobytes() == clean[0, [0, 5]].tobytes()
    assert run(quantized, x[:, :0]).shape == (1, 0, M)


def test_sums_of_two_products_fit_16_bits() -> None:
    """The range that kernels for x86 without VNNI instructions need."""
    weights = next(to_array(i) for i in quantize(product()).graph.initializer if i.data_type == TensorProto.INT8)
    assert abs(weights.astype(int)).max() == MAX_WEIGHT and 2 * 255 * MAX_WEIGHT < 2**15
    assert set(abs(weights.astype(int)).max(0)) == {0, MAX_WEIGHT}  # each column has its own scale


def test_the_last_bits_of_activations_are_rounded_away() -> None:
    """Processors differ in these bits, and a scale that depends on them would spread the difference."""
    quantized = quantize(product())
    x = activations(1, 200)
    other = np.nextafter(x, np.float32(np.inf))
    same = (run(quantized, x) == run(quantized, other)).all(-1)
    assert same.mean() > 0.95


def test_halving_is_exact_or_not_done() -> None:
    model = product()
    weights = to_array(model.graph.initializer[0])
    assert halve(model) == model  # float16 loses all of it
    model.graph.initializer[0].CopyFrom(from_array(weights.astype(np.float16).astype(np.float32), "w"))
    halved = halve(model)
    assert [i.data_type for i in halved.graph.initializer] == [TensorProto.FLOAT16]
    assert run(halved, activations(2, 3)).tobytes() == run(model, activations(2, 3)).tobytes()
