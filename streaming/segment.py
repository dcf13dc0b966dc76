"""A segment, audio without a gap, and the network that it needs: the `asr._core.Segment` of a stream, and its caches.

All of recognition but the network is in C++ (csrc/segment.h): features, chunks, searches, endpoints, words. It asks for
work, and `compute` does the work: of one segment, or of many in one run of the network.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence
from typing import TYPE_CHECKING

import numpy as np

from asr import _core
from asr.features import FEATURE_OVERLAP, SUBSAMPLING
from asr.runtime.onnx_model import Past
from asr.runtime.search import Word
from asr.streaming.events import Error, Event, Final, Partial

if TYPE_CHECKING:
    from asr.streaming.recognizer import Recognizer

COMMON_FRAMES = 200
"""2 s. Longer second passes than 30 s go in steps of 30 s, a multiple of it: only the last step is ever filled up."""


class Segment:
    """State of one segment. Events are appended to `events`.

    `accept` and `finish` yield the segment itself wherever the network is needed: `compute` it before going on.
    """

    def __init__(self, recognizer: Recognizer, start_s: float, events: list[Event]) -> None:
        """`start_s`: seconds of the stream before this segment's first sample."""
        self.recognizer = recognizer
        self.start_s = start_s
        self.core = _core.Segment(recognizer.segment_options, start_s)
        self.work: _core.EncoderStep | _core.DecoderScoring | None = None
        """What the network is needed for."""
        self.pasts: dict[bool, Past] = {}
        """Of the stream, and (True) of the second pass over an utterance."""
        self._events = events

    def accept(self, samples: np.ndarray) -> Iterator[Segment]:
        """Continue with `samples`, (num_samples,) float32 in ±1 or int16, 16 kHz."""
        while len(samples):
            samples = samples[self.core.accept(samples) :]
            yield from self._go_on()

    def finish(self) -> Iterator[Segment]:
        """Decode what is left, ragged as it is, and end the utterance."""
        self.core.finish()
        yield from self._go_on()

    def add_nonfinite(self, count: int) -> None:
        """Say that `count` samples were not finite, and were replaced before they came here."""
        self.core.add_nonfinite(count)

    @property
    def kind(self) -> Hashable:
        """Segments that wait for work of equal kind can be computed together."""
        model = self.recognizer.onnx
        if isinstance(self.work, _core.EncoderStep) and model.batch_invariant:
            return id(model), self.recognizer.left_context, self.num_frames
        return id(self)

    @property
    def num_frames(self) -> int:
        """Feature frames that the step under way is run with: on a GPU, which takes as long for one utterance as for
        many, second passes are filled up to a common length. Not in int8, where what is filled in would count."""
        step, model = self.work, self.recognizer.onnx
        assert isinstance(step, _core.EncoderStep)
        if not (step.second_pass and model.has_arena and model.batch_invariant):
            return step.num_frames
        return -(-(step.num_frames - FEATURE_OVERLAP) // COMMON_FRAMES) * COMMON_FRAMES + FEATURE_OVERLAP

    def _go_on(self) -> Iterator[Segment]:
        while (work := self.core.work()) is not None:
            self.work = work
            yield self
        self.pasts.pop(True, None)
        for type, text, start, end, words, num_stable, endpoint in self.core.take_events():
            span = (text, start, end, tuple(Word(*word) for word in words))
            if type == "partial":
                self._events.append(Partial(*span, num_stable=num_stable))
            elif type == "final":
                self._events.append(Final(*span, endpoint=endpoint))
            else:
                self._events.append(Error(*span))


def compute(segments: Sequence[Segment]) -> None:
    """Does the work of `segments`, all of one `kind`, in one run of the network."""
    first = segments[0]
    onnx = first.recognizer.onnx
    if isinstance(first.work, _core.DecoderScoring):
        first.core.scored(onnx.score(first.work.tokens, first.work.encoder_out).tolist())
        return
    steps = [segment.work for segment in segments if isinstance(segment.work, _core.EncoderStep)]
    pasts = [
        onnx.begin(segment.recognizer.left_context) if step.begins else segment.pasts[step.second_pass]
        for segment, step in zip(segments, steps, strict=True)
    ]
    features = np.zeros((len(steps), first.num_frames, onnx.metadata.num_mel_bins), np.float32)
    for filled, step in zip(features, steps, strict=True):
        filled[: step.num_frames] = step.features
    num_valid = np.array([step.num_valid for step in steps], np.int64)
    output = onnx.step_streams(features, num_valid, pasts)
    for index, (segment, step) in enumerate(zip(segments, steps, strict=True)):
        segment.pasts[step.second_pass] = output.cache[index]
        length = step.num_frames // SUBSAMPLING
        heads = (output.log_probs, output.encoder_out, output.phone_log_probs)
        segment.core.stepped(*(None if array is None else array[index, :length] for array in heads))
