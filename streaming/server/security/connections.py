"""uvicorn's connections with limits on slow clients, floods of empty frames, and the number of connections.

uvicorn waits without limit for the head of a request and for a client to read its response, answers every ping
regardless of the number of unread pongs, and parses all data of one read before anything else runs. Here:

- The head of a request must arrive in time (descriptors.py), and a response must be read within `timeout_s` after the
  buffers are full.
- A connection may send few frames without data. One that exceeds its allowance is dropped.
- Reads are short, those of a WebSocket even more, so that parsing the smallest frames blocks the event loop only for
  milliseconds.
- Clients may send audio faster than it is recognized, because their pings and pongs come after that audio; reading
  stops when all clients together are `max_unread_bytes` ahead (unread.py).
- A WebSocket client that sends nothing for `timeout_s` after a ping, or sends a message too slowly, is dropped. While
  reading from it is stopped, its pongs may be late.

The data after the head has other timeouts: the body of an upload (uploads.py), messages (timeouts.py).

The classes override internals of uvicorn, which any release may change: pyproject.toml names the releases that work.
"""

from __future__ import annotations

import asyncio
import logging
import ssl
import time
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any

import h11
import uvicorn
from starlette.types import ASGIApp
from uvicorn.protocols.http.h11_impl import H11Protocol
from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol
from websockets.frames import Frame
from websockets.http11 import Request

from asr.streaming.server.security.access import plain_path
from asr.streaming.server.security.descriptors import BACKLOG, OpenConnections
from asr.streaming.server.security.limits import Limits
from asr.streaming.server.security.tls import READ_SIZE, with_tls

CLOSE_TIMEOUT_S = 1.0
"""Seconds for a WebSocket client to answer a close frame when the server ends."""
PING_INTERVAL_S = 20.0
"""Keeps proxies from closing an idle connection. Shorter if `timeout_s` is."""
WEBSOCKET_READ_SIZE = 2048
"""Bytes per read, without TLS. The parser handles all frames of a read before anything else runs: about 10 us each, and
a frame may have only 6 bytes."""
SMALL_SIZE = 64
"""In bytes. Smaller fragments and chunks count as frames without data."""
MAX_SMALL_FRAMES, SMALL_FRAMES_PER_S = 256, 32.0
MAX_LINE, MAX_HEADERS = 8000, 120
"""Maximum line length in bytes, and maximum number of lines, in the head of a WebSocket request. `websockets` silently
drops longer heads."""
MESSAGE_BYTES = 512
"""Overhead of a message in bytes."""
REALTIME_PATH = "/v1/realtime"
"""The only one with long messages: an event may hold minutes of audio."""


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


