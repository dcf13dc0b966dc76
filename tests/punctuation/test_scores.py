"""Scores of case and punctuation, counted by hand."""

from __future__ import annotations

import numpy as np
import pytest

from asr.punctuation.corpus import CAPITALIZED, COMMA, LOWER, NONE, PERIOD, QUESTION, UNKNOWN_CASE, UPPER
from asr.punctuation.evaluate import Labels, Scores, shown
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
    # Right; one in place of another, one missing, two too many.
    assert scores.mark_error_rate == 4 / 5
    assert (scores.capitals.correct, scores.capitals.found, scores.capitals.expected) == (1, 4, 3)
    assert scores.num_words == 6


def test_nothing_is_expected_and_nothing_found() -> None:
    scores = Scores()
    scores.add(labels([NONE], [LOWER]), labels([NONE], [LOWER]))
    assert (scores.mark_error_rate, scores.capitals.f1, scores.marks["all marks"].f1) == (0, 0, 0)
    assert str(scores) == "1 words, F1 (precision recall): ; PER 0.0%"


def test_a_sentence_begins_with_a_capital_but_behind_a_question_the_network_decides() -> None:
    marks = np.eye(4, dtype=np.float32)[[PERIOD, QUESTION, COMMA, NONE]]
    found = shown(Answer(marks, np.eye(3, dtype=np.float32)[[LOWER, UPPER, LOWER, LOWER]]))
    assert found.marks.tolist() == [PERIOD, QUESTION, COMMA, NONE]
    assert found.cases.tolist() == [CAPITALIZED, UPPER, LOWER, LOWER]
    found = shown(Answer(marks, np.eye(3, dtype=np.float32)[[LOWER] * 4]))
    assert found.cases.tolist() == [CAPITALIZED, CAPITALIZED, LOWER, LOWER]
