"""Damaged and hostile model files: every command reports one line, and external data is never read."""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper
from safetensors.numpy import save_file

from asr._core import CALIBRATION, ONNX_OPSET, checksum, read_onnx_properties
from asr.export.write import with_checksum
from asr.runtime.neural_lm import bundled_neural_lm
from asr.runtime.onnx_model import bundled_model
from asr.runtime.punctuation import bundled_punctuation

# Opens every file of a folder in each way that Python has. Output that bypasses Python shows on stderr.
OPEN_ALL = """
import contextlib, io, json, sys
from pathlib import Path
import asr.cli, asr.streaming.terminal.cli
from asr.runtime.onnx_model import ModelError, OnnxModel

def run(main, arguments):
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        status = main(arguments)
    return status, err.getvalue()

outcomes = {}
for number, path in enumerate(sorted(Path(sys.argv[1]).glob("*.onnx"))):
    try:
        OnnxModel(path)
        opened = ""
    except ModelError as error:
        opened = str(error)
    inspected = run(asr.cli.main, ["inspect", str(path)])
    streamed = inspected[0], ""
    if opened and number % 4 == 0:
        streamed = run(asr.streaming.terminal.cli.main, ["--sample", "--model", str(path)])
    outcomes[path.name] = opened, *inspected, *streamed
print(json.dumps(outcomes))
"""


def opened_everywhere(folder: Path) -> dict[str, bool]:
    """Whether `asr inspect` rejected each file; each message must be one line that names the file and a fix."""
    done = subprocess.run([sys.executable, "-c", OPEN_ALL, str(folder)], capture_output=True, text=True, timeout=300)
    assert (done.returncode, done.stderr) == (0, "")
    refused = {}
    for name, (opened, inspected, said, streamed, complained) in json.loads(done.stdout).items():
        refused[name] = inspected == 1
        assert inspected == streamed == (1 if said else 0), name
        assert not opened or said == f"asr inspect: {opened}\n"
        assert not complained or complained == f"asr-stream: {opened}\n"
        if said:
            assert said.count("\n") == 1 and len(said) < 600 and said.rstrip("\n").isprintable(), name
            assert f"{folder / name}" in said and "asr export" in said, said
    return refused