def server_config(
    app: ASGIApp,
    limits: Limits,
    connections: OpenConnections,
    tls: ssl.SSLContext | None = None,
    proxies: Sequence[str] = (),
) -> uvicorn.Config:
    """uvicorn's configuration for `app`, with the connections of this module.

    tls: None: without TLS. proxies: their X-Forwarded-For header gives a client's address.
    """
    logging.getLogger("uvicorn.error").addFilter(_is_our_fault)
    http, websocket = limited_protocols(limits, connections)
    if tls is not None:
        http = with_tls(http, tls, connections)
    return uvicorn.Config(
        app,
        http=http,
        ws=websocket,
        ws_max_size=limits.max_message_bytes,
        ws_ping_interval=min(PING_INTERVAL_S, limits.timeout_s),
        ws_ping_timeout=None,
        ws_per_message_deflate=False,  # compression costs memory and does not make audio smaller
        backlog=BACKLOG,
        timeout_graceful_shutdown=1,
        log_level="error",
        server_header=False,
        proxy_headers=bool(proxies),
        forwarded_allow_ips=list(proxies),
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
            self._write_timer = Timer(limits.timeout_s, transport)
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
            self.close_timeout = min(self.close_timeout, limits.timeout_s)
            self._allowance = Allowance()
            self.num_bytes = 0
            self._sizes: deque[int] = deque()
            """Of the messages that are not handled; the first one may be in progress."""
            self._in_progress = False
            self._fragment_bytes = 0
            self._incomplete_bytes = 0
            self._message_began: float | None = None
            self._pinged: float | None = None
            """Time of the first ping since the client was heard."""
            self._why_lost = ""

        def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
            super().connection_made(transport)
            transport.max_size = WEBSOCKET_READ_SIZE  # type: ignore[attr-defined]

        @property
        def num_messages(self) -> int:
            return len(self._sizes)

        def handle_connect(self, event: Request) -> None:
            if plain_path(event.path.partition("?")[0]) != REALTIME_PATH:
                self.conn.max_message_size = limits.max_short_message_bytes
            super().handle_connect(event)

        def data_received(self, data: bytes) -> None:
            self._pinged = None
            super().data_received(data)
            incomplete = 0 if self.close_sent else self._fragment_bytes + len(self.conn.reader.buffer)
            if not incomplete:
                self._message_began = None
            elif self._message_began is None:
                self._message_began = self.loop.time()
            if incomplete != self._incomplete_bytes:
                self._count(incomplete - self._incomplete_bytes)
                self._incomplete_bytes = incomplete
            if not (self.read_paused or self.close_sent or connections.unread.may_read(self)):
                self.read_paused = True
                self.transport.pause_reading()
                connections.unread.pause(self)

        def go_on(self) -> None:
            if self.read_paused:
                self.read_paused = False
                self.transport.resume_reading()

        def _count(self, num_bytes: int) -> None:
            self.num_bytes += num_bytes
            connections.unread.changed(self, num_bytes)

        def send_receive_event_to_app(self) -> None:
            self._message_began, self._fragment_bytes = None, 0
            if not self.close_sent:  # otherwise, the message is discarded
                self._sizes.append(sum(map(len, self.frames)) + MESSAGE_BYTES)
                self._count(self._sizes[-1])
            # By default, uvicorn pauses reading at each message and resumes when it is taken. That costs two system
            # calls per message and leaves pings unanswered.
            was_paused, self.read_paused = self.read_paused, True
            super().send_receive_event_to_app()
            self.read_paused = was_paused

        async def receive(self) -> Any:
            if self._in_progress:  # the message before is handled
                self._in_progress = False
                self._count(-self._sizes.popleft())
            message = await self.queue.get()
            self._in_progress = message["type"] == "websocket.receive"
            return message

        def connection_lost(self, exc: Exception | None) -> None:
            self._sizes.clear()
            self._in_progress = False
            connections.unread.discard(self)
            while not self.queue.empty():  # the results are no longer needed
                self.queue.get_nowait()
            if self._why_lost:
                self.queue.put_nowait({"type": "websocket.disconnect", "code": 1006, "reason": self._why_lost})
            super().connection_lost(exc)

        def send_keepalive_ping(self) -> None:
            now = self.loop.time()
            if self.read_paused:
                self._pinged = self._message_began = None
            silent = self._pinged is not None and now - self._pinged >= limits.timeout_s
            began = self._message_began
            slow = began is not None and now - began >= limits.slowest_s(self._incomplete_bytes)
            if silent or slow:
                self.ping_timer = None
                self._why_lost = "the client does not answer pings" if silent else "a message came too slowly"
                self.transport.abort()
                return
            self._pinged = self._pinged or now
            super().send_keepalive_ping()

        def handle_text(self, event: Frame) -> None:
            self._fragment_bytes += len(event.data)
            super().handle_text(event)

        def handle_bytes(self, event: Frame) -> None:
            self._fragment_bytes += len(event.data)
            super().handle_bytes(event)

        def handle_ping(self) -> None:
            if self._may_go_on():
                super().handle_ping()

        def handle_pong(self, event: Frame) -> None:
            # uvicorn would subtract the round trip time, which is often seconds here, from the time to the next ping.
            self._may_go_on()

        def handle_cont(self, event: Frame) -> None:
            self._fragment_bytes += len(event.data)
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
