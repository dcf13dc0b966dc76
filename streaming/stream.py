"""A stream: one source of audio at any sample rate, with a clock that counts lost audio.

Everything but the network is in C++ (csrc/stream.h). The owner of a stream runs the network when the stream waits for
it (`pending`). A stream on its own does so immediately; a server does so for many streams at once (`work.compute`).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np
import numpy.typing as npt

from asr import _core
from asr._core import StreamFailed
from asr.runtime.network import State
from asr.streaming.events import Alternative, Error, Event, Final, Gap, Partial, to_words
from asr.streaming.resampler import SAMPLE_RATE, check_sample_rate, mono
from asr.streaming.work import Work, compute

if TYPE_CHECKING:
    from asr.streaming.recognizer import Recognizer


class Stream:
    """Takes audio and returns events. Made by `Recognizer.stream`; used by one thread at a time.

    The text depends only on the audio, not on how it is split into calls.

    If the encoder fails, `StreamFailed` is raised, with the network's error as its cause. Every later call except
    `events` raises it again; earlier events can still be read. If any other network fails, such as the decoder, an
    Error event reports it the first time, and the words are recognized without it.
    """

    def __init__(self, recognizer: Recognizer, deferred: bool = False) -> None:
        """deferred: audio is only queued; the owner calls `pending` and computes the work that it returns."""
        self._core = _core.Stream(recognizer.segment_options)
        self._recognizers = deque([recognizer])
        """The current recognizer, followed by those set by `change`."""
        self._num_changes = 0
        self._deferred = deferred
        self._events: list[Event] = []
        self._cause: Exception | None = None
        self.states: dict[int, State] = {}
        """States of the networks, by slot: 0 is the encoder's of the stream, others belong to one utterance."""
        self._passing: int | None = None
        """Slot of a state that only the next work may use."""

    def __reduce__(self) -> NoReturn:
        raise TypeError("a Stream cannot be copied or pickled: it belongs to one source of audio; take a new one")

    @property
    def sample_offset(self) -> int:
        """Position of the next sample in the stream, in samples at 16 kHz, including gaps."""
        return self._core.sample_offset

    def accept_waveform(
        self,
        samples: npt.NDArray[np.floating] | npt.NDArray[np.int16] | Sequence[float],
        sample_rate: int = SAMPLE_RATE,
    ) -> None:
        """Continue with `samples`, shape (num_samples,), floats in ±1 or int16, of any length.

        The channels of shape (num_samples, num_channels), as from soundfile.read, are averaged. Floats other than
        float32, and lists of floats, are converted to float32.

        `sample_rate` is in Hz, in [1000, 768000]; other rates than 16000 are resampled.
        Samples that are not finite, or beyond 1e9, count as silence; an Error event reports them, once until the next
        gap. Floats far beyond ±1, such as those in the range of int16, are used as they are; an Error event reports
        them, once per stream: divide them by 32768. Loudness is not normalized: speech at a thousandth of full scale is
        silence, and clipped speech is recognized as well as possible. A constant offset does not matter. Bad audio does
        not affect the audio after it. Recognized speech that never exceeds 0.003 (-50 dB) causes an Error event, once
        per stream, because many words are then wrong.
        Raises ValueError for another shape, dtype or rate, and after `finish`.
        """
        samples = mono(samples)
        check_sample_rate(sample_rate)
        audio: np.ndarray = np.ascontiguousarray(samples)
        # In pieces of one second, so that the core copies little of the queued audio.
        for begin in range(0, len(audio) or 1, sample_rate):
            self._do(self._core.accept, audio[begin : begin + sample_rate], sample_rate)

    def gap(self, num_samples: int, sample_rate: int = SAMPLE_RATE) -> None:
        """Report that `num_samples` of audio were lost: ends the utterance and adds a Gap event. 0 does nothing.

        Raises ValueError for a number outside [0, 2**48], another rate, and after `finish`.
        """
        check_sample_rate(sample_rate)
        if not 0 <= num_samples <= 2**48:
            raise ValueError(f"num_samples is {num_samples}; it must be in [0, 2**48]")
        self._do(self._core.gap, num_samples, sample_rate)

    def end_utterance(self) -> None:
        """End the utterance here, regardless of the endpoint rules; its Final follows. The audio continues.

        Raises ValueError after `finish`.
        """
        self._do(self._core.end_utterance)

    def change(self, recognizer: Recognizer) -> None:
        """End the utterance here; `recognizer` recognizes later audio. Raises ValueError after `finish`."""
        self._do(self._change, recognizer)

    def _change(self, recognizer: Recognizer) -> None:
        self._core.change(recognizer.segment_options)
        self._recognizers.append(recognizer)

    def finish(self) -> None:
        """End the audio: decodes the rest and ends the last utterance. A second call has no effect."""
        self._do(self._core.finish)

    def report(self, event: Event) -> None:
        """Queue an event of the owner's."""
        self._take_events()
        self._events.append(event)

    def report_error(self, text: str) -> None:
        """Queue an Error event, with a sentence about the source of the audio."""
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
        use = None if work is None else work.state
        if self._passing is not None and (use is None or use.slot != self._passing):
            self.states.pop(self._passing)
            self._passing = None
        if work is None:
            return None
        while self._num_changes < self._core.num_changes:
            self._recognizers.popleft()
            self._num_changes += 1
        return Work(self, self._recognizers[0], work)

    def answer(self, outputs: list[npt.NDArray[np.float32]]) -> None:
        """Answers the pending work. An invalid answer is none, see `not_answered`."""
        try:
            self._core.answer(outputs)
        except Exception as error:
            self.not_answered(error)

    def keep(self, use: _core.StateUse, state: State) -> None:
        """Keeps the state after a run of the pending work for as long as it is needed."""
        self.states.pop(use.slot, None)
        if use.stays or use.for_next:
            self.states[use.slot] = state
        self._passing = use.slot if use.for_next else None

    def not_answered(self, error: Exception) -> None:
        """Report that the network of the pending work could not be run: without the encoder, the stream can no longer
        be used; without any other network it goes on, and an Error event says so once."""
        self._core.not_answered(f"{type(error).__name__}: {error}")
        if self._core.failure and self._cause is None:
            self._cause = error

    @property
    def wanted_s(self) -> float:
        """Seconds of audio missing for the next chunk, if all queued work is done."""
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
