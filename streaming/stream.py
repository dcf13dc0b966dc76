"""A stream: one source of audio, of any sample rate, with a clock that lost audio cannot set wrong.

All of recognition but the network is in C++ (csrc/stream.h). The owner of a stream runs the network where the stream
waits for it (`pending`): a stream by itself does so at once; a server does so for many together (`work.compute`).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from asr import _core
from asr._core import StreamFailed
from asr.runtime.onnx_model import Cache
from asr.streaming.events import Alternative, Error, Event, Final, Gap, Partial, to_words
from asr.streaming.resampler import SAMPLE_RATE, check_sample_rate, mono
from asr.streaming.work import Work, compute

if TYPE_CHECKING:
    from asr.streaming.recognizer import Recognizer


class Stream:
    """Takes audio, gives events. Made by `Recognizer.stream`; serves one thread at a time.

    The text depends on the audio only, not on how it was cut into calls.

    A network that cannot be run raises `StreamFailed`, whose cause is the network's error. Every later call but
    `events` raises it again; events from before it can still be taken.
    """

    def __init__(self, recognizer: Recognizer, deferred: bool = False) -> None:
        """deferred: only queue what is accepted; the owner calls `pending` and has what it gives computed."""
        self._core = _core.Stream(recognizer.segment_options)
        self._recognizers = deque([recognizer])
        """The one in use, and those that were changed to since."""
        self._num_changes = 0
        self._deferred = deferred
        self._events: list[Event] = []
        self._cause: Exception | None = None
        self.caches: dict[int, Cache] = {}
        """Of the encoder: of the stream (0), and of the views of the second pass."""

    @property
    def sample_offset(self) -> int:
        """Position of the next sample in the stream, in samples of 16 kHz, gaps included."""
        return self._core.sample_offset

    def accept_waveform(
        self, samples: npt.NDArray[np.float32] | npt.NDArray[np.int16], sample_rate: int = SAMPLE_RATE
    ) -> None:
        """Continue with `samples`, shape (num_samples,), float32 in ±1 or int16, of any length.

        Shape (num_samples, num_channels), as soundfile.read gives it, is averaged over its channels.

        `sample_rate` in Hz, in [1000, 768000]; anything but 16000 is resampled.
        Samples that are not finite, or beyond 1e9, count as silence; an Error event says so, once until the next gap.
        Loudness is not evened out: speech at a thousandth of full scale is silence, and clipped speech is understood
        as far as it goes. A constant offset does not matter. Whatever comes, what follows it is understood.
        Raises ValueError for another shape, dtype or rate, and after `finish`.
        """
        samples = mono(samples)
        check_sample_rate(sample_rate)
        audio: np.ndarray = np.ascontiguousarray(samples)
        # In seconds, so that the core has to copy little of what waits.
        for begin in range(0, len(audio) or 1, sample_rate):
            self._do(self._core.accept, audio[begin : begin + sample_rate], sample_rate)

    def gap(self, num_samples: int, sample_rate: int = SAMPLE_RATE) -> None:
        """Report that `num_samples` of audio were lost here: ends the utterance, reports a Gap. 0 does nothing.

        Raises ValueError for a number outside [0, 2**48], another rate, and after `finish`.
        """
        check_sample_rate(sample_rate)
        if not 0 <= num_samples <= 2**48:
            raise ValueError(f"num_samples is {num_samples}; it must be in [0, 2**48]")
        self._do(self._core.gap, num_samples, sample_rate)

    def end_utterance(self) -> None:
        """End the utterance here, whatever the endpoint rules say; its Final follows. The audio goes on.

        Raises ValueError after `finish`.
        """
        self._do(self._core.end_utterance)

    def change(self, recognizer: Recognizer) -> None:
        """End the utterance here; what follows is recognized by `recognizer`. ValueError after `finish`."""
        self._recognizers.append(recognizer)
        self._do(self._core.change, recognizer.segment_options)

    def finish(self) -> None:
        """End the audio: the rest is decoded, the last utterance reported. A second call has no effect."""
        self._do(self._core.finish)

    def report(self, event: Event) -> None:
        """Put an event of the owner's own among the others."""
        self._take_events()
        self._events.append(event)

    def report_error(self, text: str) -> None:
        """Put an Error event, a sentence about the source of the audio, among the others."""
        now = self.sample_offset / SAMPLE_RATE
        self.report(Error(text, now, now))

    def events(self) -> list[Event]:
        """Events since the last call, oldest first."""
        self._take_events()
        events = self._events.copy()
        self._events.clear()
        return events

    def pending(self) -> Work | None:
        """The work that the stream waits for; None if there is none. Raises StreamFailed."""
        try:
            work = self._core.work()
        except StreamFailed as failure:
            raise failure from self._cause
        if work is None:
            return None
        while self._num_changes < self._core.num_changes:
            self._recognizers.popleft()
            self._num_changes += 1
        return Work(self, self._recognizers[0], work)

    def answer(self, method: Callable[..., None], *answer: Any) -> None:
        """Gives the core the answer to its work, by a method of `_core.Stream`; an invalid answer fails the stream."""
        try:
            method(self._core, *answer)
        except Exception as error:
            self.fail(error)

    def fail(self, error: Exception) -> None:
        """The network could not be run: the stream can no longer be used."""
        self._cause = self._cause or error
        self._core.fail(f"{type(error).__name__}: {error}")

    @property
    def wanted_s(self) -> float:
        """Seconds of audio that complete a chunk, when all is done: with less, nothing new will be recognized."""
        return self._core.num_wanted / SAMPLE_RATE

    def _do(self, call: Callable[..., None], *arguments: Any) -> None:
        try:
            call(*arguments)
        except StreamFailed as failure:
            raise failure from self._cause
        while not self._deferred and (work := self.pending()) is not None:
            compute([work])

    def _take_events(self) -> None:
        events = self._core.take_events()
        for type, text, start, end, words, num_stable, endpoint, raw, raw_words, others, num_taken_back in events:
            span = (text, start, end, to_words(words))
            recognized = {"raw": raw, "raw_words": to_words(raw_words)}
            if type == "partial":
                self._events.append(Partial(*span, num_stable=num_stable, **recognized))
            elif type == "final":
                assert endpoint is not None
                alternatives = tuple(Alternative(text, to_words(words), p) for text, words, p in others)
                more = {"alternatives": alternatives, "num_taken_back": num_taken_back}
                self._events.append(Final(*span, endpoint=endpoint, **more, **recognized))
            else:
                self._events.append((Gap if type == "gap" else Error)(*span))
