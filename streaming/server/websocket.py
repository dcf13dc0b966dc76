"""A client at a WebSocket: its messages within the limits, and how it is taken leave of."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator

from starlette.websockets import WebSocket, WebSocketDisconnect

from asr.streaming.server.server import Server

GOING_AWAY = 1001
POLICY_VIOLATION = 1008
INTERNAL_ERROR = 1011
TRY_AGAIN_LATER = 1013

_GONE = (TimeoutError, asyncio.TimeoutError, RuntimeError, OSError, WebSocketDisconnect)


class Client:
    """The other end of an accepted WebSocket."""

    def __init__(self, websocket: WebSocket, server: Server) -> None:
        self._websocket = websocket
        self._server = server
        self._began = time.monotonic()
        self.connected = True
        self.why_ended = ""
        """After `messages` ended and the client is still there: a sentence for it."""

    async def messages(self) -> AsyncIterator[str | bytes]:
        """Messages until the client leaves, falls silent, has had its time, or the server is about to end."""
        limits = self._server.limits
        stopping = asyncio.ensure_future(self._server.stopping.wait())
        receiving: asyncio.Future | None = None
        try:
            while True:
                left_s = self._began + limits.max_session_s - time.monotonic()
                receiving = receiving or asyncio.ensure_future(self._websocket.receive())
                timeout = min(limits.idle_s, max(left_s, 0.0))
                await asyncio.wait({receiving, stopping}, timeout=timeout, return_when=asyncio.FIRST_COMPLETED)
                if receiving.done():
                    message, receiving = receiving.result(), None
                    if message["type"] == "websocket.disconnect":
                        self.connected = False
                        return
                    text, data = message.get("text"), message.get("bytes")
                    yield text if text is not None else data or b""
                elif stopping.done():
                    self.why_ended = "the server is about to end"
                    return
                elif left_s <= limits.idle_s:
                    self.why_ended = f"the session has lasted {limits.max_session_s:g} s, the longest that is allowed"
                    return
                else:
                    self.why_ended = f"nothing came for {limits.idle_s:g} s"
                    return
        finally:
            for task in (stopping, receiving):
                if task is not None:
                    task.cancel()

    async def send(self, text: str) -> None:
        """Sends; a client that takes nothing for as long as it may be idle counts as gone.

        Raises WebSocketDisconnect when it is gone.
        """
        if not self.connected:
            raise WebSocketDisconnect(GOING_AWAY)
        try:
            await asyncio.wait_for(self._websocket.send_text(text), self._server.limits.idle_s)
        except _GONE as error:
            self.connected = False
            raise WebSocketDisconnect(GOING_AWAY) from error

    async def close(self, code: int = 1000, reason: str = "") -> None:
        """Takes leave, if the client is still there."""
        if self.connected:
            self.connected = False
            with contextlib.suppress(*_GONE):
                await asyncio.wait_for(self._websocket.close(code, reason[:120]), 2.0)
