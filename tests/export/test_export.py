"""Export: PyTorch and the .onnx file compute the same function, and the file describes itself."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import pytest
import torch
from conftest import TOKENS
from support.export import SMALL

from asr._core import ENCODER_INPUTS, ENCODER_OUTPUTS, ONNX_OPSET, PHONE_OUTPUT
from asr.export.graph import state_rows
from asr.export.parity import Case, check_parity, speech_like, step_onnx, step_torch
from asr.export.write import describe, in_half_precision
from asr.runtime.metadata import MetadataError, ModelMetadata
from asr.runtime.onnx_decoder import decoder_beside, decoder_of
from asr.runtime.onnx_model import OnnxModel
from asr.tokenizer import SOS_EOS_ID
from asr.training.checkpoint import Checkpoint, load_pretrained
from asr.training.pretrained import CheckpointError


@pytest.mark.parametrize(
    "training",
    [
        {"step": torch.zeros(2)},
        {"audio_hours": None},
        {"history": 5},
        {"history": {"a": 1}},
        {"history": torch.zeros(2)},
        {"history": [None]},
        {"history": [{"name": "PER", "values": [0.5]}]},
        {"history": [{"name": "PER", "values": {"full": None}}]},
    ],
    ids=str,
)
def test_a_damaged_summary_of_the_training_is_named(checkpoint: Checkpoint, training: dict[str, object]) -> None:
    with pytest.raises(CheckpointError, match=r"summary of the training .* is damaged .* another checkpoint"):
        dataclasses.replace(checkpoint, training=training).pretrained()


@pytest.mark.parametrize(
    "case",
    [
        Case(1, 16, 64, 50),
        Case(4, 5, 12, 50),
        Case(2, 3, 0, 52),
        Case(1, 1, 0, 60),
        Case(2, 1, 1, 60),
        Case(1, 70, 100, 50),
    ],
    ids=str,
)
def test_pytorch_step_equals_onnx_with_the_cache_carried(checkpoint: Checkpoint, exported: Path, case: Case) -> None:
    model = in_half_precision(checkpoint.pretrained().model())
    features, num_frames = speech_like(model, case, seed=99)
    expected, cache = step_torch(model, features, num_frames, case)
    found, onnx_cache = step_onnx(OnnxModel(exported), features, num_frames, case)
    for stream, other, length in zip(expected, found, num_frames, strict=True):
        assert [array.shape for array in other] == [(length // 4, size) for size in (len(TOKENS), SMALL.dim, 7)]
        for a, b in zip(stream, other, strict=True):
            np.testing.assert_allclose(b, a, rtol=0, atol=1e-3)
    for a, b in zip(cache, onnx_cache, strict=True):
        assert a.dtype == b.dtype
        np.testing.assert_allclose(b, a, rtol=0, atol=1e-3)


@pytest.mark.parametrize("int8", [False, True])
def test_stream_alone_equals_itself_in_a_batch(
    checkpoint: Checkpoint, exported: Path, exported_int8: Path, int8: bool
) -> None:
    case = Case(5, 6, 20, 50)
    features, num_frames = speech_like(checkpoint.pretrained().model(), case, seed=3)
    model = OnnxModel(exported_int8 if int8 else exported)
    together, cache = step_onnx(model, features, num_frames, case)
    for row in range(case.batch_size):
        one = slice(row, row + 1)
        alone, own = step_onnx(model, features[one], num_frames[one], case._replace(batch_size=1))
        for a, b in zip((*alone[0], *own), (*together[row], *(array[one] for array in cache)), strict=True):
            if int8:
                assert a.tobytes() == b.tobytes()
            np.testing.assert_allclose(a, b, rtol=0, atol=1e-5)
        for head in (0, 2):
            assert np.array_equal(alone[0][head].argmax(-1), together[row][head].argmax(-1))


def test_nonfinite_int8_values_stay_in_their_stream(exported: Path, exported_int8: Path) -> None:
    features = np.random.default_rng(0).normal(-9, 3, (3, 35, 80)).astype(np.float32)
    num_valid = np.array([35, 35, 20])
    clean = OnnxModel(exported_int8).step(features, num_valid, OnnxModel(exported_int8).init_cache(3, 5))
    features[0] = 0.0  # digital silence does not cause a division by zero
    features[1, 9, 5], features[2, 24:] = np.nan, np.nan  # a valid frame; padding, which is ignored
    for path in (exported, exported_int8):
        found = OnnxModel(path).step(features, num_valid, OnnxModel(path).init_cache(3, 5))
        for array in (found.log_probs, found.encoder_out, found.phone_log_probs):
            assert np.isfinite(array[0]).all() and np.isnan(array[1]).any() and np.isfinite(array[2]).all()
    assert found.log_probs[2, :5].tobytes() == clean.log_probs[2, :5].tobytes()


def test_scores_equal_the_decoder(checkpoint: Checkpoint, exported: Path) -> None:
    random = np.random.default_rng(1)
    encoder_out = random.standard_normal((33, SMALL.dim)).astype(np.float32)
    tokens = [[3, 4, 5], [], [4] * 20, [5, 5, 6, 7]]
    found = decoder_of(OnnxModel(exported)).score(tokens, encoder_out)
    decoder = in_half_precision(checkpoint.pretrained().model()).decoder
    for row, score in zip(tokens, found, strict=True):
        with torch.no_grad():
            ids, lengths = torch.tensor([row or [0]]), torch.tensor([len(row)])
            expected = decoder.score(ids, lengths, torch.from_numpy(encoder_out)[None], torch.tensor([33]))
        assert score == pytest.approx(float(expected), abs=1e-5 * (len(row) + 1))


def test_decoder_steps_equal_the_decoder(checkpoint: Checkpoint, exported: Path) -> None:
    """Hypotheses of one utterance. Between steps, some are dropped and some duplicated, as in a beam search."""
    random = np.random.default_rng(2)
    encoder_out = random.standard_normal((21, SMALL.dim)).astype(np.float32)
    file = decoder_of(OnnxModel(exported))
    cache = file.begin(encoder_out)
    tokens = np.full((1, 1), SOS_EOS_ID)
    decoder, memory = in_half_precision(checkpoint.pretrained().model()).decoder, torch.from_numpy(encoder_out)[None]
    for rows in ([0, 0, 0], [2, 0, 1, 1], [3, 0], [1, 1, 0]):
        log_probs, new = file.step(tokens[:, -1], cache)
        with torch.no_grad():
            logits = decoder(
                torch.from_numpy(tokens), memory.expand(len(tokens), -1, -1), torch.full((len(tokens),), 21)
            )
        np.testing.assert_allclose(log_probs, logits[:, -1].log_softmax(-1), rtol=0, atol=1e-4)
        own, shared = (len(tokens), tokens.shape[1]), (1, 21)
        assert [(array.shape[0], array.shape[2]) for array in new.state] == [own, own, shared, shared]
        cache = new.select(rows)
        tokens = np.concatenate([tokens[rows], random.integers(3, len(TOKENS), (len(rows), 1))], axis=1)


def test_graph_is_dynamic_standard_and_bare(traced: Callable[[str], onnx.ModelProto]) -> None:
    graph = traced("step_graph")
    assert [(o.domain, o.version) for o in graph.opset_import] == [("", ONNX_OPSET)]
    assert {node.domain for node in graph.graph.node} == {""}
    dims = [
        [d.dim_param or d.dim_value for d in v.type.tensor_type.shape.dim]
        for v in (*graph.graph.input, *graph.graph.output)
    ]
    cache, new = ["N", 8, "C", 16], "(T-3)/4"
    assert dims == [
        ["N", "T", 80],
        ["N"],
        cache,
        ["N"],
        ["N", new, len(TOKENS)],
        ["N", new, 32],
        cache,
        ["N"],
        ["N", new, 7],
    ]
    states = ["state_keys_values", "state_num_frames"]
    assert [v.name for v in graph.graph.input] == [*ENCODER_INPUTS, *states]
    assert [v.name for v in graph.graph.output] == [*ENCODER_OUTPUTS, *(f"new_{name}" for name in states), PHONE_OUTPUT]
    text = graph.SerializeToString()
    assert b"/work" not in text and b".py" not in text, "the file tells of the machine that wrote it"
    # Nodes that exporters leave by mistake: guards for fully masked rows, random numbers for dropout, missed constant
    # folding.
    kinds = {node.op_type for node in graph.graph.node}
    assert not kinds & {"IsNaN", "RandomUniformLike", "Identity", "Dropout", "If", "Loop"}


@pytest.mark.parametrize("precision", ["exported", "exported_int8"])
def test_of_each_layer_only_keys_and_values_are_kept(precision: str, request: pytest.FixtureRequest) -> None:
    """The cache is made of the new keys and values of all layers, which are copied out of the products with the queries
    before: those of a second pass over 10 s would take three times the memory."""
    graph = onnx.load(request.getfixturevalue(precision)).graph
    made_by = {output: node for node in graph.node for output in node.output}
    joined = made_by["new_state_keys_values"]
    assert joined.op_type == "Concat"
    new = made_by[made_by[joined.input[1]].input[0]]
    assert new.op_type == "Concat" and len(new.input) == 2 * SMALL.encoder_layers
    assert {made_by[name].op_type for name in new.input} == {"Split"}


def test_metadata_has_everything(checkpoint: Checkpoint, exported: Path) -> None:
    meta = OnnxModel(exported).metadata
    assert meta.tokens == TOKENS and meta.phones == ("AA", "B", "K")
    assert (meta.num_layers, meta.dim, meta.default_chunk_size, meta.default_left_context) == (2, 32, 8, 32)
    assert (meta.rescore_ctc_weight, meta.license, meta.quantization) == (0.25, "CC-BY-4.0", "none")
    np.testing.assert_allclose(meta.cmvn_mean, np.linspace(-11, -7, 80), rtol=1e-5)
    np.testing.assert_allclose(meta.cmvn_std, np.linspace(2, 4, 80), rtol=1e-5)
    assert meta.config["model"]["encoder_ff_dim"] == 64
    assert meta.training["steps"] == 7 and meta.training["audio_hours"] == 1.25
    assert meta.training["phone_error_rate"] == {"full": 0.5, "640ms": 0.625} and meta.training["data"] == ["some"]
    assert set(exported.parent.iterdir()) == {exported, decoder_beside(exported)}


def test_the_file_of_other_tests_is_as_if_exported_today(tiny_onnx: Path, exported: Path) -> None:
    """Otherwise run tests/support/make_tiny.py."""
    pretrained, model = load_pretrained(tiny_onnx), OnnxModel(tiny_onnx)
    network = pretrained.model()
    today = describe(pretrained, states=state_rows(network), language="en")
    assert model.metadata.to_properties() == today.to_properties()
    check_parity(network, model, decoder_of(model))
    for kept, new in ((tiny_onnx, exported), (decoder_beside(tiny_onnx), decoder_beside(exported))):
        kinds, kinds_today = ({node.op_type for node in onnx.load(path).graph.node} for path in (kept, new))
        assert kinds == kinds_today


def matrices(path: Path) -> list[onnx.TensorProto]:
    return [i for i in onnx.load(path).graph.initializer if len(i.dims) >= 2 and min(i.dims) > 1]


def test_float_file_stores_matrices_in_16_bits(checkpoint: Checkpoint, exported: Path) -> None:
    assert {i.data_type for i in matrices(exported)} == {onnx.TensorProto.FLOAT16}, "a weight matrix stayed wide"
    model = checkpoint.pretrained().model()
    before = {name: value.clone() for name, value in model.named_parameters()}
    after = dict(in_half_precision(model).named_parameters())
    changed = {name for name, value in before.items() if not torch.equal(value, after[name])}
    assert changed == {name for name, value in before.items() if value.dim() >= 2}
    for name in changed:
        torch.testing.assert_close(after[name], before[name], rtol=2**-11, atol=2**-25)
    with torch.no_grad():
        model.ctc.weight[0, 0] = 1e5  # the maximum of float16 is 65504
    assert in_half_precision(model).ctc.weight[0, 0] == 1e5


def test_int8_is_smaller_and_close(checkpoint: Checkpoint, exported: Path, exported_int8: Path) -> None:
    model = OnnxModel(exported_int8)
    assert model.metadata.quantization == "int8"
    graph, float_graph = onnx.load(exported_int8), onnx.load(exported)
    assert {node.domain for node in graph.graph.node} == {""}
    products = [i for i in matrices(exported_int8) if len(i.dims) == 2]
    largest = max(math.prod(i.dims) for i in products)
    wide = {math.prod(i.dims) for i in products if i.data_type != onnx.TensorProto.INT8}
    assert max(wide, default=0) < largest / 8, "a large weight matrix stayed float"
    # Metadata and nodes are most of such a small file, so only the weights are compared.
    size, float_size = (sum(len(i.raw_data) for i in g.graph.initializer) for g in (graph, float_graph))
    assert size < 0.7 * float_size
    assert decoder_beside(exported_int8).stat().st_size < decoder_beside(exported).stat().st_size
    report = check_parity(in_half_precision(checkpoint.pretrained().model()), model, decoder_of(model))
    assert 1e-6 < report.relative_error < 0.1 and report.agreement > 0.9


def test_metadata_that_is_missing_or_of_another_version_is_named(exported: Path) -> None:
    properties = OnnxModel(exported).metadata.to_properties()
    assert properties["phones"] == "AA\nB\nK"
    rows = ["state_keys_values float32 N,8,C,16", "state_num_frames int64 N"]
    assert properties["states"].split("\n") == rows
    for version in ("0", "2", "01", ""):
        with pytest.raises(MetadataError, match=rf"format_version is '{version}'; this release reads 1: update"):
            ModelMetadata.from_properties(properties | {"format_version": version})
    with pytest.raises(MetadataError, match=r"metadata key phones is .* different texts"):
        ModelMetadata.from_properties(properties | {"phones": "AA\nAA"})
