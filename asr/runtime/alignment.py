"""Forced alignment: the frames of each token of a known sentence, from CTC. Imports no PyTorch."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from asr._core import Hypothesis
from asr.tokenizer import BLANK_ID


def align_tokens(log_probs: npt.NDArray[np.float32], ids: Sequence[int]) -> Hypothesis:
    """The most likely alignment (Viterbi) of the tokens `ids` to log_probs (T, V), with the frames and the confidence
    of each token. Raises ValueError for no tokens, or more than fit into the frames."""
    num_needed = len(ids) + sum(a == b for a, b in pairwise(ids))
    if not 1 <= num_needed <= len(log_probs):
        raise ValueError(f"{len(ids)} tokens need at least {max(num_needed, 1)} frames; there are {len(log_probs)}")
    # States: blank, token, blank, token, ..., blank. A token is reached from itself, from the blank before it and, if
    # the previous token differs, from that token.
    states = np.full(2 * len(ids) + 1, BLANK_ID)
    states[1::2] = ids
    skips = np.append([False, False], states[2:] != states[:-2]) & (states != BLANK_ID)
    emitted = log_probs[:, states].astype(np.float64)
    best = np.full(len(states), -np.inf)
    best[:2] = emitted[0, :2]
    steps = np.zeros(emitted.shape, np.int64)  # how many states the best path to each state has just advanced
    for frame in range(1, len(emitted)):
        entered = np.stack(
            [best, np.append(-np.inf, best[:-1]), np.where(skips, np.append([-np.inf] * 2, best)[:-2], -np.inf)]
        )
        steps[frame] = entered.argmax(0)
        best = entered.max(0) + emitted[frame]
    state = len(states) - 1 if best[-1] > best[-2] else len(states) - 2
    path = np.zeros(len(emitted), np.int64)
    for frame in reversed(range(len(emitted))):
        path[frame] = state
        state -= steps[frame, state]
    begins = [int(np.argmax(path == place)) for place in range(1, len(states), 2)]
    ends = [begin + int((path == path[begin]).sum()) for begin in begins]
    scores = emitted[np.arange(len(path)), path]
    return Hypothesis(
        list(ids),
        log_prob=float(scores.sum()),
        lm_score=0.0,
        start_frames=begins,
        end_frames=ends,
        confidences=[float(np.exp(scores[b:e].mean())) for b, e in zip(begins, ends, strict=True)],
    )
