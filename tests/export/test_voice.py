"""`asr adapt`: recordings of a speaker give a model for this speaker, or an error with the reason."""

from __future__ import annotations

import signal
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from rich.console import Console
from support.export import reuse
from support.synth import write_audio
from support.tones import say, sentence

from asr.cli import main
from asr.export import adapt
from asr.lm import packed
from asr.recipe import load_config
from asr.runtime.onnx_model import OnnxModel
from asr.text import TextNormalizer
from asr.training.checkpoint import load_pretrained
from asr.training.step import Learner

pytestmark = pytest.mark.usefixtures("restore_signals")


@pytest.fixture
def start(tiny_onnx: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """Small initial weights, for which a second of speech is enough."""
    monkeypatch.setattr(adapt, "MIN_SECONDS", 1.0)
    return str(tiny_onnx.with_suffix(".safetensors"))


@pytest.fixture
def recordings(tmp_path: Path) -> Path:
    """Recordings as from `asr record`."""
    folder = tmp_path / "recordings"
    lines = ["path\ttext\tspeaker\n"]
    for number in range(8):
        text = sentence(number)
        write_audio(folder / f"{number:04d}.flac", say(text))
        lines.append(f"{number:04d}.flac\t{text}\tme\n")
    (folder / "manifest.tsv").write_text("".join(lines))
    return folder


def test_the_mean_of_old_and_new_is_written(
    recordings: Path,
    start: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    mine = tmp_path / "mine.onnx"
    kept = {}
    short = ["train.max_steps=2", "train.valid_every=1"]
    monkeypatch.setattr(adapt, "load_config", lambda name, overrides: load_config(name, [*overrides, *short]))
    monkeypatch.setattr(adapt, "export_model", lambda weights, *_, **__: kept.update(weights=weights))
    learn = adapt.learn

    def learn_and_keep(start: str, own: Path, held_out: Path, folder: Path, console: Console) -> bool:
        done = learn(start, own, held_out, folder, console)
        kept["learned"] = load_pretrained(folder)
        return done

    monkeypatch.setattr(adapt, "learn", learn_and_keep)
    assert main(["adapt", str(recordings), "-o", str(mine), "--init", start]) == 0
    before, learned, after = (found.weights for found in (load_pretrained(start), kept["learned"], kept["weights"]))
    moved = [name for name, value in learned.items() if not value.allclose(before[name], atol=1e-7)]
    assert moved and all(after[name].allclose((before[name] + learned[name]) / 2, atol=1e-6) for name in moved)
    out = " ".join(capsys.readouterr().out.split())
    assert "2 held-out recordings: word errors" in out and str(mine) in out


def test_the_written_model_is_in_8_bits(
    recordings: Path, start: str, traced_tiny: Callable[[str], Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    reuse(traced_tiny, monkeypatch)
    monkeypatch.setattr(adapt, "learn", lambda *_: True)
    monkeypatch.setattr(adapt, "mixture", lambda start, *_: load_pretrained(start))
    mine = tmp_path / "mine.onnx"
    assert main(["adapt", str(recordings / "manifest.tsv"), "-o", str(mine), "--init", start, "--language", "de"]) == 0
    metadata = OnnxModel(mine).metadata
    assert (metadata.quantization, metadata.language) == ("int8", "de")


def test_half_a_minute_is_too_little(recordings: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["adapt", str(recordings), "-o", str(tmp_path / "mine.onnx")]) == 1
    assert "8 recordings leave" in capsys.readouterr().err
    assert not (tmp_path / "mine.onnx").exists()


def test_three_recordings_hold_none_out(recordings: Path, start: str, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"3 recordings leave 75 s .* at least 4 recordings and 1 s are needed"):
        adapt.split([SimpleNamespace(duration=25.0)] * 3)


def test_texts_get_the_letters_of_the_model(recordings: Path, start: str, monkeypatch: pytest.MonkeyPatch) -> None:
    given = {}
    monkeypatch.setattr(adapt, "normalizer_of", lambda tokenizer: given.update(tokenizer=tokenizer) or TextNormalizer())
    monkeypatch.setattr(adapt, "learn", lambda *_: False)
    assert main(["adapt", str(recordings), "-o", "mine.onnx", "--init", start]) == 130
    assert given["tokenizer"] == load_pretrained(start).tokenizer


def test_interrupted_adaptation_writes_nothing(
    recordings: Path,
    start: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    step = Learner.__call__

    def interrupted(*arguments: Any) -> object:
        signal.raise_signal(signal.SIGINT)
        return step(*arguments)

    monkeypatch.setattr(Learner, "__call__", interrupted)
    mine = tmp_path / "mine.onnx"
    assert main(["adapt", str(recordings), "-o", str(mine), "--init", start]) == 130
    out = capsys.readouterr().out
    assert "stopping after this step; no model is written" in out and "a checkpoint is saved" not in out
    assert not mine.exists()


def test_the_advice_follows_the_measured_errors(
    recordings: Path,
    start: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(adapt, "learn", lambda *_: True)
    monkeypatch.setattr(adapt, "mixture", lambda start, *_: load_pretrained(start))
    monkeypatch.setattr(adapt, "export_model", lambda *_, **__: None)
    for after, advice in (
        (0.2, "better for this voice"),
        (0.24, "better for this voice"),
        (0.245, "keep"),
        (0.3, "keep"),
    ):
        rates = iter((0.25, after))
        monkeypatch.setattr(adapt, "phone_errors", lambda *_, rates=rates: SimpleNamespace(rate=next(rates)))
        options = ["-o", str(tmp_path / "mine.onnx"), "--init", start, "--lm", str(packed.BUNDLED)]
        assert main(["adapt", str(recordings), *options]) == 0
        out = " ".join(capsys.readouterr().out.split())
        assert advice in out and (f"--lm {packed.BUNDLED}" in out) == advice.startswith("better")


@pytest.mark.parametrize(
    ("options", "refusal"),
    [
        (["-o", "mine.bin"], "must end in .onnx"),
        (["-o", "mine.onnx", "--language", "?"], "BCP 47"),
        (["-o", "mine.onnx", "--lm", "nowhere.lm"], "nowhere.lm cannot be read"),
    ],
)
def test_bad_arguments_are_refused_before_the_work(
    options: list[str], refusal: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(adapt, "load_pretrained", lambda _: None)
    monkeypatch.setattr(adapt, "read_table", lambda _: pytest.fail("work has begun"))
    assert main(["adapt", "recordings", *options]) == 1
    assert refusal in capsys.readouterr().err
