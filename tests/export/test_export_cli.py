"""`asr export`: the file of a run, the output, and options that are rejected."""

from __future__ import annotations

import dataclasses
import os
import shutil
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from safetensors.torch import load_file

from asr.cli import main
from asr.config import Config, DataConfig, TrainConfig
from asr.export import cli, commands
from asr.export.calibrate import calibrate
from asr.export.write import without_folders
from asr.runtime.onnx_decoder import decoder_beside
from asr.runtime.onnx_model import OnnxModel
from asr.training.checkpoint import Checkpoint, checkpoint_path, load_pretrained


def test_command_writes_a_file_and_prints_its_accuracy(
    quick: None,
    checkpoint: Checkpoint,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    (tmp_path / "run").mkdir()
    checkpoint.save(tmp_path / "run" / "checkpoint-7.pt")
    output = tmp_path / "out.onnx"
    options = ["--int8", "--chunk-ms", "320", "--left-context-ms", "640", "--language", "de-CH"]
    synced: list[int] = []
    monkeypatch.setattr(os, "fsync", synced.append)
    assert main(["export", str(tmp_path / "run"), "-o", str(output), *options]) == 0
    printed = capsys.readouterr()
    assert "int8" in printed.out and "KL divergence" in printed.out
    told = printed.err.splitlines()
    assert told[0] == "asr export: tracing the encoder ..." and "the int8 file" in told[-1] and len(told) == 4
    meta = OnnxModel(output).metadata
    assert (meta.default_chunk_size, meta.default_left_context, meta.language) == (8, 16, "de-CH")
    assert len(synced) == 2, "both files outlive a loss of power"


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
    assert load_pretrained(weights).config.data.train == ("some",), "without the folder"
    assert main(["export", str(tmp_path / "c.pt"), "-o", straight, "--license", "CC0-1.0"]) == 0
    assert main(["export", weights, "-o", again]) == 0  # the license is stored with the weights
    assert Path(straight).read_bytes() == Path(again).read_bytes()


def test_options_of_the_command_reach_sherpa_onnx(
    checkpoint: Checkpoint, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    given: dict[str, Any] = {}
    monkeypatch.setattr(commands, "export_sherpa", lambda *_, **options: given.update(options) or [])
    dataclasses.replace(checkpoint.pretrained(), license="CC0-1.0").save(tmp_path / "w.safetensors")
    command = ["export", str(tmp_path / "w.safetensors"), "--target", "sherpa-onnx", "-o", str(tmp_path / "folder")]
    assert main([*command, "--int8"]) == 0
    assert given["int8"] is True and given["license"] == "CC0-1.0"
    assert main([*command, "--license", "CC-BY-4.0"]) == 0
    assert given["int8"] is False and given["license"] == "CC-BY-4.0"


def test_n_grams_are_pruned_to_the_given_size(
    phone_model: tuple[Path, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sizes: list[float] = []
    monkeypatch.setattr(commands, "pruned", lambda words, levels, size: sizes.append(size) or (words, levels))
    monkeypatch.setattr(commands, "DecodingGraph", lambda *_: SimpleNamespace(words=()))
    monkeypatch.setattr(commands, "export_sherpa", lambda *_, **__: (tmp_path / "HLG.fst").touch() or [])
    command = ["export", str(phone_model[0]), "--target", "sherpa-onnx"]
    command += ["-o", str(tmp_path), "--lm", str(phone_model[1])]
    assert main(command) == main([*command, "--megabytes", "0.25"]) == 0
    assert sizes == [5e6, 250e3]


def test_bundled_weights_are_english_unless_said() -> None:
    assert [cli.stated_language(None, source) for source in ("bundled", "best.pt")] == ["en", ""]
    assert cli.stated_language("de", "bundled") == "de"


def test_folders_of_the_training_stay_private() -> None:
    data = DataConfig(("/a/b*0.5", "/a/c"), ("/a/d",), noise=("/a/e",), rooms="/a/f", lexicon="/a/g.txt")
    config = without_folders(Config(data=data, train=TrainConfig(output="/a/run", init="/a/best.pt")))
    assert config.data == DataConfig(("b*0.5", "c"), ("d",), noise=("e",), rooms="f", lexicon="g.txt")
    assert (config.train.output, config.train.init) == ("run", "best.pt")


@pytest.mark.parametrize("output", ["m.onnx", "m.decoder.onnx", "linked.onnx", "w.safetensors"])
def test_no_input_is_replaced(
    output: str, tiny_onnx: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Neither the weights nor their decoder, which linked.onnx would have, too."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(commands, "export_model", lambda *_, **__: pytest.fail("work has begun"))
    shutil.copy(tiny_onnx, "m.onnx")
    shutil.copy(decoder_beside(tiny_onnx), "m.decoder.onnx")
    Path("linked.decoder.onnx").symlink_to("m.decoder.onnx")
    load_pretrained(tiny_onnx).save(Path("w.safetensors"))
    before = {path: path.read_bytes() for path in tmp_path.iterdir()}
    weights = "w.safetensors" if output == "w.safetensors" else "m.onnx"
    assert main(["export", weights, "-o", output]) == 1
    assert "is also an input, which would be replaced" in capsys.readouterr().err
    assert {path: path.read_bytes() for path in tmp_path.iterdir()} == before


def test_an_exported_file_keeps_the_settings_of_its_source(quick: None, exported: Path, tmp_path: Path) -> None:
    source, output = tmp_path / "source.onnx", tmp_path / "out.onnx"
    shutil.copy(exported, source)
    shutil.copy(decoder_beside(exported), decoder_beside(source))
    confidence = (0.5, 1.5, 2.5)
    calibrate(source, {"confidence_with_lm": confidence}, "de-CH")
    assert main(["export", str(source), "-o", str(output)]) == 0
    kept = OnnxModel(output).metadata
    assert (kept.language, kept.confidence_with_lm, kept.rescore_ctc_weight) == ("de-CH", confidence, 0.25)
    assert (kept.default_chunk_size, kept.default_left_context) == (8, 32)
    options = "--chunk-ms 640 --left-context-ms 2560 --rescore-ctc-weight 0.7 --language en"
    assert main(["export", str(source), "-o", str(output), *options.split()]) == 0
    given = OnnxModel(output).metadata
    assert (given.language, given.confidence_with_lm, given.rescore_ctc_weight) == ("en", confidence, 0.7)
    assert (given.default_chunk_size, given.default_left_context) == (16, 64), "an option counts, also at its default"


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
        (["-o", "model.onnx", "--lm", "bundled"], "--lm bundled is for --target sherpa-onnx"),
        (["-o", "folder", "--target", "sherpa-onnx", "--megabytes", "0"], "--megabytes 0 must be above 0"),
        (["-o", "model.onnx", "--share", "0.5"], "--share cannot be used for --target native"),
        (["-o", "model.safetensors", "--chunk-ms", "320", "--language", "de"], "--chunk-ms and --language cannot be"),
        (["-o", "folder", "--target", "sherpa-onnx", "--rescore-ctc-weight", "0.4"], "--rescore-ctc-weight cannot be"),
        (["-o", "folder", "--target", "sherpa-onnx", "--megabytes", "9"], "--megabytes cannot be used for --target sh"),
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
