"""The lattice of a search with recombination, compared with a search that keeps all hypotheses."""

from __future__ import annotations

import numpy as np
import pytest
from support.arpa import packed
from test_phone_search import LETTERS, PHONES, TOKENS, opened

from asr._core import CtcPrefixBeamSearch, Hypothesis, LmFusion
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


def score(hypothesis: Hypothesis) -> float:
    return hypothesis.log_prob + hypothesis.lm_score + hypothesis.hotword_score


def noisy(seed: int, num_frames: int = 14) -> np.ndarray:
    logits = 2.5 * np.random.default_rng(seed).standard_normal((num_frames, len(TOKENS)))
    logits[:, 0] += 1.0
    return (logits - np.log(np.exp(logits).sum(1, keepdims=True))).astype(np.float32)


@pytest.mark.parametrize("seed", range(8))
def test_sentences_are_those_of_an_exhaustive_search(fusion: LmFusion, seed: int) -> None:
    everything = CtcPrefixBeamSearch(beam_size=1024, lm=fusion)
    lattice = CtcPrefixBeamSearch(beam_size=1024, recombine=True, lattice=True, lm=fusion)
    for search in (everything, lattice):
        search.advance(noisy(seed))
    found = lattice.sentences(400)
    exact: dict[tuple[int, ...], float] = {}
    for hypothesis in everything.hypotheses(1024, finished=True):
        exact.setdefault(tuple(hypothesis.words), score(hypothesis))
    scores = [score(each) for each in found]
    assert scores == sorted(scores, reverse=True)
    by_words = {tuple(each.words): value for each, value in zip(found, scores, strict=True)}
    assert len(by_words) == len(found)
    highest = max(exact.values())
    best = sorted((words for words in exact if exact[words] > highest - 4.0), key=lambda words: -exact[words])
    assert max(by_words, key=lambda words: by_words[words]) == best[0]
    assert sum(words in by_words for words in best) >= 0.95 * len(best) - 1
    # A merge compares the sums over alignments of two prefixes, not those of their continuations.
    assert np.median([abs(by_words[words] - exact[words]) for words in best if words in by_words]) < 0.5


def test_without_lattice_recombination_leaves_fewer_sentences(fusion: LmFusion) -> None:
    plain = CtcPrefixBeamSearch(beam_size=200, recombine=True, lm=fusion)
    lattice = CtcPrefixBeamSearch(beam_size=200, recombine=True, lattice=True, lm=fusion)
    for search in (plain, lattice):
        search.advance(noisy(3))
    assert len(plain.sentences(200)) < len(lattice.sentences(200)) / 2
    best = plain.hypotheses(1, finished=True)[0]
    assert score(best) == score(lattice.sentences(1)[0])
    assert best.tokens == lattice.sentences(1)[0].tokens


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


def test_reset_forgets_the_lattice(fusion: LmFusion) -> None:
    lattice = CtcPrefixBeamSearch(beam_size=200, recombine=True, lattice=True, lm=fusion)
    lattice.advance(noisy(1))
    lattice.reset()
    assert [each.tokens for each in lattice.sentences(10)] == [[]]


def test_utterance_after_a_reset_has_its_own_lattice(fusion: LmFusion) -> None:
    first, later = (CtcPrefixBeamSearch(beam_size=200, recombine=True, lattice=True, lm=fusion) for _ in range(2))
    later.advance(noisy(1))
    later.reset()
    for search in (first, later):
        search.advance(noisy(3))
    assert [each.words for each in later.sentences(200)] == [each.words for each in first.sentences(200)]
