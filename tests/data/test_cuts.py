"""Subsets of a data set: utterances spread over it, and batches of similar length."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from asr.data.cuts import batches_by_length, evenly_spread


def durations(batches: list[list[SimpleNamespace]]) -> list[list[float]]:
    return [[cut.duration for cut in batch] for batch in batches]


def test_batch_with_padding_stays_within_its_limit() -> None:
    cuts = [SimpleNamespace(duration=seconds) for seconds in (9.0, 1.0, 2.0, 3.0, 5.0, 1.0)]
    assert durations(batches_by_length(cuts, 9.0)) == [[1.0, 1.0, 2.0], [3.0], [5.0], [9.0]]
    assert durations(batches_by_length(cuts, 10.0)) == [[1.0, 1.0, 2.0], [3.0, 5.0], [9.0]]
    assert durations(batches_by_length(cuts, 0.0)) == [[1.0], [1.0], [2.0], [3.0], [5.0], [9.0]]
    assert batches_by_length([], 9.0) == []


@pytest.mark.parametrize(
    ("number", "expected"), [(3, [0, 3, 6]), (4, [0, 2, 5, 7]), (10, list(range(10))), (99, list(range(10))), (0, [])]
)
def test_utterances_are_spread_over_the_data_set(number: int, expected: list[int]) -> None:
    assert evenly_spread(range(10), number) == expected


def test_without_a_number_all_are_taken() -> None:
    assert evenly_spread("abc", None) == ["a", "b", "c"]
