"""Forced alignment: frames of tokens, spelling, and text that cannot be aligned."""

from __future__ import annotations

import numpy as np
import pytest
from support.benchmark_module import load_benchmark

from asr._core import align_tokens, spell
from asr.evaluation.wer import matched_words
from asr.runtime.search import words

TOKENS = ("<blk>", "<unk>", "<sos/eos>", "▁", "A", "B")
PIECES = ("<blk>", "<unk>", "<sos/eos>", "▁", "▁A", "▁AB", "B", "A", "C")


def path(*ids: int) -> np.ndarray:
    """Log-probabilities (T, V) with near certainty for these IDs."""
    out = np.full((len(ids), len(TOKENS)), np.log(0.02), np.float32)
    out[range(len(ids)), ids] = np.log(0.9)
    return out


def test_tokens_have_the_frames_of_the_likeliest_path() -> None:
    found = align_tokens(path(0, 4, 4, 0, 4, 5, 0, 0), [4, 4, 5])
    assert (found.start_frames, found.end_frames) == ([1, 4, 5], [3, 5, 6])
    assert found.confidences == pytest.approx([0.9] * 3)


def test_equal_tokens_have_a_blank_between_them() -> None:
    found = align_tokens(path(4, 4, 4), [4, 4])
    assert (found.start_frames, found.end_frames) == ([0, 2], [1, 3])
    assert found.log_prob == pytest.approx(2 * np.log(0.9) + np.log(0.02))


def test_words_are_those_of_recognition() -> None:
    found = words(align_tokens(path(4, 4, 5, 0, 3, 0, 0, 0, 5, 5, 0), [4, 5, 3, 5]), TOKENS)
    assert [word.word for word in found] == ["AB", "B"]
    assert [(round(w.start / 0.04), round(w.end / 0.04)) for w in found] == [(0, 2), (6, 9)]


def test_text_too_long_for_its_utterance_is_refused() -> None:
    assert len(align_tokens(path(4, 0, 4), [4, 4]).tokens) == 2
    for ids, num_needed in (([4, 5, 4, 5], 4), ([4, 4, 4], 5), ([], 0)):
        with pytest.raises(
            ValueError, match=rf"{len(ids)} tokens need at least {max(num_needed, 1)} frames; there are"
        ):
            align_tokens(path(4, 0, 4), ids)


def test_only_possible_texts_are_aligned() -> None:
    impossible = path(4, 0)
    impossible[0, [0, 4]] = -np.inf
    with pytest.raises(ValueError, match="this text has a probability of 0"):
        align_tokens(impossible, [4])
    assert align_tokens(impossible, [5]).start_frames == [0]
    with pytest.raises(ValueError, match="no NaN"):
        align_tokens(np.full((2, 6), np.nan, np.float32), [4])


def test_text_is_spelled_in_characters_or_fewest_pieces() -> None:
    assert spell("AB  b", list(TOKENS)) == [4, 5, 3, 5]
    assert spell("ABC A B", list(PIECES)) == [5, 8, 4, 3, 6]
    # With the longest piece first, no piece is left for C.
    assert spell("ABC", ["", "<unk>", "", "▁AB", "▁A", "BC", "▁"]) == [4, 5]
    with pytest.raises(ValueError, match="text 'C' cannot be written by this model: it has no 'C'"):
        spell("A C", list(TOKENS))
    with pytest.raises(
        ValueError, match="text 'A' cannot be written by this model: it has no tokens for these letters"
    ):
        spell("A", ["", "▁AB", "B"])


def test_the_tokens_of_each_word() -> None:
    word_tokens = load_benchmark("command").word_tokens
    assert word_tokens([4, 5, 3, 5], TOKENS) == [[0, 1], [3]]
    assert word_tokens([5, 8, 4, 3, 6], PIECES) == [[0, 1], [2], [4]]


def test_matched_words_are_those_of_the_fewest_edits() -> None:
    assert matched_words(["A", "B", "C", "D"], ["A", "X", "C", "C", "D"]) == [(0, 0), (2, 3), (3, 4)]
    assert matched_words([], ["A"]) == matched_words(["A"], []) == []
