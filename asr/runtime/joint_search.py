"""Token-by-token search with the attention decoder, alone or jointly with CTC (csrc/search/joint_search.h).

Imports no PyTorch.
"""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np

from asr._core import JOINT_BEAM_SIZE, OPTIONS, Hypothesis, JointSearch
from asr.runtime.network import FloatArray, IntArray

JOINT_CTC_WEIGHT: float = OPTIONS["joint_ctc_weight"].default
"""Weight of CTC relative to the decoder; tuned for the bundled models on 60 utterances of `dev`."""


class StepDecoder(Protocol):
    """The interface of `asr.runtime.onnx_decoder.OnnxDecoder`, also for PyTorch."""

    def begin(self, encoder_out: FloatArray) -> Any:
        """The cache before the first token, for one hypothesis. encoder_out: (T, dim) float32."""
        ...

    def step(self, tokens: IntArray, cache: Any) -> tuple[FloatArray, Any]:
        """(N,) -> log-probabilities (N, vocab_size) of the next token, and a cache with `select(rows)`."""
        ...


def joint_search(
    log_probs: FloatArray,
    decoder: StepDecoder,
    encoder_out: FloatArray,
    ctc_weight: float = JOINT_CTC_WEIGHT,
    beam_size: int = JOINT_BEAM_SIZE,
) -> list[Hypothesis]:
    """Hypotheses of an utterance, best first; at least one, at most `beam_size`. Their log_prob is the score.

    Args:
        log_probs: (T, V) float32, of CTC.
        encoder_out: (T, dim) float32, of the same frames.
        ctc_weight: weight of CTC relative to the decoder, in [0, 1]. With 0 this is attention beam search, and a score
            is divided by the number of tokens including the end, because the decoder's sum prefers short sentences.
    Raises ValueError for a weight or beam out of range.
    """
    search = JointSearch(np.ascontiguousarray(log_probs), ctc_weight=ctc_weight, beam_size=beam_size)
    cache = decoder.begin(encoder_out)
    while (step := search.step()) is not None:
        following, cache = decoder.step(step.tokens, cache.select(step.parents))
        search.answer(np.ascontiguousarray(following))
    return search.hypotheses(beam_size)
