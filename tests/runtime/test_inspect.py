"""`asr inspect`: its report on a file, and faults that appear only when the file is run."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper

from asr._core import DECODER_INPUTS, ENCODER_INPUTS, ENCODER_OUTPUTS, FORMAT_VERSION, PHONE_OUTPUT
from asr.cli import main
from asr.export.write import with_checksum
from asr.runtime.onnx_decoder import decoder_beside
from asr.runtime.onnx_model import OnnxModel, bundled_model


def changed(tmp_path: Path, change: Callable[[onnx.ModelProto, dict[str, str]], None]) -> str:
    """The bundled model with `change` made to its graph and its metadata."""
    graph = onnx.load(bundled_model())
    properties = {entry.key: entry.value for entry in graph.metadata_props}
    change(graph, properties)
    helper.set_model_props(graph, properties)
    (tmp_path / "changed.onnx").write_bytes(with_checksum(graph))
    return str(tmp_path / "changed.onnx")


def test_it_describes_the_bundled_model_to_people(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["inspect"]) == 0
    out, err = capsys.readouterr()
    lines = dict(line.split(None, 1) for line in out.splitlines()[1:])
    assert (out.splitlines()[0], err) == (str(bundled_model()), "")
    meta = OnnxModel(bundled_model()).metadata
    size = bundled_model().stat().st_size / 1e6
    assert lines["file"] == f"{size:.1f} MB, format 1, opset 18, quantization int8, license {meta.license}, language en"
    assert lines["encoder"].startswith(f"{meta.num_layers} layers, width {meta.dim}; a stream's cache takes ")
    assert f" {(2 * 64 * meta.num_layers * meta.dim + 81) * 4 / 1000:.0f} kB " in lines["encoder"]
    assert "640 ms and 2560 ms of left context; trained on chunks of 4 8 16 32 frames" in lines["latency"]
    assert lines["tokens"] == f"{meta.vocab_size}: {' '.join(meta.tokens)}"
    assert f"{meta.rescore_ctc_weight} x CTC + " in lines["decoder"]
    assert "80 log-mel bins, 20 to 7600 Hz, windows of 25 ms every 10 ms (povey), 16000 Hz" in lines["features"]
    assert f"steps {meta.training['steps']}, " in lines["training"]
    assert "wer" not in lines["training"], "the mean of two runs has errors of neither"
    num_heads = meta.config["model"]["num_heads"]
    shape = f"(N, {meta.num_layers * 2 * num_heads}, C, {meta.dim // num_heads})"
    assert f"state_keys_values {shape} float" in lines["inputs"]
    assert f"log_probs (N, (T-3)/4, {meta.vocab_size}) float" in lines["outputs"]
    assert "both graphs" in lines["checked"]


def test_what_a_training_measured_is_a_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    training = json.dumps({"steps": 9, "rates": {"full": 0.5}, "data": {}, "names": [1, 2]})
    assert main(["inspect", changed(tmp_path, lambda _, properties: properties.update(training=training))]) == 0
    assert "training  steps 9, rates (full 0.5), names 1 2\n" in capsys.readouterr().out


def test_phone_errors_are_not_called_word_errors(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """An older file has them under "wer"."""
    training = json.dumps({"steps": 9, "wer": {"full": 0.5}})
    path = changed(tmp_path, lambda _, properties: properties.update(training=training))
    assert main(["inspect", path]) == main(["inspect", path, "--json"]) == 0
    text, _, described = capsys.readouterr().out.rstrip().rpartition("\n")
    assert "training  steps 9, phone_error_rate (full 0.5)\n" in text
    assert json.loads(described)["metadata"]["training"] == {"steps": 9, "phone_error_rate": {"full": 0.5}}


def test_it_describes_the_same_to_programs(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["inspect", str(bundled_model("float32")), "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["format_version"], found["opset"]) == (FORMAT_VERSION, 18)
    assert found["num_bytes"] == bundled_model("float32").stat().st_size
    states = ("state_keys_values", "state_num_frames", "state_speaker_sums")
    assert tuple(node["name"] for node in found["inputs"]) == (*ENCODER_INPUTS, *states)
    news = tuple(f"new_{name}" for name in states)
    assert tuple(node["name"] for node in found["outputs"]) == (*ENCODER_OUTPUTS, *news, PHONE_OUTPUT)
    meta = found["metadata"]
    num_heads = meta["config"]["model"]["num_heads"]
    shape = ["N", meta["num_layers"] * 2 * num_heads, "C", meta["dim"] // num_heads]
    cache = {"name": "state_keys_values", "type": "tensor(float)", "shape": shape}
    assert found["inputs"][2] == cache
    assert tuple(node["name"] for node in found["decoder"]["inputs"])[: len(DECODER_INPUTS)] == DECODER_INPUTS
    assert meta["quantization"] == "none" and meta["tokens"][0] == "<blk>"


def test_a_file_without_decoder_is_whole(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = changed(tmp_path, lambda _, properties: properties.update(training="{}", license=""))
    assert main(["inspect", path]) == 0
    out = capsys.readouterr().out
    assert (
        "none beside the file: search greedy or beam" in out
        and "license not stated" in out
        and "training  not stated" in out
    )
    assert main(["inspect", path, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["decoder"] is None


def test_terminal_without_the_tokens_script_shows_escapes() -> None:
    command = [sys.executable, "-m", "asr.cli", "inspect"]
    done = subprocess.run(command, capture_output=True, env={"PYTHONIOENCODING": "ascii"}, timeout=120)
    assert done.returncode == 0, done.stderr
    assert rb"<sos/eos> \u2581 ' A" in done.stdout


def test_it_imports_no_pytorch() -> None:
    program = "import sys, asr.cli; asr.cli.main(['inspect']); sys.exit(bool({'torch', 'onnx'} & set(sys.modules)))"
    subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, timeout=120)


def _fill(value: float) -> Callable[[onnx.ModelProto, dict[str, str]], None]:
    def change(graph: onnx.ModelProto, properties: dict[str, str]) -> None:
        # Only the bias of the CTC head is as long as the vocabulary.
        size = len(properties["tokens"].split("\n"))
        bias = next(t for t in graph.graph.initializer if list(t.dims) == [size] and t.data_type == 1)
        bias.CopyFrom(numpy_helper.from_array(np.full(size, value, np.float32), bias.name))

    return change


def _no_softmax(graph: onnx.ModelProto, properties: dict[str, str]) -> None:
    for node in graph.graph.node:
        if node.op_type == "LogSoftmax":
            node.op_type = "Identity"
            del node.attribute[:]


def _no_cache(graph: onnx.ModelProto, properties: dict[str, str]) -> None:
    last = next(node for node in graph.graph.node if node.output[0] == "new_state_num_frames")
    last.CopyFrom(helper.make_node("Identity", ["state_num_frames"], ["new_state_num_frames"]))


def _stuck(graph: onnx.ModelProto, properties: dict[str, str]) -> None:
    last = next(node for node in graph.graph.node if node.output[0] == "new_state_num_frames")
    last.CopyFrom(helper.make_node("Gather", ["state_num_frames", "num_valid"], ["new_state_num_frames"]))


def _other_features(graph: onnx.ModelProto, properties: dict[str, str]) -> None:
    properties["feature_overlap"] = "7"


def _deep(graph: onnx.ModelProto, properties: dict[str, str]) -> None:
    properties["training"] = '{"a":' * 450 + "1" + "}" * 450


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (_fill(float("nan")), "sum to nan, not 1"),
        (_no_softmax, "sum to .*, not 1"),
        (_stuck, r"changed\.onnx cannot be run: ONNX Runtime says "),
        (_no_cache, "does not change the state state_num_frames"),
        (_other_features, "feature_overlap is '7', it must be '3'"),
        (_deep, "nests too deep"),
    ],
)
def test_what_does_not_work_is_one_line(
    change: Callable[[onnx.ModelProto, dict[str, str]], None],
    message: str,
    tmp_path: Path,
    capfd: pytest.CaptureFixture[str],
) -> None:
    path = changed(tmp_path, change)
    assert main(["inspect", path]) == 1
    out, err = capfd.readouterr()
    assert out == "" and err.count("\n") == 1
    assert path in err and "asr export" in err
    assert re.match(f"asr inspect: .*{message}", err), err


def test_a_decoder_that_does_not_work_is_one_line(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    model = shutil.copy(bundled_model(), tmp_path / "model.onnx")
    decoder = onnx.load(decoder_beside(bundled_model()))
    next(node for node in decoder.graph.node if node.op_type == "LogSoftmax").op_type = "Softplus"
    for data, message in (
        (with_checksum(decoder)[:-99], r"model\.decoder\.onnx is damaged.*early"),
        (with_checksum(decoder), r"model\.decoder\.onnx is damaged|its decoder scores"),
    ):
        (tmp_path / "model.decoder.onnx").write_bytes(data)
        assert main(["inspect", str(model)]) == 1
        out, err = capfd.readouterr()
        assert out == "" and err.count("\n") == 1 and re.match(f"asr inspect: .*({message})", err), err
