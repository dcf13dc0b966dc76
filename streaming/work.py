"""The network's work for streams: what `asr._core.Stream` asks for, computed for one or many streams in one run."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from asr import _core
from asr.features import FEATURE_OVERLAP, SUBSAMPLING

if TYPE_CHECKING:
    from asr.streaming.recognizer import Recognizer
    from asr.streaming.stream import Stream

COMMON_FRAMES = 200
"""2 s. Second passes of more than 30 s run in steps of 30 s, a multiple of it, so only the last step is padded."""


WorkOfCore = _core.EncoderStep | _core.DecoderScoring | _core.DecoderStep | _core.PunctuationUnits | _core.PieceTree


@dataclass(frozen=True, eq=False)
class Work:
    """A run of the network that `stream` waits for: `work`, with the model of `recognizer`."""

    stream: Stream
    recognizer: Recognizer
    work: WorkOfCore

    @property
    def kind(self) -> Hashable:
        """Work of equal kind can be computed together."""
        model = self.recognizer.onnx
        if isinstance(self.work, _core.EncoderStep):
            return id(model), self.recognizer.left_context, self.num_frames
        return id(self.stream)

    @property
    def num_frames(self) -> int:
        """Feature frames of the step. On a GPU, which takes as long for one utterance as for many, second passes are
        padded to a common length."""
        step, model = self.work, self.recognizer.onnx
        assert isinstance(step, _core.EncoderStep)
        if not (step.view and model.provider != "cpu"):
            return step.num_frames
        return -(-(step.num_frames - FEATURE_OVERLAP) // COMMON_FRAMES) * COMMON_FRAMES + FEATURE_OVERLAP


def compute(batch: Sequence[Work]) -> None:
    """Does the work of `batch`, all of one `kind`, in one run of the network, and answers the streams.

    Never raises: a stream whose encoder failed raises in its next call.
    """
    first = batch[0]
    try:
        if isinstance(first.work, _core.DecoderScoring):
            scores = first.recognizer.onnx.score(first.work.tokens, first.work.encoder_out)
            first.stream.answer(_core.Stream.scored, scores.tolist())
        elif isinstance(first.work, _core.DecoderStep):
            _decode(first, first.work)
        elif isinstance(first.work, _core.PieceTree):
            assert first.recognizer.neural_model is not None
            first.stream.answer(_core.Stream.lm_scored, first.recognizer.neural_model.score(first.work).tolist())
        elif isinstance(first.work, _core.PunctuationUnits):
            assert first.recognizer.punctuator is not None
            first.stream.answer(_core.Stream.punctuated, *first.recognizer.punctuator.answer_units(first.work))
        else:
            _compute_steps([(work, work.work) for work in batch if isinstance(work.work, _core.EncoderStep)])
    except Exception as error:
        for work in batch:
            work.stream.not_answered(error)


def _decode(work: Work, step: _core.DecoderStep) -> None:
    decoder, stream = work.recognizer.onnx.decoder, work.stream
    if step.encoder_out is not None:
        stream.decoder_cache = decoder.begin(step.encoder_out)
    assert stream.decoder_cache is not None
    log_probs, stream.decoder_cache = decoder.step(step.tokens, stream.decoder_cache.select(step.parents))
    stream.answer(_core.Stream.decoded, np.ascontiguousarray(log_probs))


def _compute_steps(batch: Sequence[tuple[Work, _core.EncoderStep]]) -> None:
    first = batch[0][0]
    onnx = first.recognizer.onnx
    caches = [
        onnx.init_cache(1, work.recognizer.left_context) if step.begins else work.stream.caches[step.view]
        for work, step in batch
    ]
    features = np.zeros((len(batch), first.num_frames, onnx.metadata.num_mel_bins), np.float32)
    for filled, (_, step) in zip(features, batch, strict=True):
        filled[: step.num_frames] = step.features
    num_valid = np.array([step.num_valid for _, step in batch], np.int64)
    output = onnx.step(features, num_valid, onnx.stacked(caches))
    caches = onnx.split(output.cache)
    heads = (output.log_probs, output.encoder_out, output.phone_log_probs)
    for index, (work, step) in enumerate(batch):
        length = step.num_frames // SUBSAMPLING
        result = [None if head is None else head[index, :length] for head in heads]
        work.stream.caches[step.view] = caches[index]
        if step.ends:
            del work.stream.caches[step.view]
        work.stream.answer(_core.Stream.stepped, *result)
