"""An exported model in ONNX Runtime: the step function and the decoder's scores, on numpy arrays.

`OnnxModel` may be shared by threads. A stream passes its state in and gets it back: a `Cache`, arrays of its own,
or with CUDA the `Row` of a `CacheArena`, which stays in the memory of the device. Imports no PyTorch.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from asr._core import ENCODER_INPUTS, PHONE_OUTPUT
from asr.runtime.cache_arena import CacheArena, Row
from asr.runtime.metadata import MetadataError, ModelMetadata
from asr.runtime.onnx_decoder import FloatArray, IntArray, OnnxDecoder, decoder_signature
from asr.runtime.onnx_session import (
    PROVIDERS,
    ModelError,
    Signature,
    Tensors,
    cannot_run,
    check_signature,
    open_session,
    read_properties,
    run,
)

_BUNDLED = {"int8": "tiny.int8.onnx", "float32": "tiny.onnx"}


class Cache(NamedTuple):
    """Everything a stream remembers of its past. A value: `OnnxModel.step` returns a new one."""

    keys: FloatArray
    """(N, num_layers, left_context, dim) float32, the newest frame last"""
    values: FloatArray
    """(N, num_layers, left_context, dim) float32"""
    num_frames: IntArray
    """(N,) int64, encoder frames processed since the start of each stream"""

    @classmethod
    def stack(cls, caches: Sequence[Cache]) -> Cache:
        """The streams of `caches`, all of one left context, as one batch."""
        return caches[0] if len(caches) == 1 else cls(*(np.concatenate(arrays) for arrays in zip(*caches, strict=True)))

    def of(self, index: int) -> Cache:
        """One stream of the batch, in memory of its own: it does not keep that of the others."""
        return self if len(self.num_frames) == 1 else Cache(*(array[index : index + 1].copy() for array in self))


class StepOutput(NamedTuple):
    """Output for one chunk of c encoder frames."""

    log_probs: FloatArray
    """(N, c, vocab_size)"""
    encoder_out: FloatArray
    """(N, c, dim)"""
    cache: Any
    """The cache for the next chunk; of `step_streams`, the pasts of the streams."""
    phone_log_probs: FloatArray | None
    """(N, c, num_phone_tokens); None of a model without a phone head"""


class Encoded(NamedTuple):
    """Output for a whole utterance of T feature frames."""

    log_probs: FloatArray
    """(T // 4, vocab_size)"""
    encoder_out: FloatArray
    """(T // 4, dim)"""
    phone_log_probs: FloatArray | None = None
    """(T // 4, num_phone_tokens); None of a model without a phone head"""


Past = Cache | Row
"""A stream's cache, in host memory or in an arena of the device."""


def bundled_model(name: str = "int8") -> Path:
    """The model that ships with the package: "int8" (small, for CPUs) or "float32".

    Raises ModelError for another name, and where the package came without the file.
    """
    if name not in _BUNDLED:
        raise ModelError(f"bundled model {name!r} does not exist: choose one of {', '.join(_BUNDLED)}")
    path = Path(__file__).parents[1] / "models" / _BUNDLED[name]
    if not path.is_file():
        raise ModelError(f"this installation lacks the bundled model {path}: install asr-stream again, or name a file")
    return path


def step_signature(metadata: ModelMetadata) -> Signature:
    """Inputs and outputs of a file with this metadata."""
    cache: tuple[str, list[int | str]] = ("tensor(float)", ["N", metadata.num_layers, "C", metadata.dim])
    inputs: Tensors = {
        "x": ("tensor(float)", ["N", "T", metadata.num_mel_bins]),
        "num_valid": ("tensor(int64)", ["N"]),
        "key_cache": cache,
        "value_cache": cache,
        "num_frames": ("tensor(int64)", ["N"]),
    }
    outputs: Tensors = {
        "log_probs": ("tensor(float)", ["N", "(T-3)/4", metadata.vocab_size]),
        "encoder_out": ("tensor(float)", ["N", "(T-3)/4", metadata.dim]),
        **{f"new_{name}": inputs[name] for name in ("key_cache", "value_cache", "num_frames")},
    }
    if metadata.phones:
        outputs[PHONE_OUTPUT] = ("tensor(float)", ["N", "(T-3)/4", metadata.num_phone_tokens])
    return Signature(inputs, outputs)


class OnnxModel:
    """A model file, opened. Immutable; any number of threads may call it at once."""

    metadata: ModelMetadata

    def __init__(
        self, path: str | Path, provider: str = "cpu", num_threads: int = 1, arena: bool | None = None
    ) -> None:
        """Opens the .onnx file at `path`.

        provider: "cpu" or "cuda". num_threads: CPU threads inside one operator (0: all cores). arena: whether streams
        keep their past in a `CacheArena`; by default with CUDA.
        Raises ModelError where the file is missing, damaged or not one of asr-stream, or the provider
        is missing.
        """
        if provider not in PROVIDERS:
            raise ModelError(f"provider {provider!r} is not known: choose one of {', '.join(PROVIDERS)}")
        if num_threads < 0:
            raise ModelError(f"num_threads {num_threads} must be at least 0 (0: all cores)")
        self.path = Path(path)
        if not self.path.is_file():
            raise ModelError(f"there is no model file {self.path}: `asr export` writes one")
        self._new_session = partial(open_session, provider=provider, num_threads=num_threads)
        self._device = provider
        self.has_arena = provider == "cuda" if arena is None else arena
        """Whether streams keep their caches in the device's memory."""
        self._arenas: dict[int, CacheArena] = {}
        self._lock = threading.Lock()
        try:
            data = self.path.read_bytes()
        except OSError as error:
            raise ModelError(f"{self.path} cannot be read: {error.strerror}") from error
        properties = read_properties(data, str(self.path))
        self.format_version = properties.get("format_version", "")
        try:
            self.metadata = ModelMetadata.from_properties(properties)
        except MetadataError as error:
            raise ModelError(f"{self.path}: {error}") from error
        self._session = self._new_session(data, str(self.path))
        signature = step_signature(self.metadata)
        check_signature(self._session, str(self.path), signature)
        self._outputs = list(signature.outputs)
        self._decoder: OnnxDecoder | None = None

    @property
    def tokens(self) -> tuple[str, ...]:
        return self.metadata.tokens

    @property
    def has_decoder(self) -> bool:
        """Whether `score` works."""
        return bool(self.metadata.decoder_onnx)

    @property
    def has_decoder_steps(self) -> bool:
        """Whether the decoder makes steps."""
        return self.has_decoder and self.metadata.num_decoder_layers > 0

    def init_cache(self, batch_size: int, left_context: int) -> Cache:
        """The state before the first chunk: `batch_size` streams, `left_context` frames of their past."""
        if batch_size < 1 or left_context < 0:
            raise ValueError(f"batch_size {batch_size} must be at least 1, left_context {left_context} at least 0")
        shape = (batch_size, self.metadata.num_layers, left_context, self.metadata.dim)
        return Cache(np.zeros(shape, np.float32), np.zeros(shape, np.float32), np.zeros(batch_size, np.int64))

    def step(self, features: FloatArray, num_valid: IntArray, cache: Cache) -> StepOutput:
        """One chunk of every stream of a batch.

        Args:
            features: (N, 4c + 3, 80) float32 log-mel of a chunk of c encoder frames.
            num_valid: (N,) int64, feature frames that are real: 4c + 3 but for a stream's last, ragged
                chunk, of which num_valid // 4 encoder frames are valid.
            cache: of the same N streams.
        Raises ValueError for arrays of other shapes or dtypes.
        """
        self._check_chunk(features, num_valid)
        self._check_cache(cache, len(features))
        feeds = dict(zip(ENCODER_INPUTS, (features, num_valid, *cache), strict=True))
        outputs = run(self._session, self._outputs, feeds, str(self.path))
        phones = outputs[5] if self.metadata.phones else None
        return StepOutput(outputs[0], outputs[1], Cache(*outputs[2:5]), phones)

    def begin(self, left_context: int) -> Past:
        """The cache of a stream before its first chunk. ValueError for a negative `left_context`."""
        if not self.has_arena or left_context < 1:
            return self.init_cache(1, left_context)
        with self._lock:
            if left_context not in self._arenas:
                shape = (self.metadata.num_layers, left_context, self.metadata.dim)
                open_graph = partial(self._new_session, name="the arena of caches")
                self._arenas[left_context] = CacheArena(self._session, open_graph, self._device, shape)
            arena = self._arenas[left_context]
        return arena.begin()

    def step_streams(self, features: FloatArray, num_valid: IntArray, pasts: Sequence[Past]) -> StepOutput:
        """`step` for streams that keep their pasts one by one: from `begin`, all of one left context, or the last step.

        Do not use the `pasts` again. Raises ValueError as `step` does.
        """
        caches = [past for past in pasts if isinstance(past, Cache)]
        if caches:
            output = self.step(features, num_valid, Cache.stack(caches))
            return output._replace(cache=[output.cache.of(index) for index in range(len(pasts))])
        self._check_chunk(features, num_valid)
        rows = [past for past in pasts if isinstance(past, Row)]
        try:
            arrays = rows[0].arena.step(features, num_valid, rows)
        except Exception as error:
            raise cannot_run(str(self.path), error) from error
        return StepOutput(arrays[0], arrays[1], pasts, arrays[2] if self.metadata.phones else None)

    def encode(self, features: FloatArray, chunk_size: int, left_context: int) -> Encoded:
        """A whole utterance, step by step.

        Args:
            features: (T, 80) float32 log-mel.
            chunk_size: encoder frames per step; as many as the utterance has give it full context.
            left_context: encoder frames that a chunk sees before it.
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

    def score(self, tokens: Sequence[Sequence[int]], encoder_out: FloatArray) -> FloatArray:
        """Log-probability that the attention decoder gives to whole sentences, their end included.

        Args:
            tokens: N hypotheses, token ids without sentence marks.
            encoder_out: (T, dim) float32, valid frames only.
        Returns:
            (N,) float32.
        Raises ValueError for ids outside the vocabulary or another shape; ModelError as `decoder` does.
        """
        return self.decoder.score(tokens, encoder_out)

    @property
    def decoder(self) -> OnnxDecoder:
        """The attention decoder; ModelError for a model without one."""
        # Opened when it is first needed: greedy and beam search never do.
        with self._lock:
            if self._decoder is None:
                if not self.has_decoder:
                    raise ModelError(f"{self.path} holds no decoder, so that nothing can be rescored: use search beam")
                data, name = self.metadata.decoder_onnx, f"the decoder in {self.path}"
                read_properties(data, name)  # refuses what may harm ONNX Runtime
                session = self._new_session(data, name, arena=self._device != "cpu")
                check_signature(session, name, decoder_signature(self.metadata))
                self._decoder = OnnxDecoder(session, name, self.metadata)
            return self._decoder

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

    def _check_cache(self, cache: Cache, batch_size: int) -> None:
        meta = self.metadata
        shape = (batch_size, meta.num_layers, cache.keys.shape[2] if cache.keys.ndim == 4 else 0, meta.dim)
        if (cache.keys.shape, cache.values.shape, cache.num_frames.shape) != (shape, shape, (batch_size,)):
            raise ValueError(
                f"cache has shapes {cache.keys.shape}, {cache.values.shape} and {cache.num_frames.shape}; "
                f"expected {shape} twice and ({batch_size},): take it from "
                f"init_cache({batch_size}, left_context) or the last step"
            )
        dtypes = [str(array.dtype) for array in cache]
        if dtypes != ["float32", "float32", "int64"]:
            raise ValueError(f"cache has dtypes {', '.join(dtypes)}; expected float32, float32, int64")
