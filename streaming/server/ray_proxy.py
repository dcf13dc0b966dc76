"""Middleware for Ray's proxy: if a replica is killed, its WebSocket clients get a close frame.

    RAY_SERVE_HTTP_PROXY_CALLBACK_IMPORT_PATH=asr.streaming.server.ray_proxy:middlewares

must be in the environment of the cluster's nodes. Without it Ray drops the client's connection without a close frame,
which clients show as code 1006. It has no effect with HAProxy instead of Ray's proxy: HAProxy drops connections.
"""

from __future__ import annotations

from starlette.middleware import Middleware
from starlette.types import ASGIApp, Message, Receive, Scope, Send

SERVICE_RESTART = 1012
REASON = "the server process of this stream ended unexpectedly; connect again"


class CloseFrame:
    """ASGI middleware: closes an accepted WebSocket with 1012 if the application leaves it open."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        is_open = False

        async def noticing_receive() -> Message:
            nonlocal is_open
            message = await receive()
            is_open = is_open and message["type"] != "websocket.disconnect"
            return message

        async def noticing_send(message: Message) -> None:
            nonlocal is_open
            is_open = message["type"] == "websocket.accept" or (is_open and message["type"] != "websocket.close")
            await send(message)

        await self._app(scope, noticing_receive, noticing_send)
        if is_open:
            await send({"type": "websocket.close", "code": SERVICE_RESTART, "reason": REASON})


def middlewares() -> list[Middleware]:
    """Called by Ray in each proxy."""
    return [Middleware(CloseFrame)]
