"""Training batches for case and punctuation: the selection of utterances, and their pauses."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pytest

from asr._core import NUM_PAUSE_CLASSES, special_features, word_features
from asr.punctuation.batches import AT_SENTENCE, IGNORED, NO_PAUSES, PAUSES, BatchMaker
from asr.punctuation.corpus import COMMA, NONE, PERIOD, UNKNOWN_CASE, Corpus

NUM_WORDS = 3000
ROOM = 48


class Utterance(NamedTuple):
    first: str
    """The unit before the words."""
    words: npt.NDArray[np.int64]
    """Positions in the corpus."""
    ended: bool
    pauses: npt.NDArray[np.uint8]
    marks: npt.NDArray[np.uint8]


@pytest.fixture(scope="module")
def corpus() -> Corpus:
    """Words that are all different; sentences of ten with a comma each, and a break in every hundred."""
    places = np.arange(NUM_WORDS)
    marks = np.where(places % 10 == 9, PERIOD, np.where(places % 10 == 4, COMMA, NONE)).astype(np.uint8)
    cases = np.where(places % 10 == 0, UNKNOWN_CASE, places % 3).astype(np.uint8)
    words = ["".join("abcdefghij"[int(digit)] for digit in f"{place:04}") for place in places]  # all digits are equal
    return Corpus(words, places.astype(np.int32), marks, cases, places[::10], places[::100], {})


@pytest.fixture(scope="module")
def utterances(corpus: Corpus) -> list[Utterance]:
    rows = {tuple(row): index for index, row in enumerate(word_features(corpus.vocabulary))}
    rows |= {tuple(special_features(unit)): -1 - i for i, unit in enumerate(("sentence", "continues", "end"))}

    def found() -> Iterator[Utterance]:
        maker = BatchMaker(corpus, 3)
        for step in range(30):
            batch = maker(step, 8, ROOM)
            for row in range(8):
                padding = batch.segments[row] < 0
                assert np.all(batch.marks[row, padding] == IGNORED) and np.all(batch.cases[row, padding] == IGNORED)
                for segment in range(batch.segments[row].max() + 1):
                    at = np.flatnonzero(batch.segments[row] == segment)
                    assert np.array_equal(at, np.arange(at[0], at[-1] + 1))
                    units = np.array([rows[tuple(unit)] for unit in batch.features[row, at]])
                    ended = bool(units[-1] == -3)
                    words, at = units[1 : len(units) - ended], at[1 : len(at) - ended]
                    assert len(words) >= 1 and words.min() >= 0
                    assert np.array_equal(batch.marks[row, at], corpus.marks[words])
                    cases = corpus.cases[words].astype(int)
                    cases[cases == UNKNOWN_CASE] = IGNORED
                    assert np.array_equal(batch.cases[row, at], cases)
                    first = {-1: "sentence", -2: "continues"}[int(units[0])]
                    yield Utterance(first, words, ended, batch.pauses[row, at], corpus.marks[words])

    return list(found())


def test_utterances_are_pieces_of_running_text(utterances: list[Utterance]) -> None:
    for first, words, _, _, _ in utterances:
        assert np.array_equal(words, np.arange(words[0], words[-1] + 1))
        assert words[0] // 100 == words[-1] // 100  # no text is missing within one
        assert first == "continues" or words[0] % 10 == 0


def test_utterances_begin_and_end_as_live_ones_do(utterances: list[Utterance]) -> None:
    at_sentence = np.mean([first == "sentence" for first, *_ in utterances])
    assert at_sentence == pytest.approx(AT_SENTENCE, abs=0.04)
    ended = [ended for _, _, ended, _, _ in utterances]
    whole = [words[-1] % 10 == 9 for _, words, *_ in utterances]
    assert 0.6 < np.mean(ended) < 0.85
    assert np.mean([w for w, e in zip(whole, ended, strict=True) if e]) > 0.75
    assert np.mean([w for w, e in zip(whole, ended, strict=True) if not e]) < 0.3
    lengths = [len(words) for _, words, *_ in utterances]
    assert min(lengths) <= 3 and max(lengths) > 35


def test_pauses_are_those_of_the_mark_before(utterances: list[Utterance]) -> None:
    known = [(pauses, marks) for *_, pauses, marks in utterances if pauses.any()]
    assert len(known) / len(utterances) == pytest.approx(1 - NO_PAUSES, abs=0.05)
    assert all(pauses[0] == 0 and pauses[1:].min() >= 1 for pauses, _ in known)
    for mark in (NONE, COMMA, PERIOD):
        classes = np.concatenate([pauses[1:][marks[:-1] == mark] for pauses, marks in known])
        shares = np.bincount(classes, minlength=NUM_PAUSE_CLASSES)[1:] / len(classes)
        # A sixteenth are drawn independently of the punctuation.
        assert np.abs(shares - PAUSES[mark]).max() < 0.09
        assert (shares[4:].sum() > 0.5) == (mark == PERIOD)
    assert max(pauses.max() for pauses, _ in known) == NUM_PAUSE_CLASSES - 1


def test_a_slow_speaker_pauses_longer_after_all_marks(corpus: Corpus) -> None:
    maker, random = BatchMaker(corpus, 3), np.random.default_rng(0)
    marks = np.repeat(np.uint8([COMMA, PERIOD]), 300)
    drawn = np.stack([maker._pauses(random, marks) for _ in range(300)])
    after_commas, after_periods = (drawn[:, :300] >= 5).mean(1), (drawn[:, 300:] >= 7).mean(1)
    assert after_commas.std() > 0.1  # 0.03 for independent pauses
    assert np.corrcoef(after_commas, after_periods)[0, 1] > 0.8


def test_a_batch_depends_on_seed_and_step(corpus: Corpus) -> None:
    found = {(seed, step): BatchMaker(corpus, seed)(step, 4, ROOM) for seed in (1, 2) for step in (1, 2)}
    assert len({b"".join(array.tobytes() for array in batch) for batch in found.values()}) == 4
    again = BatchMaker(corpus, 1)(1, 4, ROOM)
    assert all(np.array_equal(x, y) for x, y in zip(found[1, 1], again, strict=True))
