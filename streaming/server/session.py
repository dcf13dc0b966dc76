"""A client's stream, for asyncio: audio goes in with back-pressure, events come out, partials coalesced."""

from __future__ import annotations

import asyncio
import contextlib
from collections import deque
from collections.abc import AsyncIterator, Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from asr.streaming.events import Event, Final, Partial
from asr.streaming.resampler import SAMPLE_RATE, check_sample_rate, check_samples
from asr.streaming.server.scheduler import Job, Report, Scheduler

if TYPE_CHECKING:
    from asr.streaming.recognizer import Recognizer
    from asr.streaming.stream import Stream


MAX_QUEUED = 1000
"""Pieces of audio, and what else was said, that wait to be recognised, however short they are."""
MAX_HELD = 256
"""Pieces of audio that wait for more to come."""


class SessionFailed(RuntimeError):
    """Recognition broke down, and the server's log says how, or was given up. The session is of no more use."""


class Session:
    """Made by `Server.open`. For the event loop in which it was made.

    `say`-ing methods wait while more than `max_queued_s` of audio, or MAX_QUEUED pieces, are not recognised yet: do not
    read the client further until they return. Events wait for the reader: of partials only the newest, all others in
    full.
    """

    def __init__(
        self, recognizer: Recognizer, scheduler: Scheduler, max_queued_s: float, observe: Callable[[float], None]
    ) -> None:
        """observe: is told, of each piece of audio, the seconds from its arrival until it was recognised."""
        self.recognizer = recognizer
        self._observe = observe
        self._arrivals: deque[float] = deque()
        self._loop = asyncio.get_running_loop()
        self._scheduler = scheduler
        self._max_queued_s = max_queued_s
        self._job = Job(recognizer, self._reported)
        self._queued_s = 0.0
        # Audio that completes no chunk is not worth a thread's turn.
        self._held: list[tuple[np.ndarray, int]] = []
        self._held_s = 0.0
        self._wanted_s = 0.0
        self._events: list[Event] = []
        self._changed = asyncio.Event()
        self._finished = False
        self._failure = ""
        self.audio_s = 0.0
        """Seconds of audio that came so far."""

    async def accept_waveform(self, samples: np.ndarray, sample_rate: int = SAMPLE_RATE) -> None:
        """As `Stream.accept_waveform`; raises what it raises, at once."""
        check_samples(samples)
        check_sample_rate(sample_rate)
        self._check_open()
        seconds = len(samples) / sample_rate
        self.audio_s += seconds
        self._held.append((samples, sample_rate))
        self._held_s += seconds
        if self._held_s >= self._wanted_s or len(self._held) == MAX_HELD:
            await self._pass_on()

    async def end_utterance(self) -> None:
        """As `Stream.end_utterance`."""
        await self._say(lambda stream: stream.end_utterance())

    async def change(self, **changes: Any) -> None:
        """Ends the utterance; what follows is recognised with `changes`, see `Recognizer.with_options`: ValueError."""
        recognizer = self.recognizer.with_options(**changes)
        await self._say(lambda stream: stream.change(recognizer))
        self.recognizer = recognizer

    async def report(self, event: Event) -> None:
        """`event`, one of the protocol's own, comes out of `events` when all that was said before is recognised."""
        await self._say(lambda stream: stream.report(event))

    async def finish(self) -> None:
        """As `Stream.finish`: `events` ends after what is still to come."""
        if not self._finished:
            await self._say(lambda stream: stream.finish())
            self._finished = True

    async def settle(self) -> list[Event]:
        """Waits until all that was said is recognised; the events that nobody has taken yet."""
        await self._wait_until(lambda: not self._arrivals)
        return self._take()

    async def events(self) -> AsyncIterator[Event]:
        """Events as they come, to the end of the stream."""
        while True:
            await self._wait_until(lambda: bool(self._events) or self._done)
            done = self._done
            for event in self._take():
                yield event
            if done:
                return

    def close(self, why: str = "this session is closed; open a new one") -> None:
        """Gives up what is not done yet; who waits for it gets SessionFailed."""
        self._scheduler.drop(self._job)
        self._failure = self._failure or why
        self._changed.set()

    @property
    def _done(self) -> bool:
        return self._finished and not self._arrivals

    def _check_open(self) -> None:
        if self._failure:
            raise SessionFailed(self._failure)
        if self._finished:
            raise ValueError("this session is finished; open a new one")

    async def _pass_on(self) -> None:
        """Passes on the audio that was held back."""
        held, seconds = self._held, self._held_s
        self._held, self._held_s = [], 0.0

        def accept(stream: Stream) -> None:
            for samples, sample_rate in held:
                stream.accept_waveform(samples, sample_rate)

        if held:
            await self._put(accept, seconds)

    async def _say(self, what: Callable[[Stream], None]) -> None:
        await self._pass_on()
        await self._put(what, 0.0)

    async def _put(self, what: Callable[[Stream], None], seconds: float) -> None:
        await self._wait_until(lambda: self._queued_s <= self._max_queued_s and len(self._arrivals) < MAX_QUEUED)
        self._check_open()
        self._wanted_s = 0.0
        self._arrivals.append(self._loop.time())
        self._queued_s += seconds
        self._scheduler.say(self._job, what, seconds)

    async def _wait_until(self, condition: Callable[[], bool]) -> None:
        while not self._failure and not condition():
            self._changed.clear()
            await self._changed.wait()

    def _take(self) -> list[Event]:
        if self._failure:
            raise SessionFailed(self._failure)
        events, self._events = self._events, []
        return events

    def _reported(self, report: Report) -> None:
        """On a thread of the scheduler."""
        with contextlib.suppress(RuntimeError):  # the loop is closed: nobody is left to hear
            self._loop.call_soon_threadsafe(self._add, report)

    def _add(self, report: Report) -> None:
        for _ in range(report.num_done):
            self._observe(self._loop.time() - self._arrivals.popleft())
        self._queued_s -= report.done_s
        if not self._arrivals:
            self._wanted_s = report.wanted_s
        if report.failed:
            self._failure = "recognition failed; open a new session"
        for event in report.events:
            replaces = isinstance(event, (Partial, Final)) and self._events and isinstance(self._events[-1], Partial)
            if replaces:
                self._events.pop()
            self._events.append(event)
        self._changed.set()
