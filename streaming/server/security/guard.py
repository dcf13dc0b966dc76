"""uvicorn's connections with an end to the patience: for those that are slow to ask, or do not take their answer.

uvicorn waits as long as a connection lasts for the head of a request, and for a client to take its answer. Here each of
these may last `idle_s`: the head in all, an answer from where it got stuck. And there are no more connections than the
limits allow: those beyond are closed unanswered.

What comes after the head is the business of who reads it: the body of an upload, the messages of a WebSocket.
"""

from __future__ import annotations

import asyncio
import logging
from typing import Any

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol
from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol

from asr.streaming.server.security.limits import Limits

CLOSING_S = 1.0
"""That a client of a WebSocket has, when the server ends, to answer that it was closed."""


class Timer:
    """Cuts a connection off when it was not stopped in time."""

    def __init__(self, seconds: float, transport: asyncio.Transport) -> None:
        self._seconds = seconds
        self._transport = transport
        self._handle: asyncio.TimerHandle | None = None

    def start(self) -> None:
        """Unless it runs already."""
        if self._handle is None:
            self._handle = asyncio.get_running_loop().call_later(self._seconds, self._transport.abort)

    def stop(self) -> None:
        if self._handle is not None:
            self._handle.cancel()
            self._handle = None


def _is_accident(record: logging.LogRecord) -> bool:
    """What anyone can bring about is none, or they could fill the log: bytes that are no HTTP or no UTF-8, and a
    WebSocket that is refused with an answer, after which uvicorn misses the handshake."""
    return not record.getMessage().startswith(("Invalid ", "ASGI callable returned without completing handshake"))


def is_closing(connection: asyncio.Protocol) -> bool:
    """Whether it is a WebSocket that waits for the client's answer to its end."""
    return isinstance(connection, WebSocketsSansIOProtocol) and connection.close_timer is not None


def guarded_protocols(limits: Limits) -> tuple[type[asyncio.Protocol], type[asyncio.Protocol]]:
    """For `uvicorn.Config`: its `http` and `ws`."""
    logging.getLogger("uvicorn.error").addFilter(_is_accident)

    class Taking(asyncio.Protocol):
        """What both have: the client takes what it is sent."""

        def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
            super().connection_made(transport)
            self._taking = Timer(limits.idle_s, transport)

        def pause_writing(self) -> None:
            super().pause_writing()
            self._taking.start()

        def resume_writing(self) -> None:
            super().resume_writing()
            self._taking.stop()

        def connection_lost(self, exc: Exception | None) -> None:
            self._taking.stop()
            super().connection_lost(exc)

    class Http(Taking, H11Protocol):
        def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
            super().connection_made(transport)
            self._asking = Timer(limits.idle_s, transport)
            self._asking.start()
            if len(self.connections) > limits.max_connections:
                transport.abort()

        def data_received(self, data: bytes) -> None:
            super().data_received(data)
            if self.transport.get_protocol() is not self:
                return  # now a WebSocket
            if self._answering:
                self._asking.stop()

        def on_response_complete(self) -> None:
            super().on_response_complete()
            if not self._answering:
                self._asking.start()

        @property
        def _answering(self) -> bool:
            return self.cycle is not None and not self.cycle.response_complete

        def handle_websocket_upgrade(self, event: h11.Request) -> None:
            self._asking.stop()
            super().handle_websocket_upgrade(event)

        def connection_lost(self, exc: Exception | None) -> None:
            self._asking.stop()
            super().connection_lost(exc)

    class WebSocket(Taking, WebSocketsSansIOProtocol):  # type: ignore[misc]
        def __init__(self, *args: Any, **kwargs: Any) -> None:
            super().__init__(*args, **kwargs)
            self.close_timeout = min(self.close_timeout, limits.idle_s)

        def on_task_complete(self, task: asyncio.Task) -> None:
            super().on_task_complete(task)
            if not self.disconnected:
                self._taking.start()  # of the last words

    return Http, WebSocket
