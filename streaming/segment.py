"""A segment, audio without a gap, and the network that it needs: the `asr._core.Segment` of a stream, and its caches.

All of recognition but the network is in C++ (csrc/segment.h): features, chunks, searches, endpoints, words. It asks for
work, and the answer is computed here.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from asr import _core
from asr.search import Word
from asr.streaming.events import Error, Event, Final, Partial

if TYPE_CHECKING:
    from asr.onnx_model import Cache
    from asr.streaming.recognizer import Recognizer


class Segment:
    """State of one segment. Events are appended to `events`."""

    def __init__(self, recognizer: Recognizer, start_s: float, events: list[Event]) -> None:
        """`start_s`: seconds of the stream before this segment's first sample."""
        self._recognizer = recognizer
        self._events = events
        self.core = _core.Segment(recognizer.segment_options, start_s)
        self._caches: dict[bool, Cache] = {}
        """Of the stream, and (True) of the second pass over an utterance."""

    def accept(self, samples: np.ndarray) -> int:
        """Continue with `samples`, (num_samples,) float32 in ±1 or int16, 16 kHz, up to the end of a chunk.

        Returns how many were used: all of them, or as many as completed the chunk that is now decoded.
        """
        used = self.core.accept(samples)
        self._work()
        return used

    def finish(self) -> None:
        """Decode what is left, ragged as it is, and end the utterance."""
        self.core.finish()
        self._work()

    def add_nonfinite(self, count: int) -> None:
        """Say that `count` samples were not finite, and were replaced before they came here."""
        self.core.add_nonfinite(count)

    def _work(self) -> None:
        onnx = self._recognizer.onnx
        while (work := self.core.work()) is not None:
            if isinstance(work, _core.EncoderStep):
                new = onnx.init_cache(1, self._recognizer.left_context) if work.begins else None
                cache = new or self._caches[work.second_pass]
                log_probs, encoder_out, self._caches[work.second_pass] = onnx.step(
                    work.features[None], np.array([work.num_valid], np.int64), cache
                )
                self.core.stepped(log_probs[0], encoder_out[0])
            else:
                self.core.scored(onnx.score(work.tokens, work.encoder_out).tolist())
        self._caches.pop(True, None)
        for type, text, start, end, words, num_stable, endpoint in self.core.take_events():
            span = (text, start, end, tuple(Word(*word) for word in words))
            if type == "partial":
                self._events.append(Partial(*span, num_stable=num_stable))
            elif type == "final":
                self._events.append(Final(*span, endpoint=endpoint))
            else:
                self._events.append(Error(*span))
