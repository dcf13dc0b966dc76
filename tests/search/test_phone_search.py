"""Search over phones: words by their pronunciations, against its definition over all hypotheses."""

from __future__ import annotations

import itertools
import math
from collections import defaultdict

import numpy as np
import pytest

from asr._core import CtcPrefixBeamSearch, LmFusion, NgramLm
from asr.lm.packed import pack, read_arpa, with_pronunciations
from asr.runtime.search import LmWeights, decode_words

PHONES = ["AA", "B", "K"]
TOKENS = ["", "\u2581AA", "AA", "\u2581B", "B", "\u2581K", "K"]
LETTERS = ["", "\u2581", "A", "B", "C", "K"]
ARPA = """\\data\\
ngram 1=8
ngram 2=6

\\1-grams:
-99 <s> -0.2
-1.2 </s>
-2.0 <unk> -0.1
-0.6 A -0.3
-0.9 AB -0.2
-1.0 ABB -0.1
-1.5 B -0.1
-2.5 BAA 0

\\2-grams:
-0.2 <s> AB
-1.9 AB A
-0.3 A ABB
-1.1 A AB
-0.4 B </s>
-0.9 ABB B

\\end\\
"""
PRONUNCIATIONS = {
    "A": [["AA"], ["AA", "K"]],
    "AB": [["AA", "B"], ["B", "AA"]],
    "ABB": [["AA", "B"]],
    "B": [["B"]],
    "BAA": [["B", "AA"], ["K", "AA"]],
}
OPTIONS = {"weight": 0.8, "word_bonus": 0.4, "oov_penalty": 1.5, "prior_weight": 0.3}


def model(phones: list[str] = PHONES, pronunciations: dict[str, list[list[str]]] = PRONUNCIATIONS) -> NgramLm:
    packed = pack(*read_arpa(iter(ARPA.splitlines())))
    return NgramLm(np.frombuffer(with_pronunciations(packed, phones, pronunciations), np.uint8))


@pytest.fixture(scope="module")
def lm() -> NgramLm:
    return model()


def phone_gains() -> dict[str, float]:
    """What every phone of a known word gains, and the border behind it."""
    counts: dict[str, float] = defaultdict(float)
    for word, log10 in (("A", -0.6), ("AB", -0.9), ("ABB", -1.0), ("B", -1.5), ("BAA", -2.5)):
        for variant in PRONUNCIATIONS[word]:
            for phone in [*variant, " "]:
                counts[phone] += 10**log10 / len(PRONUNCIATIONS[word])
    return {phone: -0.3 * math.log(max(count / sum(counts.values()), 0.01)) for phone, count in counts.items()}


GAINS = phone_gains()


def spoken(hypothesis: tuple[int, ...]) -> list[tuple[str, ...]]:
    """The pronunciations of the words of a hypothesis."""
    words: list[list[str]] = []
    for token in hypothesis:
        if not words or TOKENS[token].startswith("\u2581"):
            words.append([])
        words[-1].append(TOKENS[token].lstrip("\u2581"))
    return [tuple(word) for word in words]


def readings(hypothesis: tuple[int, ...]) -> list[tuple[str, ...]]:
    """Every sequence of words that is pronounced so; "" for one outside the vocabulary."""
    homophones = [
        [word for word, variants in PRONUNCIATIONS.items() if list(phones) in variants] or [""]
        for phones in spoken(hypothesis)
    ]
    return list(itertools.product(*homophones))


def definition(lm: NgramLm, hypothesis: tuple[int, ...], words: tuple[str, ...]) -> float:
    score = 0.8 * sum(lm.log_probs([word or "<unk>" for word in words])) + 0.4 * len(words)
    for word, phones in zip(words, spoken(hypothesis), strict=True):
        score += sum(GAINS[phone] for phone in [*phones, " "]) if word else -1.5
    return score


def random_log_probs(rng: np.random.Generator, num_frames: int, num_tokens: int = 7) -> np.ndarray:
    return np.log(rng.dirichlet(np.full(num_tokens, 0.5), size=num_frames) + 1e-7).astype(np.float32) - 1e-6


def test_a_wide_beam_finds_the_best_of_all_hypotheses(lm: NgramLm) -> None:
    rng = np.random.default_rng(0)
    fusion = LmFusion(lm, LETTERS, **OPTIONS, phones=PHONES)
    assert fusion.over_phones and fusion.tokens == TOKENS
    rarer = 0
    for _ in range(30):
        log_probs = random_log_probs(rng, 5)
        totals: dict[tuple[int, ...], float] = defaultdict(float)
        for path in itertools.product(range(7), repeat=5):
            collapsed = tuple(k for k, _ in itertools.groupby(path) if k)
            totals[collapsed] += math.exp(log_probs[range(5), path].astype(np.float64).sum())
        scored = {(h, w): math.log(p) + definition(lm, h, w) for h, p in totals.items() for w in readings(h)}
        best = max(scored, key=scored.__getitem__)
        search = CtcPrefixBeamSearch(beam_size=1024, lm=fusion)
        search.advance(log_probs)
        found = search.hypotheses(5, finished=True)
        for hypothesis in found:
            h, w = tuple(hypothesis.tokens), tuple(fusion.text(word) for word in hypothesis.words)
            assert hypothesis.log_prob == pytest.approx(math.log(totals[h]), abs=1e-3)
            assert hypothesis.lm_score == pytest.approx(definition(lm, h, w), abs=1e-3)
        assert (tuple(found[0].tokens), tuple(fusion.text(word) for word in found[0].words)) == best
        rarer += any(word == "ABB" for word in best[1])
    assert rarer > 2  # ABB is rarer than AB, which sounds the same
