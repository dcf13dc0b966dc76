"""The alignment of letters with phones, compared with an enumeration of all alignments."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator

import pytest

from asr.lexicon.alignment import RARE_COST, SHAPES, Aligner, Pair, can_align

Entry = tuple[str, tuple[str, ...]]

ENTRIES: list[Entry] = [
    ("AX", ("a", "k", "s")),
    ("PHA", ("f", "a")),
    ("HA", ("h", "a")),
    ("PA", ("p", "a")),
    ("A", ("a",)),
    ("AH", ("a",)),
    ("XAPHAX", ("z", "a", "f", "a", "k", "s")),
]


def alignments(word: str, phones: tuple[str, ...]) -> Iterator[list[Pair]]:
    if not word and not phones:
        yield []
    for a, b in SHAPES:
        if a <= len(word) and b <= len(phones):
            for rest in alignments(word[a:], phones[b:]):
                yield [(word[:a], phones[:b]), *rest]


def probs(aligner: Aligner) -> dict[Pair, float]:
    return {aligner.pair(i): float(aligner.probs[i]) for i in range(1, len(aligner.probs))}


def test_expectation_maximization_is_that_over_all_alignments() -> None:
    aligner = Aligner(ENTRIES)
    for _ in range(4):
        before = probs(aligner)
        counts: Counter[Pair] = Counter()
        log_prob = 0.0
        for word, phones in ENTRIES:
            found = list(alignments(word, phones))
            weights = [math.prod(before[pair] for pair in pairs) for pairs in found]
            log_prob += math.log(sum(weights)) / len(ENTRIES)
            for pairs, weight in zip(found, weights, strict=True):
                for pair in pairs:
                    counts[pair] += weight / sum(weights)
        assert aligner.step() == pytest.approx(log_prob)
        after = probs(aligner)
        for pair, prob in after.items():
            assert prob == pytest.approx(counts[pair] / counts.total(), abs=1e-12), pair


def test_the_first_step_by_hand() -> None:
    aligner = Aligner([("AB", ("x",))])
    prob = 1 / (len(aligner.probs) - 1)
    # A}x B}, A} B}x and AB}x: two alignments of two pairs, one of one.
    total = 2 * prob**2 + prob
    assert aligner.step() == pytest.approx(math.log(total))
    counts = dict.fromkeys([("A", ("x",)), ("B", ()), ("A", ()), ("B", ("x",))], prob**2) | {("AB", ("x",)): prob}
    expected = {pair: count / sum(counts.values()) for pair, count in counts.items()}
    assert {pair: p for pair, p in probs(aligner).items() if p} == pytest.approx(expected)


@pytest.mark.parametrize("rare", [0.0, 1.5])
def test_the_best_alignment_is_the_best_of_all(rare: float) -> None:
    aligner = Aligner(ENTRIES)
    for _ in range(5):
        aligner.step()
    known = {aligner.pair(i): i for i in range(1, len(aligner.probs))}

    def score(pairs: list[Pair]) -> float:
        total = 0.0
        for letters, phones in pairs:
            i = known[letters, phones]
            total += max(len(letters), len(phones)) * (
                math.log(max(float(aligner.probs[i]), 1e-300)) - RARE_COST * (float(aligner.counts[i]) < rare)
            )
        return total

    by_word = {"".join(aligner.pair(i)[0] for i in ids): ids for ids in aligner.best(rare)}
    for word, phones in ENTRIES:
        best = max(map(score, alignments(word, phones)))
        assert score([aligner.pair(i) for i in by_word[word]]) == pytest.approx(best)


def test_words_with_too_many_phones_are_left_out() -> None:
    assert can_align(1, 2) and not can_align(1, 3)
    aligner = Aligner([("W", tuple("dVblju")), ("A", ("a",))])
    assert aligner.num_aligned == 1
    aligner.step()
    assert [[aligner.pair(i) for i in ids] for ids in aligner.best()] == [[("A", ("a",))]]
