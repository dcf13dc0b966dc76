"""Anchors: words of a text that are surely those that were recognized at a time, although either has others between.

A run of words that occurs once in the text and once in what was recognized, in the same order as others, is an anchor;
between two anchors shorter runs are looked for ("patience diff", with runs of words).
"""

from __future__ import annotations

import bisect
from collections.abc import Sequence

RUN_LENGTHS = (5, 3, 2)


def find_anchors(text: Sequence[str], recognized: Sequence[str]) -> list[tuple[int, int]]:
    """Index pairs (text, recognized) of equal words, both increasing."""
    return _between(text, recognized, 0, len(text), 0, len(recognized), RUN_LENGTHS)


def _between(
    text: Sequence[str], recognized: Sequence[str], i: int, i_end: int, j: int, j_end: int, lengths: Sequence[int]
) -> list[tuple[int, int]]:
    """The anchors of text[i:i_end] and recognized[j:j_end]."""
    if not lengths or i >= i_end or j >= j_end:
        return []
    pairs = _increasing(_runs(text, recognized, i, i_end, j, j_end, lengths[0]))
    found: list[tuple[int, int]] = []
    for run_i, run_j in [*pairs, (i_end, j_end)]:
        if run_i < i or run_j < j:  # overlaps the run before it
            if run_i - i == run_j - j and run_i + lengths[0] > i:
                more = range(i, run_i + lengths[0])
                found += [(k, k - run_i + run_j) for k in more]
                i, j = run_i + lengths[0], run_j + lengths[0]
            continue
        found += _between(text, recognized, i, run_i, j, run_j, lengths[1:])
        if run_i < i_end:
            found += [(run_i + k, run_j + k) for k in range(lengths[0])]
            i, j = run_i + lengths[0], run_j + lengths[0]
    return found


def _runs(
    text: Sequence[str], recognized: Sequence[str], i: int, i_end: int, j: int, j_end: int, length: int
) -> list[tuple[int, int]]:
    """Beginnings of runs of `length` words that occur once in each part."""
    places = [_unique(words, begin, end, length) for words, begin, end in ((text, i, i_end), (recognized, j, j_end))]
    return sorted((place, places[1][run]) for run, place in places[0].items() if run in places[1])


def _unique(words: Sequence[str], begin: int, end: int, length: int) -> dict[tuple[str, ...], int]:
    places: dict[tuple[str, ...], int] = {}
    repeated = set()
    for place in range(begin, end - length + 1):
        run = tuple(words[place : place + length])
        if run in places:
            repeated.add(run)
        places[run] = place
    return {run: place for run, place in places.items() if run not in repeated}


def _increasing(pairs: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    """The longest part of `pairs`, sorted by their first index, in which the second one increases, too."""
    ends: list[int] = []  # of the sequences of each length, the lowest last second index
    last: list[int] = []  # and its pair
    before: list[int] = []
    for index, (_, j) in enumerate(pairs):
        place = bisect.bisect_left(ends, j)
        before.append(last[place - 1] if place else -1)
        ends[place : place + 1] = [j]
        last[place : place + 1] = [index]
    found = []
    index = last[-1] if last else -1
    while index >= 0:
        found.append(pairs[index])
        index = before[index]
    return found[::-1]
