"""Case and punctuation from training to the runtime: a network learns clear rules, and all runtimes agree."""

from __future__ import annotations

import copy
import math
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
import torch

from asr import cli
from asr._core import NUM_WORD_FEATURES, PUNCTUATION_OUTPUTS, punctuation_units
from asr.export import punctuation as exporting
from asr.export.graph import ExportError
from asr.export.punctuation import example_texts, export_punctuation
from asr.punctuation.batches import IGNORED
from asr.punctuation.corpus import HELD_OUT, Corpus, CorpusReader, read
from asr.punctuation.evaluate import answer_running, evaluate, read_iwslt, tune
from asr.punctuation.model import Punctuator
from asr.punctuation.task import Batch, PunctuationLosses, load, with_offset
from asr.runtime.metadata import MetadataError
from asr.runtime.onnx_session import ModelError
from asr.runtime.punctuation import Punctuation
from asr.training.checkpoint import Checkpoint, CheckpointError, checkpoints
from tests.support.punctuation import SMALL, sentences, write_prose


def prose(count: int, seed: int) -> Corpus:
    reader = CorpusReader()
    for line in sentences(count, seed):
        reader.add(line)
    return reader.corpus()


def command(text: Path, run: Path, steps: int, *options: str) -> list[str]:
    """The arguments that train a small network."""
    shape = [
        f"model.{name}={list(value) if isinstance(value, tuple) else value}" for name, value in vars(SMALL).items()
    ]
    settings = [f"data.train={text}", f"train.output={run}", f"train.max_steps={steps}", "train.device=cpu"]
    return ["train", "punctuation", *shape, "data.rows=8", "data.length=48", "optim.lr=1e-2", *settings, *options]


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a training run."""
    folder = tmp_path_factory.mktemp("punctuation")
    text = write_prose(folder / "prose.txt", 3000)
    assert cli.main(command(text, folder / "run", 120, "optim.warmup_steps=12")) == 0
    return folder / "run"


def test_each_text_is_scored_and_named_once(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    texts = [tmp_path / folder / "prose.txt" for folder in "ab"]
    for text, count in zip(texts, (400, 800), strict=True):
        text.parent.mkdir()
        write_prose(text, count)
    both = f"data.train=[{texts[0]},{texts[1]}]"
    assert cli.main(command(texts[0], tmp_path / "run", 1, both, "train.valid_every=1")) == 0
    (checked,) = Checkpoint.load(checkpoints(tmp_path / "run")[-1]).training["history"]
    assert set(checked["values"]) == {"a/prose.txt", "b/prose.txt"}
    assert cli.main(command(texts[0], tmp_path / "twice", 1, f"data.train=[{texts[0]},{texts[0]}]")) == 1
    assert "data.train names the same file or folder more than once" in capsys.readouterr().err


@pytest.fixture(scope="module")
def checkpoint(run: Path) -> Checkpoint:
    return load(run)[1]


@pytest.fixture(scope="module")
def model(run: Path) -> Punctuator:
    return load(run)[0]


@pytest.fixture(scope="module")
def graph(model: Punctuator) -> onnx.ModelProto:
    """That of `model`, traced once, because this takes seconds."""
    return exporting.punctuation_graph(model)


@pytest.fixture(scope="module")
def files(
    model: Punctuator, checkpoint: Checkpoint, graph: onnx.ModelProto, tmp_path_factory: pytest.TempPathFactory
) -> dict[bool, Punctuation]:
    """float32 and int8"""
    folder = tmp_path_factory.mktemp("files")
    found = {}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(exporting, "punctuation_graph", lambda model: copy.deepcopy(graph))
        for int8 in (False, True):
            path = folder / f"{int8}.onnx"
            export_punctuation(model, checkpoint, path, int8=int8, license="Apache-2.0")
            found[int8] = Punctuation(path)
    return found


def test_it_learns_the_rules_of_its_text(model: Punctuator) -> None:
    scores = evaluate(model, prose(200, 1))
    assert {name: f.f1 for name, f in scores.marks.items()} == pytest.approx(
        {"comma": 1, "period": 1, "question": 1, "all marks": 1}, abs=0.03
    )
    assert scores.capitals.f1 > 0.97


def test_words_as_they_are_shown(files: dict[bool, Punctuation]) -> None:
    words = ["however", "she", "saw", "john", "yesterday", "why", "has", "he", "seen", "the", "bbc", "today"]
    words.remove("the")
    expected = "However, she saw John yesterday. Why has he seen BBC today?"
    for file in files.values():
        assert " ".join(file(words)) == expected
        assert file([]) == []


def test_an_utterance_that_continues_begins_small(files: dict[bool, Punctuation]) -> None:
    words = ["that", "he", "saw", "john", "yesterday", "he", "met", "mary", "yesterday"]
    assert files[True](words)[0] == "That"
    assert files[True](words, continues=True)[0] == "that"
    assert "He" in files[True](words, continues=True)  # like every sentence after it


def test_a_forced_cut_gets_no_mark(files: dict[bool, Punctuation]) -> None:
    words = ["he", "met", "john", "yesterday"]
    assert files[True](words)[-1] == "yesterday."
    assert files[True](words, complete=False)[-1] == "yesterday"


def test_the_file_agrees_with_pytorch(model: Punctuator, files: dict[bool, Punctuation]) -> None:
    for words, pauses_s, continues, complete in example_texts():
        expected = model.answer(words, pauses_s, continues=continues, complete=complete)
        found = files[False].answer(words, pauses_s, continues=continues, complete=complete)
        for a, b in zip(found, expected, strict=True):
            np.testing.assert_allclose(a, b, atol=1e-4)


@pytest.mark.parametrize("int8", [False, True])
def test_a_file_that_answers_no_numbers_is_refused(
    int8: bool, model: Punctuator, files: dict[bool, Punctuation], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    right = files[int8].answer

    def answer(*words: Any, **options: Any) -> Any:
        given = right(*words, **options)
        return type(given)(*(np.full_like(each, math.nan) for each in given))

    monkeypatch.setattr(files[int8], "answer", answer)
    with pytest.raises(ExportError, match="nan"):
        exporting.check(model, files[int8], tmp_path / "file.onnx", 1, int8)


def test_streaming_equals_the_whole_text(files: dict[bool, Punctuation]) -> None:
    random = np.random.default_rng(1)
    words = " ".join(sentences(12, 2)).lower().translate({ord(c): None for c in ".,?"}).split()
    pauses = random.exponential(0.3, len(words)).tolist()
    for file in files.values():
        whole = file.answer(words, pauses)
        for size in range(1, len(words) + 1, 3):
            part = file.answer(words[:size], pauses[:size], complete=False)
            known = max(0, size - file.metadata.look_ahead)
            for a, b in zip(part, whole, strict=True):
                np.testing.assert_allclose(a[:known], b[:known], atol=1e-5)
            first = max(0, known - 1 - file.metadata.left_context)
            window = file.answer(words[first:size], pauses[first:size], continues=None, complete=False)
            for a, b in zip(window, whole, strict=True):
                if first and known:
                    np.testing.assert_allclose(a[known - 1 - first], b[known - 1], atol=1e-5)


def test_texts_of_a_batch_are_answered_as_alone(files: dict[bool, Punctuation]) -> None:
    """Bit-identical integers for any padding of the shorter one, because the scales are constants of the file."""
    texts = ["he saw john yesterday why has he seen the bbc", "he"]
    units = [punctuation_units(text.split(), None, continues=False, complete=True) for text in texts]
    inputs = [of_text.work.inputs for of_text in units]
    length = inputs[0]["pauses"].shape[1]
    feeds = {"features": np.full((2, length, NUM_WORD_FEATURES), 7), "pauses": np.full((2, length), 3)}
    for row, of_text in enumerate(inputs):
        for name in feeds:
            feeds[name][row, : of_text[name].shape[1]] = of_text[name][0]
    feeds["num_units"] = np.concatenate([of_text["num_units"] for of_text in inputs])
    for file in files.values():
        answers, _ = file.network.run(feeds, PUNCTUATION_OUTPUTS)
        for row, of_text in enumerate(units):
            for batch, alone in zip(answers, file.answer_units(of_text), strict=True):
                assert np.isfinite(batch).all()
                np.testing.assert_allclose(batch[row, : len(alone)], alone, atol=1e-6)


def test_uses_the_look_ahead_to_the_last_word(files: dict[bool, Punctuation]) -> None:
    file = files[False]
    words = ["he"] * 30
    whole = file.answer(words).mark_probs
    for distance, same in ((file.metadata.look_ahead, False), (file.metadata.look_ahead + 1, True)):
        other = list(words)
        other[10 + distance] = "today"
        assert np.array_equal(file.answer(other).mark_probs[10].round(5), whole[10].round(5)) == same


def test_windows_answer_as_the_whole_text_does(model: Punctuator, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("asr.punctuation.evaluate.WINDOW", 20)
    words = " ".join(sentences(15, 3)).lower().split()
    windows = answer_running(model, words)
    for a, b in zip(windows, model.answer(words), strict=True):
        np.testing.assert_allclose(a, b, atol=1e-5)


def test_pause_before_a_word_matters_unless_unknown(files: dict[bool, Punctuation]) -> None:
    words = ["he", "saw", "john", "but", "why"]
    unknown = files[False].answer(words).mark_probs
    assert np.array_equal(files[False].answer(words, [math.nan] * 5).mark_probs, unknown)
    assert not np.allclose(files[False].answer(words, [0, 0, 0, 2.0, 0]).mark_probs, unknown)
    with pytest.raises(ValueError, match="got 1 pauses for 5 words"):
        files[False](words, [0.0])
    with pytest.raises(ValueError, match="must not be negative, got -1"):
        files[False](words, [-1.0] * 5)


@pytest.mark.slow
def test_a_damaged_graph_is_not_written(
    model: Punctuator,
    checkpoint: Checkpoint,
    graph: onnx.ModelProto,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def damage(graph: onnx.ModelProto, *args: object, **kwargs: object) -> onnx.ModelProto:
        for tensor in graph.graph.initializer:
            if len(tensor.dims) == 2:
                values = onnx.numpy_helper.to_array(tensor)
                tensor.CopyFrom(onnx.numpy_helper.from_array(values[::-1].copy(), tensor.name))
        return graph

    monkeypatch.setattr(exporting, "punctuation_graph", lambda model: copy.deepcopy(graph))
    monkeypatch.setattr(exporting, "quantize", damage)
    with pytest.raises(ExportError, match="differs from PyTorch"):
        export_punctuation(model, checkpoint, tmp_path / "bad.onnx", int8=True)
    assert not list(tmp_path.iterdir())


def test_resuming_goes_on_where_it_stopped(tmp_path: Path) -> None:
    text = write_prose(tmp_path / "prose.txt", 300)
    options = ["data.rows=2", "optim.schedule=constant"]
    assert cli.main(command(text, tmp_path / "whole", 8, *options)) == 0
    for steps in (4, 8):
        assert cli.main(command(text, tmp_path / "parts", steps, *options, "--resume")) == 0
    whole, parts = (Checkpoint.load(checkpoints(tmp_path / name)[-1]) for name in ("whole", "parts"))
    assert parts.training["place"] == {"batch": 8}
    for name, value in whole.weights.items():
        assert torch.equal(parts.weights[name], value)
        assert torch.equal(parts.average[name], whole.average[name])


def test_a_new_run_starts_with_the_average_of_another(run: Path, tmp_path: Path) -> None:
    text, start = write_prose(tmp_path / "prose.txt", 300), Checkpoint.load(run / "best.pt")
    assert cli.main(command(text, tmp_path / "run", 1, f"train.init={run}", "optim.lr=1e-12")) == 0
    found = Checkpoint.load(checkpoints(tmp_path / "run")[-1]).weights["head.weight"]
    assert torch.allclose(found, start.average["head.weight"], atol=1e-9)
    assert not torch.allclose(start.weights["head.weight"], start.average["head.weight"], atol=1e-9)


def test_spellings_of_all_texts_are_kept(tmp_path: Path) -> None:
    run, extra = tmp_path / "run", tmp_path / "extra.txt"
    first = write_prose(tmp_path / "prose.txt", 300)
    assert cli.main(command(first, run, 1)) == 0
    saved = Checkpoint.load(checkpoints(run)[-1])
    saved.extra["mixed"] = {"john": "JOHn", "mary": "MaRy"}
    saved.save(checkpoints(run)[-1])
    extra.write_text("He met JoHn yesterday.\n" * 300)
    assert cli.main(command(extra, run, 2, "--resume")) == 0
    assert Checkpoint.load(checkpoints(run)[-1]).extra["mixed"] == {"john": "JoHn", "mary": "MaRy"}


def test_offset_comes_from_held_out_text(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """That of each validation belongs to its weights, and is part of the network that is evaluated and exported."""
    tuned: list[int] = []
    monkeypatch.setattr("asr.punctuation.task.tune", lambda _, corpora: tuned.append(len(corpora[0])) or 0.45)
    text, run = write_prose(tmp_path / "prose.txt"), tmp_path / "run"
    assert cli.main(command(text, run, 1)) == 0
    assert 0 < tuned[0] < 1500 and len(tuned) == 1, "only the end of the text"
    model, checkpoint = load(run)
    assert checkpoint.extra["none_offset"] == 0.45
    expected = checkpoint.average["head.bias"] - torch.tensor([0.45, *[0.0] * 6])
    assert torch.allclose(model.head.bias, expected)


def test_loss_is_of_marks_plus_half_of_cases() -> None:
    """Means over the words that have a label."""
    generator = torch.Generator().manual_seed(0)
    logits = torch.randn(2, 3, 4, generator=generator), torch.randn(2, 3, 3, generator=generator)
    marks, cases = np.array([[IGNORED, 2, 0], [3, 1, IGNORED]]), np.array([[IGNORED, 2, 0], [IGNORED, 1, IGNORED]])
    none = torch.zeros(2, 3).long()
    batch = Batch(0, none, none, none, torch.from_numpy(marks), torch.from_numpy(cases))
    assert batch.divisor.tolist() == [4, 3]
    found = PunctuationLosses(lambda *_: logits)(batch, 1, batch.divisor)  # type: ignore[arg-type]
    expected = []
    for scores, labels in zip(logits, (marks, cases), strict=True):
        log_probs = np.log(np.exp(scores.numpy()) / np.exp(scores.numpy()).sum(-1, keepdims=True))
        picked = [log_probs[row, at, labels[row, at]] for row, at in np.argwhere(labels != IGNORED)]
        expected.append(-np.mean(picked))
    assert (float(found.marks), float(found.cases)) == pytest.approx(expected, rel=1e-5)
    assert float(found.total) == pytest.approx(expected[0] + 0.5 * expected[1], rel=1e-5)


def test_files_of_the_ted_benchmark(tmp_path: Path) -> None:
    path = tmp_path / "dev"
    path.write_text(
        "well\tCOMMA\r\nwe\tO\r\ndo\tO\r\nn't\tO\r\navant-garde\tPERIOD\r\n--\tO\r\nwhy\tO\r\nit\tO\r\n's\tO\r\n"
        "\tQUESTION\r\n"
    )
    corpus = read_iwslt(path)
    assert [corpus.vocabulary[word] for word in corpus.words] == [
        "well",
        "we",
        "don't",
        "avant",
        "garde",
        "why",
        "it's",
    ]
    assert corpus.marks.tolist() == [1, 0, 0, 0, 2, 0, 3]
    path.write_text("well\tDASH\n")
    with pytest.raises(ValueError, match="line 1"):
        read_iwslt(path)


@pytest.mark.slow
def test_the_commands(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    parts: list[tuple[float, float]] = []

    def noted(path: Path, num: int, part: tuple[float, float], *rest: object, **named: object) -> CorpusReader:
        parts.append(part)
        return read(path, num, part, *rest, **named)  # type: ignore[arg-type]

    monkeypatch.setattr("asr.punctuation.corpus.read", noted)
    monkeypatch.setattr("asr.punctuation.task.read", noted)
    text, run, file = write_prose(tmp_path / "prose.txt"), tmp_path / "run", tmp_path / "p.onnx"
    assert cli.main(command(text, run, 20)) == 0
    output = capsys.readouterr().out
    assert "step 20: mark errors prose.txt " in output and f"asr text evaluate {run} TEXT --held-out" in output
    assert parts == [(0.0, 1.0 - HELD_OUT), (1.0 - HELD_OUT, 1.0)], "what it is scored on is not trained on"
    assert cli.main(["export", str(run), "-o", str(file), "--int8", "--license", "CC0-1.0"]) == 0
    assert "words" in capsys.readouterr().out and Punctuation(file).license == "CC0-1.0"
    assert cli.main(["export", str(run), "-o", str(file), "--average", "2", "--lm", "x"]) == 1
    assert "--average and --lm cannot be used for a punctuation network" in capsys.readouterr().err
    for model in (file, run):
        assert cli.main(["text", "evaluate", str(model), str(text), "--held-out"]) == 0
        assert "F1" in capsys.readouterr().out
        assert parts[-1] == (1.0 - HELD_OUT, 1.0)
    assert cli.main(["text", "show", str(file), "he met john yesterday"]) == 0
    assert capsys.readouterr().out.lower().startswith("he met john")


def test_files_that_are_no_models(tmp_path: Path, files: dict[bool, Punctuation]) -> None:
    path = tmp_path / "x.onnx"
    path.write_bytes(b"nothing")
    with pytest.raises(ModelError, match="damaged"):
        Punctuation(path)
    with pytest.raises(MetadataError, match="is not a model for punctuation"):
        Punctuation(Path(__file__).parent.parent.parent / "asr" / "models" / "tiny.int8.onnx")
    (tmp_path / "x.pt").write_bytes(b"nothing")
    with pytest.raises(CheckpointError, match="is not a checkpoint"):
        load(tmp_path / "x.pt")


def test_tuning_raises_marks_that_are_rarely_likeliest(run: Path) -> None:
    corpus = prose(100, 4)
    shy = with_offset(load(run)[0], -6.0)  # too high for no punctuation
    before = evaluate(shy, corpus).marks["all marks"]
    offset = tune(shy, [corpus])
    after = evaluate(with_offset(shy, offset), corpus)
    assert offset > 0 and after.marks["all marks"].f1 > before.f1
