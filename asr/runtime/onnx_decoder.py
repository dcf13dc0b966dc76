"""An attention decoder file in ONNX Runtime: scores of whole sentences, and steps token by token.

One graph does both: scoring a sentence is a step with all tokens and an empty state. Imports no PyTorch.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from asr._core import DECODER_INPUTS, DECODER_OUTPUTS, DECODER_STEP_INPUT, DECODER_STEP_OUTPUT, DecoderMetadata
from asr.runtime.network import FloatArray, IntArray, Network, State, open_file, tensors_of
from asr.runtime.onnx_model import OnnxModel
from asr.runtime.onnx_session import ModelError, Signature, Tensors


class DecoderCache(NamedTuple):
    """State of N hypotheses of one utterance between steps. Immutable."""

    network: Network
    state: State
    encoder_out: FloatArray
    """(1, T, dim) float32 for the first step, after which the state has what the decoder needs of it; then
    (1, 0, dim)"""

    def select(self, rows: Sequence[int] | npt.NDArray[np.integer]) -> DecoderCache:
        """The hypotheses `rows`, (M,) integers, in that order."""
        return self._replace(state=self.network.selected(self.state, rows))


def decoder_signature(metadata: DecoderMetadata) -> Signature:
    """Inputs and outputs of a file with this metadata; in states, N is 1 or the number of hypotheses, and C grows by a
    step or by the frames of `encoder_out`."""
    states = tensors_of(metadata.states)
    inputs: Tensors = {
        "tokens": ("tensor(int64)", ["N", "U"]),
        "token_lengths": ("tensor(int64)", ["N"]),
        "encoder_out": ("tensor(float)", [1, "T", metadata.dim]),
        DECODER_STEP_INPUT: ("tensor(int64)", ["N"]),
        **states,
    }
    outputs: Tensors = {
        "scores": ("tensor(float)", ["N"]),
        DECODER_STEP_OUTPUT: ("tensor(float)", ["N", "U+1", len(metadata.tokens)]),
        **{f"new_{name}": state for name, state in states.items()},
    }
    return Signature(inputs, outputs)


def decoder_beside(model: str | Path) -> Path:
    """The file of a model's decoder: model.decoder.onnx beside model.onnx."""
    return Path(model).with_suffix(".decoder.onnx")


def decoder_of(model: OnnxModel) -> OnnxDecoder:
    """The decoder in the file beside `model`. Raises ModelError if there is none, or it belongs to another model."""
    path = decoder_beside(model.path)
    if not path.is_file():
        raise ModelError(f"there is no decoder {path}, which `asr export` writes beside the model")
    decoder = OnnxDecoder(path, model.provider)
    found, wanted = decoder.metadata, model.metadata
    if tuple(found.tokens) != wanted.tokens or found.dim != wanted.dim:
        raise ModelError(f"{path} is the decoder of another model than {model.path}: export both again")
    return decoder


class OnnxDecoder:
    """An open decoder file. Immutable; any number of threads may call it at once."""

    def __init__(self, path: str | Path, provider: str = "cpu", num_threads: int = 1) -> None:
        """Reads a file. Raises ModelError or MetadataError if it cannot be used, OSError if it cannot be read."""
        self.network, self.metadata, _ = open_file(
            path,
            DecoderMetadata,
            decoder_signature,
            lambda metadata: metadata.states,
            provider=provider,
            num_threads=num_threads,
            arena=provider != "cpu",
        )

    def score(self, tokens: Sequence[Sequence[int]], encoder_out: FloatArray) -> FloatArray:
        """Log-probability of whole sentences, including their end.

        Args:
            tokens: N hypotheses, as token ids without SOS and EOS.
            encoder_out: (T, dim) float32, valid frames only.
        Returns:
            (N,) float32.
        Raises ValueError for ids outside the vocabulary or another shape.
        """
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
        return DecoderCache(self.network, self.network.initial_state(1, 0), self._memory(encoder_out))

    def step(self, tokens: IntArray, cache: DecoderCache) -> tuple[FloatArray, DecoderCache]:
        """Appends one token to every hypothesis.

        tokens: (N,) int64, SOS_EOS_ID at the start. Returns the log-probabilities (N, vocab_size) of the next token,
        and the next cache. Raises ValueError for ids outside the vocabulary.
        """
        self._check_tokens(tokens)
        nothing = (np.zeros((len(tokens), 0), np.int64), np.zeros(len(tokens), np.int64))
        names = (*DECODER_INPUTS, DECODER_STEP_INPUT)
        inputs = dict(zip(names, (*nothing, cache.encoder_out, tokens), strict=True))
        (log_probs,), state = self.network.run(inputs, [DECODER_STEP_OUTPUT], cache.state)
        return log_probs[:, 0], cache._replace(state=state, encoder_out=cache.encoder_out[:, :0])

    def _memory(self, encoder_out: FloatArray) -> FloatArray:
        dim = self.metadata.dim
        if encoder_out.ndim != 2 or encoder_out.shape[1] != dim or encoder_out.dtype != np.float32:
            raise ValueError(
                f"encoder_out is {encoder_out.dtype} of shape {encoder_out.shape}; expected float32 (T, {dim})"
            )
        # Without audio the decoder attends to one frame of zeros.
        return encoder_out[None] if len(encoder_out) else np.zeros((1, 1, dim), np.float32)

    def _check_tokens(self, tokens: IntArray) -> None:
        vocab_size = len(self.metadata.tokens)
        if tokens.min() < 0 or tokens.max() >= vocab_size:
            odd = tokens.min() if tokens.min() < 0 else tokens.max()
            raise ValueError(f"token id {odd} is outside 0 to {vocab_size - 1}")
