"""The server as an ASGI application: the paths of the protocols, protected by access control.

POST /v1/audio/transcriptions   OpenAI's transcription of files, whole or as a stream of events
WS   /v1/realtime               OpenAI's Realtime transcription
WS   / and /vosk                vosk-server's protocol
GET  /                          a page with live captions
GET  /healthz, /metrics         for operators
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.middleware.cors import CORSMiddleware
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route, WebSocketRoute
from starlette.websockets import WebSocket

from asr.streaming.server import page
from asr.streaming.server.protocols import realtime, transcriptions, vosk
from asr.streaming.server.protocols.common import ProtocolError, shown
from asr.streaming.server.security.access import Access, AccessMiddleware
from asr.streaming.server.server import Server

PATHS = (
    "POST /v1/audio/transcriptions, GET /v1/models, GET /v1/models/{id}, WebSocket /v1/realtime, WebSocket /vosk, "
    "GET /, GET /healthz and GET /metrics"
)
WEBSOCKET_PATHS = ("/v1/realtime", "/vosk")


def create_app(server: Server, access: Access) -> Starlette:
    """The application; `request.app.state.server` is `server`."""

    @asynccontextmanager
    async def lifespan(app: Starlette) -> AsyncIterator[None]:
        yield
        await server.stop()

    app = Starlette(
        routes=[
            Route("/healthz", _health),
            Route("/metrics", _metrics),
            *page.routes,
            *transcriptions.routes,
            *realtime.routes,
            *vosk.routes,
            WebSocketRoute("/{path:path}", _no_such_websocket),
        ],
        middleware=[
            # The outermost middleware, because a browser's preflight request has no token. Without it, allowed pages
            # could not read responses.
            Middleware(
                CORSMiddleware, allow_origins=access.origins, allow_methods=("GET", "POST"), allow_headers=("*",)
            ),
            Middleware(AccessMiddleware, access=access),
        ],
        exception_handlers={HTTPException: _no_such_path},
        lifespan=lifespan,
    )
    app.router.redirect_slashes = False  # the paths are plain
    app.state.server = server
    return app


async def _no_such_path(request: Request, error: Exception) -> Response:
    """In OpenAI's format, because OpenAI's clients show its message."""
    assert isinstance(error, HTTPException)
    path: str = request.scope["path"]
    if request.method == "GET" and path in WEBSOCKET_PATHS:
        sentence = f"{path} is for a WebSocket: a proxy in between must pass on the headers Upgrade and Connection"
        return ProtocolError(sentence, status=426).response({"upgrade": "websocket", "connection": "upgrade"})
    return _no_such(f"{request.method} {path}", error.status_code).response(error.headers)


async def _no_such_websocket(websocket: WebSocket) -> None:
    await websocket.send_denial_response(_no_such(f"WebSocket {websocket.scope['path']}", 404).response())


def _no_such(what: str, status: int) -> ProtocolError:
    return ProtocolError(f"there is no {shown(what)}; this server has {PATHS}", status=status)


def _health(request: Request) -> Response:
    server: Server = request.app.state.server
    limits = server.limits
    numbers = {"sessions": server.num_open(is_upload=False), "max_sessions": limits.max_sessions}
    numbers |= {"uploads": server.num_open(is_upload=True), "max_uploads": limits.max_uploads}
    numbers["load"] = round(server.load)
    if (refusal := server.refusal()) is None:
        return JSONResponse({"status": "ok"} | numbers)
    status, reason = refusal
    return JSONResponse({"status": status, "reason": reason} | numbers, 503)


def _metrics(request: Request) -> Response:
    return Response(request.app.state.server.metrics.text(), media_type="text/plain; version=0.0.4; charset=utf-8")
