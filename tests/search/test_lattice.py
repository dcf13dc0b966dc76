"""The lattice of a search with recombination, compared with a search that keeps all hypotheses."""

from __future__ import annotations

import numpy as np
import pytest
from support.arpa import packed
from test_phone_search import LETTERS, PHONES, TOKENS, opened

from asr._core import CtcPrefixBeamSearch, LmFusion
from asr.lm.packed import with_pronunciations


@pytest.fixture(scope="module")
def fusion() -> LmFusion:
    """Four words, two of them homophones, with bigrams: only the last word is the history."""
    unigrams = ["-99 <s> -0.2", "-1 </s>", "-2 <unk>", "-0.6 ONE -0.3", "-0.8 TWO -0.1", "-0.9 THREE -0.2", "-1.2 FOUR"]
    bigrams = ("-0.3 ONE TWO", "-0.4 TWO ONE", "-0.2 THREE FOUR", "-0.5 <s> THREE", "-0.3 TWO </s>")
    first, second = PHONES[0], PHONES[1]
    pronunciations = {"ONE": [[first]], "TWO": [[second]], "THREE": [[second]], "FOUR": [[first, second]]}
    lm = opened(with_pronunciations(packed(unigrams, bigrams), PHONES, pronunciations))
    return LmFusion(lm, LETTERS, weight=1.0, word_bonus=0.0, oov_penalty=3.0, prior_weight=0.0, phones=PHONES)


def noisy(seed: int, num_frames: int = 14) -> np.ndarray:
    logits = 2.5 * np.random.default_rng(seed).standard_normal((num_frames, len(TOKENS)))
    logits[:, 0] += 1.0
    return (logits - np.log(np.exp(logits).sum(1, keepdims=True))).astype(np.float32)


def test_spelled_sentences_differ_in_their_words() -> None:
    """Units can spell a word in several ways."""
    tokens = ["", "\u2581", "\u2581A", "\u2581AB", "A", "B", "\u2581B"]
    unigrams = ["-99 <s> -0.2", "-1 </s>", "-2 <unk>", "-0.6 A -0.3", "-0.8 AB -0.1", "-0.9 B -0.2"]
    lm = opened(packed(unigrams, ("-0.3 A AB", "-0.4 AB B", "-0.5 <s> A")))
    fusion = LmFusion(lm, tokens, weight=1.0, word_bonus=0.0, oov_penalty=3.0, prior_weight=0.0)
    lattice = CtcPrefixBeamSearch(beam_size=200, recombine=True, lattice=True, lm=fusion)
    lattice.advance(noisy(3)[:, : len(tokens)])
    texts = [
        " ".join("".join(tokens[t] for t in each.tokens).split("\u2581")).split() for each in lattice.sentences(100)
    ]
    assert len(texts) == 100 and len({tuple(words) for words in texts}) == 100


def test_each_sentence_has_its_own_times(fusion: LmFusion) -> None:
    lattice = CtcPrefixBeamSearch(beam_size=200, recombine=True, lattice=True, lm=fusion)
    lattice.advance(noisy(5))
    for sentence in lattice.sentences(100):
        assert len(sentence.tokens) == len(sentence.start_frames) == len(sentence.confidences)
        begins = [TOKENS[token].startswith("\u2581") for token in sentence.tokens]
        assert sum(begins) + (not begins[0] if begins else 0) == len(sentence.words)
        starts, ends = np.array(sentence.start_frames), np.array(sentence.end_frames)
        assert (starts < ends).all()
        assert (starts[1:] >= ends[:-1]).mean() > 0.8 if len(starts) > 5 else True
        assert ends[-1:].max(initial=0) <= 14
