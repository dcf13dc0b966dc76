"""Every benchmark runs and prints its numbers. Their values are not asserted."""

from __future__ import annotations

import contextlib
import io
import json
import re
import shutil
import subprocess
import sys
from argparse import Namespace
from pathlib import Path

import pytest
from support.benchmark_module import BENCHMARKS, load_benchmark
from support.tones import RECIPE


def run_here(name: str, *arguments: str) -> str:
    """Like `run`, but in this process, which has already imported PyTorch."""
    output = io.StringIO()
    with pytest.MonkeyPatch.context() as patch, contextlib.redirect_stdout(output):
        patch.setattr(sys, "argv", [name, *arguments])
        load_benchmark(name).main()
    return output.getvalue()


def run(name: str, *arguments: str) -> str:
    command = [sys.executable, str(BENCHMARKS / f"{name}.py"), *arguments]
    done = subprocess.run(command, capture_output=True, timeout=300)
    assert done.returncode == 0, done.stderr.decode()
    return done.stdout.decode()


@pytest.fixture
def small_recipe(tmp_path: Path) -> str:
    path = tmp_path / "small.yaml"
    path.write_text(RECIPE)
    return str(path)


def test_training_is_compared_with_a_plain_transformer(small_recipe: str) -> None:
    output = run_here("train_throughput", "--rounds", "1", "--steps", "1", "--batch-s", "15", "--recipe", small_recipe)
    assert re.search(r"(?s)fp32: ours.*ratio \d.*bf16: ours.*ratio \d", output), output


def test_losses_are_compared_with_the_recorded_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    golden = load_benchmark("golden_losses")
    recorded = json.loads(golden.GOLDEN.read_text())  # tests/training/test_golden_losses.py computes them
    monkeypatch.setattr(golden, "losses", lambda recipe, *_: recorded[recipe])
    assert "5 recipes: the same losses" in run_here("golden_losses")


def test_whisper_is_measured_beside_it(tones: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch) -> None:
    """Its texts are compared in capitals, without marks. No Whisper is installed here."""
    benchmark = load_benchmark("vs_whisper")
    texts = iter([clip.text for clip in benchmark.utterances(Namespace(data=tones[1], num_utterances=2))])
    monkeypatch.setattr(benchmark, "Teacher", lambda *_: lambda samples: Namespace(text=f"{next(texts).capitalize()}."))
    monkeypatch.setattr(sys, "argv", f"_ {tones[1]} --num-utterances 2 --whisper . --beam-size 3 --json".split())
    with contextlib.redirect_stdout(io.StringIO()) as output:
        benchmark.main()
    ours, whisper = json.loads(output.getvalue())
    assert ours["wer"] > 0 and whisper["wer"] == 0 and "3" in whisper["program"]


@pytest.mark.skipif(sys.platform != "linux", reason="memory is read from /proc")
def test_opening_is_measured_by_part() -> None:
    output = run("opening", "--num-runs", "1")
    assert re.search(r"(?s)language model +0\.\d.*import of NumPy \d\.\d.*own memory +\d+ MB", output), output


def test_live_recognition_is_measured_with_both_passes(tones: tuple[Path, Path]) -> None:
    output = run_here("live_wer", str(tones[1]), "--num-utterances", "2", "--chunk-ms", "320", "--json")
    rows = json.loads(output)
    assert [(row["chunk_ms"], row["passes"], row["num_utterances"]) for row in rows] == [(320, 1, 2), (320, 2, 2)]
    assert all(row["final_wer"] > 0 for row in rows)  # tones are not words


def test_chunks_of_two_files_are_compared(tiny_onnx: Path) -> None:
    output = run_here("chunk_time", str(tiny_onnx), str(tiny_onnx), "--chunk-ms", "160", "--num-blocks", "3")
    assert re.search(r"ratio 1\.00\n.* \d+\.\d\d ms  ratio \d", output), output


def test_search_weights_are_tuned_on_one_half_only(tones: tuple[Path, Path]) -> None:
    output = run_here("search_weights", str(tones[1]), "--num-utterances", "4", "--rounds", "1")
    rows = re.findall(
        r"^(as it is|without \w+|never a prior|beam of \d+|no rescoring|\d+ rescored) +[\d.]+ % tuned on", output, re.M
    )
    assert re.search(r"^best: weight [\d.]+ .* beam 256 ", output, re.M) and len(set(rows)) == 10, output


def test_endurance_is_measured_and_drawn(tmp_path: Path) -> None:
    files = ["--json", str(tmp_path / "minutes.json"), "--plot", str(tmp_path / "plot.png")]
    output = run("endurance", "--hours", "0.03", "--silence-hours", "0.005", *files)
    assert re.search(r"growth \d+\.\d+ MB", output) and "s of silence: the same as after 1 s" in output, output
    assert re.findall(r"(\d+) x .* s  THE OLD MAN", output) == ["8", "7"], output
    assert len(json.loads((tmp_path / "minutes.json").read_text())["minutes"]) == 2
    assert (tmp_path / "plot.png").stat().st_size > 10000


def test_device_streams_are_counted_for_any_network_shape(
    tones: tuple[Path, Path], tiny_onnx: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("asr.export.write.export_model", lambda _, path, **__: shutil.copy(tiny_onnx, path))
    shape = ["tiny", "model.encoder_layers=1", "model.condition_layers=[]", "model.decoder_layers=1"]
    output = run_here(
        "device_streams", str(tones[1]), "--first", "1", "--most", "1", "--seconds", "4.5", "--recipe", *shape
    )
    found = re.findall(r"\| 1 \| \d+ / \d+ / \d+ \| [\d.]+ \| 1\.0 \|", output)
    assert len(found) == 1 and "1 streams" in output, output
