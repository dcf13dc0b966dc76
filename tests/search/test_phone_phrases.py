"""A closed list of phrases over phones: whole phrases by their pronunciations, and [unk] for anything else."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from test_phone_search import LETTERS, PACKED, PHONES, PRONUNCIATIONS, model, opened, random_log_probs, readings, sure

from asr._core import CtcPhraseSearch, Hypothesis, NgramLm, Phrases, words
from asr.lm.packed import with_pronunciations
from asr.runtime.search import output_symbols

LIST = ("AB A", "BAA", "A", "ABB B")


def phrases(lm: NgramLm | None, listed: tuple[str, ...] = LIST, unknown_cost: float = 1.5) -> Phrases:
    return Phrases("\n".join(listed), output_symbols(LETTERS), unknown_cost, PHONES, lm)


def search(log_probs: np.ndarray, found: Phrases) -> CtcPhraseSearch:
    searching = CtcPhraseSearch(found)
    searching.advance(log_probs)
    return searching


def text(hypothesis: Hypothesis, found: Phrases) -> str:
    return " ".join(word[0] for word in words(hypothesis, found.tokens))


def test_best_alignment_of_whole_phrases_wins() -> None:
    """Compared with all alignments; the cost is so high that [unk] never has the best score."""
    rng = np.random.default_rng(2)
    sequences = {" ".join(parts) for count in range(6) for parts in itertools.product(LIST, repeat=count)}
    found = phrases(model(), unknown_cost=100.0)
    assert found.over_phones
    spoken = 0
    for _ in range(40):
        log_probs = random_log_probs(rng, 5)
        best, expected = -math.inf, {""}
        for path in itertools.product(range(7), repeat=5):
            score = float(log_probs[range(5), path].astype(np.float64).sum())
            if score <= best:
                continue
            heard = readings(tuple(token for token, _ in itertools.groupby(path) if token))
            if texts := sequences.intersection(" ".join(read) for read in heard if all(read)):
                best, expected = score, texts
        (hypothesis,) = search(log_probs, found).hypotheses(1, finished=True)
        assert hypothesis.log_prob == pytest.approx(best, abs=1e-3)
        assert text(hypothesis, found) in expected
        spoken += expected != {""}
    assert spoken > 20


@pytest.mark.parametrize(
    ("heard", "partial", "final"),
    [
        ("▁AA B ▁AA", "AB A", "AB A"),
        ("▁AA K", "A", "A"),  # its other pronunciation
        ("▁K AA ▁AA", "BAA A", "BAA A"),
        ("▁AA B", "AB", "[unk]"),  # half a phrase
        ("▁AA K AA", "[unk]", "[unk]"),  # no phrase within a word
        ("▁K ▁K ▁AA", "[unk] A", "[unk] A"),
    ],
)
def test_what_is_in_no_phrase_is_unknown(heard: str, partial: str, final: str) -> None:
    found = phrases(model(), unknown_cost=1.0)
    searching = search(sure(*itertools.chain.from_iterable((token, "") for token in heard.split())), found)
    assert text(searching.hypotheses()[0], found) == partial
    assert text(searching.hypotheses(1, finished=True)[0], found) == final


def test_words_have_the_frames_of_their_phones() -> None:
    found = phrases(model(), ("ABB",))
    (hypothesis,) = search(sure("", "", "", "▁AA", "", "", "B", "B", ""), found).hypotheses(1, finished=True)
    ((word, start_s, end_s, confidence),) = words(hypothesis, found.tokens)
    assert word == "ABB" and 0.5 < confidence < 1
    assert (start_s, end_s) == pytest.approx((0.04, 0.28), abs=1e-9)  # moved earlier by two frames and by one
    assert hypothesis.end_frames[-1] == 8


def test_without_pronunciations_the_search_is_over_letters() -> None:
    for lm in (None, opened(PACKED)):
        found = phrases(lm)
        assert not found.over_phones and found.tokens == [*output_symbols(LETTERS), "▁[unk]"]


def test_words_that_cannot_be_pronounced_are_named() -> None:
    with pytest.raises(ValueError, match="phrase 'CAB' cannot be pronounced: the language model does not know it"):
        phrases(model(), ("AB CAB",))
    pronounced = {word: [["AA" if word == "A" else "ZH"]] for word in PRONUNCIATIONS}
    other = opened(with_pronunciations(PACKED, ["AA", "ZH"], pronounced, b""))
    with pytest.raises(ValueError, match=r"in other phones .*: the model lacks ZH; the language model lacks B, K; use"):
        phrases(other)
