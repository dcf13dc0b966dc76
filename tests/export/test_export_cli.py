"""`asr export`: the file of a run, the output, and options that are rejected."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from asr.cli import main
from asr.runtime.onnx_model import OnnxModel
from asr.training.checkpoint import Checkpoint, checkpoint_path


def test_command_writes_a_file_and_prints_its_accuracy(
    quick: None, checkpoint: Checkpoint, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "run").mkdir()
    checkpoint.save(tmp_path / "run" / "checkpoint-7.pt")
    output = tmp_path / "out.onnx"
    assert main(["export", str(tmp_path / "run"), "-o", str(output), "--int8", "--chunk-ms", "320"]) == 0
    printed = capsys.readouterr()
    assert "int8" in printed.out and "KL divergence" in printed.out
    told = printed.err.splitlines()
    assert told[0] == "asr export: tracing the encoder ..." and "the int8 file" in told[-1] and len(told) == 4
    meta = OnnxModel(output).metadata
    assert (meta.default_chunk_size, meta.default_left_context) == (8, 64)


def test_command_exports_the_mean_of_the_newest_checkpoints(
    quick: None, checkpoint: Checkpoint, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Averages the trained weights of steps 2 and 3; the gate compares them with the graphs of `checkpoint`."""
    run, output = tmp_path / "run", tmp_path / "out.onnx"
    run.mkdir()
    for step, shift in ((1, 1.0), (2, 0.5), (3, -0.5)):
        weights = {name: value + shift for name, value in checkpoint.average.items()}
        training = {**checkpoint.training, "step": step}
        dataclasses.replace(checkpoint, weights=weights, average=weights, training=training).save_step(run, 3)
    checkpoint_path(run, 1).rename(run / "best.pt")
    checkpoint_path(run, 2).with_name("checkpoint-1.pt").write_bytes(b"damaged, and not asked for")
    assert main(["export", str(run), "-o", str(output), "--average", "2"]) == 0
    assert f"{run}, mean of 2 checkpoints to step 3 -> {output}" in capsys.readouterr().out
    assert main(["export", str(run), "-o", str(output), "--average", "4"]) == 1
    assert "cannot average 4 checkpoints of" in capsys.readouterr().err


def test_command_writes_weights_for_further_training(
    quick: None, checkpoint: Checkpoint, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """They are the weights of the graphs: both ways give the same file."""
    checkpoint.save(tmp_path / "c.pt")
    weights, straight, again = (str(tmp_path / name) for name in ("w.safetensors", "a.onnx", "b.onnx"))
    assert main(["export", str(tmp_path / "c.pt"), "-o", weights, "--license", "CC0-1.0"]) == 0
    assert "half precision" in capsys.readouterr().out
    assert {value.dtype for value in load_file(weights).values() if value.dim() >= 2} == {torch.float16}
    assert main(["export", str(tmp_path / "c.pt"), "-o", straight, "--license", "CC0-1.0"]) == 0
    assert main(["export", weights, "-o", again]) == 0  # the license is stored with the weights
    assert Path(straight).read_bytes() == Path(again).read_bytes()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["-o", "model.onnx", "--chunk-ms", "100"], "--chunk-ms 100 must be a multiple of 40"),
        (["-o", "model.onnx", "--left-context-ms", "-40"], "--left-context-ms -40"),
        (["-o", "model.bin"], "must end in .onnx"),
        (["-o", "no/such/folder/model.onnx"], "no folder"),
        (["-o", "no/such/folder/model.safetensors"], "no folder"),
        (["-o", "model.safetensors", "--int8"], "--int8 is for inference"),
        (["-o", "model.onnx", "--rescore-ctc-weight", "1.5"], "rescore_ctc_weight"),
        (["-o", "model.onnx", "--average", "2"], "c.pt is not the folder of a training run"),
    ],
)
def test_command_names_the_wrong_option(
    options: list[str],
    message: str,
    checkpoint: Checkpoint,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    checkpoint.save(tmp_path / "c.pt")
    assert main(["export", "c.pt", *options]) == 1
    assert message in capsys.readouterr().err
    assert [p.name for p in tmp_path.iterdir()] == ["c.pt"]
