"""Word error counts, compared with counts by hand."""

from __future__ import annotations

import itertools

import pytest

from asr.evaluation.wer import WordErrors, chance_of, count_errors

PAIRS = [
    ("THE CAT SAT", "THE CAT SAT", WordErrors(0, 0, 0, 3)),
    ("THE CAT SAT", "THE CAT SAT DOWN", WordErrors(1, 0, 0, 3)),
    ("THE CAT SAT", "OH THE BIG CAT SAT", WordErrors(2, 0, 0, 3)),
    ("THE CAT SAT", "CAT", WordErrors(0, 2, 0, 3)),
    ("THE CAT SAT", "THE BAT SAT", WordErrors(0, 0, 1, 3)),
    ("ONE TWO THREE FOUR FIVE", "ONE TOO FOUR FIVE SIX", WordErrors(1, 1, 1, 5)),
    ("THE CAT", "", WordErrors(0, 2, 0, 2)),
    ("", "THE CAT", WordErrors(2, 0, 0, 0)),
    (" ", "", WordErrors(0, 0, 0, 0)),
    ("A  A A", "A A", WordErrors(0, 1, 0, 3)),
]


@pytest.mark.parametrize(("reference", "hypothesis", "expected"), PAIRS)
def test_errors_of_one_utterance(reference: str, hypothesis: str, expected: WordErrors) -> None:
    assert count_errors([reference], [hypothesis]) == expected


def test_errors_add_up_over_utterances() -> None:
    references, hypotheses, _ = zip(*PAIRS, strict=True)
    total = count_errors(references, hypotheses)
    assert total == WordErrors(insertions=6, deletions=6, substitutions=2, num_words=25)
    assert total.rate == pytest.approx(14 / 25)
    assert total + WordErrors(1, 2, 3, 4) == WordErrors(7, 8, 5, 29)
    with pytest.raises(ValueError, match="2 references for 1 hypotheses"):
        count_errors(["A", "B"], ["A"])


def test_rate_without_words() -> None:
    assert WordErrors().rate == 0.0
    assert WordErrors(insertions=2).rate == 1.0


@pytest.mark.parametrize(
    ("fewer", "expected"),
    [
        ([], 1.0),
        ([0, 0], 1.0),
        ([1] * 5, 1 / 32),
        ([1] * 4, 1 / 16),
        ([2, -1], 0.5),
        ([-1] * 3, 1.0),
        ([3, 1, -2], 3 / 8),
    ],
)
def test_chance_is_that_of_random_signs(fewer: list[int], expected: float) -> None:
    signs = itertools.product((1, -1), repeat=len(fewer))
    sums = [sum(sign * each for sign, each in zip(row, fewer, strict=True)) for row in signs]
    assert chance_of(fewer) == sum(each >= sum(fewer) for each in sums) / len(sums) == expected
