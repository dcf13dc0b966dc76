"""Scores of case and punctuation, compared with counts by hand."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import pytest

from asr import cli
from asr.punctuation.corpus import CAPITALIZED, COMMA, LOWER, NONE, PERIOD, QUESTION, UNKNOWN_CASE, UPPER, Corpus
from asr.punctuation.evaluate import Labels, Scores, evaluate, shown, tune
from asr.runtime.punctuation import Answer


def labels(marks: list[int], cases: list[int]) -> Labels:
    return Labels(np.array(marks), np.array(cases))


def test_marks_and_capitals_are_counted_as_published() -> None:
    scores = Scores()
    scores.add(
        labels([COMMA, COMMA, NONE, PERIOD, PERIOD, NONE], [CAPITALIZED, LOWER, CAPITALIZED, UPPER, UPPER, UPPER]),
        labels(
            [COMMA, PERIOD, COMMA, NONE, NONE, NONE],
            [UNKNOWN_CASE, CAPITALIZED, CAPITALIZED, CAPITALIZED, LOWER, LOWER],
        ),
    )
    found = {name: (f.precision, f.recall, f.f1) for name, f in scores.marks.items()}
    assert found["comma"] == (0.5, 0.5, 0.5) and found["period"] == (0, 0, 0)
    assert found["all marks"] == pytest.approx((1 / 4, 1 / 3, 2 / 7))
    # Correct; one substitution, one deletion, two insertions.
    assert scores.mark_error_rate == 4 / 5
    assert (scores.capitals.correct, scores.capitals.found, scores.capitals.expected) == (1, 4, 3)
    assert scores.num_words == 6


def test_nothing_is_expected_and_nothing_found() -> None:
    scores = Scores()
    scores.add(labels([NONE], [LOWER]), labels([NONE], [LOWER]))
    assert (scores.mark_error_rate, scores.capitals.f1, scores.marks["all marks"].f1) == (0, 0, 0)
    assert str(scores) == "1 words, F1 (precision recall): ; PER 0.0%"


def test_network_decides_the_case_after_a_question() -> None:
    marks = np.eye(4, dtype=np.float32)[[PERIOD, QUESTION, COMMA, PERIOD]]
    words = ["yes", "why", "so", "that"]
    found = shown(Answer(marks, np.eye(3, dtype=np.float32)[[LOWER, UPPER, LOWER, LOWER]]), words)
    assert found.marks.tolist() == [PERIOD, QUESTION, COMMA, PERIOD]
    assert found.cases.tolist() == [CAPITALIZED, UPPER, LOWER, LOWER]
    found = shown(Answer(marks, np.eye(3, dtype=np.float32)[[LOWER] * 4]), words)
    assert found.cases.tolist() == [CAPITALIZED, CAPITALIZED, LOWER, LOWER]


def corpus_of(words: str, marks: list[int], cases: list[int], starts: list[int], breaks: list[int]) -> Corpus:
    """One word per letter."""
    names = sorted(set(words))
    places = np.array([names.index(word) for word in words], np.int32)
    labels = (np.array(values, np.uint8) for values in (marks, cases))
    return Corpus(names, places, *labels, np.array(starts), np.array(breaks), {})


class Network:
    """A network with a look-ahead and a left context of one word. `ask` gives the marks and cases of words."""

    look_ahead = left_context = 1

    def __init__(self, ask: Callable[[Sequence[str]], Answer]) -> None:
        self.ask = ask

    def answer(self, words: Sequence[str], *, continues: bool | None, complete: bool) -> Answer:
        return self.ask(words)


def test_each_text_is_scored_by_itself() -> None:
    u = UNKNOWN_CASE
    corpus = corpus_of("abcab", [NONE] * 4 + [PERIOD], [u, LOWER, u, u, CAPITALIZED], [0, 3], [0, 3])
    asked = []

    def ask(words: Sequence[str]) -> Answer:
        asked.append("".join(words))
        cases = [CAPITALIZED if word == "b" else LOWER for word in words]
        return Answer(np.eye(4, dtype=np.float32)[[NONE] * len(words)], np.eye(3, dtype=np.float32)[cases])

    scores = evaluate(Network(ask), corpus)
    assert asked == ["abc", "ab"] and scores.num_words == 5
    # A and B of both texts; B is an insertion in the first one. The case of C, within a sentence, is unknown.
    assert (scores.capitals.correct, scores.capitals.found, scores.capitals.expected) == (3, 4, 3)
    assert (scores.num_marks, scores.num_mark_errors) == (2, 2)  # "abc" gets a period, "ab" is too short
    assert evaluate(Network(ask), corpus, max_words=3).num_words == 3


def test_offset_is_tuned_for_the_mean_over_corpora() -> None:
    """A comma is found after x from an offset of 0.1 on, and after y from 0.4 on."""

    def ask(words: Sequence[str]) -> Answer:
        ratio = np.exp([{"x": 0.1, "y": 0.4}[word] for word in words])
        marks = np.stack((ratio, np.ones(len(ratio)), np.zeros(len(ratio)), np.zeros(len(ratio))), axis=1)
        return Answer((marks / marks.sum(1, keepdims=True)).astype(np.float32), np.ones((len(words), 3), np.float32))

    commas_after_x = corpus_of("xy" * 10, [COMMA, NONE] * 10, [LOWER] * 20, [0], [0])
    commas_after_y = corpus_of("xy", [PERIOD, COMMA], [LOWER] * 2, [0], [0])
    assert tune(Network(ask), [commas_after_x]) == 0.15
    assert tune(Network(ask), [commas_after_y]) == 0.45
    # F1 is 1 and 0 at 0.15, 2/3 and 1/2 at 0.45; all words together, or only the last corpus, would give 0.15.
    assert tune(Network(ask), [commas_after_y, commas_after_x]) == 0.45


@pytest.mark.parametrize("options", [[], ["--held-out"], ["--iwslt"]])
def test_a_file_without_words_is_named(
    options: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("asr.punctuation.cli.Punctuation", lambda path: None)
    empty = tmp_path / "empty.txt"
    empty.touch()
    assert cli.main(["text", "evaluate", "any.onnx", str(empty), *options]) == 1
    assert str(empty) in capsys.readouterr().err


@pytest.mark.parametrize("option", ["--held-out", "--utterances", "--words=0.2"])
def test_options_of_cased_text_are_refused_with_iwslt(option: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["text", "evaluate", "any.onnx", "talks.txt", "--iwslt", option]) == 1
    assert f"{option.split('=')[0]} is for cased text: --iwslt reads all words" in capsys.readouterr().err
