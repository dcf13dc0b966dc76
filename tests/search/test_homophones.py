"""Homophones: which of them a search keeps, in which order, and which one it chooses."""

from __future__ import annotations

import numpy as np
import pytest
from support.arpa import packed
from test_phone_search import LETTERS, PHONES, TOKENS, opened, sure

from asr._core import CtcPrefixBeamSearch, LmFusion
from asr.lm.packed import with_pronunciations

LOG10 = {f"H{i:02}": -1 - (20 - i) / 10 for i in range(1, 21)}
"""Words with higher numbers are more likely, except for two pairs with equal probabilities."""
LOG10 |= {"H18": LOG10["H19"], "H15": LOG10["H16"]}
NAMES = sorted(["</s>", "<s>", "<unk>", "B", *LOG10], key=str.encode)
"""Words by their numbers."""


@pytest.fixture
def fusion() -> LmFusion:
    unigrams = ["-99 <s> -0.2", "-1.2 </s>", "-2 <unk>", "-1 B", *(f"{p:.1f} {word}" for word, p in LOG10.items())]
    bigrams = ("-0.5 <s> H07", "-0.1 H18 </s>", "-0.1 H19 </s>")
    pronunciations = {"B": [["B"]]} | {word: [["AA"]] for word in LOG10}
    lm = opened(with_pronunciations(packed(unigrams, bigrams), PHONES, pronunciations))
    weights = {"weight": 1.0, "word_bonus": 0.0, "oov_penalty": 1.0, "prior_weight": 0.0}
    return LmFusion(lm, LETTERS, **weights, phones=PHONES)


@pytest.fixture
def search(fusion: LmFusion) -> CtcPrefixBeamSearch:
    return CtcPrefixBeamSearch(beam_size=200, lm=fusion)


def words(search: CtcPrefixBeamSearch, *tokens: str, finished: bool = False) -> list[list[str]]:
    """The words of the hypotheses with these tokens."""
    wanted = [TOKENS.index(token) for token in tokens]
    found = [h for h in search.hypotheses(200, finished) if h.tokens == wanted]
    return [[NAMES[word] for word in h.words] for h in found]


def test_keeps_six_best_homophones(
    search: CtcPrefixBeamSearch,
) -> None:
    search.advance(np.concatenate((sure("\u2581AA"), sure("", "\u2581B"))))
    found = [first for first, _ in words(search, "\u2581AA", "\u2581B")]
    assert found == ["H07", "H20", "H18", "H19", "H17", "H15"]


def test_current_word_is_likeliest_and_last_ends_sentence(search: CtcPrefixBeamSearch) -> None:
    search.advance(sure("\u2581AA"))
    assert words(search, "\u2581AA") == [["H07"]]
    assert words(search, "\u2581AA", finished=True) == [["H18"]]


def test_word_joins_a_beam_with_its_homophone(fusion: LmFusion) -> None:
    search = CtcPrefixBeamSearch(beam_size=2, lm=fusion)
    doubtful = np.full((1, len(TOKENS)), 0.01, np.float32)
    doubtful[0, [0, TOKENS.index("\u2581B")]] = 0.7, 0.25
    search.advance(np.concatenate((sure("\u2581AA"), np.log(doubtful), sure("\u2581B"))))
    assert words(search, "\u2581AA", "\u2581B") == [["H07", "B"], ["H20", "B"]]
