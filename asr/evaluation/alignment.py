"""Forced alignment: when each word of a known text was spoken, as a model's CTC output has it.

The Viterbi alignment is torchaudio's; what it says in tokens becomes words as in recognition (csrc/search/words.h). It
shares the model's habits: it tells how far a search went astray, not when a sound began.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from asr._core import Hypothesis, spell
from asr.runtime.search import Word, output_symbols, words
from asr.text import WORD_BOUNDARY
from asr.tokenizer import BLANK_ID


def forced_align(log_probs: npt.NDArray[np.float32], text: str, tokens: Sequence[str]) -> list[Word]:
    """The words of `text` in the utterance of `log_probs`, (num_frames, vocab_size), times from its first frame.

    tokens: spelling of every token id. Raises ValueError for a text that they cannot spell, or that is too long for the
    utterance.
    """
    return words(align_tokens(log_probs, spell(text, output_symbols(tokens))), tokens)


def align_tokens(log_probs: npt.NDArray[np.float32], ids: Sequence[int]) -> Hypothesis:
    """The likeliest alignment of `ids`, with the frames and the confidence of each; ValueError as above."""
    import torch
    from torchaudio.functional import forced_align as viterbi

    num_needed = len(ids) + sum(a == b for a, b in pairwise(ids))
    if not 1 <= num_needed <= len(log_probs):
        raise ValueError(f"{len(ids)} tokens need {num_needed} frames, and at least 1; there are {len(log_probs)}")
    targets = torch.tensor([list(ids)], dtype=torch.int32)
    path = viterbi(torch.from_numpy(np.ascontiguousarray(log_probs))[None], targets, blank=BLANK_ID)[0][0].numpy()
    begins = np.flatnonzero((path != BLANK_ID) & (path != np.concatenate([[BLANK_ID], path[:-1]])))
    ends = [begin + int(np.argmax(np.append(path[begin:] != path[begin], True))) for begin in begins]
    scores = log_probs[np.arange(len(path)), path]
    return Hypothesis(
        list(ids),
        log_prob=float(scores.sum()),
        lm_score=0.0,
        start_frames=begins.tolist(),
        end_frames=ends,
        confidences=[float(np.exp(scores[b:e].mean())) for b, e in zip(begins, ends, strict=True)],
    )


def word_tokens(ids: Sequence[int], tokens: Sequence[str]) -> list[list[int]]:
    """Of each word that `ids` write: the places of its tokens in `ids`."""
    found: list[list[int]] = []
    begins = True
    for place, id in enumerate(ids):
        begins |= tokens[id].startswith(WORD_BOUNDARY)
        if tokens[id] == WORD_BOUNDARY:
            continue
        if begins:
            found.append([])
        found[-1].append(place)
        begins = False
    return found
