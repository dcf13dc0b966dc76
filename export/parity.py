"""The parity gate: compares the exported file with PyTorch under streaming conditions.

Both step through the same streams, each with its own cache, for at least 50 chunks, with several batch sizes, chunks
and left contexts. Streams of one batch end at different frames, and some end before others. Then both score sentences
with the decoder, as a whole and token by token.

float32 must match number by number a model whose matrices are rounded to what the file stores (float16). int8 cannot,
because its activations are rounded to 256 levels. For int8 the gate bounds the Kullback-Leibler divergence of the
posteriors and the relative error of the encoder's output; the latter because an untrained model has near-uniform
posteriors that hide damage. These bounds tell broken weights from rounding. The graph itself is checked in float32
before it is quantized. `asr evaluate` measures the cost of int8 in word errors.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import torch

from asr.export.graph import ExportError
from asr.features import FEATURE_OVERLAP, NUM_MEL_BINS, SUBSAMPLING
from asr.model.model import AsrModel
from asr.runtime.network import FloatArray
from asr.runtime.onnx_decoder import OnnxDecoder
from asr.runtime.onnx_model import OnnxModel
from asr.tokenizer import SOS_EOS_ID


class Case(NamedTuple):
    batch_size: int
    chunk_size: int
    left_context: int
    num_chunks: int


CASES = (
    Case(1, 16, 64, 50),
    Case(3, 8, 32, 50),
    Case(2, 4, 0, 50),
    Case(2, 1, 7, 60),
    Case(1, 40, 128, 50),
)
"""Chunks from 40 ms to 1.6 s, with and without left context. A left context of 128 frames fills only after several
chunks."""

MAX_ERROR = 1e-3
"""float32: largest absolute difference of log-probabilities, encoder output and cache."""
MAX_DIVERGENCE = 0.08
"""int8: mean KL(PyTorch || file) per frame, in nats."""
MAX_RELATIVE_ERROR = 0.1
"""int8: norm of the difference of the encoder's outputs, relative to their norm."""
MAX_SCORE_ERROR = {"none": MAX_ERROR, "int8": 0.2}
"""Difference of a sentence's score, in nats per token."""


@dataclass(frozen=True)
class ParityReport:
    """Differences between the files and PyTorch."""

    num_chunks: int
    max_error: float
    """Largest absolute difference of log-probabilities, encoder output and cache."""
    divergence: float
    """Mean KL divergence of posteriors, in nats per frame, of the head with the larger one."""
    agreement: float
    """Share of frames with the same best token, of the head with the smaller one."""
    relative_error: float
    """Largest relative error of the encoder's output."""
    score_error: float
    """Largest difference of a decoder score, per token."""
    step_error: float
    """The same for scores summed over the decoder's steps."""


def check_parity(model: AsrModel, onnx_model: OnnxModel, decoder: OnnxDecoder) -> ParityReport:
    """Compares the files with `model` on the CPU. Raises ExportError if they differ too much."""
    torch_streams, onnx_streams = [], []
    max_error = 0.0
    threads = torch.get_num_threads()
    torch.set_num_threads(1)  # steps are too short to share; next to a training run, sharing is ten times slower
    try:
        for seed, case in enumerate(CASES):
            features, num_frames = speech_like(model, case, seed)
            expected, cache = step_torch(model, features, num_frames, case)
            found, onnx_cache = step_onnx(onnx_model, features, num_frames, case)
            torch_streams += expected
            onnx_streams += found
            for a, b in zip((*_flat(expected), *cache), (*_flat(found), *onnx_cache), strict=True):
                max_error = float(np.maximum(max_error, np.abs(a - b).max(initial=0.0)))  # `max` would drop NaN
            counts = [pair for pair in zip(cache, onnx_cache, strict=True) if pair[0].dtype == np.int64]
            if not all(np.array_equal(*pair) for pair in counts):
                raise ExportError("the exported graph counts differently from PyTorch; nothing was written")
        score_error, step_error = _score_errors(model, decoder, torch_streams[0][1])
    except RuntimeError as error:  # errors of ONNX Runtime derive from it, too
        raise ExportError(f"the exported graph does not run: {str(error).splitlines()[0]}") from error
    finally:
        torch.set_num_threads(threads)
    p, q = (np.concatenate([s[1] for s in streams]) for streams in (torch_streams, onnx_streams))
    heads = [0] if len(torch_streams[0]) == 2 else [0, 2]
    divergence, agreement = 0.0, 1.0
    for head in heads:
        log_p, log_q = (np.concatenate([s[head] for s in streams]) for streams in (torch_streams, onnx_streams))
        divergence = float(np.maximum(divergence, (np.exp(log_p) * (log_p - log_q)).sum(-1).mean()))
        agreement = min(agreement, float((log_p.argmax(-1) == log_q.argmax(-1)).mean()))
    report = ParityReport(
        num_chunks=sum(case.num_chunks for case in CASES),
        max_error=max_error,
        divergence=divergence,
        agreement=agreement,
        relative_error=float(np.linalg.norm(p - q) / np.linalg.norm(p)),
        score_error=score_error,
        step_error=step_error,
    )
    _check(report, onnx_model.metadata.quantization)
    return report


