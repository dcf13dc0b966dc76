"""Shared state of all protocols: the recognizer, its threads, open sessions and connections, limits."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import soundfile

import asr
from asr.cores import num_cores
from asr.streaming.recognizer import Recognizer
from asr.streaming.server.builder import ENDING, Builder, BuilderClosed
from asr.streaming.server.metrics import Metrics
from asr.streaming.server.scheduler import Scheduler
from asr.streaming.server.security.descriptors import OpenConnections
from asr.streaming.server.security.limits import Limits
from asr.streaming.server.session import Session

logger = logging.getLogger("asr_stream.server")


class Refused(Exception):
    """The server cannot open a session now. The text is for the client."""


class Server:
    """Open sessions and their threads, for one event loop. `stop` ends the threads."""

    def __init__(self, recognizer: Recognizer, limits: Limits | None = None, num_threads: int = 0) -> None:
        """num_threads: threads of recognition; 0: one for each core that this process may use."""
        self.recognizer = recognizer
        self.limits = limits or Limits()
        self.scheduler = Scheduler(num_threads or num_cores(), self.limits.max_batch)
        self.builder = Builder()
        self.sessions: set[Session] = set()
        self._num_opening = 0
        self.metrics = Metrics(self)
        self.connections = OpenConnections(self.limits, lambda: self.metrics.refused("connections"))
        self.stopping = asyncio.Event()
        """Set when the server is about to end: sessions then send their finals and close."""

    def measure(self) -> None:
        """Measures the cost of audio with the bundled recording, because many clients may connect before any of them
        speaks."""
        samples, _ = soundfile.read(Path(asr.__file__).parent / "samples" / "sample.wav", dtype="int16")
        self.scheduler.measure(self.recognizer, samples)

    @property
    def language(self) -> str:
        """Language of the model file, a BCP 47 code; empty if not stated."""
        return self.recognizer.onnx.metadata.language

    @property
    def load(self) -> float:
        """Percent of the scheduler's time that the active sessions need if they send audio in real time."""
        num_active = sum(session.is_active for session in tuple(self.sessions))  # other threads ask
        return 100 * num_active * self.scheduler.cost / self.scheduler.num_threads

    @property
    def overloaded(self) -> bool:
        """Whether one more session would delay the others."""
        return self.load >= self.limits.max_load

    @asynccontextmanager
    async def open(self, protocol: str, **changes: Any) -> AsyncIterator[Session]:
        """A session for a client of `protocol`, while the context lasts.

        changes: options that differ from the server's recognizer, see `Builder.build`; raises ValueError.
        Raises Refused, before anything is allocated for the client, if the number of sessions or the load has reached
        its limit, or the server is about to end.
        """
        if self.stopping.is_set():
            self.metrics.refused("stopping")
            raise Refused(ENDING)
        if len(self.sessions) + self._num_opening >= self.limits.max_sessions:
            self.metrics.refused("full")
            raise Refused(f"all {self.limits.max_sessions} streams are taken; connect again later")
        if self.overloaded:
            self.metrics.refused("overloaded")
            raise Refused("this server is overloaded; connect again later")
        self._num_opening += 1
        try:
            recognizer = await self.builder.build(self.recognizer, **changes)
        except BuilderClosed as error:
            raise Refused(str(error)) from error
        finally:
            self._num_opening -= 1
        session = Session(
            recognizer, self.builder, self.scheduler, self.limits.max_queued_s, self.metrics.delay.observe
        )
        self.sessions.add(session)
        began = time.monotonic()
        try:
            yield session
        finally:
            session.close()
            self.sessions.discard(session)
            self.metrics.session_ended(protocol, session)
            logger.info("%s: %.1f s of audio in %.1f s", protocol, session.audio_s, time.monotonic() - began)

    async def stop(self) -> None:
        """Waits for the sessions' finals within the limits, then closes the sessions and the threads.

        Late sessions have half of that time to catch up or to change their options, then send the finals of what was
        recognized.
        """
        self.stopping.set()
        begun = time.monotonic()
        for share in (0.5, 1.0):
            while self.sessions and time.monotonic() < begun + share * self.limits.shutdown_s:
                await asyncio.sleep(0.02)
            self.builder.close()
            for session in self.sessions:
                session.skip_audio()
        for session in self.sessions:
            session.close("the server ends before all could be recognized; try again later")
        await asyncio.to_thread(self.scheduler.close)
