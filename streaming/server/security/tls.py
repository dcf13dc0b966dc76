"""TLS: connections during the handshake count as connections that wait for a request, and have as little time.

asyncio's own TLS servers report a connection only after its handshake, for which a client may take a minute. Until then
it would be counted nowhere, so a few thousand of them would use up the process's descriptors.
"""

from __future__ import annotations

import asyncio
import ssl
import sys
from asyncio import sslproto
from typing import Any

from asr.streaming.server.security.descriptors import FIRST_BYTE_S, OpenConnections

READ_SIZE = 16384
"""In bytes: as much as a record of TLS may hold."""
TIMES: dict[str, Any] = {"ssl_handshake_timeout": FIRST_BYTE_S}
if sys.version_info >= (3, 11):
    TIMES["ssl_shutdown_timeout"] = 1.0  # many clients do not answer the end of TLS


def server_context(cert: str, key: str) -> ssl.SSLContext:
    """A context with the certificates and the private key of two PEM files. Raises ValueError."""
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    for option, path in (("--tls-cert", cert), ("--tls-key", key)):
        try:
            open(path, "rb").close()
        except OSError as error:
            raise ValueError(f"{option} {path} cannot be read: {error.strerror}") from error
    try:
        context.load_cert_chain(cert, key, password=lambda: "")  # otherwise OpenSSL asks for it on the terminal
    except ssl.SSLError as error:
        raise ValueError(
            f"--tls-cert {cert} and --tls-key {key} are not a certificate and its private key, both in PEM "
            f"and without a password: {error.reason or error}"
        ) from error
    return context


def with_tls(
    http: type[asyncio.Protocol], context: ssl.SSLContext, connections: OpenConnections
) -> type[asyncio.Protocol]:
    """`http` of `uvicorn.Config` over TLS."""
    sslproto.SSLProtocol.max_size = READ_SIZE  # type: ignore[attr-defined]  # otherwise 256 KiB for each connection

    class Handshake(asyncio.Protocol):
        """A connection until its handshake is complete; then `http` takes its place."""

        def __init__(self, **arguments: Any) -> None:
            self._arguments = arguments
            self._early = b""
            self._lost = False

        def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
            transport.max_size = READ_SIZE  # type: ignore[attr-defined]  # for Python 3.10
            transport.pause_reading()
            if connections.add(transport):
                self._task = asyncio.get_running_loop().create_task(self._shake_hands(transport))

        def data_received(self, data: bytes) -> None:
            self._early += data  # came with the end of the handshake

        def connection_lost(self, exc: Exception | None) -> None:
            self._lost = True

        async def _shake_hands(self, transport: asyncio.Transport) -> None:
            loop = asyncio.get_running_loop()
            try:
                encrypted = await loop.start_tls(transport, self, context, server_side=True, **TIMES)
            except OSError:  # any failure of the handshake
                return
            finally:
                connections.discard(transport)
            if encrypted is None or self._lost:
                return
            protocol = http(**self._arguments)
            encrypted.set_protocol(protocol)
            protocol.connection_made(encrypted)
            if self._early:
                protocol.data_received(self._early)

    return Handshake
