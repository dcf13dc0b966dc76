"""Case and punctuation from training to the runtime: a network learns clear rules, and all runtimes agree."""

from __future__ import annotations

import copy
import dataclasses
import itertools
import math
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import onnx
import pytest
import torch

from asr import cli
from asr._core import NUM_WORD_FEATURES, PUNCTUATION_OUTPUTS, punctuation_units
from asr.config import OptimConfig
from asr.export import punctuation as exporting
from asr.export.graph import ExportError
from asr.export.punctuation import example_texts, export_punctuation
from asr.punctuation.batches import IGNORED, Batch
from asr.punctuation.checkpoint import PunctuationCheckpoint
from asr.punctuation.config import DEFAULTS, PunctuatorConfig
from asr.punctuation.corpus import HELD_OUT, Corpus, CorpusReader, read
from asr.punctuation.evaluate import answer_running, evaluate, read_iwslt, tune
from asr.punctuation.train import batch_loss, train
from asr.runtime.metadata import MetadataError
from asr.runtime.onnx_session import ModelError
from asr.runtime.punctuation import Punctuation
from asr.training.checkpoint import CheckpointError
from asr.training.optim import build_optimizer
from asr.training.short import TrainBar
from tests.support.punctuation import SMALL, sentences, write_prose

OPTIONS = dataclasses.replace(DEFAULTS, steps=120, rows=8, length=48, lr=1e-2)


def prose(count: int, seed: int) -> Corpus:
    reader = CorpusReader()
    for line in sentences(count, seed):
        reader.add(line)
    return reader.corpus()


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory: pytest.TempPathFactory) -> PunctuationCheckpoint:
    path = tmp_path_factory.mktemp("punctuation") / "small.pt"
    train(prose(2000, 0), [], path, OPTIONS, SMALL)
    return PunctuationCheckpoint.load(path)


@pytest.fixture(scope="module")
def graph(checkpoint: PunctuationCheckpoint) -> onnx.ModelProto:
    """That of `checkpoint`, traced once, because this takes seconds."""
    return exporting.punctuation_graph(checkpoint.model())


@pytest.fixture(scope="module")
def files(
    checkpoint: PunctuationCheckpoint, graph: onnx.ModelProto, tmp_path_factory: pytest.TempPathFactory
) -> dict[bool, Punctuation]:
    """float32 and int8"""
    folder = tmp_path_factory.mktemp("files")
    found = {}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(exporting, "punctuation_graph", lambda model: copy.deepcopy(graph))
        for int8 in (False, True):
            path = folder / f"{int8}.onnx"
            export_punctuation(checkpoint, path, int8=int8, license="Apache-2.0")
            found[int8] = Punctuation(path)
    return found


def test_it_learns_the_rules_of_its_text(checkpoint: PunctuationCheckpoint) -> None:
    model = checkpoint.model()
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


def test_the_file_agrees_with_pytorch(checkpoint: PunctuationCheckpoint, files: dict[bool, Punctuation]) -> None:
    model = checkpoint.model()
    for words, pauses_s, continues, complete in example_texts():
        expected = model.answer(words, pauses_s, continues=continues, complete=complete)
        found = files[False].answer(words, pauses_s, continues=continues, complete=complete)
        for a, b in zip(found, expected, strict=True):
            np.testing.assert_allclose(a, b, atol=1e-4)


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
    length = len(units[0].pauses)
    feeds = {"features": np.full((2, length, NUM_WORD_FEATURES), 7), "pauses": np.full((2, length), 3)}
    for row, of_text in enumerate(units):
        feeds["features"][row, : len(of_text.pauses)] = of_text.features
        feeds["pauses"][row, : len(of_text.pauses)] = of_text.pauses
    feeds["num_units"] = np.array([len(of_text.pauses) for of_text in units])
    for file in files.values():
        answers = file._session.run(PUNCTUATION_OUTPUTS, feeds)
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


