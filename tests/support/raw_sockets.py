"""Raw sockets to the server, for bytes that no client would send."""

from __future__ import annotations

import json
import socket
import struct
import urllib.error
import urllib.request
from contextlib import suppress

from support.server import RunningServer

BINARY, TEXT, CONTINUATION = 2, 1, 0

HANDSHAKE = (
    b"GET /vosk HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"
    b"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"
)


def tcp(port: int, data: bytes = b"") -> socket.socket:
    client = socket.socket()
    for direction in (socket.SO_SNDBUF, socket.SO_RCVBUF):
        client.setsockopt(socket.SOL_SOCKET, direction, 4096)  # fills up quickly
    client.settimeout(60)
    client.connect(("127.0.0.1", port))
    with suppress(ConnectionError):
        client.sendall(data)
    return client


def websocket(server: RunningServer, data: bytes = b"") -> socket.socket:
    """A raw socket after the handshake, for frames that no client would send."""
    client = tcp(server.port, HANDSHAKE)
    answer = b""
    while b"\r\n\r\n" not in answer:
        answer += client.recv(1)
    assert answer.startswith(b"HTTP/1.1 101")
    with suppress(ConnectionError):  # the server may refuse the first part and close
        client.sendall(data)
    return client


def frame(opcode: int, payload: bytes, last: bool = True, length: int | None = None) -> bytes:
    """A frame masked with zeros. `length`: the length that its header states."""
    size = len(payload) if length is None else length
    head = struct.pack("!BBQ", opcode | 0x80 * last, 0xFF, size)
    return head + bytes(4) + payload


def rest(client: socket.socket) -> bytes:
    """All bytes until the server closes the connection."""
    data = b""
    try:
        while piece := client.recv(65536):
            data += piece
    except ConnectionError:
        pass
    client.close()
    return data


def close_code(data: bytes) -> int:
    """The close code in the close frame at the beginning of `data`."""
    assert data[0] == 0x88
    return int.from_bytes(data[2:4], "big")


def closed(client: socket.socket) -> bool:
    client.setblocking(False)
    try:
        return not client.recv(1)
    except BlockingIOError:
        return False
    except ConnectionError:
        return True


def leave(client: socket.socket, abruptly: bool) -> None:
    if abruptly:  # with a reset
        client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    client.close()


def health(server: RunningServer) -> dict[str, object]:
    """Also with status 503, which says that no more clients are served."""
    try:
        answer = urllib.request.urlopen(f"{server.url}/healthz", timeout=30)
    except urllib.error.HTTPError as error:
        answer = error
    with answer:
        return json.load(answer)
