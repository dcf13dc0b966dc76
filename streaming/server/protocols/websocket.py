"""A client at a WebSocket: its messages within the limits, and how it is taken leave of."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator

from starlette.responses import JSONResponse
from starlette.websockets import WebSocket, WebSocketDisconnect

from asr.streaming.server.security.patience import Patience
from asr.streaming.server.server import Refused, Server

GOING_AWAY = 1001
POLICY_VIOLATION = 1008
INTERNAL_ERROR = 1011
TRY_AGAIN_LATER = 1013

_GONE = (RuntimeError, OSError, WebSocketDisconnect)


async def refuse(websocket: WebSocket, refused: Refused) -> None:
    """Sends a client away that is not accepted yet: HTTP 503, so that it and those between know it may come again."""
    body = {"error": {"message": str(refused), "type": "server_error", "code": 503}}
    await websocket.send_denial_response(JSONResponse(body, 503, headers={"retry-after": "5"}))


class Client:
    """The other end of an accepted WebSocket."""

    def __init__(self, websocket: WebSocket, server: Server) -> None:
        self._websocket = websocket
        self._server = server
        self._patience = Patience(server)
        self.connected = True

    @property
    def why_ended(self) -> str:
        """After `messages` ended and the client is still there: a sentence for it, for `close`."""
        return self._patience.why_ended

    @property
    def close_code(self) -> int:
        """That goes with `why_ended`."""
        return GOING_AWAY if self._server.stopping.is_set() else POLICY_VIOLATION

    def messages(self) -> AsyncIterator[str | bytes]:
        """Messages until the client leaves, or the server's `Patience` with it ends."""
        return self._patience.listen(self._receive)

    async def _receive(self) -> str | bytes | None:
        message = await self._websocket.receive()
        if message["type"] == "websocket.disconnect":
            self.connected = False
            return None
        text, data = message.get("text"), message.get("bytes")
        return text if text is not None else data or b""

    async def send(self, text: str) -> None:
        """Sends, when the client takes it; `guard` ends its connection where it does not.

        Raises WebSocketDisconnect when it is gone.
        """
        if not self.connected:
            raise WebSocketDisconnect(GOING_AWAY)
        try:
            await self._websocket.send_text(text)
        except _GONE as error:
            self.connected = False
            raise WebSocketDisconnect(GOING_AWAY) from error

    async def close(self, code: int = 1000, reason: str = "") -> None:
        """Takes leave, if the client is still there."""
        if self.connected:
            self.connected = False
            with contextlib.suppress(*_GONE):
                # A close frame has room for 123 bytes.
                await self._websocket.close(code, reason.encode(errors="replace")[:123].decode(errors="ignore"))
