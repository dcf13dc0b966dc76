"""Token-by-token search with the attention decoder, alone or jointly with CTC.

Joint CTC/attention decoding follows Watanabe et al. 2017, "Hybrid CTC/attention architecture for end-to-end speech
recognition": the score of a hypothesis combines the decoder's with CTC's probability of all sentences that begin with
it (prefix probability). It needs no language model, lexicon or length normalization. Imports no PyTorch.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

from asr.tokenizer import BLANK_ID, SOS_EOS_ID, UNK_ID

JOINT_CTC_WEIGHT = 0.3
"""Weight of CTC relative to the decoder; tuned for the bundled models on 60 utterances of `dev`."""
JOINT_BEAM_SIZE = 8
JOINT_BEAM_THRESHOLD = 8.0
"""A hypothesis is dropped if it is this many nats below the best of its length."""
MIN_LOG_PROB = -200.0
"""Minimum log-probability of a token in a frame; below it, sums over frames would lose precision."""

FloatArray = npt.NDArray[np.float32]
DoubleArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]


class StepDecoder(Protocol):
    """The interface of `asr.runtime.onnx_decoder.OnnxDecoder`, also for PyTorch."""

    def begin(self, encoder_out: FloatArray) -> Any:
        """The cache before the first token, for one hypothesis. encoder_out: (T, dim) float32."""
        ...

    def step(self, tokens: IntArray, cache: Any) -> tuple[FloatArray, Any]:
        """(N,) -> log-probabilities (N, vocab_size) of the next token, and a cache with `select(rows)`."""
        ...


class DecodedTokens(NamedTuple):
    """A complete sentence found by a search."""

    tokens: list[int]
    score: float
    """ctc_weight * CTC + (1 - ctc_weight) * decoder; for the decoder alone, the mean per token"""


def joint_search(
    log_probs: FloatArray,
    decoder: StepDecoder,
    encoder_out: FloatArray,
    ctc_weight: float = JOINT_CTC_WEIGHT,
    beam_size: int = JOINT_BEAM_SIZE,
) -> list[DecodedTokens]:
    """Hypotheses of an utterance, best first; at least one, at most `beam_size`.

    Args:
        log_probs: (T, V) float32, of CTC.
        encoder_out: (T, dim) float32, of the same frames.
        ctc_weight: weight of CTC relative to the decoder, in [0, 1]. With 0 this is attention beam search, and a score
            is divided by the number of tokens including the end, because the decoder's sum prefers short sentences.
    Raises ValueError for a weight or beam out of range.
    """
    if not 0 <= ctc_weight <= 1 or beam_size < 1:
        raise ValueError(f"ctc_weight {ctc_weight} must be in [0, 1], beam_size {beam_size} at least 1")
    ctc = CtcPrefixScorer(log_probs)
    state, cache = ctc.begin(), decoder.begin(encoder_out)
    tokens, decoder_score = np.full((1, 1), SOS_EOS_ID), np.zeros(1)
    finished: list[DecodedTokens] = []
    for length in range(len(log_probs) + 1):
        following, cache = decoder.step(tokens[:, -1], cache)
        decoder_score = decoder_score[:, None] + following.astype(np.float64)
        ended, ended_ctc = decoder_score[:, SOS_EOS_ID], ctc.end(state)
        scores = ctc_weight * ended_ctc + (1 - ctc_weight) * ended if ctc_weight else ended / (length + 1)
        finished += [
            DecodedTokens(row[1:], score)
            for row, score, is_possible in zip(tokens.tolist(), scores.tolist(), np.isfinite(ended_ctc), strict=True)
            if is_possible
        ]
        finished = sorted(finished, key=lambda sentence: -sentence.score)[:beam_size]
        prefix = ctc.extensions(state, tokens[:, -1])
        fits = np.isfinite(prefix)  # false if there are more tokens than frames
        total = np.where(fits, (1 - ctc_weight) * decoder_score + ctc_weight * np.where(fits, prefix, 0.0), -np.inf)
        total[:, [BLANK_ID, UNK_ID, SOS_EOS_ID]] = -np.inf
        best = np.argsort(-total, axis=None, kind="stable")[:beam_size]
        best = best[np.isfinite(total.flat[best]) & (total.flat[best] > total.flat[best[0]] - JOINT_BEAM_THRESHOLD)]
        if length == len(log_probs) or not len(best) or _is_over(finished, total.flat[best[0]], ctc_weight, length):
            break
        rows, chosen = np.unravel_index(best, total.shape)
        state, cache = ctc.extend(state, rows, tokens[rows, -1], chosen), cache.select(rows)
        tokens = np.concatenate([tokens[rows], chosen[:, None]], axis=1)
        decoder_score = decoder_score[rows, chosen]
    return finished or [DecodedTokens([], 0.0)]


def _is_over(finished: Sequence[DecodedTokens], best: float, ctc_weight: float, length: int) -> bool:
    """Whether no longer sentence can win: `best` is the score of the best hypothesis of `length` + 1 tokens."""
    if not finished:
        return False
    # More tokens only lower a score. With the decoder alone, they may raise the mean, so the best case is a certain
    # end.
    return finished[0].score >= (best if ctc_weight else best / (length + 2))


class CtcState(NamedTuple):
    """Log-probability that the first t frames, t = 0 to T, are exactly the hypothesis; (N, T + 1) each."""

    in_token: DoubleArray
    """paths that end with its last token"""
    in_blank: DoubleArray
    """paths that end with a blank"""


class CtcPrefixScorer:
    """CTC's prefix probability (of all sentences that begin with a hypothesis), for many hypotheses at once.

    The recursion over frames has the form x[t + 1] = (x[t] + y[t]) p[t]. Divided by the product of p, it is a running
    sum, which NumPy computes in the log domain.
    """

    def __init__(self, log_probs: FloatArray) -> None:
        """log_probs: (T, V), of CTC"""
        self._log_probs = np.maximum(log_probs.astype(np.float64), MIN_LOG_PROB)
        self._probs = np.exp(self._log_probs)

    def begin(self) -> CtcState:
        """The state of the empty hypothesis."""
        blanks = np.concatenate([[0.0], self._log_probs[:, BLANK_ID].cumsum()])[None]
        return CtcState(np.full_like(blanks, -np.inf), blanks)

    def end(self, state: CtcState) -> DoubleArray:
        """(N,) log-probability that each hypothesis is the complete sentence."""
        return np.logaddexp(state.in_token[:, -1], state.in_blank[:, -1])

    def extensions(self, state: CtcState, last: IntArray) -> DoubleArray:
        """(N, V) log-probability of all sentences that begin with a hypothesis followed by each token.

        last: (N,) last token of each hypothesis; CTC needs a blank before it can be repeated.
        """
        before = np.logaddexp(state.in_token, state.in_blank)[:, :-1]
        result = _log_product(before, self._probs)
        rows = np.arange(len(last))
        repeated = _log_product(state.in_blank[:, :-1], self._probs)[rows, last]
        result[rows, last] = np.where(last == SOS_EOS_ID, result[rows, last], repeated)
        return result

    def extend(self, state: CtcState, rows: IntArray, last: IntArray, tokens: IntArray) -> CtcState:
        """The hypotheses `rows` (M,), whose last tokens are `last`, each extended by one token."""
        in_token, in_blank = (part[rows, :-1] for part in state)
        before = np.where((last == tokens)[:, None], in_blank, np.logaddexp(in_token, in_blank))
        in_token = _running(before, self._log_probs[:, tokens].T)
        blanks = np.broadcast_to(self._log_probs[:, BLANK_ID], before.shape)
        return CtcState(in_token, _running(in_token[:, :-1], blanks))


def _log_product(log_weights: DoubleArray, probs: DoubleArray) -> DoubleArray:
    """log(exp(log_weights) @ probs), (N, T) and (T, V) -> (N, V)"""
    top = log_weights.max(axis=1, keepdims=True, initial=MIN_LOG_PROB * probs.shape[0])
    with np.errstate(divide="ignore"):
        return top + np.log(np.exp(log_weights - top) @ probs)


def _running(added: DoubleArray, log_probs: DoubleArray) -> DoubleArray:
    """x[0] = 0, x[t + 1] = (x[t] + added[t]) p[t] in the log domain: (N, T) twice -> (N, T + 1)"""
    product = log_probs.cumsum(axis=1)
    sums = np.logaddexp.accumulate(added - (product - log_probs), axis=1)
    return np.concatenate([np.full((len(added), 1), -np.inf), sums + product], axis=1)
