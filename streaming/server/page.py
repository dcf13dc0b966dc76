"""The page at `/`: live captions from a browser's microphone. Its files are in `web/`, installed as asr.web."""

from __future__ import annotations

import hashlib
from importlib.resources import files

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route

MEDIA_TYPES = {".html": "text/html", ".css": "text/css", ".js": "text/javascript"}
HEADERS = {
    # Allows only the page's own files; no framing, no inline scripts or styles.
    "content-security-policy": "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; "
    "img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    "permissions-policy": "microphone=(self), camera=(), geolocation=()",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "referrer-policy": "no-referrer",
    "x-content-type-options": "nosniff",
    # Browsers must revalidate every file, so that they do not mix files of two versions after an update.
    "cache-control": "no-cache",
}


def _route(name: str, body: bytes) -> Route:
    etag = f'"{hashlib.sha256(body).hexdigest()[:32]}"'
    media_type = MEDIA_TYPES[name[name.rindex(".") :]]

    async def answer(request: Request) -> Response:
        headers = HEADERS | {"etag": etag}
        if etag in request.headers.get("if-none-match", ""):
            return Response(status_code=304, headers=headers)
        return Response(body, headers=headers, media_type=media_type)

    return Route("/" if name == "index.html" else f"/{name}", answer)


def _routes() -> list[Route]:
    found = {file.name: file for file in files("asr.web").iterdir() if file.name.endswith(tuple(MEDIA_TYPES))}
    return [_route(name, file.read_bytes()) for name, file in sorted(found.items())]


_ROUTES = _routes()
PAGE_PATHS = frozenset(route.path for route in _ROUTES)
"""Files that browsers load without a token."""
routes: list[BaseRoute] = [*_ROUTES]