def test_windows_answer_as_the_whole_text_does(
    checkpoint: PunctuationCheckpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("asr.punctuation.evaluate.WINDOW", 20)
    model = checkpoint.model()
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
    checkpoint: PunctuationCheckpoint, graph: onnx.ModelProto, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def damage(graph: onnx.ModelProto, examples: object) -> None:
        for tensor in graph.graph.initializer:
            if len(tensor.dims) == 2:
                values = onnx.numpy_helper.to_array(tensor)
                tensor.CopyFrom(onnx.numpy_helper.from_array(values[::-1].copy(), tensor.name))

    monkeypatch.setattr(exporting, "punctuation_graph", lambda model: copy.deepcopy(graph))
    monkeypatch.setattr(exporting, "quantize_statically", damage)
    with pytest.raises(ExportError, match="differs from PyTorch"):
        export_punctuation(checkpoint, tmp_path / "bad.onnx", int8=True)
    assert not list(tmp_path.iterdir())


def test_interrupted_tuning_keeps_all_steps(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(*_: object) -> float:
        raise KeyboardInterrupt

    monkeypatch.setattr("asr.punctuation.train.tune", interrupt)
    options = dataclasses.replace(DEFAULTS, steps=3, rows=2, length=32)
    with pytest.raises(KeyboardInterrupt):
        train(prose(200, 0), [("held out", prose(20, 1))], tmp_path / "new.pt", options, SMALL)
    assert PunctuationCheckpoint.load(tmp_path / "new.pt").step == 3


def test_resuming_goes_on_where_it_stopped(tmp_path: Path) -> None:
    corpus = prose(200, 0)
    options = dataclasses.replace(DEFAULTS, steps=8, rows=2, length=32)
    whole = train(corpus, [], tmp_path / "whole.pt", options, SMALL)
    stopped = tmp_path / "stopped.pt"

    steps = iter(range(100))
    original = torch.nn.utils.clip_grad_norm_
    with pytest.MonkeyPatch.context() as patch:

        def interrupt(*args: object, **kwargs: object) -> object:
            if next(steps) == 4:
                raise KeyboardInterrupt
            return original(*args, **kwargs)  # type: ignore[arg-type]

        patch.setattr(torch.nn.utils, "clip_grad_norm_", interrupt)
        with pytest.raises(KeyboardInterrupt):
            train(corpus, [], stopped, options, SMALL)
    saved = PunctuationCheckpoint.load(stopped)
    assert saved.step == 4
    resumed = train(corpus, [], stopped, options, SMALL, resume=saved)
    assert resumed.step == 8
    for name, value in whole.weights.items():
        torch.testing.assert_close(resumed.weights[name], value)
        torch.testing.assert_close(resumed.average[name], whole.average[name])
    known = dataclasses.replace(whole, mixed={"john": "JOHn", "mary": "MaRy"})
    more = train(dataclasses.replace(corpus, mixed={"john": "JoHn"}), [], stopped, options, SMALL, resume=known)
    assert (more.step, more.mixed) == (8, {"john": "JoHn", "mary": "MaRy"})
    with pytest.raises(CheckpointError, match="has a different network"):
        train(corpus, [], stopped, options, PunctuatorConfig(), resume=saved)


def test_rate_rises_and_falls_and_gradients_are_clipped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rates, norms = [], []

    def build(model: torch.nn.Module, config: OptimConfig) -> torch.optim.Optimizer:
        optimizer = build_optimizer(model, config)

        def note(optimizer: torch.optim.Optimizer, *_: object) -> None:
            (rate,) = {group["lr"] for group in optimizer.param_groups}
            rates.append(rate)
            norms.append(torch.stack([p.grad.norm() for p in model.parameters() if p.grad is not None]).norm().item())

        optimizer.register_step_pre_hook(note)
        return optimizer

    def loss(model: torch.nn.Module, batch: Batch) -> torch.Tensor:
        return 100 * batch_loss(model, batch)  # type: ignore[arg-type]

    monkeypatch.setattr("asr.punctuation.train.build_optimizer", build)
    monkeypatch.setattr("asr.punctuation.train.batch_loss", loss)
    options = dataclasses.replace(DEFAULTS, steps=20, rows=1, length=16, lr=0.01)
    train(prose(50, 0), [], tmp_path / "small.pt", options, SMALL)
    # A tenth of the steps to warm up.
    assert rates == pytest.approx([0.01 * 0.5, *(0.01 * (1 - step / 20) for step in range(1, 20))])
    assert norms == pytest.approx([1.0] * 20, rel=1e-3)


def test_training_ends_after_its_minutes_across_sessions(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    clock = itertools.count(0.0, 1.0)
    monkeypatch.setattr("asr.punctuation.train.time", SimpleNamespace(monotonic=lambda: next(clock)))
    options = dataclasses.replace(DEFAULTS, steps=1000, rows=1, length=16)
    path = tmp_path / "small.pt"
    done = train(prose(50, 0), [], path, options, SMALL, minutes=0.25)
    assert 3 < done.step < 20 and 0.25 <= done.summary["minutes"] < 0.4
    again = train(prose(50, 0), [], path, options, SMALL, minutes=0.25, resume=done)
    assert again.step == done.step


def test_offset_comes_from_held_out_text(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tuned, scored = [], []
    monkeypatch.setattr("asr.punctuation.train.tune", lambda model, corpora: tuned.append(corpora) or 0.45)
    held_out = [(name, prose(3, seed)) for seed, name in enumerate("ab")]
    options = dataclasses.replace(DEFAULTS, steps=1, rows=1, length=16)
    path = tmp_path / "small.pt"
    train(prose(50, 0), held_out, path, options, SMALL, on_scores=lambda *scores: scored.append(scores[:2]))
    assert tuned == [[corpus for _, corpus in held_out]]
    assert PunctuationCheckpoint.load(path).none_offset == 0.45
    assert scored == [(1, "a"), (1, "b")]


def test_seed_draws_weights_and_batches(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    corpus, drawn = prose(50, 0), []

    def first_loss(model: torch.nn.Module, batch: Batch) -> torch.Tensor:
        drawn.append((model.head.weight.detach().clone(), torch.from_numpy(batch.features)))
        return batch_loss(model, batch)  # type: ignore[arg-type]

    monkeypatch.setattr("asr.punctuation.train.batch_loss", first_loss)
    for seed in (1, 1, 2):
        options = dataclasses.replace(DEFAULTS, steps=1, rows=2, length=32, seed=seed)
        train(corpus, [], tmp_path / "small.pt", options, SMALL)
    first, same, other = drawn
    assert [torch.equal(*pair) for pair in zip(first, same, strict=True)] == [True, True]
    assert [torch.equal(*pair) for pair in zip(first, other, strict=True)] == [False, False]


def test_checkpoints_are_saved_on_the_way(tmp_path: Path) -> None:
    path, saved = tmp_path / "small.pt", []
    options = dataclasses.replace(DEFAULTS, steps=5, rows=2, length=32, save_every=2)
    held_out = [("held out", prose(3, 1))]
    done = train(
        prose(50, 0),
        held_out,
        path,
        options,
        SMALL,
        on_scores=lambda step, *_: saved.append((step, PunctuationCheckpoint.load(path).step)),
    )
    assert saved == [(2, 2), (4, 4), (5, 5)]
    assert (done.summary["steps"], done.summary["words"]) == (5, 5 * 2 * 32)


def test_reports_have_the_speed_since_the_last(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Four seconds a step; words without a label do not count."""
    now, counts, reports = [0.0], [], []

    def timed_loss(model: torch.nn.Module, batch: Batch) -> torch.Tensor:
        now[0] += 4.0
        counts.append(int((batch.marks != IGNORED).sum()))
        return batch_loss(model, batch)  # type: ignore[arg-type]

    monkeypatch.setattr("asr.punctuation.train.batch_loss", timed_loss)
    monkeypatch.setattr("asr.punctuation.train.time", SimpleNamespace(monotonic=lambda: now[0]))
    options = dataclasses.replace(DEFAULTS, steps=4, rows=2, length=32)
    train(prose(50, 0), [], tmp_path / "small.pt", options, SMALL, on_step=reports.append)
    assert [(report.step, report.share) for report in reports] == [(1, 0.25), (2, 0.5), (3, 0.75), (4, 1.0)]
    assert [report.units_per_s for report in reports] == [count / 4 for count in counts]


def test_loss_is_of_marks_plus_half_of_cases() -> None:
    """Means over the words that have a label."""
    generator = torch.Generator().manual_seed(0)
    logits = torch.randn(2, 3, 4, generator=generator), torch.randn(2, 3, 3, generator=generator)
    marks, cases = np.array([[IGNORED, 2, 0], [3, 1, IGNORED]]), np.array([[IGNORED, 2, 0], [IGNORED, 1, IGNORED]])
    none = np.zeros((2, 3), np.int64)
    found = batch_loss(lambda *_: logits, Batch(none, none, none, marks, cases))  # type: ignore[arg-type,return-value]
    expected = 0.0
    for scores, labels, weight in zip(logits, (marks, cases), (1.0, 0.5), strict=True):
        log_probs = np.log(np.exp(scores.numpy()) / np.exp(scores.numpy()).sum(-1, keepdims=True))
        picked = [log_probs[row, at, labels[row, at]] for row, at in np.argwhere(labels != IGNORED)]
        expected -= weight * np.mean(picked)
    assert float(found) == pytest.approx(expected, rel=1e-5)


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
    monkeypatch.setattr("asr.punctuation.cli.PunctuatorConfig", lambda: SMALL)
    done: list[float] = []
    monkeypatch.setattr(
        "asr.punctuation.cli.TrainBar",
        lambda console, unit, share: done.append(share) or TrainBar(console, unit, share),
    )
    parts: list[tuple[float, float]] = []
    monkeypatch.setattr(
        "asr.punctuation.cli.read",
        lambda path, num, part, *rest, **kw: parts.append(part) or read(path, num, part, *rest, **kw),
    )
    text, weights, file = write_prose(tmp_path / "prose.txt"), tmp_path / "p.pt", tmp_path / "p.onnx"
    command = ["text", "train", str(text), "-o", str(weights), "--steps", "20", "--rows", "4"]
    assert cli.main(command) == 0
    assert "step 20: prose.txt: " in capsys.readouterr().err
    assert parts == [(0.0, 1.0 - HELD_OUT), (1.0 - HELD_OUT, 1.0)], "what it is scored on is not trained on"
    assert cli.main(command) == 1
    assert "--resume" in capsys.readouterr().err
    assert cli.main([*command[:-3], "25", *command[-2:], "--resume"]) == 0
    assert PunctuationCheckpoint.load(weights).step == 25
    assert done == [0.0, 20 / 25], "the remaining time is that of the remaining steps"
    assert cli.main(["export", str(weights), "-o", str(file), "--int8", "--license", "CC0-1.0"]) == 0
    assert "words" in capsys.readouterr().out and Punctuation(file).license == "CC0-1.0"
    assert cli.main(["export", str(weights), "-o", str(file), "--average", "2", "--lm", "x"]) == 1
    assert "--average and --lm cannot be used for a checkpoint of `asr text train`" in capsys.readouterr().err
    assert cli.main(["text", "evaluate", str(file), str(text), "--held-out"]) == 0
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
        PunctuationCheckpoint.load(tmp_path / "x.pt")


def test_tuning_raises_marks_that_are_rarely_likeliest(checkpoint: PunctuationCheckpoint) -> None:
    corpus = prose(100, 4)
    shy = dataclasses.replace(checkpoint, none_offset=-6.0)  # too high for no punctuation
    before = evaluate(shy.model(), corpus).marks["all marks"]
    offset = tune(shy.model(), [corpus])
    after = evaluate(dataclasses.replace(shy, none_offset=offset - 6.0).model(), corpus)
    assert offset > 0 and after.marks["all marks"].f1 > before.f1
