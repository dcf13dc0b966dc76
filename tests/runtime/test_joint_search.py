"""Attention and joint CTC/attention search, compared with an enumeration of all sentences."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pytest

from asr._core import JointSearch
from asr.runtime.joint_search import joint_search
from asr.tokenizer import BLANK_ID, SOS_EOS_ID

NUM_FRAMES, VOCAB_SIZE = 5, 5


def random_log_probs(seed: int, *shape: int) -> np.ndarray:
    x = 2 * np.random.default_rng(seed).standard_normal(shape)
    return (x - np.log(np.exp(x).sum(-1, keepdims=True))).astype(np.float32)


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


def test_options_out_of_range_are_named() -> None:
    log_probs = random_log_probs(1, NUM_FRAMES, VOCAB_SIZE)
    for ctc_weight, beam_size, message in (
        (1.5, 8, r"joint_ctc_weight is 1\.5; it must be in \[0, 1\]"),
        (-0.1, 8, r"joint_ctc_weight is -0\.1; "),
        (0.5, 0, r"beam_size is 0; it must be a whole number in \[1, 1024\]"),
    ):
        with pytest.raises(ValueError, match=message):
            joint_search(log_probs, TableDecoder(1), np.zeros((NUM_FRAMES, 2), np.float32), ctc_weight, beam_size)