def test_truncated_file_is_refused(tmp_path: Path) -> None:
    whole = bundled_model().read_bytes()
    for part in range(64):
        (tmp_path / f"{part:02}.onnx").write_bytes(whole[: len(whole) * part // 64])
    refused = opened_everywhere(tmp_path)
    assert len(refused) == 64 and all(refused.values())


def test_random_bytes_are_refused(tmp_path: Path) -> None:
    source = random.Random(0)
    for number in range(64):
        (tmp_path / f"{number:02}.onnx").write_bytes(source.randbytes(int(1.22**number)))
    refused = opened_everywhere(tmp_path)
    assert len(refused) == 64 and all(refused.values())


def test_every_metadata_key_is_needed_and_read(tiny_onnx: Path, tmp_path: Path) -> None:
    graph = onnx.load(tiny_onnx)
    keys = {entry.key: entry.value for entry in graph.metadata_props if entry.key != "checksum"}
    assert len(keys) == 38
    for key in keys:
        for damage, value in (("missing", None), ("odd", "?\x1b[2J\n")):
            helper.set_model_props(graph, {k: v for k, v in (keys | {key: value}).items() if v is not None})
            (tmp_path / f"{damage}-{key}.onnx").write_bytes(with_checksum(graph))
    refused = opened_everywhere(tmp_path)
    # Any license is valid; files may lack the others.
    accepted = {"odd-license.onnx", *(f"missing-{key}.onnx" for key in CALIBRATION)}
    assert {name for name, was in refused.items() if not was} == accepted


NETWORKS = {"recognizer": bundled_model, "punctuation": bundled_punctuation, "neural": bundled_neural_lm}


@pytest.mark.parametrize("kind", NETWORKS)
def test_a_changed_bit_is_found_anywhere(kind: str) -> None:
    path = NETWORKS[kind]()
    assert path
    data = path.read_bytes()
    read_onnx_properties(data)
    generator = random.Random(0)
    head = 8 * len("....checksum..0123456789abcdef")
    for bit in [*range(head), 8 * len(data) - 1, *(generator.randrange(head, 8 * len(data)) for _ in range(100))]:
        changed = bytearray(data)
        changed[bit // 8] ^= 1 << bit % 8
        with pytest.raises(ValueError):  # by the checksum, unless the structure shows it first
            read_onnx_properties(bytes(changed))


def test_a_file_without_its_checksum_in_front_is_refused(tiny_onnx: Path, tmp_path: Path) -> None:
    graph = onnx.load(tiny_onnx)
    graph.producer_name = "another program"
    onnx.save(graph, tmp_path / "rewritten.onnx")  # its checksum is no longer in front
    with pytest.raises(ValueError, match=r"^it does not begin with its checksum, as a file of `asr export` does$"):
        read_onnx_properties((tmp_path / "rewritten.onnx").read_bytes())
    largest = max(graph.graph.initializer, key=lambda tensor: len(tensor.raw_data)).raw_data
    data = tiny_onnx.read_bytes()
    place = data.index(largest) + len(largest) // 2
    (tmp_path / "flipped.onnx").write_bytes(data[:place] + bytes([data[place] ^ 1]) + data[place + 1 :])
    (tmp_path / "repaired.onnx").write_bytes(with_checksum(graph))
    assert opened_everywhere(tmp_path) == {"flipped.onnx": True, "repaired.onnx": False, "rewritten.onnx": True}


def external(graph: onnx.ModelProto, location: str) -> onnx.ModelProto:
    """The same model with the data of one tensor at `location`."""
    tensor = max(graph.graph.initializer, key=lambda t: len(t.raw_data))
    size = str(len(tensor.raw_data))
    tensor.ClearField("raw_data")
    tensor.data_location = TensorProto.EXTERNAL
    for key, value in (("location", location), ("length", size)):
        tensor.external_data.add(key=key, value=value)
    return graph


def test_other_opsets_and_external_data_are_refused(tiny_onnx: Path, tmp_path: Path) -> None:
    folder = tmp_path / "models"
    folder.mkdir()
    os.mkfifo(folder / "pipe")  # a reader would wait forever
    largest = max(len(t.raw_data) for t in onnx.load(tiny_onnx).graph.initializer)
    for name in ("models/beside", "x"):
        (tmp_path / name).write_bytes(bytes(largest))
    for number, location in enumerate(("/etc/passwd", "../x", "beside", "pipe")):
        data = with_checksum(external(onnx.load(tiny_onnx), location))
        (folder / f"external-{number}.onnx").write_bytes(data)
        with pytest.raises(ValueError, match="external data"):  # before ONNX Runtime, in any release, opens it
            read_onnx_properties(data)
    for version in (0, 17, 99, 2**40):
        graph = onnx.load(tiny_onnx)
        graph.opset_import[0].version = version
        data = with_checksum(graph)
        (folder / f"opset-{version}.onnx").write_bytes(data)
        with pytest.raises(ValueError, match=f"opset is {version}, .* {ONNX_OPSET}"):
            read_onnx_properties(data)
    refused = opened_everywhere(folder)
    assert len(refused) == 8 and all(refused.values())


def _graph(*nodes: onnx.NodeProto) -> onnx.GraphProto:
    return helper.make_graph(nodes, "hostile", [], [])


def _places() -> Iterator[tuple[str, Callable[[onnx.ModelProto, TensorProto], None]]]:
    def constant(tensor: TensorProto) -> onnx.NodeProto:
        return helper.make_node("Constant", [], ["c"], value=tensor)

    def sparse(tensor: TensorProto) -> onnx.SparseTensorProto:
        return onnx.SparseTensorProto(values=tensor)

    yield "attribute", lambda model, t: model.graph.node.append(constant(t))
    yield "tensors", lambda model, t: model.graph.node.append(helper.make_node("N", [], [], list=[t]))
    yield "sparse", lambda model, t: model.graph.sparse_initializer.append(sparse(t))
    yield (
        "sparse attribute",
        lambda model, t: model.graph.node.append(helper.make_node("Constant", [], ["c"], sparse_value=sparse(t))),
    )
    yield (
        "training",
        lambda model, t: model.training_info.append(onnx.TrainingInfoProto(algorithm=onnx.GraphProto(initializer=[t]))),
    )


@pytest.mark.parametrize("put", [pytest.param(put, id=place) for place, put in _places()])
def test_external_data_is_found_in_any_tensor(
    put: Callable[[onnx.ModelProto, TensorProto], None],
) -> None:
    model = helper.make_model(_graph(), opset_imports=[helper.make_opsetid("", ONNX_OPSET)])
    put(model, TensorProto(data_type=1, dims=[1], raw_data=b"\0\0\0\0"))
    read_onnx_properties(with_checksum(model))
    for tensor in (TensorProto(data_location=TensorProto.EXTERNAL), TensorProto(external_data=[{"key": "location"}])):
        put(model, tensor)
        with pytest.raises(ValueError, match="external data"):
            read_onnx_properties(with_checksum(model))


def test_control_flow_and_functions_are_refused(tiny_onnx: Path, tmp_path: Path) -> None:
    """ONNX Runtime folds constants when it loads a file, so a loop of 2^62 iterations would never end."""
    body = helper.make_graph(
        [helper.make_node("Identity", ["going"], ["goes_on"])],
        "body",
        [
            helper.make_tensor_value_info("trip", TensorProto.INT64, []),
            helper.make_tensor_value_info("going", TensorProto.BOOL, []),
        ],
        [helper.make_tensor_value_info("goes_on", TensorProto.BOOL, [])],
    )
    loop = onnx.load(tiny_onnx)
    loop.graph.initializer.append(helper.make_tensor("trips", TensorProto.INT64, [], [2**62]))
    loop.graph.node.append(helper.make_node("Loop", ["trips", ""], [], body=body))
    graphs = onnx.load(tiny_onnx)
    graphs.graph.node.append(helper.make_node("N", [], [], branches=[body]))
    training = onnx.load(tiny_onnx)
    node = helper.make_node("Loop", ["trips", ""], [], body=body)
    training.training_info.append(onnx.TrainingInfoProto(algorithm=onnx.GraphProto(node=[node])))
    function = onnx.load(tiny_onnx)
    function.functions.append(onnx.FunctionProto(name="F", domain="example"))
    for model in (loop, graphs, training):
        with pytest.raises(ValueError, match=r"contains a graph \(Loop, If, Scan\)"):
            read_onnx_properties(with_checksum(model))
    with pytest.raises(ValueError, match="defines functions"):
        read_onnx_properties(with_checksum(function))
    (tmp_path / "loop.onnx").write_bytes(with_checksum(loop))
    assert opened_everywhere(tmp_path) == {"loop.onnx": True}


def _field(number: int, data: bytes) -> bytes:
    size, length = bytearray(), len(data)
    while length > 127:
        size.append(length & 127 | 128)
        length >>= 7
    return bytes([number << 3 | 2, *size, length]) + data


def _sealed(data: bytes) -> bytes:
    return _field(14, _field(1, b"checksum") + _field(2, f"{checksum(data):016x}".encode())) + data


def test_bytes_that_are_no_protocol_buffer_are_refused() -> None:
    opset = _field(8, b"\x10" + bytes([ONNX_OPSET]))
    read_onnx_properties(_sealed(opset))
    other_domain = _field(8, _field(1, b"com.example") + b"\x10\x63")
    read_onnx_properties(_sealed(opset + other_domain))
    for data, message in (
        (b"", "opset is unknown"),
        (opset + opset, "opset is 18 and 18"),
        (opset + b"\x3b\x3c", "no valid field at byte 34"),  # a group
        (opset + b"\x00", "no valid field at byte 34"),
        (opset + b"\xba\x80\x80\x80\x10\x00", "no valid field at byte 34"),  # a 32-bit parser would see the graph
        (opset + b"\xff" * 20, "truncated varint"),
        (opset + b"\x08", "truncated varint"),
        (opset + b"\x3a\x09abc", "ends 6 bytes early"),
        (opset + b"\x09abc", "ends 5 bytes early"),
    ):
        with pytest.raises(ValueError, match=message):
            read_onnx_properties(_sealed(data))


def test_weights_of_a_training_are_named(tmp_path: Path) -> None:
    save_file({"weight": np.zeros(3, np.float32)}, tmp_path / "weights.safetensors")
    with zipfile.ZipFile(tmp_path / "best.pt", "w") as checkpoint:
        checkpoint.writestr("best/data.pkl", b"")
    for name, what in (("weights.safetensors", r"a \.safetensors file of weights"), ("best.pt", "a zip file, .*")):
        with pytest.raises(ValueError, match=f"^it is {what}, which `asr export` converts to a model$"):
            read_onnx_properties((tmp_path / name).read_bytes())
