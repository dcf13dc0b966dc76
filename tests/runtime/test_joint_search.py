"""Attention and joint CTC/attention search, compared with an enumeration of all sentences."""

from __future__ import annotations

import math
from functools import lru_cache
from itertools import product
from typing import NamedTuple

import numpy as np
import pytest

from asr._core import JointSearch
from asr.runtime.joint_search import joint_search
from asr.tokenizer import BLANK_ID, SOS_EOS_ID

NUM_FRAMES, VOCAB_SIZE = 5, 5
SPOKEN = (3, 4)


def random_log_probs(seed: int, *shape: int) -> np.ndarray:
    x = 2 * np.random.default_rng(seed).standard_normal(shape)
    return (x - np.log(np.exp(x).sum(-1, keepdims=True))).astype(np.float32)


def collapse(path: tuple[int, ...]) -> tuple[int, ...]:
    kept = [token for i, token in enumerate(path) if i == 0 or token != path[i - 1]]
    return tuple(token for token in kept if token != BLANK_ID)


@lru_cache
def sentence_probabilities(seed: int) -> dict[tuple[int, ...], float]:
    """The CTC probability of every sentence, summed over all its paths."""
    log_probs = random_log_probs(seed, NUM_FRAMES, VOCAB_SIZE).tolist()
    found: dict[tuple[int, ...], float] = {}
    for path in product(range(VOCAB_SIZE), repeat=NUM_FRAMES):
        probability = math.exp(sum(log_probs[t][token] for t, token in enumerate(path)))
        found[collapse(path)] = found.get(collapse(path), 0.0) + probability
    return found


class Prefix(NamedTuple):
    tokens: tuple[tuple[int, ...], ...]

    def select(self, rows: np.ndarray) -> Prefix:
        return Prefix(tuple(self.tokens[row] for row in rows))


class TableDecoder:
    """A decoder whose probabilities depend on the last token and on the number of tokens."""

    def __init__(self, seed: int, vocab_size: int = VOCAB_SIZE) -> None:
        self.table = random_log_probs(seed, NUM_FRAMES + 2, vocab_size, vocab_size)

    def begin(self, encoder_out: np.ndarray) -> Prefix:
        return Prefix(((),))

    def step(self, tokens: np.ndarray, cache: Prefix) -> tuple[np.ndarray, Prefix]:
        after = tuple((*row, int(token)) for row, token in zip(cache.tokens, tokens, strict=True))
        return np.stack([self.table[len(row) - 1, row[-1]] for row in after]), Prefix(after)

    def log_prob(self, sentence: tuple[int, ...]) -> float:
        marked = (SOS_EOS_ID, *sentence, SOS_EOS_ID)
        return float(sum(self.table[i, marked[i], marked[i + 1]] for i in range(len(marked) - 1)))


@pytest.mark.parametrize("seed", range(3))
def test_the_beam_keeps_the_likeliest_prefixes(seed: int) -> None:
    """With CTC alone, the hypotheses are ordered by the probability of all sentences that begin with them."""
    search = JointSearch(random_log_probs(seed, NUM_FRAMES, VOCAB_SIZE), ctc_weight=1.0, beam_size=3)
    beam: list[tuple[int, ...]] = [()]
    while (step := search.step()) is not None:
        if step.tokens[0] != SOS_EOS_ID:
            kept = [(*beam[parent], token) for parent, token in zip(step.parents, step.tokens, strict=True)]
            extended = {(*prefix, token) for prefix in beam for token in SPOKEN}
            ordered = sorted(extended, key=lambda prefix: -prefix_probability(seed, prefix))
            assert kept == ordered[: len(kept)]
            assert len(kept) == min(3, len(ordered))
            beam = kept
        search.answer(np.full((len(beam), VOCAB_SIZE), -1.0, np.float32))
    assert len(beam[0]) > 1


def prefix_probability(seed: int, prefix: tuple[int, ...]) -> float:
    return sum(p for s, p in sentence_probabilities(seed).items() if s[: len(prefix)] == prefix)


def test_scores_keep_their_precision_over_minutes() -> None:
    """Certain and nearly impossible frames: the scores of 3000 frames sum to millions of nats."""
    log_probs = np.full((3000, 4), -1e9, np.float32)
    log_probs[:, BLANK_ID] = 0.0
    log_probs[1000], log_probs[2000] = ([-1e9, -1e9, -1e9, 0.0] for _ in range(2))
    found = joint_search(log_probs, TableDecoder(1, 4), np.zeros((3000, 2), np.float32), ctc_weight=1.0)
    assert found[0].tokens == [3, 3] and found[0].log_prob == pytest.approx(0.0, abs=1e-6)
    assert found[0].start_frames == [1000, 2000] and found[0].end_frames == [1001, 2001]
    assert all(sentence.log_prob < -100 for sentence in found[1:])


