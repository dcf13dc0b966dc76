"""The files for sherpa-onnx, in the published sherpa-onnx: the same words as ours, in all of its interfaces."""

from __future__ import annotations

import argparse
import json
import math
import os
import re
import shutil
import socket
import subprocess
import sys
import sysconfig
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
import sherpa_onnx
from support.benchmark_module import BENCHMARKS, load_benchmark
from support.ports import free_port
from support.recognition import ended, finals, recognize
from support.synth import speech
from websockets.sync.client import connect

from asr import Recognizer
from asr._core import END_SILENCE
from asr.cli import main
from asr.export import sherpa
from asr.export.graph import ExportError
from asr.export.sherpa import export_sherpa, run_zipformer
from asr.features import num_frames
from asr.model.model import AsrModel
from asr.runtime.onnx_model import OnnxModel, bundled_model
from asr.training.checkpoint import load_pretrained


@pytest.fixture(scope="module")
def folder(tiny_onnx: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The output of `asr export` for a float32 .onnx file."""
    path = tmp_path_factory.mktemp("sherpa") / "new"
    options = ["--target", "sherpa-onnx", "-o", str(path), "--license", "CC-BY-4.0"]
    assert main(["export", str(tiny_onnx), *options]) == 0
    return path


@pytest.fixture(scope="module")
def utterances(conversation: np.ndarray) -> list[np.ndarray]:
    """Recordings of different lengths; one contains digital silence, one begins with it."""
    silence = np.zeros(12000, np.float32)
    spoken = [speech("the quick brown fox"), speech("jumps over the lazy dog", 200, "en-gb")]
    return [conversation, np.concatenate([spoken[0], silence, spoken[1]]), np.concatenate([silence, spoken[1]])]


def zipformer(folder: Path, chunk_ms: int, name: str = "zipformer2_ctc.{}ms.onnx") -> sherpa_onnx.OnlineRecognizer:
    return sherpa_onnx.OnlineRecognizer.from_zipformer2_ctc(
        str(folder / "tokens.txt"), str(folder / name.format(chunk_ms)), num_threads=1
    )


def padded(samples: np.ndarray, chunk_ms: int) -> np.ndarray:
    """Adds silence until sherpa-onnx decodes the last chunk; it waits for one feature frame after each chunk."""
    shift = chunk_ms // 10
    num_chunks = math.ceil((num_frames(len(samples)) + 10 - 4) / shift)
    return np.concatenate([samples, np.zeros((num_chunks * shift + 4) * 160 - len(samples), np.float32)])


def decode(recognizer: sherpa_onnx.OnlineRecognizer, samples: list[np.ndarray]) -> list[str]:
    """Texts of streams that run in parallel, in blocks of 100 ms."""
    streams = [recognizer.create_stream() for _ in samples]
    for begin in range(0, max(map(len, samples)), 1600):
        for stream, audio in zip(streams, samples, strict=True):
            stream.accept_waveform(16000, audio[begin : begin + 1600])
        while ready := [stream for stream in streams if recognizer.is_ready(stream)]:
            recognizer.decode_streams(ready)
    for stream in streams:
        stream.input_finished()
        while recognizer.is_ready(stream):
            recognizer.decode_stream(stream)
    return [normalized(recognizer.get_result(stream)) for stream in streams]


def normalized(text: str) -> str:
    """sherpa-onnx writes two spaces for two adjacent word boundaries."""
    return " ".join(text.split())


@pytest.fixture(scope="module")
def ours(onnx: OnnxModel) -> Callable[[np.ndarray, int], str]:
    """Our text without a second pass, for comparison."""

    def text(samples: np.ndarray, chunk_ms: int) -> str:
        recognizer = Recognizer(onnx, chunk_ms=chunk_ms, search="greedy", second_pass=False, max_utterance_s=120)
        return finals(recognize(recognizer, samples))

    return text


def test_texts_are_ours(folder: Path, utterances: list[np.ndarray], ours: Callable[[np.ndarray, int], str]) -> None:
    recognizer = zipformer(folder, 640)
    for samples in utterances:
        audio = padded(samples, 640)
        text = ours(audio, 640)
        assert len(set(text)) > 3, "the test needs something to say"
        assert decode(recognizer, [audio]) == [text]


def test_streams_side_by_side_equal_each_alone(folder: Path, utterances: list[np.ndarray]) -> None:
    recognizer = zipformer(folder, 640)
    together = decode(recognizer, utterances)
    assert len(set(together)) == 3
    assert together == [decode(recognizer, [samples])[0] for samples in utterances]


def test_the_c_api_gives_our_text(
    folder: Path, utterances: list[np.ndarray], ours: Callable[[np.ndarray, int], str], tmp_path: Path
) -> None:
    home = Path(sherpa_onnx.__file__).parent
    source, program = Path(__file__).with_name("sherpa_client.c"), tmp_path / "client"
    libraries = [f"-L{home / 'lib'}", f"-Wl,-rpath,{home / 'lib'}", "-lsherpa-onnx-c-api", "-lonnxruntime"]
    subprocess.run(["cc", str(source), f"-I{home / 'include'}", *libraries, "-o", str(program)], check=True)
    audio = padded(utterances[1], 640)
    model = folder / "zipformer2_ctc.640ms.onnx"
    done = subprocess.run(
        [program, model, folder / "tokens.txt"], input=audio.tobytes(), capture_output=True, check=True, timeout=60
    )
    assert normalized(done.stdout.decode()) == ours(audio, 640)


@pytest.fixture
def server(folder: Path, tmp_path: Path) -> Iterator[str]:
    """Address of sherpa-onnx's own websocket server with our file."""
    port = free_port()
    command = [
        shutil.which("sherpa-onnx-online-websocket-server", path=sysconfig.get_path("scripts")),
        f"--port={port}",
        f"--tokens={folder / 'tokens.txt'}",
        f"--zipformer2-ctc-model={folder / 'zipformer2_ctc.640ms.onnx'}",
        "--enable-endpoint=false",
        "--end-tail-padding=0.8",
    ]
    process = subprocess.Popen(
        [part for part in command if part], cwd=tmp_path, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    try:
        deadline = time.monotonic() + 120
        while True:
            with socket.socket() as probe:
                if probe.connect_ex(("127.0.0.1", port)) == 0:
                    break
            assert process.poll() is None, "the server is gone"
            assert time.monotonic() < deadline, "the server does not listen"
            time.sleep(0.05)
        yield f"ws://127.0.0.1:{port}"
    finally:
        process.kill()
        process.wait()


def test_websocket_server_gives_our_text_to_several_clients(
    server: str, utterances: list[np.ndarray], ours: Callable[[np.ndarray, int], str]
) -> None:
    with ExitStack() as stack:
        clients = [stack.enter_context(connect(server)) for _ in utterances]
        for client, samples in zip(clients, utterances, strict=True):
            for begin in range(0, len(samples), 3200):
                client.send(samples[begin : begin + 3200].tobytes())
            client.send("Done")
        for client, samples in zip(clients, utterances, strict=True):
            result = ""
            while (message := client.recv(timeout=30)) != "Done!":
                result = json.loads(message)["text"]
            assert normalized(result) == ours(np.concatenate([samples, np.zeros(12800, np.float32)]), 640)


@pytest.mark.parametrize(
    ("options", "printed"),
    [
        (
            ["--seconds", "3", "--rounds", "1"],
            r"(?s)asr-stream .*ratio of ours 1\.00.*zipformer2_ctc .*ratio.*their features \d",
        ),
        (
            ["--num-utterances", "3"],
            r"zipformer2_ctc: .* 3 of 3 texts equal ours\n",
        ),
    ],
    ids=["cost", "texts"],
)
def test_the_benchmark_prints_its_numbers(
    options: list[str], printed: str, folder: Path, tiny_onnx: Path, tones: tuple[Path, Path], tmp_path: Path
) -> None:
    plot = tmp_path / "cpu.png"
    more = ["--data", str(tones[1])] if "--num-utterances" in options else ["--plot", str(plot)]
    command = [sys.executable, str(BENCHMARKS / "vs_sherpa.py"), str(folder), "--model", str(tiny_onnx)]
    done = subprocess.run([*command, *options, *more], capture_output=True, timeout=300)
    assert done.returncode == 0, done.stderr.decode()
    assert re.search(printed, done.stdout.decode()), done.stdout.decode()
    assert "--data" in more or plot.stat().st_size > 10000


def test_a_pause_ends_no_text_of_the_benchmark(folder: Path, tiny_onnx: Path, conversation: np.ndarray) -> None:
    args = argparse.Namespace(folder=folder, model=str(tiny_onnx), lm="bundled", int8=False, chunk_ms=640)
    feed, finish = load_benchmark("vs_sherpa").our_streams(args, endpoints=False)()
    _, before = feed(conversation[:112000])
    feed(conversation[112000:])
    assert finish().startswith(before) and finish() > before > ""


def test_streams_are_counted_beside_those_of_its_server(
    folder: Path, tiny_onnx: Path, tones: tuple[Path, Path]
) -> None:
    command = [sys.executable, str(BENCHMARKS / "streams.py"), str(tones[1]), "--model", str(tiny_onnx)]
    command += ["--sherpa", str(folder), "--variants", "batched", "sherpa-onnx"]
    command += ["--first", "1", "--most", "1", "--seconds", "3.5", "--limit-ms", "60000"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    for name in ("batched", "sherpa-onnx"):
        # Each chunk got a reply soon: a missing reply counts as at least one second.
        (p50,) = re.findall(rf"^{name}: 1 streams, p50 (\d+) ms, p95 \d+ ms, CPU [\d.]+ ms/s", done.stdout, re.M)
        assert int(p50) < 900
        assert re.search(rf"^\| {name} \| 1 \| \d+\.\d\d \|$", done.stdout, re.M), done.stdout


def test_benchmark_prints_how_to_write_missing_files(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["vs_sherpa.py", str(folder), "--int8"])
    with pytest.raises(SystemExit):
        load_benchmark("vs_sherpa").main()
    message = f"{folder}/zipformer2_ctc.640ms.int8.onnx is not there: asr export bundled --target sherpa-onnx "
    assert f"{message}-o {folder} --chunk-ms 640 --int8\n" in capsys.readouterr().err


def test_model_with_phones_writes_its_letters(
    phone_model: tuple[Path, Path], tmp_path: Path, conversation: np.ndarray
) -> None:
    """A model like the bundled one; sherpa-onnx cannot search over phones."""
    options = ["--target", "sherpa-onnx", "--chunk-ms", "160", "--left-context-ms", "320", "-o", str(tmp_path)]
    assert main(["export", str(phone_model[0]), *options]) == 0
    options = {"chunk_ms": 160, "left_context_ms": 320, "lm": None, "search": "greedy", "second_pass": False}
    audio = padded(ended(conversation), 160)
    stream_audio = audio[: len(audio) - END_SILENCE]  # a stream adds this silence itself
    text = finals(recognize(Recognizer(phone_model[0], max_utterance_s=120, **options), stream_audio))
    assert len(set(text)) > 3, "the test needs something to say"
    assert decode(zipformer(tmp_path, 160), [audio]) == [text]


def test_files_say_what_they_are(folder: Path, onnx: OnnxModel) -> None:
    assert {path.name for path in folder.iterdir()} == {"tokens.txt", "zipformer2_ctc.640ms.onnx"}
    lines = (folder / "tokens.txt").read_text(encoding="utf-8").splitlines()
    assert lines == [f"{token} {id}" for id, token in enumerate(onnx.tokens)] and lines[0] == "<blk> 0"
    graph = load(folder / "zipformer2_ctc.640ms.onnx")
    assert {p.key: p.value for p in graph.metadata_props}["license"] == "CC-BY-4.0"
    assert b".py" not in graph.graph.SerializeToString(), "the file tells of the machine that wrote it"


def load(path: Path) -> onnx.ModelProto:
    return onnx.load(path)


@pytest.fixture
def quick(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Makes `export_sherpa(tiny_model, ...)` reuse traced graphs."""
    monkeypatch.setattr(sherpa, "zipformer_graph", lambda *args: load(folder / "zipformer2_ctc.640ms.onnx"))


def test_int8_is_smaller_close_and_runs(
    quick: None,
    folder: Path,
    tiny_model: AsrModel,
    onnx: OnnxModel,
    tmp_path: Path,
    utterances: list[np.ndarray],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(sherpa, "MAX_DIVERGENCE", 0.1)  # this network's head was fitted to give certain outputs
    files = export_sherpa(tiny_model, onnx.tokens, tmp_path, int8=True)
    assert [file.path.name for file in files] == ["zipformer2_ctc.640ms.int8.onnx"]
    for file in files:
        assert 1e-7 < file.divergence < 0.1
        assert file.size < 0.7 * (folder / file.path.name.replace(".int8", "")).stat().st_size
    assert decode(zipformer(tmp_path, 640, "zipformer2_ctc.{}ms.int8.onnx"), [utterances[0]])[0]


def test_command_writes_a_file_for_each_latency(
    folder: Path, tiny_onnx: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Tests which graphs are requested; other tests check their contents."""
    made = []

    def zipformer_graph(model: AsrModel, chunk_size: int, left_context: int, phones: bool) -> onnx.ModelProto:
        made.append((chunk_size, left_context))
        return load(folder / "zipformer2_ctc.640ms.onnx")

    monkeypatch.setattr(sherpa, "zipformer_graph", zipformer_graph)
    monkeypatch.setattr(sherpa, "_check", lambda *args: (0.0, 0.0))
    options = ["--chunk-ms", "640,320,640", "--left-context-ms", "1280"]
    weights = tiny_onnx
    assert main(["export", str(weights), "--target", "sherpa-onnx", "-o", str(tmp_path), *options]) == 0
    assert made == [(8, 32), (16, 32)]
    names = {"tokens.txt", "zipformer2_ctc.320ms.onnx", "zipformer2_ctc.640ms.onnx"}
    assert {path.name for path in tmp_path.iterdir()} == names
    printed = capsys.readouterr().out
    assert f"{weights} -> {tmp_path}" in printed and "zipformer2_ctc.320ms.onnx: " in printed


def _swap_halves(graph: onnx.ModelProto) -> None:
    joined = [node for node in graph.graph.node if node.op_type == "Concat"][-1]  # old and new frames of the cache
    first, second = joined.input
    joined.input[:] = [second, first]


def test_the_gate_refuses_a_frame_that_is_no_number(
    quick: None, tiny_model: AsrModel, onnx: OnnxModel, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def run(*arguments: Any) -> tuple[np.ndarray, np.ndarray]:
        log_probs, keys_values = run_zipformer(*arguments)
        log_probs[0, 3] = np.nan
        return log_probs, keys_values

    monkeypatch.setattr(sherpa, "run_zipformer", run)
    with pytest.raises(ExportError, match="differs from PyTorch: error nan"):
        export_sherpa(tiny_model, onnx.tokens, tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_the_gate_refuses_a_tampered_graph(
    quick: None, tiny_model: AsrModel, onnx: OnnxModel, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    graph = sherpa.zipformer_graph(tiny_model, 16, 64)
    _swap_halves(graph)
    monkeypatch.setattr(sherpa, "zipformer_graph", lambda *args: graph)
    with pytest.raises(ExportError, match="differs from PyTorch"):
        export_sherpa(tiny_model, onnx.tokens, tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_the_bundled_weights_come_back_from_their_file() -> None:
    import torch

    features = np.random.default_rng(0).normal(-9, 3, (131, 80)).astype(np.float32)
    expected = OnnxModel(bundled_model("float32")).encode(features, 16, 64).log_probs
    with torch.no_grad():
        found, _, _ = load_pretrained("bundled").model()(torch.from_numpy(features)[None], torch.tensor([131]), 16, 64)
    np.testing.assert_allclose(found[0].numpy(), expected, rtol=0, atol=1e-3)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["-o", "out", "--chunk-ms", "640,50"], "--chunk-ms 50 must be a multiple of 40"),
        (["-o", "out", "--chunk-ms", "fast"], "--chunk-ms fast must be a multiple of 40"),
        (["-o", "out", "--left-context-ms", "0"], "--left-context-ms 0 must be a multiple of 40, at least 40"),
        (["-o", "out.onnx"], "out.onnx must be a folder"),
    ],
)
def test_command_names_the_wrong_option(
    options: list[str],
    message: str,
    tiny_onnx: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["export", str(tiny_onnx), "--target", "sherpa-onnx", *options]) == 1
    assert message in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


def test_a_file_is_refused_before_the_graph(
    tiny_onnx: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    graphs: list[object] = []
    monkeypatch.setattr("asr.export.commands.read_packed", graphs.append)
    weights = str(tiny_onnx)
    assert main(["export", weights, "--target", "sherpa-onnx", "--lm", "bundled", "-o", "out.onnx"]) == 1
    assert "out.onnx must be a folder" in capsys.readouterr().err and not graphs


@pytest.mark.parametrize("output", ["file", "file/folder", "locked", "locked/new/folder", "dangling"])
def test_a_folder_that_cannot_be_written_is_refused_before_the_graph(
    output: str, tiny_onnx: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("file").touch()
    Path("locked").mkdir()
    Path("dangling").symlink_to("nowhere")
    monkeypatch.setattr(os, "access", lambda path, mode: str(path) != "locked")  # root may write anywhere
    monkeypatch.setattr("asr.export.commands.export_sherpa", lambda *_, **__: pytest.fail("work has begun"))
    assert main(["export", str(tiny_onnx), "--target", "sherpa-onnx", "-o", output]) == 1
    found = output.partition("/")[0]
    expected = f"the folder {found} cannot be written" if found == "locked" else f"{found} is not a folder"
    assert expected in capsys.readouterr().err


def test_a_native_file_has_one_default_chunk(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["export", "run", "-o", "model.onnx", "--chunk-ms", "640,160"]) == 1
    assert "--chunk-ms 640,160" in capsys.readouterr().err
