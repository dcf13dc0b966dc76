"""`asr adapt`: recordings of a speaker give a model for this speaker, or an error with the reason."""

from __future__ import annotations

import dataclasses
import signal
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from rich.console import Console
from support.synth import write_audio
from support.tones import say, sentence

from asr.cli import main
from asr.config import Config, TokenizerConfig
from asr.data.manifests import HAS_NOISE
from asr.data.speech import Speech
from asr.evaluation.wer import WordErrors
from asr.export import adapt
from asr.lm import packed
from asr.recipe import load_config
from asr.runtime.search import LmWeights
from asr.text import TextNormalizer
from asr.training.checkpoint import load_pretrained
from asr.training.exported import kept_settings
from asr.training.step import Learner

pytestmark = pytest.mark.usefixtures("restore_signals")


@pytest.fixture
def start(tiny_onnx: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """Small initial weights, for which a second of speech is enough."""
    monkeypatch.setattr(adapt, "MIN_SECONDS", 1.0)
    return str(tiny_onnx)


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
    kept: dict[str, Any] = {}
    short = ["train.max_steps=2", "train.valid_every=1"]
    monkeypatch.setattr(adapt, "load_config", lambda name, overrides: load_config(name, [*overrides, *short]))
    monkeypatch.setattr(adapt, "export_model", lambda weights, *_, **options: kept.update(options, weights=weights))
    learn = adapt.learn

    def learn_and_keep(start: str, own: Path, held_out: Path, folder: Path, console: Console) -> bool:
        done = learn(start, own, held_out, folder, console)
        kept["learned"] = load_pretrained(folder)
        return done

    monkeypatch.setattr(adapt, "learn", learn_and_keep)
    assert main(["adapt", str(recordings), "-o", str(mine), "--init", start, "--language", "de"]) == 0
    assert (kept["int8"], kept["language"]) == (True, "de")
    assert kept["kept"] == kept_settings(start) and kept["kept"]["language"] == "en"
    before, learned, after = (found.weights for found in (load_pretrained(start), kept["learned"], kept["weights"]))
    moved = [name for name, value in learned.items() if not value.allclose(before[name], atol=1e-7)]
    assert moved and all(after[name].allclose((before[name] + learned[name]) / 2, atol=1e-6) for name in moved)
    out = " ".join(capsys.readouterr().out.split())
    assert "2 held-out recordings: word errors" in out and f"{mine}: " in out and "too few to tell" in out


def test_half_a_minute_is_too_little(recordings: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["adapt", str(recordings), "-o", str(tmp_path / "mine.onnx")]) == 1
    assert "8 recordings leave" in capsys.readouterr().err
    assert not (tmp_path / "mine.onnx").exists()


def test_unfit_language_model_is_refused_before_training(
    recordings: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    lower = SimpleNamespace(tokenizer=SimpleNamespace(tokens=("<blk>", "<unk>", "<sos/eos>", "a")), phones=())
    monkeypatch.setattr(adapt, "load_pretrained", lambda _: lower)
    monkeypatch.setattr(adapt, "read_table", lambda _: pytest.fail("work has begun"))
    assert main(["adapt", str(recordings), "-o", "mine.onnx"]) == 1
    assert "can spell none of the language model's words" in capsys.readouterr().err


def test_error_names_no_file_that_is_removed(recordings: Path, start: str, capsys: pytest.CaptureFixture[str]) -> None:
    for path in recordings.glob("*.flac"):
        path.unlink()
    assert main(["adapt", str(recordings), "-o", "mine.onnx", "--init", start]) == 1
    assert capsys.readouterr().err == "asr adapt: no usable utterance for recordings: 8 x missing file\n"


def test_three_recordings_hold_none_out(recordings: Path, start: str, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"3 recordings leave 50 s .* at least 4 recordings and 1 s are needed"):
        adapt.split([SimpleNamespace(seconds=25.0)] * 3)


def test_held_out_recordings_are_not_learned() -> None:
    parts = adapt.split([SimpleNamespace(seconds=20.0)] * 9)
    assert parts == ([1, 2, 4, 5, 6], [0, 8], [3, 7])


def test_each_part_is_a_data_set_of_its_own(
    recordings: Path, start: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sets: list[list[str]] = []

    def learn(_: str, own: Path, stopping: Path, *__: object) -> bool:
        sets.extend(Speech.load(path).ids for path in (own, stopping, own.with_name("judges.tsv")))
        return False

    monkeypatch.setattr(adapt, "learn", learn)
    assert main(["adapt", str(recordings), "-o", str(tmp_path / "mine.onnx"), "--init", start]) == 130
    assert sets == [["0001", "0002", "0004", "0005", "0006"], ["0000"], ["0003", "0007"]]


def test_training_gets_the_recipe_and_both_sets(start: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[Any] = []

    def new_trainer(config: Config, *_: object) -> SimpleNamespace:
        made.append(config)
        return SimpleNamespace(run=lambda: True)

    monkeypatch.setattr(adapt, "Trainer", new_trainer)
    own, held_out, run = (tmp_path / name for name in ("own.tsv", "held_out.tsv", "run"))
    assert adapt.learn(start, own, held_out, run, Console())
    (config,) = made
    assert (config.data.train, config.data.valid) == ((str(own),), (str(held_out),))
    assert (config.train.init, config.train.output) == (start, str(run))
    assert config.model == load_pretrained(start).config.model and config.optim == load_config("adapt", []).optim


def test_an_adapted_model_keeps_its_text_units(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[Config] = []
    monkeypatch.setattr(adapt, "Trainer", lambda config, *_: made.append(config) or SimpleNamespace(run=lambda: True))
    pieces = SimpleNamespace(tokenizer=SimpleNamespace(kind="bpe"), config=Config(tokenizer=TokenizerConfig("bpe", 20)))
    monkeypatch.setattr(adapt, "load_pretrained", lambda _: pieces)
    assert adapt.learn("some.pt", tmp_path / "own", tmp_path / "held_out", tmp_path / "run", Console())
    assert made[0].tokenizer == TokenizerConfig("bpe", 20)


def test_errors_are_those_of_640_ms(monkeypatch: pytest.MonkeyPatch) -> None:
    """Phone errors of greedy search; word errors after the first pass with n-grams, with the weights of the model."""
    calls: list[Any] = []
    clips = [SimpleNamespace(id=id) for id in "ab"]
    heard = [("b", "ONE TWO", "ONE TWO"), ("a", "ONE", "TWO")]  # in order of length
    monkeypatch.setattr(adapt, "validate", lambda *_: {"full": 1, "640ms": 2, "320ms": 3})
    pretrained = SimpleNamespace(phones=(), model=lambda: None, tokenizer=None)
    assert adapt.phone_errors(pretrained, []) == 2  # type: ignore[arg-type,comparison-overlap]
    engine = SimpleNamespace(lm_weights=(0.5, -1.0, 7.0, 0.25), tokens=(), phones=())
    monkeypatch.setattr(adapt, "open_engine", lambda _: engine)
    monkeypatch.setattr(LmWeights, "fusion", lambda weights, *_, **__: weights)
    monkeypatch.setattr(
        adapt, "evaluate", lambda *given, **more: calls.append((*given, more)) or [SimpleNamespace(hypotheses=heard)]
    )
    errors = adapt.word_errors("weights", clips, None)  # type: ignore[arg-type]
    assert errors == [WordErrors(substitutions=1, num_words=1), WordErrors(num_words=2)]
    assert calls == [(engine, clips, "", [640], 2560, ["beam+lm"], {"fusion": LmWeights(0.5, -1.0, 7.0, 0.25)})]


def test_texts_get_the_letters_of_the_model(
    recordings: Path, start: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """And what cannot be used is named."""
    given = {}
    with (recordings / "manifest.tsv").open("a") as table:
        table.write("gone.flac\tABC\tme\nlost.flac\tABC\tme\ncut.flac\tAB C- [noise]\tme\n")
    monkeypatch.setattr(adapt, "normalizer_of", lambda tokenizer: given.update(tokenizer=tokenizer) or TextNormalizer())
    monkeypatch.setattr(adapt, "learn", lambda *_: False)
    assert main(["adapt", str(recordings), "-o", "mine.onnx", "--init", start]) == 130
    assert given["tokenizer"] == load_pretrained(start).tokenizer
    out = capsys.readouterr().out
    assert "left out, missing file: gone (); lost ()\n" in out
    assert f"left out, {HAS_NOISE}: cut (C- [NOISE] in: AB C- [noise])\n" in out


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
    monkeypatch.setattr(
        adapt, "mixture", lambda start, *_: dataclasses.replace(load_pretrained(start), license="of the mean")
    )
    monkeypatch.setattr(adapt, "export_model", lambda *_, **__: None)
    monkeypatch.setattr(adapt, "phone_errors", lambda *_: WordErrors(substitutions=1, num_words=4))
    old = [WordErrors(substitutions=2, num_words=4)] * 5
    for new, rate, advice in (
        ([1] * 5, 25, "better for this voice; asr-stream --model"),  # by chance in 1 of 32 cases
        ([1] * 4 + [2], 30, "20 held-out words are too few to tell whether it is better for this voice; keep"),
        ([0, 1, 3, 1, 2], 35, "20 held-out words are too few to tell"),
        ([2] * 5, 50, "20 held-out words are too few to tell"),
        ([3] * 5, 75, "worse for this voice; keep"),
    ):
        errors = [WordErrors(substitutions=number, num_words=4) for number in new]
        monkeypatch.setattr(adapt, "word_errors", lambda path, *_, errors=errors: old if path == start else errors)
        options = ["-o", str(tmp_path / "mine.onnx"), "--init", start, "--lm", str(packed.BUNDLED)]
        assert main(["adapt", str(recordings), *options]) == 0
        out = " ".join(capsys.readouterr().out.split())
        assert f": word errors 25.0 % -> 25.0 %, word errors 50.0 % -> {rate}.0 % " in out
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


def test_the_model_to_start_from_is_not_replaced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    model = tmp_path / "m.onnx"
    model.touch()
    monkeypatch.setattr(adapt, "load_pretrained", lambda _: pytest.fail("work has begun"))
    assert main(["adapt", "recordings", "-o", str(model), "--init", str(model)]) == 1
    assert f"{model} is also an input" in capsys.readouterr().err
