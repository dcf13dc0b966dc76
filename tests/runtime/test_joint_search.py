"""Attention and joint CTC/attention search, compared with an enumeration of all sentences."""

from __future__ import annotations

import math
from functools import lru_cache
from itertools import product
from typing import NamedTuple

import numpy as np
import pytest

from asr.runtime.joint_search import CtcPrefixScorer, joint_search
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

    def __init__(self, seed: int) -> None:
        self.table = random_log_probs(seed, NUM_FRAMES + 2, VOCAB_SIZE, VOCAB_SIZE)

    def begin(self, encoder_out: np.ndarray) -> Prefix:
        return Prefix(((),))

    def step(self, tokens: np.ndarray, cache: Prefix) -> tuple[np.ndarray, Prefix]:
        after = tuple((*row, int(token)) for row, token in zip(cache.tokens, tokens, strict=True))
        return np.stack([self.table[len(row) - 1, row[-1]] for row in after]), Prefix(after)

    def log_prob(self, sentence: tuple[int, ...]) -> float:
        marked = (SOS_EOS_ID, *sentence, SOS_EOS_ID)
        return float(sum(self.table[i, marked[i], marked[i + 1]] for i in range(len(marked) - 1)))


@pytest.mark.parametrize("seed", range(3))
def test_prefix_scores_are_sums_over_all_paths(seed: int) -> None:
    log_probs = random_log_probs(seed, NUM_FRAMES, VOCAB_SIZE)
    all_sentences = sentence_probabilities(seed)
    scorer = CtcPrefixScorer(log_probs)
    state, hypotheses = scorer.begin(), [()]
    # Rows out of order and repeated; "3 3" needs a blank between its tokens, "3 3 3 3" more frames than there are.
    for rows, tokens in (([0, 0], [4, 3]), ([1, 1, 0], [3, 4, 4]), ([0, 2, 0], [3, 4, 4]), ([0], [3])):
        last = np.array([hypothesis[-1] if hypothesis else SOS_EOS_ID for hypothesis in hypotheses])
        ends = [all_sentences.get(hypothesis, 0.0) for hypothesis in hypotheses]
        np.testing.assert_allclose(np.exp(scorer.end(state)), ends, atol=1e-7)
        found = np.exp(scorer.extensions(state, last))
        for row, hypothesis in enumerate(hypotheses):
            for token in range(1, VOCAB_SIZE):
                prefix = (*hypothesis, token)
                expected = sum(p for s, p in all_sentences.items() if s[: len(prefix)] == prefix)
                assert found[row, token] == pytest.approx(expected, abs=1e-7)
        state = scorer.extend(state, np.array(rows), last[rows], np.array(tokens))
        hypotheses = [(*hypotheses[row], token) for row, token in zip(rows, tokens, strict=True)]


def test_prefix_scores_keep_their_precision_over_minutes() -> None:
    """Certain and nearly impossible frames: the scores of 3000 frames sum to millions of nats."""
    log_probs = np.full((3000, 4), -1e9, np.float32)
    log_probs[:, BLANK_ID] = 0.0
    log_probs[1000], log_probs[2000] = ([-1e9, -1e9, -1e9, 0.0] for _ in range(2))
    scorer = CtcPrefixScorer(log_probs)
    state, last = scorer.begin(), np.array([SOS_EOS_ID])
    for _ in range(2):
        assert scorer.extensions(state, last)[0, 3] == pytest.approx(0.0, abs=1e-6)
        state, last = scorer.extend(state, np.array([0]), last, np.array([3])), np.array([3])
    assert scorer.end(state)[0] == pytest.approx(0.0, abs=1e-6)
    assert scorer.extensions(state, last)[0, 3] < -100


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
    assert found[0].tokens == list(best) and found[0].score == pytest.approx(scores[best], abs=1e-4)
    assert [sentence.score for sentence in found] == sorted((s.score for s in found), reverse=True)


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
    assert found[0].tokens == [4, 4, 4] and found[0].score == pytest.approx(-1.6 / 4)


@pytest.mark.parametrize("ctc_weight", [0.0, 0.5])
def test_no_audio_gives_only_the_empty_sentence(ctc_weight: float) -> None:
    none = np.zeros((0, VOCAB_SIZE), np.float32)
    found = joint_search(none, TableDecoder(1), np.zeros((0, 2), np.float32), ctc_weight)
    assert [sentence.tokens for sentence in found] == [[]]


def test_options_out_of_range_are_named() -> None:
    log_probs = random_log_probs(1, NUM_FRAMES, VOCAB_SIZE)
    for ctc_weight, beam_size in ((1.5, 8), (-0.1, 8), (0.5, 0)):
        with pytest.raises(ValueError, match=rf"ctc_weight {ctc_weight} .*beam_size {beam_size}"):
            joint_search(log_probs, TableDecoder(1), np.zeros((NUM_FRAMES, 2), np.float32), ctc_weight, beam_size)
