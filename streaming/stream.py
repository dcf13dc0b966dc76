"""A stream: one source of audio, of any sample rate, with a clock that lost audio cannot set wrong.

What is said to a stream is put in line, and done up to where the network is needed (`pending`). Its owner runs the
network: a stream by itself does so at once; a server does so for many streams together (`segment.compute`).

After a gap everything starts afresh, the encoder's cache included: what follows is recognised as a new stream
whose times go on. A cache across the gap would put sounds next to each other that were not, which the model
has never seen in training, and the text would depend on a loss that nobody can reproduce.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from fractions import Fraction
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from asr.streaming.events import Error, Event, Gap
from asr.streaming.resampler import SAMPLE_RATE, Resampler, check_sample_rate, mono
from asr.streaming.segment import Segment, compute

if TYPE_CHECKING:
    from asr.streaming.recognizer import Recognizer


class Stream:
    """Takes audio, gives events. Made by `Recognizer.stream`; serves one thread at a time.

    The text depends on the audio only, not on how it was cut into calls.
    """

    def __init__(self, recognizer: Recognizer, deferred: bool = False) -> None:
        """deferred: only put in line what is said; the owner calls `pending` and answers what it gives."""
        self._recognizer = recognizer
        self._deferred = deferred
        self._line: deque[Iterator[Segment]] = deque()
        self._events: list[Event] = []
        self._sample_rate = SAMPLE_RATE
        self._resampler: Resampler | None = None
        self._anchor = Fraction(0)  # seconds: where audio of this sample rate without a gap began
        self._num_samples = 0  # since then
        self._segment = Segment(recognizer, 0.0, self._events)
        self._finished = False

    @property
    def sample_offset(self) -> int:
        """Position of the next sample in the stream, in samples of 16 kHz, gaps included."""
        return round(self._clock * SAMPLE_RATE)

    def accept_waveform(
        self, samples: npt.NDArray[np.float32] | npt.NDArray[np.int16], sample_rate: int = SAMPLE_RATE
    ) -> None:
        """Continue with `samples`, shape (num_samples,), float32 in ±1 or int16, of any length.

        Shape (num_samples, num_channels), as soundfile.read gives it, is averaged over its channels.

        `sample_rate` in Hz, in [4000, 384000]; anything but 16000 is resampled.
        Samples that are not finite, or beyond 1e9, count as silence; an Error event says so, once until the next gap.
        Loudness is not evened out: speech at a thousandth of full scale is silence, and clipped speech is understood
        as far as it goes. A constant offset does not matter. Whatever comes, what follows it is understood.
        Raises ValueError for another shape, dtype or rate, and after `finish`.
        """
        self._check_open()
        samples = mono(samples)
        check_sample_rate(sample_rate)
        self._say(self._accept(samples, sample_rate))

    def gap(self, num_samples: int, sample_rate: int = SAMPLE_RATE) -> None:
        """Say that `num_samples` of audio were lost here: ends the utterance, reports a Gap. 0 does nothing.

        Raises ValueError for a negative number, another rate, and after `finish`.
        """
        self._check_open()
        check_sample_rate(sample_rate)
        if num_samples < 0:
            raise ValueError(f"num_samples is {num_samples}; it must be at least 0")
        if num_samples:
            self._say(self._begin_segment(Fraction(num_samples, sample_rate)))

    def end_utterance(self) -> None:
        """End the utterance here, whatever the endpoint rules say; its Final follows. The audio goes on.

        Raises ValueError after `finish`.
        """
        self._check_open()
        self._say(self._begin_segment())

    def change(self, recognizer: Recognizer) -> None:
        """End the utterance here; what follows is recognised by `recognizer`. ValueError after `finish`."""
        self._check_open()
        self._recognizer = recognizer
        self._say(self._begin_segment())

    def report(self, event: Event) -> None:
        """Put an event of the owner's own among the others."""
        self._events.append(event)

    def report_error(self, text: str) -> None:
        """Put an Error event, a sentence about the source of the audio, among the others."""
        now = float(self._clock)
        self.report(Error(text, now, now))

    def finish(self) -> None:
        """Say that no more audio comes: the rest is decoded, the last utterance reported. Twice is once."""
        if not self._finished:
            self._finished = True
            self._say(self._flush())

    def pending(self) -> Segment | None:
        """Goes on with what is in line; the segment that the network is needed for, or None: all is done.

        The segment is to be answered by `compute` before anything else is asked of this stream.
        """
        while self._line:
            for segment in self._line[0]:
                return segment
            self._line.popleft()
        return None

    @property
    def wanted_s(self) -> float:
        """Seconds of audio that complete a chunk, when nothing is in line: with less nothing new will be heard."""
        core = self._segment.core
        # Of the stream, not of the segment: a resampler keeps some of what came to itself.
        return self._segment.start_s + (core.num_samples + core.num_wanted) / SAMPLE_RATE - float(self._clock)

    def events(self) -> list[Event]:
        """What happened since the last call, oldest first."""
        events = self._events.copy()
        self._events.clear()
        return events

    @property
    def _clock(self) -> Fraction:
        """Seconds of the stream before the next sample."""
        return self._anchor + Fraction(self._num_samples, self._sample_rate)

    def _say(self, steps: Iterator[Segment]) -> None:
        self._line.append(steps)
        while not self._deferred and (segment := self.pending()) is not None:
            compute([segment])

    def _accept(self, samples: np.ndarray, sample_rate: int) -> Iterator[Segment]:
        if sample_rate != self._sample_rate:
            yield from self._end_resampling()
            self._anchor, self._num_samples = self._clock, 0
            self._sample_rate = sample_rate
            self._resampler = None if sample_rate == SAMPLE_RATE else Resampler(sample_rate)
        audio: np.ndarray = np.ascontiguousarray(samples)
        self._num_samples += len(audio)
        if self._resampler is None:
            yield from self._segment.accept(audio)
            return
        # In pieces, so that a long recording is not held three times.
        for begin in range(0, len(audio), sample_rate):
            resampled, num_nonfinite = self._resampler.accept(audio[begin : begin + sample_rate])
            self._segment.add_nonfinite(num_nonfinite)
            yield from self._segment.accept(resampled)

    def _end_resampling(self) -> Iterator[Segment]:
        if self._resampler is not None:
            yield from self._segment.accept(self._resampler.finish())

    def _flush(self) -> Iterator[Segment]:
        yield from self._end_resampling()
        yield from self._segment.finish()

    def _begin_segment(self, lost_s: Fraction = Fraction(0)) -> Iterator[Segment]:
        yield from self._flush()
        start = self._clock
        self._anchor, self._num_samples = start + lost_s, 0
        if lost_s:
            text = f"{float(lost_s):.3f} s of audio were lost"
            self._events.append(Gap(text, float(start), float(self._anchor)))
        self._segment = Segment(self._recognizer, float(self._anchor), self._events)

    def _check_open(self) -> None:
        if self._finished:
            raise ValueError("this stream is finished; take a new one from Recognizer.stream()")
