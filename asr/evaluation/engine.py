"""Engines of `asr evaluate`: PyTorch for trained weights, ONNX Runtime for an exported file.

PyTorch runs whole utterances under the chunk mask, in batches; parity tests show that streaming gives the same numbers.
An .onnx file is stepped chunk by chunk with its cache on one thread, as in an app; full context is one chunk as long as
the utterance.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from functools import cached_property
from pathlib import Path

import numpy as np
import torch

from asr.model.decoder import Decoder, DecoderCache
from asr.runtime.joint_search import StepDecoder
from asr.runtime.metadata import ModelMetadata
from asr.runtime.network import FloatArray, IntArray
from asr.runtime.onnx_decoder import OnnxDecoder, decoder_of
from asr.runtime.onnx_model import Encoded, OnnxModel
from asr.training.batches import padded
from asr.training.checkpoint import load_pretrained


class TorchEngine:
    """PyTorch: the full pass under the chunk mask."""

    batched = True
    """Whether batching utterances saves time."""

    def __init__(self, source: str | Path, device: str) -> None:
        if device == "cuda" and not torch.cuda.is_available():
            raise ValueError("--device cuda: PyTorch finds no CUDA device; use --device cpu")
        pretrained = load_pretrained(source)
        self.tokens = tuple(pretrained.tokenizer.tokens)
        self.rescore_ctc_weight, self.lm_weights = ModelMetadata.rescore_ctc_weight, ModelMetadata.lm_weights
        self._device = torch.device(device)
        self._model = pretrained.model().to(self._device)
        self.phones = self._model.config.phones
        """Names of the phones of `Encoded.phone_log_probs`; empty without a phone head."""

    def encode(self, features: Sequence[FloatArray], chunk_size: int, left_context: int) -> list[Encoded]:
        """features: (T, 80) float32 each; chunk_size in encoder frames, 0 for the whole utterance."""
        num_frames = torch.tensor([len(f) for f in features])
        rows = torch.nn.utils.rnn.pad_sequence([torch.from_numpy(f) for f in features], batch_first=True)
        with torch.no_grad():
            log_probs, encoder_out, lengths = self._model(
                rows.to(self._device), num_frames.to(self._device), chunk_size, left_context
            )
            arrays = [log_probs, encoder_out]
            if self.phones:
                arrays.append(self._model.phone_log_probs(encoder_out))
        outputs = zip(*(a.cpu().numpy() for a in arrays), lengths.tolist(), strict=True)
        return [Encoded(*(a[:length] for a in rows)) for *rows, length in outputs]

    def score(self, tokens: list[list[int]], encoder_out: FloatArray) -> FloatArray:
        """Decoder scores (N,) of N token sequences for one utterance."""
        rows, lengths = padded(tokens)
        memory = torch.from_numpy(encoder_out).expand(len(tokens), -1, -1)
        inputs = (rows.clamp(min=0), lengths, memory, torch.full_like(lengths, len(encoder_out)))
        with torch.no_grad():
            return self._model.decoder.score(*(t.to(self._device) for t in inputs)).cpu().numpy()

    def step_decoder(self) -> StepDecoder:
        """The decoder's steps. Raises ValueError for a file without a decoder beside it."""
        return TorchDecoder(self._model.decoder, self._device)

    def seconds(self) -> float:
        """The time that measures the work, in seconds."""
        # On a CPU, the time of all threads counts. The work of a GPU is only visible in wall-clock time.
        return time.process_time() if self._device.type == "cpu" else time.perf_counter()


class TorchDecoder:
    """The attention decoder of a checkpoint, for step-by-step searches."""

    def __init__(self, decoder: Decoder, device: torch.device) -> None:
        self._decoder = decoder
        self._device = device

    @torch.no_grad()
    def begin(self, encoder_out: FloatArray) -> DecoderCache:
        # Without audio the decoder attends to one frame of zeros.
        memory = encoder_out if len(encoder_out) else np.zeros((1, encoder_out.shape[1]), np.float32)
        return self._decoder.init_cache(torch.from_numpy(memory)[None].to(self._device))

    @torch.no_grad()
    def step(self, tokens: IntArray, cache: DecoderCache) -> tuple[FloatArray, DecoderCache]:
        logits, cache = self._decoder.step(torch.from_numpy(tokens)[:, None].to(self._device), cache)
        return logits[:, 0].float().log_softmax(-1).cpu().numpy(), cache


class OnnxEngine:
    """ONNX Runtime: step by step with the cache."""

    batched = False

    def __init__(self, path: Path, device: str) -> None:
        self._model = OnnxModel(path, provider=device)
        self._device = device
        self.tokens = self._model.tokens
        self.phones = self._model.metadata.phones
        self.rescore_ctc_weight = self._model.metadata.rescore_ctc_weight
        self.lm_weights = self._model.metadata.lm_weights

    def encode(self, features: Sequence[FloatArray], chunk_size: int, left_context: int) -> list[Encoded]:
        return [self._encode(f, chunk_size, left_context) for f in features]

    def _encode(self, features: FloatArray, chunk_size: int, left_context: int) -> Encoded:
        if chunk_size == 0:
            chunk_size, left_context = max(len(features) // self._model.metadata.subsampling, 1), 0
        return self._model.encode(features, chunk_size, left_context)

    def score(self, tokens: list[list[int]], encoder_out: FloatArray) -> FloatArray:
        return self._decoder.score(tokens, encoder_out)

    def step_decoder(self) -> StepDecoder:
        return self._decoder

    @cached_property
    def _decoder(self) -> OnnxDecoder:
        return decoder_of(self._model)

    def seconds(self) -> float:
        return time.thread_time() if self._device == "cpu" else time.perf_counter()


Engine = TorchEngine | OnnxEngine


def open_engine(path: str | Path, device: str = "cpu") -> Engine:
    """Opens an .onnx file, or a source of `load_pretrained`."""
    if Path(path).suffix == ".onnx":
        return OnnxEngine(Path(path), device)
    return TorchEngine(path, device)
