"""The attention decoder of an exported model in ONNX Runtime: scores of whole sentences, and steps token by token.

One graph does both: scoring a sentence is a step with all tokens and an empty cache. Imports no PyTorch.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from asr._core import DECODER_INPUTS, DECODER_OUTPUTS, DECODER_PAST, DECODER_STEP_OUTPUTS
from asr.runtime.joint_search import FloatArray, IntArray
from asr.runtime.metadata import ModelMetadata
from asr.runtime.network import Network
from asr.runtime.onnx_session import Signature, Tensors


class DecoderCache(NamedTuple):
    """State of N hypotheses of one utterance, of P tokens each, between steps. Immutable."""

    keys: FloatArray
    """(N, num_decoder_layers, P, dim) float32"""
    values: FloatArray
    """(N, num_decoder_layers, P, dim) float32"""
    memory_keys: FloatArray
    """(1, num_decoder_layers, T, dim) float32, keys of the encoder's output"""
    memory_values: FloatArray
    """(1, num_decoder_layers, T, dim) float32"""
    encoder_out: FloatArray
    """(1, T, dim) float32 for the first step, whose output has its keys and values; then (1, 0, dim)"""

    def select(self, rows: Sequence[int] | npt.NDArray[np.integer]) -> DecoderCache:
        """The hypotheses `rows`, (M,) integers, in that order."""
        return self._replace(keys=self.keys[rows], values=self.values[rows])


def decoder_signature(metadata: ModelMetadata) -> Signature:
    """Inputs and outputs of the decoder for this metadata; B is 1 or N."""
    layers, dim = metadata.num_decoder_layers, metadata.dim
    inputs: Tensors = {
        "tokens": ("tensor(int64)", ["N", "U"]),
        "token_lengths": ("tensor(int64)", ["N"]),
        "encoder_out": ("tensor(float)", [1, "T", dim]),
    }
    outputs: Tensors = {"scores": ("tensor(float)", ["N"])}
    if metadata.num_decoder_layers:
        inputs["previous"] = ("tensor(int64)", ["B"])
        outputs["log_probs"] = ("tensor(float)", ["N", "U+1", metadata.vocab_size])
        for name in ("key_cache", "value_cache"):
            inputs[name] = ("tensor(float)", ["B", layers, "P", dim])
            outputs[f"new_{name}"] = ("tensor(float)", ["N", layers, "P+U+1", dim])
        for name in ("memory_keys", "memory_values"):
            inputs[name] = ("tensor(float)", [1, layers, "M", dim])
            outputs[f"new_{name}"] = ("tensor(float)", [1, layers, "M+T", dim])
    return Signature(inputs, outputs)


class OnnxDecoder:
    """An open decoder graph. Immutable; any number of threads may call it at once."""

    def __init__(self, network: Network, metadata: ModelMetadata) -> None:
        self.network = network
        self._metadata = metadata

    def score(self, tokens: Sequence[Sequence[int]], encoder_out: FloatArray) -> FloatArray:
        """See `asr.runtime.onnx_model.OnnxModel.score`."""
        if not tokens:
            return np.zeros(0, np.float32)
        lengths = np.array([len(row) for row in tokens], np.int64)
        padded = np.zeros((len(tokens), max(int(lengths.max()), 1)), np.int64)
        for index, row in enumerate(tokens):
            padded[index, : len(row)] = row
        self._check_tokens(padded)
        inputs = (padded, lengths, self._memory(encoder_out))
        return self.network.run(dict(zip(DECODER_INPUTS, inputs, strict=True)), DECODER_OUTPUTS)[0][0]

    def begin(self, encoder_out: FloatArray) -> DecoderCache:
        """The state before the first token, for one hypothesis. encoder_out: (T, dim) float32, valid frames only."""
        return DecoderCache._make((*self.network.initial_state(1, 0), self._memory(encoder_out)))

    def step(self, tokens: IntArray, cache: DecoderCache) -> tuple[FloatArray, DecoderCache]:
        """Appends one token to every hypothesis.

        tokens: (N,) int64, SOS_EOS_ID at the start. Returns the log-probabilities (N, vocab_size) of the next token,
        and the next cache. Raises ValueError for ids outside the vocabulary.
        """
        self._check_tokens(tokens)
        *past, encoder_out = cache
        nothing = (np.zeros((len(tokens), 0), np.int64), np.zeros(len(tokens), np.int64))
        inputs = dict(zip((*DECODER_INPUTS, DECODER_PAST[0]), (*nothing, encoder_out, tokens), strict=True))
        (log_probs,), state = self.network.run(inputs, DECODER_STEP_OUTPUTS[:1], tuple(past))
        return log_probs[:, 0], DecoderCache._make([*state, np.zeros((1, 0, self._metadata.dim), np.float32)])

    def _memory(self, encoder_out: FloatArray) -> FloatArray:
        dim = self._metadata.dim
        if encoder_out.ndim != 2 or encoder_out.shape[1] != dim or encoder_out.dtype != np.float32:
            raise ValueError(
                f"encoder_out is {encoder_out.dtype} of shape {encoder_out.shape}; expected float32 (T, {dim})"
            )
        # Without audio the decoder attends to one frame of zeros.
        return encoder_out[None] if len(encoder_out) else np.zeros((1, 1, dim), np.float32)

    def _check_tokens(self, tokens: IntArray) -> None:
        if tokens.min() < 0 or tokens.max() >= self._metadata.vocab_size:
            odd = tokens.min() if tokens.min() < 0 else tokens.max()
            raise ValueError(f"token id {odd} is outside 0 to {self._metadata.vocab_size - 1}")