@pytest.mark.parametrize("ctc_weight", [0.0, 0.3, 1.0])
def test_scores_are_finite_whatever_the_decoder_says(ctc_weight: float) -> None:
    search = JointSearch(random_log_probs(1, NUM_FRAMES, VOCAB_SIZE), ctc_weight=ctc_weight)
    while (step := search.step()) is not None:
        answer = np.full((len(step.tokens), VOCAB_SIZE), -np.inf, np.float32)
        answer[:, 3] = 0.0  # certain: never an end
        search.answer(answer)
    found = search.hypotheses(8)
    assert found[0].tokens and np.isfinite([sentence.log_prob for sentence in found]).all()


def test_an_answer_of_another_size_is_refused() -> None:
    search = JointSearch(random_log_probs(1, NUM_FRAMES, VOCAB_SIZE))
    assert search.step() is not None
    with pytest.raises(ValueError, match=r"gave \(2, 5\) log-probabilities; expected \(1, 5\)"):
        search.answer(np.full((2, VOCAB_SIZE), -1.0, np.float32))
    with pytest.raises(ValueError, match="no NaN"):
        search.answer(np.full((1, VOCAB_SIZE), np.nan, np.float32))
    with pytest.raises(ValueError, match="at least 3 tokens, got 2"):
        JointSearch(np.full((1, 2), -1.0, np.float32))


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("ctc_weight", [0.2, 0.5, 0.9, 1.0])
def test_joint_search_finds_the_best_of_all_sentences(seed: int, ctc_weight: float) -> None:
    log_probs, decoder = random_log_probs(seed, NUM_FRAMES, VOCAB_SIZE), TableDecoder(seed + 50)
    probabilities = sentence_probabilities(seed)
    scores = {
        sentence: ctc_weight * np.log(p) + (1 - ctc_weight) * decoder.log_prob(sentence)
        for sentence, p in probabilities.items()
        if set(sentence) <= set(SPOKEN)
    }
    found = joint_search(log_probs, decoder, np.zeros((NUM_FRAMES, 2), np.float32), ctc_weight, beam_size=200)
    best = max(scores, key=scores.__getitem__)
    assert found[0].tokens == list(best) and found[0].log_prob == pytest.approx(scores[best], abs=1e-4)
    assert [sentence.log_prob for sentence in found] == sorted((s.log_prob for s in found), reverse=True)


def test_attention_search_normalizes_by_length() -> None:
    """One token and the end have the better sum, three tokens and the end the better mean."""
    decoder = TableDecoder(0)
    decoder.table[:] = -9.0
    decoder.table[0, SOS_EOS_ID, [3, 4]] = -0.5, -1.0
    decoder.table[1, 3, SOS_EOS_ID] = -0.7
    decoder.table[[1, 2], 4, 4] = -0.2
    decoder.table[3, 4, SOS_EOS_ID] = -0.2
    found = joint_search(
        random_log_probs(1, NUM_FRAMES, VOCAB_SIZE), decoder, np.zeros((NUM_FRAMES, 2), np.float32), 0.0
    )
    assert found[0].tokens == [4, 4, 4] and found[0].log_prob == pytest.approx(-1.6 / 4)


@pytest.mark.parametrize("ctc_weight", [0.0, 0.5])
def test_no_audio_gives_only_the_empty_sentence(ctc_weight: float) -> None:
    none = np.zeros((0, VOCAB_SIZE), np.float32)
    found = joint_search(none, TableDecoder(1), np.zeros((0, 2), np.float32), ctc_weight)
    assert [sentence.tokens for sentence in found] == [[]]


def test_options_out_of_range_are_named() -> None:
    log_probs = random_log_probs(1, NUM_FRAMES, VOCAB_SIZE)
    for ctc_weight, beam_size, message in (
        (1.5, 8, r"joint_ctc_weight is 1\.5; it must be in \[0, 1\]"),
        (-0.1, 8, r"joint_ctc_weight is -0\.1; "),
        (0.5, 0, r"beam_size is 0; it must be a whole number in \[1, 1024\]"),
    ):
        with pytest.raises(ValueError, match=message):
            joint_search(log_probs, TableDecoder(1), np.zeros((NUM_FRAMES, 2), np.float32), ctc_weight, beam_size)
