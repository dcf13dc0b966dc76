"""A client of a server with the limits of `asr-stream serve`, and applications for it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any

import uvicorn

from asr.streaming.server.cli import listen
from asr.streaming.server.security.connections import server_config
from asr.streaming.server.security.descriptors import OpenConnections
from asr.streaming.server.security.limits import Limits
from support.raw_sockets import HANDSHAKE


class Client:
    """A raw connection to a server in the same event loop."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer

    async def is_cut_off(self, data: bytes, times: int) -> bool:
        """Whether the server closes the connection while `data` is sent repeatedly and nothing is read."""
        with suppress(ConnectionError):
            for _ in range(times):
                self.writer.write(data)
                await asyncio.wait_for(self.writer.drain(), 10)
                await asyncio.sleep(0)
            return False
        return True

    async def frames(self) -> list[tuple[int, bytes]]:
        """The next frame, short and unmasked, as [(opcode, payload)]; none at the end."""
        with suppress(ConnectionError, asyncio.IncompleteReadError):
            head = await asyncio.wait_for(self.reader.readexactly(2), 10)
            return [(head[0] & 15, await self.reader.readexactly(head[1]))]
        return []


async def echo(scope: dict[str, Any], receive: Any, send: Any) -> None:
    """An application that echoes messages and returns the size of a body."""
    if scope["type"] == "http":
        size, more = 0, True
        while more:
            message = await receive()
            if message["type"] == "http.disconnect":
                return
            size, more = size + len(message["body"]), message["more_body"]
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": str(size).encode()})
        return
    await receive()
    await send({"type": "websocket.accept"})
    while (message := await receive())["type"] == "websocket.receive":
        await send({"type": "websocket.send", "bytes": message["bytes"]})


def waiting(left: asyncio.Event, kinds: list[str]) -> Any:
    """An application that receives nothing until `left`, and then adds the type of each message to `kinds`."""

    async def app(scope: dict[str, Any], receive: Any, send: Any) -> None:
        await receive()
        await send({"type": "websocket.accept"})
        await left.wait()
        while kinds[-1:] != ["websocket.disconnect"]:
            kinds.append((await receive())["type"])

    return app


def with_server(
    talk: Callable[[Client], Awaitable[None]],
    head: bytes = HANDSHAKE,
    adapt: Callable[[uvicorn.Config], None] = lambda config: None,
    app: Any = echo,
    limits: Limits | None = None,
    connections: OpenConnections | None = None,
    status: int = 101,
) -> None:
    """Serves `app` as `asr-stream serve` does its application, to a client that has sent `head`.

    status: of the response if `head` is a handshake of a WebSocket.
    """

    async def run() -> None:
        config = server_config(
            app, limits or Limits(), connections or OpenConnections(limits or Limits(), lambda: None)
        )
        config.lifespan = "off"
        adapt(config)
        server = uvicorn.Server(config)
        listening = listen("127.0.0.1", 0, "--port")
        serving = asyncio.create_task(server.serve([listening]))
        while not server.started:
            await asyncio.sleep(0.01)
        reader, writer = await asyncio.open_connection(*listening.getsockname())
        writer.write(head)
        if b"Upgrade: websocket" in head:
            response = await asyncio.wait_for(reader.readuntil(b"\r\n\r\n"), 10)
            assert response.startswith(b"HTTP/1.1 %d " % status), response
        await talk(Client(reader, writer))
        writer.transport.abort()
        server.should_exit = True
        await serving

    asyncio.run(run())
