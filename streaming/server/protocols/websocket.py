"""A WebSocket client: its messages, within the limits, replies, and the close frame."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator

from starlette.responses import Response
from starlette.websockets import WebSocket, WebSocketDisconnect

from asr.streaming.server.protocols.common import ProtocolError
from asr.streaming.server.security.timeouts import SessionTimeouts
from asr.streaming.server.server import Refused, Server
from asr.streaming.server.session import Session

GOING_AWAY = 1001
POLICY_VIOLATION = 1008
INTERNAL_ERROR = 1011
ABNORMAL_CLOSURE = 1006

_GONE = (RuntimeError, OSError, WebSocketDisconnect)


def refusal(refused: Refused) -> Response:
    """HTTP 503: clients may retry later."""
    return ProtocolError(str(refused), code="overloaded", status=503).response({"retry-after": "2"})


async def refuse(websocket: WebSocket, refused: Refused) -> None:
    """Rejects a client before the handshake with HTTP 503, so that the client and any proxies know that they may
    retry."""
    await websocket.send_denial_response(refusal(refused))


class Client:
    """The other end of an accepted WebSocket."""

    def __init__(self, websocket: WebSocket, server: Server, session: Session) -> None:
        self._websocket = websocket
        self._server = server
        self._session = session
        self._timeouts = SessionTimeouts(server)
        self.connected = True

    @property
    def why_ended(self) -> str:
        """The reason for `close` if `messages` has ended while the client is still connected."""
        return self._timeouts.why_ended

    @property
    def close_code(self) -> int:
        """The close code for `why_ended`."""
        return GOING_AWAY if self._server.stopping.is_set() else POLICY_VIOLATION

    def messages(self) -> AsyncIterator[str | bytes]:
        """Messages until the client leaves or a timeout ends the session."""
        return self._timeouts.messages(self._receive)

    async def _receive(self) -> str | bytes | None:
        message = await self._websocket.receive()
        if message["type"] == "websocket.disconnect":
            self.connected = False
            # No client can send this code: the reason is that of connections.py.
            lost = message.get("reason") if message.get("code") == ABNORMAL_CLOSURE else ""
            self._session.why_ended = self._session.why_ended or lost or "the client left"
            return None
        text, data = message.get("text"), message.get("bytes")
        return text if text is not None else data or b""

    async def send(self, text: str) -> None:
        """Sends `text` when the client's buffers have space; if they never have, the write timeout (connections.py)
        disconnects the client.

        Raises WebSocketDisconnect if the client is gone.
        """
        if not self.connected:
            raise WebSocketDisconnect(GOING_AWAY)
        try:
            await self._websocket.send_text(text)
        except _GONE as error:
            self.connected = False
            raise WebSocketDisconnect(GOING_AWAY) from error

    async def close(self, code: int = 1000, reason: str = "", log: str | None = None) -> None:
        """Closes the connection if the client is still there. log: instead of a `reason` that quotes the client."""
        self._session.why_ended = self._session.why_ended or (reason if log is None else log)
        if self.connected:
            self.connected = False
            with contextlib.suppress(*_GONE):
                # A close frame holds at most 123 bytes.
                await self._websocket.close(code, reason.encode(errors="replace")[:123].decode(errors="ignore"))
