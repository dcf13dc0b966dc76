"""A client's stream for asyncio: audio goes in with back-pressure, events come out, with partials coalesced."""

from __future__ import annotations

import asyncio
import contextlib
import uuid
from collections import deque
from collections.abc import AsyncIterator, Callable
from typing import Any

import numpy as np

from asr.streaming.events import Event, Final, Partial
from asr.streaming.recognizer import Recognizer
from asr.streaming.resampler import SAMPLE_RATE, check_sample_rate, check_samples
from asr.streaming.server.builder import Builder, BuilderClosed, Spent
from asr.streaming.server.scheduler import Job, Report, Scheduler
from asr.streaming.stream import Stream

MAX_QUEUED = 1000
"""Maximum queued calls, however short their audio is, and unread events of the protocol's own."""
PIECE_S = 1.0
"""Seconds of audio that are queued at once; of longer audio, the rest waits."""
MAX_HELD = 256
"""Maximum pieces of audio to collect for a chunk."""
EVENTS_PER_TURN = 16
"""Number of events after which other clients get a turn, because sending them may not wait."""
ACTIVE_S = 3.0
"""A session counts as active this long after its start, and after its last audio was recognized."""


class SessionFailed(RuntimeError):
    """Recognition failed (the reason is in the server's log), or the session was closed. It cannot be used further."""


