"""A client at a WebSocket: its messages within the limits, and how it is taken leave of."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator

from starlette.responses import JSONResponse
from starlette.websockets import WebSocket, WebSocketDisconnect

from asr.streaming.server.patience import Patience
from asr.streaming.server.server import Refused, Server

GOING_AWAY = 1001
POLICY_VIOLATION = 1008
INTERNAL_ERROR = 1011
TRY_AGAIN_LATER = 1013

_GONE = (TimeoutError, asyncio.TimeoutError, RuntimeError, OSError, WebSocketDisconnect)


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
        """After `messages` ended and the client is still there: a sentence for it, to `close` with `end_code`."""
        return self._patience.why_ended

    @property
    def end_code(self) -> int:
        return GOING_AWAY if self._server.stopping.is_set() else POLICY_VIOLATION

    async def messages(self) -> AsyncIterator[str | bytes]:
        """Messages until the client leaves, or the server's `Patience` with it ends."""
        async with contextlib.aclosing(self._patience.listen(self._websocket.receive)) as received:
            async for message in received:
                if message["type"] == "websocket.disconnect":
                    self.connected = False
                    return
                text, data = message.get("text"), message.get("bytes")
                yield text if text is not None else data or b""

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
