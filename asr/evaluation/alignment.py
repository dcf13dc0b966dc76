"""Forced alignment: when each word of a known text was spoken, according to a model's CTC output.

It shares the model's bias: it measures errors of a search, not the true beginning of a sound.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from asr._core import spell
from asr.runtime.alignment import align_tokens
from asr.runtime.search import Word, output_symbols, words
from asr.text import WORD_BOUNDARY


def forced_align(log_probs: npt.NDArray[np.float32], text: str, tokens: Sequence[str]) -> list[Word]:
    """Words of `text` with times, for the CTC output `log_probs` (num_frames, vocab_size) of an utterance.

    tokens: spelling of every token id. Raises ValueError for a text that they cannot spell, or that is too long for the
    utterance. Times start at the first frame.
    """
    return words(align_tokens(log_probs, spell(text, output_symbols(tokens))), tokens)


def word_tokens(ids: Sequence[int], tokens: Sequence[str]) -> list[list[int]]:
    """Indices in `ids` of the tokens of each word."""
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
