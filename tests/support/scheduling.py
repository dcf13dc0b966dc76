"""Clients of the server's scheduler, and a server in this process."""

from __future__ import annotations

import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from asr import Recognizer
from asr.streaming import Event
from asr.streaming.server.scheduler import Job, Report, Scheduler
from asr.streaming.server.security.limits import Limits
from asr.streaming.server.server import Server

WAIT_S = 60.0


@asynccontextmanager
async def running(recognizer: Recognizer, limits: Limits | None = None, num_threads: int = 0) -> AsyncIterator[Server]:
    server = Server(recognizer, limits, num_threads)
    try:
        yield server
    finally:
        await server.stop()


class Client:
    """Collects the reports of a job."""

    def __init__(self, recognizer: Recognizer, is_upload: bool = False) -> None:
        self.events: list[Event] = []
        self.num_done = 0
        self.done_s = 0.0
        self.failed = False
        self.changed = threading.Condition()
        self.job = Job(recognizer, self.report, is_upload)

    def report(self, report: Report) -> None:
        with self.changed:
            self.events += report.events
            self.num_done += report.num_done
            self.done_s += report.done_s
            self.failed |= report.failed
            self.changed.notify_all()

    def wait(self, num_done: int) -> None:
        with self.changed:
            assert self.changed.wait_for(lambda: self.num_done >= num_done or self.failed, WAIT_S)


class Gate:
    """Blocks a thread of the scheduler until it is opened."""

    def __init__(self, scheduler: Scheduler, recognizer: Recognizer) -> None:
        self._open = threading.Event()
        self._reached = threading.Event()
        self._client = Client(recognizer)
        scheduler.submit(self._client.job, self._hold)
        assert self._reached.wait(WAIT_S)

    def _hold(self, stream: object) -> None:
        self._reached.set()
        self._open.wait(WAIT_S)

    def open(self) -> None:
        self._open.set()
