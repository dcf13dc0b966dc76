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
from starlette.requests import ClientDisconnect

import asr
from asr.cores import num_cores
from asr.streaming.recognizer import Recognizer
from asr.streaming.server.builder import ENDING, Builder, BuilderClosed, Spent
from asr.streaming.server.metrics import Metrics
from asr.streaming.server.protocols.common import ProtocolError
from asr.streaming.server.scheduler import Scheduler
from asr.streaming.server.security.descriptors import OpenConnections
from asr.streaming.server.security.limits import Limits
from asr.streaming.server.security.log import Refusals, logged_as
from asr.streaming.server.session import Session, SessionFailed

logger = logging.getLogger("asr_stream.server")


class Refused(Exception):
    """The server cannot open a session now. The text is for the client."""


def why_ended(error: BaseException) -> str:
    """Why a session has ended by `error`, for the log: without text of the client, which a ProtocolError may quote."""
    if isinstance(error, ProtocolError):
        return "a message or request was invalid"
    if isinstance(error, SessionFailed):
        return str(error)
    if isinstance(error, (OSError, ClientDisconnect)):
        return "the client left"
    return "cancelled" if isinstance(error, asyncio.CancelledError) else type(error).__name__


class Server:
    """Open sessions and their threads, for one event loop. `stop` ends the threads."""

    def __init__(self, recognizer: Recognizer, limits: Limits | None = None, num_threads: int = 0) -> None:
        """num_threads: threads of recognition; 0: one for each core that this process may use."""
        self.recognizer = recognizer
        self.limits = limits or Limits()
        self.scheduler = Scheduler(num_threads or num_cores(), self.limits.max_batch)
        self.builder = Builder()
        self.sessions: set[Session] = set()
        self._num_opening = {False: 0, True: 0}
        """Sessions that are being opened: live ones, and uploads."""
        self.metrics = Metrics(self)
        self._refusals = Refusals()
        self.connections = OpenConnections(self.limits, self._refuse_connection)
        self.stopping = asyncio.Event()
        """Set when the server is shutting down: sessions then send their finals and close."""

    def measure(self) -> None:
        """Measures the cost of audio with the bundled recording, because many clients may connect before any of them
        speaks."""
        samples, _ = soundfile.read(Path(asr.__file__).parent / "samples" / "sample.wav", dtype="int16")
        self.scheduler.measure(self.recognizer, samples)

    @property
    def language(self) -> str:
        """Language of the model file, a BCP 47 code; empty if not stated."""
        return self.recognizer.onnx.metadata.language

    def num_open(self, is_upload: bool) -> int:
        """Open uploads, or open live sessions."""
        return sum(session.is_upload == is_upload for session in tuple(self.sessions))  # other threads ask

    @property
    def load(self) -> float:
        """Percent of the scheduler's time that the active live sessions need if they send audio in real time. Uploads
        do not count, because they only use what is left."""
        num_active = sum(session.is_active and not session.is_upload for session in tuple(self.sessions))
        return 100 * num_active * self.scheduler.cost / self.scheduler.num_threads

    @property
    def overloaded(self) -> bool:
        """Whether one more live session would delay the others."""
        return self.load >= self.limits.max_load

    def refusal(self, is_upload: bool = False) -> tuple[str, str] | None:
        """Why a new live client, or upload, is refused: a word for metrics, and a sentence; None if it is served."""
        if self.stopping.is_set():
            return "stopping", ENDING
        what, most = ("uploads", self.limits.max_uploads) if is_upload else ("streams", self.limits.max_sessions)
        if self.num_open(is_upload) + self._num_opening[is_upload] >= most:
            return "full", f"all {most} {what} are taken; connect again later"
        if self.overloaded:
            return "overloaded", "this server is overloaded; connect again later"
        return None

    def count_refusal(self, reason: str, sentence: str, **fields: object) -> None:
        """Counts and logs a refused client."""
        self.metrics.refused(reason)
        self._refusals.log(reason, sentence, **fields)

    def _refuse_connection(self) -> None:
        sentence = f"all {self.limits.max_connections} connections are in use, so the one that waits longest is closed"
        self.count_refusal("connections", sentence)

    @asynccontextmanager
    async def open(self, protocol: str, *, is_upload: bool = False, **changes: Any) -> AsyncIterator[Session]:
        """A session for a client of `protocol`, while the context lasts.

        is_upload: it gets the time that live sessions leave, and its delays are not in the metrics.
        changes: options that differ from the server's recognizer, see `Builder.build`; raises ValueError.
        Raises Refused, before anything is allocated for the client, if the number of sessions or the load has reached
        its limit, or the server is shutting down.
        """
        if (refusal := self.refusal(is_upload)) is not None:
            self.count_refusal(*refusal, status=503, protocol=protocol)
            raise Refused(refusal[1])
        self._num_opening[is_upload] += 1
        spent = Spent()
        try:
            recognizer = await self.builder.build(self.recognizer, spent, **changes)
        except BuilderClosed as error:
            raise Refused(str(error)) from error
        finally:
            self._num_opening[is_upload] -= 1
        observe = _ignore if is_upload else self.metrics.delay.observe
        session = Session(recognizer, self.builder, spent, self.scheduler, self.limits.max_queued_s, observe, is_upload)
        self.sessions.add(session)
        began = time.monotonic()
        with logged_as(session=session.id):
            try:
                yield session
            except BaseException as error:
                session.why_ended = session.why_ended or why_ended(error)
                raise
            finally:
                session.close()
                self.sessions.discard(session)
                self.metrics.session_ended(protocol, session)
                _log_end(protocol, session, time.monotonic() - began)

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


def _ignore(delay_s: float) -> None:
    """The delay of an upload, which is recognized as fast as possible, says nothing."""


def _log_end(protocol: str, session: Session, seconds: float) -> None:
    reason = session.why_ended or "complete"
    fields = {"protocol": protocol, "audio_s": round(session.audio_s, 3), "seconds": round(seconds, 3)}
    sentence = "%s: %.1f s of audio in %.1f s: %s"
    logger.info(sentence, protocol, session.audio_s, seconds, reason, extra={"fields": fields | {"reason": reason}})
