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
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.routing import Route

from asr.streaming.server import page
from asr.streaming.server.protocols import realtime, transcriptions, vosk
from asr.streaming.server.protocols.common import ProtocolError, shown
from asr.streaming.server.security.access import Access, AccessMiddleware
from asr.streaming.server.server import Server

OPENAI_PATHS = "POST /v1/audio/transcriptions, GET /v1/models, GET /v1/models/{id} and WebSocket /v1/realtime"


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
    app.state.server = server
    return app


async def _no_such_path(request: Request, error: Exception) -> Response:
    """Starlette's response; under /v1 in OpenAI's format, because OpenAI's clients show its message."""
    assert isinstance(error, HTTPException)
    path: str = request.scope["path"]
    if not f"{path}/".startswith("/v1/"):
        return PlainTextResponse(error.detail, error.status_code, error.headers)
    sentence = f"there is no {shown(f'{request.method} {path}')}; this server has {OPENAI_PATHS}"
    return ProtocolError(sentence, status=error.status_code).response(error.headers)


def _health(request: Request) -> Response:
    server: Server = request.app.state.server
    numbers = {"sessions": len(server.sessions), "max_sessions": server.limits.max_sessions, "load": round(server.load)}
    if (refusal := server.refusal()) is None:
        return JSONResponse({"status": "ok"} | numbers)
    status, reason = refusal
    return JSONResponse({"status": status, "reason": reason} | numbers, 503)


def _metrics(request: Request) -> Response:
    return Response(request.app.state.server.metrics.text(), media_type="text/plain; version=0.0.4; charset=utf-8")