def _check(report: ParityReport, quantization: str) -> None:
    bounds = [
        (f"decoder {name} error per token", error, MAX_SCORE_ERROR[quantization])
        for name, error in (("score", report.score_error), ("step", report.step_error))
    ]
    if quantization == "none":
        bounds.append(("error", report.max_error, MAX_ERROR))
    else:
        bounds.append(("divergence of posteriors", report.divergence, MAX_DIVERGENCE))
        bounds.append(("relative error of the encoder output", report.relative_error, MAX_RELATIVE_ERROR))
    hold(bounds, quantization != "none")


def hold(bounds: Sequence[tuple[str, float, float]], int8: bool) -> None:
    """Raises ExportError for the first (name, value, bound) whose value exceeds its bound."""
    for name, value, bound in bounds:
        if not value <= bound:  # NaN fails too
            raise ExportError(
                f"the exported graph differs from PyTorch: {name} {value:.3g}, allowed {bound:g}; "
                "nothing was written" + (". Export without --int8" if int8 else "")
            )


def speech_like(model: AsrModel, case: Case, seed: int) -> tuple[FloatArray, npt.NDArray[np.int64]]:
    """Features (N, T, 80) float32 around the model's mean, and the number of frames (N,) of each stream.

    They are noise that is smooth over 80 ms and 5 bins, like speech, with pauses. The first stream ends in the last
    chunk; each following stream is a third shorter, by a number of frames that is not a multiple of the chunk.
    """
    random = np.random.default_rng(seed)
    window = SUBSAMPLING * case.chunk_size
    total = window * case.num_chunks + FEATURE_OVERLAP
    smooth = random.standard_normal((case.batch_size, total + 8, NUM_MEL_BINS + 5))
    smooth = np.lib.stride_tricks.sliding_window_view(smooth, (1, 8, 5))[:, :total, :NUM_MEL_BINS].mean((-1, -2, -3))
    smooth *= np.sqrt(8 * 5)
    pause = np.sin(np.arange(total) / 30 + seed) > 0.8
    smooth[:, pause] = 0.1 * smooth[:, pause] - 1.5
    mean, std = model.encoder.mean.numpy(), 1.0 / model.encoder.inverse_std.numpy()
    num_frames = [int((total - window // 2) * (2 / 3) ** row) + row for row in range(case.batch_size)]
    return (mean + std * smooth).astype(np.float32), np.array(num_frames, np.int64)


Stream = list[FloatArray]
"""Log-probabilities (T', V), encoder output (T', dim), and any phone log-probabilities of one stream."""


@torch.no_grad()
def step_torch(
    model: AsrModel, features: FloatArray, num_frames: npt.NDArray[np.int64], case: Case
) -> tuple[list[Stream], tuple[npt.NDArray, ...]]:
    """Steps through PyTorch: the outputs of each stream, and the last cache."""
    cache = model.encoder.init_cache(case.batch_size, case.left_context)
    tensor = torch.from_numpy
    return step_through(lambda x, n, cache: model.step(tensor(x), tensor(n), cache), cache, features, num_frames, case)


def step_onnx(
    onnx_model: OnnxModel, features: FloatArray, num_frames: npt.NDArray[np.int64], case: Case
) -> tuple[list[Stream], tuple[npt.NDArray, ...]]:
    """Steps through the file: the outputs of each stream, and the last cache."""
    cache = onnx_model.init_cache(case.batch_size, case.left_context)
    return step_through(onnx_model.step, cache, features, num_frames, case)


def step_through(
    step: Callable[..., Any], cache: Any, features: FloatArray, num_frames: npt.NDArray[np.int64], case: Case
) -> tuple[list[Stream], tuple[npt.NDArray, ...]]:
    """The same for any `step(chunk, num_valid, cache)` that returns the same as AsrModel.step."""
    pieces = []
    for chunk, num_valid in chunks(features, num_frames, case):
        log_probs, encoder_out, cache, phones = step(chunk, num_valid, cache)
        arrays = [np.asarray(array) for array in (log_probs, encoder_out, phones) if array is not None]
        pieces.append((arrays, num_valid))
    return _join(pieces), tuple(np.asarray(array) for array in cache)


def whole_lengths(features: FloatArray) -> npt.NDArray[np.int64]:
    """The number of frames (N,) of streams that are as long as their features (N, T, 80)."""
    return np.full(len(features), features.shape[1], np.int64)


def chunks(
    features: FloatArray, num_frames: npt.NDArray[np.int64], case: Case
) -> list[tuple[FloatArray, npt.NDArray[np.int64]]]:
    advance = SUBSAMPLING * case.chunk_size
    starts = range(0, advance * case.num_chunks, advance)
    window = advance + FEATURE_OVERLAP
    return [(features[:, s : s + window].copy(), np.clip(num_frames - s, 0, window)) for s in starts]


def _join(pieces: list[tuple[list[FloatArray], npt.NDArray[np.int64]]]) -> list[Stream]:
    streams = []
    for row in range(len(pieces[0][1])):
        valid = [[array[row, : n[row] // SUBSAMPLING] for array in arrays] for arrays, n in pieces]
        streams.append([np.concatenate(parts) for parts in zip(*valid, strict=True)])
    return streams


def _flat(streams: list[Stream]) -> list[FloatArray]:
    return [array for stream in streams for array in stream]


@torch.no_grad()
def _score_errors(model: AsrModel, decoder: OnnxDecoder, encoder_out: FloatArray) -> tuple[float, float]:
    """Errors of the sentence scores, for whole sentences and token by token."""
    random = np.random.default_rng(0)
    vocab_size = len(decoder.metadata.tokens)
    worst = np.zeros(2)
    for lengths, num_frames in (([12], 40), ([30, 0, 7, 30, 1, 22, 90, 5], 300), ([0], 1)):
        tokens = [random.integers(3, vocab_size, length).tolist() for length in lengths]
        memory = encoder_out[:num_frames]
        found = np.stack([decoder.score(tokens, memory), step_scores(decoder, tokens, memory)], axis=1)
        for row, scores in zip(tokens, found, strict=True):
            # PyTorch scores one sentence at a time, because a score must not depend on the other hypotheses of the
            # batch.
            ids, count = torch.tensor([row or [0]]), torch.tensor([len(row)])
            frames = torch.from_numpy(memory)[None]
            expected = model.decoder.score(ids, count, frames, torch.tensor([len(memory)]))
            worst = np.maximum(worst, abs(float(expected) - scores) / (len(row) + 1))
    return float(worst[0]), float(worst[1])


def step_scores(decoder: OnnxDecoder, tokens: Sequence[Sequence[int]], encoder_out: FloatArray) -> FloatArray:
    """`OnnxDecoder.score` step by step: all sentences at once, reordered at each step. Each one stops at its own
    end."""
    scores = np.zeros(len(tokens), np.float32)
    rows = np.arange(len(tokens))
    cache = decoder.begin(encoder_out).select([0] * len(tokens))
    previous = np.full(len(tokens), SOS_EOS_ID)
    for position in range(max(map(len, tokens)) + 1):
        log_probs, cache = decoder.step(previous, cache)
        ordered = [tokens[row] for row in rows.tolist()]
        following = np.array([[*each, SOS_EOS_ID, 0][min(position, len(each) + 1)] for each in ordered])
        goes_on = position <= np.array([len(each) for each in ordered])
        scores[rows] += np.where(goes_on, log_probs[np.arange(len(rows)), following], 0.0)
        rows, previous, cache = rows[::-1], following[::-1], cache.select(np.arange(len(rows))[::-1])
    return scores