class Session:
    """Made by `Server.open`, for the event loop that made it.

    Methods that add work wait while more than `max_queued_s` of audio, or MAX_QUEUED calls, are queued, and `report`
    also while MAX_QUEUED events are unread; do not read further from the client until they return. Events are kept
    until they are read; of consecutive partials, the newest.
    """

    def __init__(
        self,
        recognizer: Recognizer,
        builder: Builder,
        spent: Spent,
        scheduler: Scheduler,
        max_queued_s: float,
        observe: Callable[[float], None],
        is_upload: bool = False,
    ) -> None:
        """observe: called for each piece of audio with the seconds from its arrival to its recognition. is_upload: live
        sessions have priority."""
        self.recognizer = recognizer
        self.is_upload = is_upload
        self._observe = observe
        self._arrivals: deque[float] = deque()
        self._loop = asyncio.get_running_loop()
        self._builder = builder
        self._spent = spent
        self._scheduler = scheduler
        self._max_queued_s = max_queued_s
        self._job = Job(recognizer, self._reported, is_upload)
        self._queued_s = 0.0
        # Audio is collected until it completes a chunk, because less is not worth a scheduling turn.
        self._held: list[tuple[np.ndarray, int]] = []
        self._held_s = 0.0
        self._wanted_s = 0.0
        self._events: list[Event] = []
        self._changed = asyncio.Event()
        self._finished = False
        self._failure = ""
        self._active_until = self._loop.time() + ACTIVE_S
        self.id = uuid.uuid4().hex
        self.why_ended = ""
        """For the log; empty until the end, or if the client has got all that it requested."""
        self.audio_s = 0.0
        """Seconds of audio received so far."""

    @property
    def is_active(self) -> bool:
        """Whether it uses the scheduler's threads, or soon will."""
        return bool(self._arrivals) or self._loop.time() < self._active_until

    async def accept_waveform(self, samples: np.ndarray, sample_rate: int = SAMPLE_RATE) -> None:
        """See `Stream.accept_waveform`; raises the same errors immediately."""
        samples = check_samples(samples)
        check_sample_rate(sample_rate)
        self._check_open()
        most = round(PIECE_S * sample_rate)
        if len(samples) <= most:
            await self._accept(samples, sample_rate)
        else:
            for begin in range(0, len(samples), most):  # copied, because a view would keep all of the audio in memory
                await self._accept(samples[begin : begin + most].copy(), sample_rate)

    async def _accept(self, samples: np.ndarray, sample_rate: int) -> None:
        seconds = len(samples) / sample_rate
        self.audio_s += seconds
        self._held.append((samples, sample_rate))
        self._held_s += seconds
        if self._held_s >= self._wanted_s or len(self._held) == MAX_HELD:
            await self._flush()

    async def end_utterance(self) -> None:
        """See `Stream.end_utterance`."""
        await self._submit(lambda stream: stream.end_utterance())

    async def change(self, **changes: Any) -> None:
        """Ends the utterance and changes options, see `Builder.build`, if any differ. Raises ValueError, SessionFailed.

        Waits until all queued audio is recognized, so that a client that keeps changing options has few recognizers.
        """
        await self._wait_until(lambda: not self._arrivals)
        try:
            recognizer = await self._builder.build(self.recognizer, self._spent, **changes)
        except BuilderClosed as error:
            raise SessionFailed(str(error)) from error
        if recognizer is not self.recognizer:
            await self._submit(lambda stream: stream.change(recognizer))
            self.recognizer = recognizer

    async def report(self, event: Event) -> None:
        """Queues `event`, one of the protocol's own; `events` yields it when all audio before it is recognized.

        Another task must read the events, or close the session.
        """
        await self._wait_until(lambda: len(self._events) < MAX_QUEUED)
        await self._submit(lambda stream: stream.report(event))

    async def finish(self) -> None:
        """See `Stream.finish`: `events` ends after the events of the queued audio."""
        if not self._finished:
            await self._submit(lambda stream: stream.finish())
            self._finished = True

    async def settle(self) -> list[Event]:
        """Waits until all queued audio is recognized; returns the unread events."""
        await self._wait_until(lambda: not self._arrivals)
        self._check_working()
        return self._take()

    async def events(self) -> AsyncIterator[Event]:
        """Yields events until the end of the stream, or until its failure, which is then raised."""
        while True:
            await self._wait_until(lambda: bool(self._events) or self._done)
            done = self._done
            for number, event in enumerate(self._take(), 1):
                yield event
                if number % EVENTS_PER_TURN == 0:
                    await asyncio.sleep(0)
            self._check_working()
            if done:
                return

    def skip_audio(self) -> None:
        """Skips the queued audio, so that the finals of the audio recognized so far come soon."""
        self._job.skips_audio = True

    def close(self, why: str = "this session is closed; open a new one") -> None:
        """Discards queued work. Calls that wait for it raise SessionFailed."""
        self._scheduler.drop(self._job)
        self._failure = self._failure or why
        self._changed.set()

    @property
    def _done(self) -> bool:
        return self._finished and not self._arrivals

    def _check_working(self) -> None:
        if self._failure:
            raise SessionFailed(self._failure)

    def _check_open(self) -> None:
        self._check_working()
        if self._finished:
            raise ValueError("this session is finished; open a new one")

    async def _flush(self) -> None:
        """Submits the collected audio."""
        held, seconds = self._held, self._held_s
        self._held, self._held_s = [], 0.0

        def accept(stream: Stream) -> None:
            for samples, sample_rate in held:
                stream.accept_waveform(samples, sample_rate)

        if held:
            await self._put(accept, seconds)

    async def _submit(self, call: Callable[[Stream], None]) -> None:
        await self._flush()
        await self._put(call, 0.0)

    async def _put(self, call: Callable[[Stream], None], seconds: float) -> None:
        await self._wait_until(lambda: self._queued_s <= self._max_queued_s and len(self._arrivals) < MAX_QUEUED)
        self._check_open()
        self._wanted_s = 0.0
        self._arrivals.append(self._loop.time())
        self._queued_s += seconds
        self._scheduler.submit(self._job, call, seconds)

    async def _wait_until(self, condition: Callable[[], bool]) -> None:
        while not self._failure and not condition():
            self._changed.clear()
            await self._changed.wait()

    def _take(self) -> list[Event]:
        events, self._events = self._events, []
        self._changed.set()
        return events

    def _reported(self, report: Report) -> None:
        """Called on a thread of the scheduler."""
        with contextlib.suppress(RuntimeError):  # the event loop may be closed
            self._loop.call_soon_threadsafe(self._add, report)

    def _add(self, report: Report) -> None:
        now = self._loop.time()
        for _ in range(report.num_done):
            self._observe(now - self._arrivals.popleft())
        self._active_until = now + ACTIVE_S
        self._queued_s -= report.done_s
        if not self._arrivals:
            self._wanted_s = report.wanted_s
        if report.failed:
            self._failure = self._failure or "recognition failed; open a new session"
        for event in report.events:
            replaces = isinstance(event, (Partial, Final)) and self._events and isinstance(self._events[-1], Partial)
            if replaces:
                self._events.pop()
            self._events.append(event)
        self._changed.set()
