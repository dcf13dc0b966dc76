"""Timeouts of a session: a client's messages are read until it leaves, idles, exceeds its time, or the server stops."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import TypeVar

from asr.streaming.server.server import Server

T = TypeVar("T")


class SessionTimeouts:
    """Starts the timeouts of one client."""

    def __init__(self, server: Server) -> None:
        self._server = server
        self._began = time.monotonic()
        self.why_ended = ""
        """A sentence for the client, after `messages` ended for another reason than that `receive` returned None."""

    async def messages(self, receive: Callable[[], Awaitable[T | None]]) -> AsyncIterator[T]:
        """Calls `receive` again and again, until it returns None or takes too long; raises what it raises."""
        limits = self._server.limits
        stopping = asyncio.ensure_future(self._server.stopping.wait())
        receiving: asyncio.Future[T | None] | None = None
        try:
            while True:
                left_s = self._began + limits.max_session_s - time.monotonic()
                receiving = asyncio.ensure_future(receive())
                timeout = min(limits.idle_s, max(left_s, 0.0))
                await asyncio.wait({receiving, stopping}, timeout=timeout, return_when=asyncio.FIRST_COMPLETED)
                # First: a client that never pauses must not keep the server from ending.
                if stopping.done():
                    self.why_ended = "the server is about to end; connect again"
                elif receiving.done():
                    received = receiving.result()
                    if received is not None:
                        yield received
                        continue
                elif left_s <= limits.idle_s:
                    self.why_ended = f"the session has lasted {limits.max_session_s:g} s, the longest that is allowed"
                else:
                    self.why_ended = f"nothing came for {limits.idle_s:g} s"
                return
        finally:
            for task in (stopping, receiving):
                if task is not None:
                    task.cancel()
