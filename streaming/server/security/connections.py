"""uvicorn's connections with limits on slow clients, floods of empty frames, and the number of connections.

uvicorn waits without limit for the head of a request and for a client to read its response, answers every ping
regardless of the number of unread pongs, and parses all data of one read before anything else runs. Here:

- The head of a request must arrive in time (descriptors.py), and a response must be read within `idle_s` after the
  buffers are full.
- A connection may send few frames without data. One that exceeds its allowance is dropped.
- Reads are short, those of a WebSocket even more, so that parsing the smallest frames blocks the event loop only for
  milliseconds.
- Clients may send audio faster than it is recognized, because their pings and pongs come after that audio; reading
  stops when all clients together are `max_unread_bytes` ahead. Then pongs may be late, which does not end a connection.
  Clients that are gone end by `idle_s`.

The data after the head has other timeouts: the body of an upload (uploads.py), messages (timeouts.py).

The classes override internals of uvicorn, which any release may change: pyproject.toml names the releases that work.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections import deque
from collections.abc import Callable
from typing import Any

import h11
import uvicorn
from starlette.types import ASGIApp
from uvicorn.protocols.http.h11_impl import H11Protocol
from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol
from websockets.frames import Frame

from asr.streaming.server.security.descriptors import BACKLOG, OpenConnections
from asr.streaming.server.security.limits import Limits

CLOSE_TIMEOUT_S = 1.0
"""Seconds for a WebSocket client to answer a close frame when the server ends."""
PING_INTERVAL_S = 20.0
"""Keeps proxies from closing an idle connection."""
READ_SIZE, WEBSOCKET_READ_SIZE = 16384, 2048
"""Bytes per read. The parser handles all frames of a read before anything else runs: about 10 us each, and a frame may
have only 6 bytes."""
SMALL_SIZE = 64
"""In bytes. Smaller fragments and chunks count as frames without data."""
MAX_SMALL_FRAMES, SMALL_FRAMES_PER_S = 256, 32.0
MAX_LINE, MAX_HEADERS = 8000, 120
"""Maximum line length in bytes, and maximum number of lines, in the head of a WebSocket request. `websockets` silently
drops longer heads."""
MAX_UNREAD = 2
"""Number of messages of a WebSocket client that may always wait, regardless of the other clients."""
MESSAGE_BYTES = 512
"""Overhead of a message in bytes."""


class Allowance:
    """Frames without data that a connection may send: a burst of MAX_SMALL_FRAMES, SMALL_FRAMES_PER_S on average."""

    def __init__(self) -> None:
        self._left = float(MAX_SMALL_FRAMES)
        self._updated_s = time.monotonic()

    def spend(self) -> bool:
        """Counts a frame; False if there were too many."""
        now = time.monotonic()
        self._left += (now - self._updated_s) * SMALL_FRAMES_PER_S
        self._left = min(self._left, float(MAX_SMALL_FRAMES)) - 1
        self._updated_s = now
        return self._left >= 0


class Timer:
    """Aborts a connection unless it is stopped in time."""

    def __init__(self, seconds: float, transport: asyncio.Transport) -> None:
        self._seconds = seconds
        self._transport = transport
        self._handle: asyncio.TimerHandle | None = None

    def start(self) -> None:
        """Starts the timer unless it is running."""
        if self._handle is None:
            self._handle = asyncio.get_running_loop().call_later(self._seconds, self._transport.abort)

    def stop(self) -> None:
        if self._handle is not None:
            self._handle.cancel()
            self._handle = None


def server_config(app: ASGIApp, limits: Limits, connections: OpenConnections) -> uvicorn.Config:
    """uvicorn's configuration for `app`, with the connections of this module."""
    logging.getLogger("uvicorn.error").addFilter(_is_our_fault)
    http, websocket = limited_protocols(limits, connections)
    return uvicorn.Config(
        app,
        http=http,
        ws=websocket,
        ws_max_size=limits.max_message_bytes,
        ws_ping_interval=PING_INTERVAL_S,
        ws_ping_timeout=None,
        ws_per_message_deflate=False,  # compression costs memory and does not make audio smaller
        backlog=BACKLOG,
        timeout_graceful_shutdown=1,
        log_level="error",
        server_header=False,
    )


def is_closing(connection: asyncio.Protocol) -> bool:
    """Whether `connection` is a WebSocket that waits for the client's close frame."""
    return isinstance(connection, WebSocketsSansIOProtocol) and connection.close_timer is not None


def _is_our_fault(record: logging.LogRecord) -> bool:
    """Filters out errors that any client can cause, which could fill the log: malformed HTTP, invalid UTF-8, and
    WebSockets rejected with a response, for which uvicorn reports an incomplete handshake."""
    return not record.getMessage().startswith(("Invalid ", "ASGI callable returned without completing handshake"))


