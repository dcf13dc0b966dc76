"""The repository for Triton: configurations that its own protobuf reads, and graphs that step as the native file does
while the states are kept by the server's rules."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
import pytest
from google.protobuf import text_format
from tritonclient.grpc import model_config_pb2

from asr.cli import main
from asr.export.graph import ExportError
from asr.export.triton import STATES, export_triton
from asr.model.model import AsrModel
from asr.runtime.onnx_model import Cache, OnnxModel

TYPES = {model_config_pb2.TYPE_FP32: "tensor(float)", model_config_pb2.TYPE_INT64: "tensor(int64)"}


@pytest.fixture(scope="module")
def repository(phone_model: tuple[Path, Path], tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("triton") / "repository"
    options = ["--target", "triton", "--chunk-ms", "320", "--left-context-ms", "640", "-o", str(folder)]
    assert main(["export", str(phone_model[0].with_suffix(".safetensors")), *options]) == 0
    return folder


@pytest.fixture(scope="module")
def native(phone_model: tuple[Path, Path]) -> OnnxModel:
    return OnnxModel(phone_model[0])


def opened(folder: Path) -> tuple[Any, Any]:
    """Its configuration, and a session of its graph."""
    config = text_format.Parse((folder / "config.pbtxt").read_text(), model_config_pb2.ModelConfig())
    assert config.name == folder.name and config.backend == "onnxruntime"
    return config, onnxruntime.InferenceSession(str(folder / "1" / "model.onnx"))


def described(tensors: Any, batch: list[Any]) -> dict[str, tuple[str, list[Any]]]:
    return {tensor.name: (TYPES[tensor.data_type], batch + list(tensor.dims)) for tensor in tensors}


def test_the_encoders_configuration_is_that_of_its_graph(repository: Path) -> None:
    config, session = opened(repository / "encoder")
    assert config.max_batch_size == 64 and config.sequence_batching.oldest.max_candidate_sequences == 1024
    assert config.sequence_batching.max_sequence_idle_microseconds == 60e6
    inputs, outputs = described(config.input, ["N"]), described(config.output, ["N"])
    for state in config.sequence_batching.state:
        kind = (TYPES[state.data_type], ["N", *state.dims])
        inputs[state.input_name] = outputs[state.output_name] = kind
        (zeros,) = state.initial_state
        assert zeros.zero_data and (zeros.data_type, zeros.dims) == (state.data_type, state.dims)
    assert inputs == {value.name: (value.type, value.shape) for value in session.get_inputs()}
    assert outputs == {value.name: (value.type, value.shape) for value in session.get_outputs()}
    assert inputs["x"] == ("tensor(float)", ["N", 35, 80]) and inputs["num_frames"] == ("tensor(int64)", ["N", 1])
    assert (repository / "encoder" / "tokens.txt").read_text().startswith("<blk> 0\n")


def test_states_are_paired_by_the_order_of_their_names() -> None:
    assert list(STATES) == sorted(STATES) and list(STATES.values()) == sorted(STATES.values())
    assert all(new == f"new_{old}" for old, new in STATES.items())


def test_steps_are_those_of_the_native_file_while_the_server_keeps_the_states(
    repository: Path, native: OnnxModel
) -> None:
    _, session = opened(repository / "encoder")
    names = [value.name for value in session.get_outputs()]
    random = np.random.default_rng(0)
    cache = Cache.stack([native.begin(16), native.begin(16)])
    states: dict[str, np.ndarray] = {
        value.name: np.zeros((2, *value.shape[1:]), np.int64 if "int64" in value.type else np.float32)
        for value in session.get_inputs()
        if value.name in STATES
    }
    for step in range(50):
        x = random.normal(-9, 3, (2, 35, 80)).astype(np.float32)
        num_valid = np.array([35, 35 if step < 49 else 11])
        expected = native.step(x, num_valid, cache)
        outputs = dict(zip(names, session.run(None, {"x": x, "num_valid": num_valid[:, None], **states}), strict=True))
        num_frames = num_valid // 4
        for stream, length in enumerate(num_frames):
            for name in ("log_probs", "encoder_out", "phone_log_probs"):
                difference = outputs[name][stream, :length] - getattr(expected, name)[stream, :length]
                assert np.abs(difference).max() < 1e-4
        cache = expected.cache
        states = {old: outputs[new] for old, new in zip(sorted(STATES), sorted(STATES.values()), strict=True)}
    assert states["num_frames"].tolist() == [[400], [394]]


def test_the_decoders_configuration_and_scores(repository: Path, native: OnnxModel) -> None:
    config, session = opened(repository / "decoder")
    assert config.max_batch_size == 0
    for tensors, values in ((config.input, session.get_inputs()), (config.output, session.get_outputs())):
        shapes = {value.name: [-1 if isinstance(dim, str) else dim for dim in value.shape] for value in values}
        assert {name: dims for name, (_, dims) in described(tensors, []).items()} == shapes
    encoder_out = np.random.default_rng(0).standard_normal((1, 20, 32)).astype(np.float32)
    inputs = {"tokens": np.array([[4, 5, 3], [6, 0, 0]]), "token_lengths": np.array([3, 1]), "encoder_out": encoder_out}
    (scores,) = session.run(None, inputs)
    assert np.allclose(scores, native.score([[4, 5, 3], [6]], encoder_out[0]), atol=0.05)


def test_a_cache_of_no_frames_is_no_state(tiny_model: AsrModel, tmp_path: Path) -> None:
    with pytest.raises(ExportError, match="left_context 0 must be at least 1"):
        export_triton(tiny_model, ("<blk>",), tmp_path, left_context=0)
    assert not list(tmp_path.iterdir())
