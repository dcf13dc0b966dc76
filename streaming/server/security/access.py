"""Access control: checks every request before anything is allocated for it.

- Browsers send the origin of a page: a page of another origin is refused unless it is on the list. Otherwise any page
  that a user visits could listen through a server on that user's machine.
- While the server listens only on this machine, it accepts only this machine's names: a foreign name that resolves to
  this machine (DNS rebinding) is refused.
- If a token is set, everything except the page and `/healthz` requires it.
"""

from __future__ import annotations

import hmac
import ipaddress
import os
import re
from dataclasses import dataclass
from urllib.parse import unquote_to_bytes

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from asr.streaming.server.page import PAGE_PATHS
from asr.streaming.server.security.log import logged_as

LOOPBACK = ("localhost", "127.0.0.1", "::1")
_LOCAL_HOST = re.compile(r"(localhost|127\.0\.0\.1|\[::1\])(:[0-9]{1,5})?", re.IGNORECASE)
_ORIGIN = re.compile(r"https?://([^/?#@]+)", re.IGNORECASE)
REASONS = {400: "headers", 401: "token", 403: "origin", 421: "host"}
"""Reasons of refusals in metrics and the log, by HTTP status."""
SUBPROTOCOL_PREFIX = "openai-insecure-api-key."
"""Browsers cannot set headers of a WebSocket, so they send a token as a subprotocol. A token may be percent-encoded,
because neither a subprotocol nor a header takes every character."""


@dataclass(frozen=True)
class Access:
    """host: the address that the server listens on. origins: allowed pages besides its own, as `https://example.org`.
    token: clients must send it as `Authorization: Bearer TOKEN`; empty: not needed."""

    host: str = "127.0.0.1"
    origins: tuple[str, ...] = ()
    token: str = ""

    def refusal(self, path: str, headers: Headers, websocket: bool) -> tuple[int, str] | None:
        """HTTP status, one of REASONS, and message for a refused request; None if it is allowed."""
        for name in ("host", "origin", "authorization"):
            if len(headers.getlist(name)) > 1:
                return 400, f"there are several headers named {name}; send one"
        host = headers.get("host", "")
        # Browsers always send a host; programs with HTTP/1.0, such as probes of load balancers, may not.
        if self.host in LOOPBACK and "host" in headers and not _LOCAL_HOST.fullmatch(host):
            return 421, f"this server answers to {', '.join(LOOPBACK)} only; start it with --host to change that"
        if path in PAGE_PATHS and not websocket:
            return None  # the page itself needs no token; its requests are checked
        origin = headers.get("origin")
        if origin is not None and origin not in self.origins and not _is_page_of(host, origin):
            return 403, "pages of this origin are not allowed; start the server with --allow-origin to allow them"
        if self.token and (websocket or path != "/healthz") and not self._has_token(headers):
            return 401, "the token is missing or wrong: Authorization: Bearer TOKEN"
        return None

    def _has_token(self, headers: Headers) -> bool:
        scheme, _, credentials = headers.get("authorization", "").partition(" ")
        given = [credentials.strip(" ")] if scheme.lower() == "bearer" else []
        for protocols in headers.getlist("sec-websocket-protocol"):
            for protocol in map(str.strip, protocols.split(",")):
                if protocol.startswith(SUBPROTOCOL_PREFIX):
                    given.append(protocol.removeprefix(SUBPROTOCOL_PREFIX))
        # Compared as bytes, because a token need not be valid UTF-8. All are compared, in constant time.
        expected = os.fsencode(self.token)
        sent = [text.encode("latin-1") for text in given]
        return any([hmac.compare_digest(token, expected) for raw in sent for token in (raw, unquote_to_bytes(raw))])


def _is_page_of(host: str, origin: str) -> bool:
    found = _ORIGIN.fullmatch(origin)
    return found is not None and found[1].lower() == host.lower()


def plain_path(path: str) -> str:
    """`path` without repeated slashes and one at its end: clients join addresses in different ways."""
    return "/" + "/".join(filter(None, path.split("/")))


class AccessMiddleware:
    """ASGI middleware: passes on the requests that `access` allows, with a plain path, and refuses others."""

    def __init__(self, app: ASGIApp, access: Access) -> None:
        self._app = app
        self._access = access

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] in ("http", "websocket"):
            websocket = scope["type"] == "websocket"
            scope["path"] = plain_path(scope["path"])
            send = _with_headers(scope, send)
            refusal = self._access.refusal(scope["path"], Headers(scope=scope), websocket)
            with logged_as(client=_address(scope)):
                if refusal is not None:
                    status, sentence = refusal
                    scope["app"].state.server.count_refusal(REASONS[status], sentence, status=status)
                    await _refusal(status, sentence)(scope, receive, send)
                    return
                await self._app(scope, receive, send)
        else:
            await self._app(scope, receive, send)


def _address(scope: Scope) -> str:
    """The client's address; behind a proxy, it comes from a header and may be anything."""
    host = (scope.get("client") or ("",))[0]
    try:
        return str(ipaddress.ip_address(host))
    except ValueError:
        return "unknown"


def _with_headers(scope: Scope, send: Send) -> Send:
    """Keeps browsers from guessing types of responses, and accepts the first offered subprotocol that is not a token:
    browsers close a WebSocket whose server accepts none of them."""
    offered = [name for name in scope.get("subprotocols", ()) if not name.startswith(SUBPROTOCOL_PREFIX)]

    async def answer(message: Message) -> None:
        if message["type"] in ("http.response.start", "websocket.http.response.start"):
            MutableHeaders(scope=message).setdefault("x-content-type-options", "nosniff")
        elif message["type"] == "websocket.accept" and offered and not message.get("subprotocol"):
            message = {**message, "subprotocol": offered[0]}
        await send(message)

    return answer


def _refusal(status: int, sentence: str) -> JSONResponse:
    body = {"error": {"message": sentence, "type": "access_denied", "code": status}}
    return JSONResponse(body, status, {"www-authenticate": "Bearer"} if status == 401 else None)
