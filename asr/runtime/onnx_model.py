"""An exported model in ONNX Runtime: the step function on NumPy arrays.

Threads may share an `OnnxModel`. A stream passes its state in and gets the new one. Imports no PyTorch.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from asr._core import ENCODER_INPUTS, ENCODER_OUTPUTS, PHONE_OUTPUT
from asr.runtime.metadata import MetadataError, ModelMetadata
from asr.runtime.network import FloatArray, IntArray, State, open_file, tensors_of
from asr.runtime.onnx_session import ModelError, Signature, Tensors, check_session_options

_BUNDLED = {"int8": "tiny.int8.onnx", "float32": "tiny.onnx"}


class StepOutput(NamedTuple):
    """Output for one chunk of c encoder frames."""

    log_probs: FloatArray
    """(N, c, vocab_size)"""
    encoder_out: FloatArray
    """(N, c, dim)"""
    cache: State
    """For the next chunk."""
    phone_log_probs: FloatArray | None = None
    """(N, c, num_phone_tokens); None for a model without a phone head"""


class Encoded(NamedTuple):
    """Output for a whole utterance of T feature frames."""

    log_probs: FloatArray
    """(T // 4, vocab_size)"""
    encoder_out: FloatArray
    """(T // 4, dim)"""
    phone_log_probs: FloatArray | None = None
    """(T // 4, num_phone_tokens); None for a model without a phone head"""


def bundled_model(name: str = "int8") -> Path:
    """The bundled model: "int8" (small, for CPUs) or "float32".

    Raises ModelError for another name, and if the package was built without the file.
    """
    if name not in _BUNDLED:
        raise ModelError(f"bundled model {name!r} does not exist: choose one of {', '.join(_BUNDLED)}")
    path = Path(__file__).parents[1] / "models" / _BUNDLED[name]
    if not path.is_file():
        raise ModelError(f"this installation lacks the bundled model {path}: install asr-stream again, or name a file")
    return path


def step_signature(metadata: ModelMetadata) -> Signature:
    """Inputs and outputs of a file with this metadata."""
    states = tensors_of(metadata.state_tensors)
    inputs: Tensors = {
        "x": ("tensor(float)", ["N", "T", metadata.num_mel_bins]),
        "num_valid": ("tensor(int64)", ["N"]),
        **states,
    }
    outputs: Tensors = {
        "log_probs": ("tensor(float)", ["N", "(T-3)/4", metadata.vocab_size]),
        "encoder_out": ("tensor(float)", ["N", "(T-3)/4", metadata.dim]),
        **{f"new_{name}": state for name, state in states.items()},
    }
    if metadata.phones:
        outputs[PHONE_OUTPUT] = ("tensor(float)", ["N", "(T-3)/4", metadata.num_phone_tokens])
    return Signature(inputs, outputs)


class OnnxModel:
    """An open model file. Immutable; any number of threads may call it at once."""

    metadata: ModelMetadata

    def __init__(self, path: str | Path, provider: str = "cpu", num_threads: int = 1) -> None:
        """Opens the .onnx file at `path`.

        provider: "cpu" or "cuda".
        num_threads: CPU threads inside one operator (0: all cores).
        Raises ModelError if the file is missing, damaged or not an asr-stream model, or the provider is missing.
        """
        check_session_options(provider, num_threads)
        self.path = Path(path)
        self.provider = provider
        try:
            if not self.path.is_file():
                raise ModelError(f"there is no model file {self.path}: `asr export` writes one")
            self.encoder, self.metadata, _ = open_file(
                path,
                ModelMetadata.from_properties,
                step_signature,
                lambda metadata: metadata.state_tensors,
                provider=provider,
                num_threads=num_threads,
            )
        except MetadataError as error:
            raise ModelError(str(error)) from error
        except OSError as error:
            raise ModelError(f"{self.path} cannot be read: {error.strerror}") from error
        self._heads = [*ENCODER_OUTPUTS, *([PHONE_OUTPUT] if self.metadata.phones else [])]

    @property
    def tokens(self) -> tuple[str, ...]:
        return self.metadata.tokens

    def init_cache(self, batch_size: int, left_context: int) -> State:
        """The state before the first chunk, for `batch_size` streams with `left_context` frames."""
        if batch_size < 1 or left_context < 0:
            raise ValueError(f"batch_size {batch_size} must be at least 1, left_context {left_context} at least 0")
        return self.encoder.initial_state(batch_size, left_context)

    def step(self, features: FloatArray, num_valid: IntArray, cache: State) -> StepOutput:
        """Encodes one chunk of every stream of a batch.

        Args:
            features: (N, 4c + 3, 80) float32 log-mel of a chunk of c encoder frames.
            num_valid: (N,) int64, valid feature frames: 4c + 3, or fewer in a stream's last chunk; num_valid // 4
                encoder frames are valid.
            cache: of the same N streams.
        Raises ValueError for arrays of other shapes or dtypes.
        """
        self._check_chunk(features, num_valid)
        self._check_cache(cache, len(features))
        inputs = dict(zip(ENCODER_INPUTS, (features, num_valid), strict=True))
        (log_probs, encoder_out, *phones), cache = self.encoder.run(inputs, self._heads, cache)
        return StepOutput(log_probs, encoder_out, cache, *phones)

    def encode(self, features: FloatArray, chunk_size: int, left_context: int) -> Encoded:
        """Encodes a whole utterance, step by step.

        Args:
            features: (T, 80) float32 log-mel.
            chunk_size: encoder frames per step; the length of the utterance gives full context.
            left_context: encoder frames before a chunk that it attends to.
        """
        meta = self.metadata
        num_out = len(features) // meta.subsampling
        advance = meta.subsampling * chunk_size
        window = advance + meta.feature_overlap
        cache = self.init_cache(1, left_context)
        pieces = []
        for start in range(0, max(meta.subsampling * num_out, 1), advance):
            valid = features[start : start + window]
            chunk = np.zeros((1, window, meta.num_mel_bins), np.float32)
            chunk[0, : len(valid)] = valid
            output = self.step(chunk, np.array([len(valid)], np.int64), cache)
            cache = output.cache
            length = len(valid) // meta.subsampling
            arrays = (output.log_probs, output.encoder_out, output.phone_log_probs)
            pieces.append([array[0, :length] for array in arrays if array is not None])
        return Encoded(*(np.concatenate(arrays) for arrays in zip(*pieces, strict=True)))

    def _check_chunk(self, features: FloatArray, num_valid: IntArray) -> None:
        meta = self.metadata
        batch_size, num_frames, num_bins = features.shape if features.ndim == 3 else (0, 0, 0)
        num_new, rest = divmod(num_frames - meta.feature_overlap, meta.subsampling)
        is_chunk = batch_size >= 1 and num_new >= 1 and rest == 0 and num_bins == meta.num_mel_bins
        if not is_chunk or features.dtype != np.float32:
            raise ValueError(
                f"features are {features.dtype} of shape {features.shape}; expected float32 "
                f"(N, 4c + 3, {meta.num_mel_bins}) with N and c at least 1"
            )
        if num_valid.shape != (batch_size,) or num_valid.dtype != np.int64:
            raise ValueError(
                f"num_valid is {num_valid.dtype} of shape {num_valid.shape}; expected int64 ({batch_size},)"
            )
        if num_valid.min() < 0 or num_valid.max() > num_frames:
            raise ValueError(f"num_valid is {num_valid.tolist()}; expected 0 to {num_frames}")

    def _check_cache(self, cache: State, batch_size: int) -> None:
        states = self.encoder.states
        shapes = [array.shape for array in cache]
        left = 0
        for sizes, shape in zip([state.sizes for state in states], shapes, strict=False):
            if "C" in sizes and len(shape) == len(sizes):
                left = shape[sizes.index("C")]
        expected = [state.shape(batch_size, left) for state in states]
        if shapes != expected:
            raise ValueError(
                f"cache has shapes {_listed(shapes)}; expected {_listed(expected)}: take it from "
                f"init_cache({batch_size}, left_context) or the last step"
            )
        dtypes, wanted = [str(array.dtype) for array in cache], [state.dtype for state in states]
        if dtypes != wanted:
            raise ValueError(f"cache has dtypes {_listed(dtypes)}; expected {_listed(wanted)}")


def _listed(values: Sequence[object]) -> str:
    return ", ".join(map(str, values))
