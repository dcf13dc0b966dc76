"""Timeouts of a session: reads a client's messages until it leaves, idles, exceeds its time, or the server stops.

A message costs neither a task nor a timer, because hundreds of clients each send ten per second. A session has one
timer, which is set again when it expires, and one task that waits for the server to stop; both interrupt `receive`.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import TypeVar

from asr.streaming.server.server import Server

T = TypeVar("T")

MESSAGES_PER_TURN = 16
"""Number of messages after which other clients get a turn, because `receive` does not wait while messages are
queued."""


class SessionTimeouts:
    """Starts the timeouts of one client."""

    def __init__(self, server: Server) -> None:
        self._server = server
        self._loop = asyncio.get_running_loop()
        self._ends = self._loop.time() + server.limits.max_session_s
        self._task: asyncio.Task | None = None
        """The task that is waiting in `receive` and may be interrupted."""
        self._idle_at = 0.0
        self._timer: asyncio.TimerHandle | None = None
        self.why_ended = ""
        """A sentence for the client if `messages` ended although `receive` did not return None."""

    async def messages(self, receive: Callable[[], Awaitable[T | None]]) -> AsyncIterator[T]:
        """Calls `receive` repeatedly until it returns None or takes too long; raises what it raises.

        Iterate it in one task, which is cancelled within `receive` when time is up.
        """
        limits = self._server.limits
        stopping = asyncio.ensure_future(self._server.stopping.wait())
        stopping.add_done_callback(self._stop)
        num_messages = 0
        try:
            while True:
                num_messages += 1
                if num_messages % MESSAGES_PER_TURN == 0:
                    await asyncio.sleep(0)
                now = self._loop.time()
                if now >= self._ends:  # needed for a client that never pauses
                    self._out_of_time(now)
                if self.why_ended:
                    return
                self._idle_at = now + limits.idle_s
                self._task = asyncio.current_task()
                if self._timer is None:
                    self._set_timer()
                try:
                    received = await receive()
                except asyncio.CancelledError:
                    if not self.why_ended:
                        raise
                    if hasattr(self._task, "uncancel"):  # since Python 3.11
                        self._task.uncancel()
                    return
                finally:
                    self._task = None
                if received is None:
                    return
                yield received
        finally:
            stopping.cancel()
            if self._timer is not None:
                self._timer.cancel()

    def _check_time(self) -> None:
        """Interrupts a client that is late; otherwise sets the timer to the earliest time at which it can be late."""
        self._timer = None
        if self._task is None:
            return  # a message is being handled; the next `receive` sets the timer
        now = self._loop.time()
        if now >= min(self._idle_at, self._ends):
            self._out_of_time(now)
        else:
            self._set_timer()

    def _set_timer(self) -> None:
        self._timer = self._loop.call_at(min(self._idle_at, self._ends), self._check_time)

    def _out_of_time(self, now: float) -> None:
        limits = self._server.limits
        if now >= self._ends:
            self._interrupt(f"the session has lasted {limits.max_session_s:g} s, the longest that is allowed")
        else:
            self._interrupt(f"no data arrived for {limits.idle_s:g} s")

    def _stop(self, stopping: asyncio.Future) -> None:
        if not stopping.cancelled():
            self._interrupt("the server is shutting down; connect again")

    def _interrupt(self, why: str) -> None:
        if self.why_ended:
            return
        self.why_ended = why
        if self._task is not None:
            self._task.cancel()
