"""Search of one utterance: words with times and confidence, rescoring."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from asr._core import Hypothesis
from asr.runtime.search import decode, new_search, text, words
from asr.text import detokenize

TOKENS = ("<blk>", "<unk>", "<sos/eos>", "▁", "A", "B", "▁C")


def spoken(tokens: list[int], log_prob: float = 0.0, lm_score: float = 0.0) -> Hypothesis:
    """A hand-made hypothesis: token i occupies frames [10 i, 10 i + 2) with a confidence of 1 / 2^i."""
    places = range(len(tokens))
    return Hypothesis(
        tokens,
        log_prob=log_prob,
        lm_score=lm_score,
        start_frames=[10 * i for i in places],
        end_frames=[10 * i + 2 for i in places],
        confidences=[2.0**-i for i in places],
    )


def path(*ids: int) -> np.ndarray:
    """Log-probabilities (T, V) with near certainty for these IDs."""
    out = np.full((len(ids), len(TOKENS)), np.log(0.01 / (len(TOKENS) - 1)), np.float32)
    out[range(len(ids)), ids] = np.log(0.99)
    return out


def sure(bias: float, least: float, mean: float) -> object:
    return pytest.approx(1 / (1 + math.exp(-(bias + least + mean))))


def test_confidence_is_lower_without_a_language_model() -> None:
    hypothesis = Hypothesis(
        [4, 5], log_prob=0, lm_score=0, start_frames=[0, 10], end_frames=[2, 12], confidences=[0.5, 1.0]
    )
    (word,) = words(hypothesis, TOKENS)
    assert word.confidence == sure(-6.64, 6.94 / 2, 2.98 * 3 / 4)
    assert word.confidence < words(hypothesis, TOKENS, with_lm=True)[0].confidence


def test_sentence_marks_are_in_no_word() -> None:
    hypothesis = spoken([2, 4, 2, 5, 2])
    assert [word[:3] for word in words(hypothesis, TOKENS)] == [("AB", 0.32, pytest.approx(1.24))]
    assert text(hypothesis, TOKENS) == "AB"


def test_no_speech_is_no_word() -> None:
    assert words(spoken([]), TOKENS) == []
    assert words(spoken([3, 2]), TOKENS) == []


def test_special_tokens_are_in_no_text() -> None:
    tokens = ["<blk>", "<unk>", "<sos/eos>", "▁", "A"]
    assert [word.word for word in words(spoken([1, 4, 1, 2, 4, 3, 1, 3, 4]), tokens)] == ["AA", "A"]
    assert text(spoken([1, 1]), tokens) == ""


def test_a_token_that_does_not_exist_is_refused() -> None:
    with pytest.raises(ValueError, match="token id 7 is outside 0 to 7 - 1"):
        words(spoken([7]), TOKENS)
    with pytest.raises(ValueError, match="every token needs a start"):
        Hypothesis([4], log_prob=0.0, lm_score=0.0, start_frames=[], end_frames=[1], confidences=[1.0])


@given(st.lists(st.sampled_from(["▁", "▁A", "B", "▁CD", "'"]), max_size=12))
def test_words_equal_the_text(pieces: list[str]) -> None:
    tokens = ["<blk>", "<unk>", "<sos/eos>", "▁", "▁A", "B", "▁CD", "'"]
    found = words(spoken([tokens.index(piece) for piece in pieces]), tokens)
    assert " ".join(word.word for word in found) == detokenize(pieces)
    letters = [i for i, piece in enumerate(pieces) if piece != "▁"]
    assert [round(word.start / 0.4) for word in found] == [
        i for i in letters if i == letters[0] or pieces[i].startswith("▁") or pieces[i - 1] == "▁"
    ]


@pytest.mark.parametrize("name", ["greedy", "beam"])
def test_repeated_words_survive(name: str) -> None:
    log_probs = path(4, 4, 0, 4, 3, 0, 5, 0, 0)
    hypothesis = decode(log_probs, name)
    assert text(hypothesis, TOKENS) == "AA B"
    first, second = words(hypothesis, TOKENS)
    assert (first.start, first.end) == (0.0, pytest.approx(0.08))
    assert (second.start, second.end) == (pytest.approx(0.08), pytest.approx(0.24))
    assert 0.9 < first.confidence < 1.0


def test_rescoring_takes_the_decoders_word_for_it() -> None:
    log_probs = path(4, 0, 5)
    log_probs[2] = np.log(1e-6)
    log_probs[2, 5], log_probs[2, 4] = np.log(0.55), np.log(0.449)  # A B before A A

    def score(hypotheses: list[list[int]]) -> np.ndarray:
        assert hypotheses[0] == [4, 5]
        return np.array([0.0 if h == [4, 4] else -50.0 for h in hypotheses], np.float32)

    assert decode(log_probs, "beam").tokens == [4, 5]
    assert decode(log_probs, "rescore", score=score).tokens == [4, 4]
    assert decode(log_probs, "rescore", score=score, ctc_weight=1.0).tokens == [4, 5]


def test_an_utterance_without_frames_is_empty() -> None:
    empty = np.zeros((0, len(TOKENS)), np.float32)
    assert decode(empty, "greedy").tokens == decode(empty, "beam").tokens == []


def test_unknown_search_and_missing_decoder_are_named() -> None:
    with pytest.raises(ValueError, match=r"'viterbi'.*greedy, beam, rescore"):
        new_search("viterbi")
    with pytest.raises(ValueError, match="search beam"):
        decode(path(4), "rescore")