def limited_protocols(
    limits: Limits, connections: OpenConnections
) -> tuple[type[asyncio.Protocol], type[asyncio.Protocol]]:
    """`http` and `ws` for `uvicorn.Config`."""

    class WriteTimeout(asyncio.Protocol):
        """Base class of both protocols: a timeout of writing to the client."""

        def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
            super().connection_made(transport)
            self._write_timer = Timer(limits.idle_s, transport)
            transport.max_size = READ_SIZE  # type: ignore[attr-defined]  # of asyncio's own transports
            connections.add(transport)

        def pause_writing(self) -> None:
            super().pause_writing()
            self._write_timer.start()

        def resume_writing(self) -> None:
            super().resume_writing()
            self._write_timer.stop()

        def connection_lost(self, exc: Exception | None) -> None:
            self._write_timer.stop()
            connections.discard(self.transport)  # type: ignore[attr-defined]
            super().connection_lost(exc)

    class Http(WriteTimeout, H11Protocol):
        def __init__(self, *args: Any, **kwargs: Any) -> None:
            super().__init__(*args, **kwargs)
            self._heard = False
            self._allowance = Allowance()
            self.conn.next_event = self._counted(self.conn.next_event)  # type: ignore[method-assign]

        def _counted(self, next_event: Callable[[], Any]) -> Callable[[], Any]:
            def counted() -> Any:
                event = next_event()
                if isinstance(event, h11.Data) and len(event.data) < SMALL_SIZE and not self._allowance.spend():
                    self.transport.abort()
                    return h11.NEED_DATA
                return event

            return counted

        def data_received(self, data: bytes) -> None:
            if not self._heard:  # the rest of the head may take longer than the first byte
                self._heard = True
                connections.serve(self.transport)
                connections.wait(self.transport)
            super().data_received(data)
            if self.transport.get_protocol() is self and self._is_responding:
                connections.serve(self.transport)

        def on_response_complete(self) -> None:
            super().on_response_complete()
            if not self._is_responding:
                connections.wait(self.transport)

        @property
        def _is_responding(self) -> bool:
            return self.cycle is not None and not self.cycle.response_complete

        def handle_websocket_upgrade(self, event: h11.Request) -> None:
            connections.serve(self.transport)
            longest = max(len(name) + len(value) for name, value in [*self.headers, (event.target, b"")])
            if longest > MAX_LINE or len(self.headers) > MAX_HEADERS:
                self.send_400_response("The head of the request is too long.")
            else:
                super().handle_websocket_upgrade(event)

    class WebSocket(WriteTimeout, WebSocketsSansIOProtocol):
        def __init__(self, *args: Any, **kwargs: Any) -> None:
            super().__init__(*args, **kwargs)
            self.close_timeout = min(self.close_timeout, limits.idle_s)
            self._allowance = Allowance()
            self._unread: deque[int] = deque()

        def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
            super().connection_made(transport)
            transport.max_size = WEBSOCKET_READ_SIZE  # type: ignore[attr-defined]

        def send_receive_event_to_app(self) -> None:
            if self.close_sent:  # the message is discarded
                super().send_receive_event_to_app()
                return
            # By default, uvicorn pauses reading at each message and resumes when it is taken. That costs two system
            # calls per message and leaves pings unanswered.
            self._unread.append(sum(map(len, self.frames)) + MESSAGE_BYTES)
            connections.unread_bytes += self._unread[-1]
            was_paused, self.read_paused = self.read_paused, True
            super().send_receive_event_to_app()
            self.read_paused = was_paused
            too_much = len(self._unread) >= MAX_UNREAD and connections.unread_bytes > limits.max_unread_bytes
            if too_much and not was_paused and not self.close_sent:
                self.read_paused = True
                self.transport.pause_reading()

        async def receive(self) -> Any:
            message = await super().receive()
            if message["type"] == "websocket.receive":
                connections.unread_bytes -= self._unread.popleft()
            return message

        def connection_lost(self, exc: Exception | None) -> None:
            connections.unread_bytes -= sum(self._unread)
            self._unread.clear()
            while not self.queue.empty():  # the results are no longer needed
                self.queue.get_nowait()
            super().connection_lost(exc)

        def handle_ping(self) -> None:
            if self._may_go_on():
                super().handle_ping()

        def handle_pong(self, event: Frame) -> None:
            # uvicorn would subtract the round trip time, which is often seconds here, from the time to the next ping.
            self._may_go_on()

        def handle_cont(self, event: Frame) -> None:
            if len(event.data) >= SMALL_SIZE or event.fin or self._may_go_on():
                super().handle_cont(event)

        def _may_go_on(self) -> bool:
            if self._allowance.spend():
                return True
            self.transport.abort()
            return False

        def on_task_complete(self, task: asyncio.Task) -> None:
            super().on_task_complete(task)
            if not self.disconnected:
                self._write_timer.start()  # covers the last bytes

    return Http, WebSocket
