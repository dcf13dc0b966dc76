"""uvicorn's connections with limits: releases, floods of empty frames, pongs that come late."""

from __future__ import annotations

import asyncio
import re
import socket
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import uvicorn
from packaging.requirements import Requirement
from support.connections import Client, waiting, with_server
from support.raw_sockets import BINARY, CONTINUATION, HANDSHAKE, frame

from asr.streaming.server.cli import KEEPALIVE, listen
from asr.streaming.server.security.connections import WEBSOCKET_READ_SIZE
from asr.streaming.server.security.descriptors import OpenConnections
from asr.streaming.server.security.limits import Limits
from asr.streaming.server.security.unread import ALWAYS

PING, PONG = 9, 10
WAIT_S = 60.0
ROOT = Path(__file__).parent.parent.parent


def test_installed_uvicorn_is_known_to_work() -> None:
    """connections.py overrides internals, which any release may change."""
    found = re.search(r'"(uvicorn[^"]*)"', (ROOT / "pyproject.toml").read_text())
    assert found
    specifier = Requirement(found[1]).specifier
    assert uvicorn.__version__ in specifier
    assert {each.operator for each in specifier} == {">=", "<"}
    # Releases before 0.53 end every handshake with an AttributeError.
    assert "0.52.0" not in specifier and "1.0" not in specifier


@pytest.mark.parametrize("host", ["127.0.0.1", "::1"])
def test_accepted_sockets_send_at_once(host: str) -> None:
    """Without TCP_NODELAY, a second small reply waits 40 ms for the acknowledgment of the first."""

    async def run() -> int:
        accepted: asyncio.Queue[asyncio.StreamWriter] = asyncio.Queue()
        listening = listen(host, 0, "--port")
        async with await asyncio.start_server(lambda _, writer: accepted.put_nowait(writer), sock=listening):
            _, client = await asyncio.open_connection(*listening.getsockname()[:2])
            server_side = await accepted.get()
            option = server_side.get_extra_info("socket").getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)
            client.transport.abort()
            server_side.transport.abort()
        return option

    assert asyncio.run(run())


# ---- floods ----


@pytest.mark.parametrize(
    "flood",
    [
        pytest.param(frame(PING, bytes(125)), id="pings"),
        pytest.param(frame(PING, b""), id="empty pings"),
        pytest.param(frame(PONG, b""), id="pongs"),
        pytest.param(frame(CONTINUATION, b"", last=False), id="empty fragments"),
        pytest.param(frame(CONTINUATION, b"x", last=False), id="fragments of a byte"),
    ],
)
def test_flood_of_empty_frames_ends_the_connection(flood: bytes) -> None:
    """Each frame costs as much as a message, and replies to pings stay in memory if the client does not read."""

    async def talk(client: Client) -> None:
        client.writer.write(frame(BINARY, b"", last=False))
        assert await client.is_cut_off(100 * flood, 1000)

    with_server(talk)


def test_chunks_of_a_byte_end_the_connection() -> None:
    async def talk(client: Client) -> None:
        assert await client.is_cut_off(1000 * b"1\r\nx\r\n", 1000)

    with_server(talk, b"POST / HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n")


def test_what_clients_send_is_no_flood() -> None:
    """Occasional pings, messages in fragments, bodies in chunks."""

    async def talk(client: Client) -> None:
        for _ in range(100):
            client.writer.write(frame(PING, b"abc"))
        for _ in range(100):
            assert await client.frames() == [(PONG, b"abc")]
        fragments = [frame(CONTINUATION if i else BINARY, bytes(100), last=i == 599) for i in range(600)]
        client.writer.write(b"".join(fragments))
        head = await asyncio.wait_for(client.reader.readexactly(4), 10)
        assert head == b"\x82\x7e" + (60000).to_bytes(2, "big")

    with_server(talk)

    async def post(client: Client) -> None:
        client.writer.write(10000 * (b"40\r\n" + bytes(64) + b"\r\n"))
        client.writer.write(100 * b"1\r\nx\r\n" + b"0\r\n\r\n")
        answer = await asyncio.wait_for(client.reader.readuntil(b"640100"), 20)
        assert answer.startswith(b"HTTP/1.1 200")

    with_server(post, b"POST / HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n")


def record_reads(config: uvicorn.Config, sizes: list[int]) -> None:
    """Appends the size of each read of a WebSocket to `sizes`."""
    config.load()
    protocol = config.ws_protocol_class
    assert isinstance(protocol, type)

    def data_received(self: Any, data: bytes, original: Any = protocol.data_received) -> None:
        sizes.append(len(data))
        original(self, data)

    protocol.data_received = data_received  # type: ignore[attr-defined]


def test_no_more_is_read_while_messages_wait() -> None:
    """A client may send faster than it is served, and data that has been read stays in memory."""
    sizes: list[int] = []
    left = asyncio.Event()
    messages = 12 * frame(BINARY, bytes(60000))

    async def talk(client: Client) -> None:
        client.writer.write(messages)
        while sum(sizes) < ALWAYS:
            await asyncio.sleep(0.001)
        for _ in range(200):  # iterations of the loop, each of which could read data
            await asyncio.sleep(0)
        assert sum(sizes) < ALWAYS + 2 * WEBSOCKET_READ_SIZE
        left.set()
        while sum(sizes) < len(messages):  # all of it arrives eventually
            await asyncio.sleep(0.001)

    limits = Limits(max_unread_bytes=100)
    with_server(talk, adapt=partial(record_reads, sizes=sizes), app=waiting(left, []), limits=limits)


def test_pings_behind_audio_that_waits_are_answered() -> None:
    """The server keeps reading from a client that sends faster than real time."""
    left = asyncio.Event()
    kinds: list[str] = []

    async def talk(client: Client) -> None:
        client.writer.write(100 * frame(BINARY, bytes(60000)) + frame(PING, b"abc"))
        assert await client.frames() == [(PONG, b"abc")]
        left.set()
        while len(kinds) < 100:
            await asyncio.sleep(0.001)

    with_server(talk, app=waiting(left, kinds))


def test_data_of_a_departed_client_is_discarded() -> None:
    connections = OpenConnections(Limits(), lambda: None)
    left = asyncio.Event()
    kinds: list[str] = []

    async def talk(client: Client) -> None:
        client.writer.write(20 * frame(BINARY, bytes(60000)))
        while connections.unread.num_bytes < 20 * 60000:
            await asyncio.sleep(0.001)
        client.writer.transport.abort()
        while connections.unread.num_bytes:
            await asyncio.sleep(0.001)
        left.set()
        while not kinds:
            await asyncio.sleep(0.001)

    with_server(talk, app=waiting(left, kinds), connections=connections)
    assert kinds == ["websocket.disconnect"]


# ---- keepalive ----


def test_a_pong_that_is_late_ends_nothing() -> None:
    """The pong is queued behind the client's audio, which is not read while too much audio is waiting."""

    def adapt(config: uvicorn.Config) -> None:
        config.ws_ping_interval = 0.05
        if config.ws_ping_timeout is not None:
            config.ws_ping_timeout = 0.05

    async def talk(client: Client) -> None:
        pings = []
        for _ in range(8):
            ((opcode, payload),) = await client.frames()
            assert opcode == PING
            pings.append(payload)
        client.writer.write(b"".join(frame(PONG, payload) for payload in pings))
        client.writer.write(frame(BINARY, b"still there"))
        frames = []
        while (BINARY, b"still there") not in frames:
            found = await client.frames()
            assert found and found[0][0] in (PING, BINARY)
            frames += found

    with_server(talk, adapt=adapt)


def test_late_pong_does_not_hasten_next_ping() -> None:
    """uvicorn subtracts the round trip from the interval, so a round trip of 20 s would make it send pings without
    pause."""
    round_trips = []

    def adapt(config: uvicorn.Config) -> None:
        config.ws_ping_interval = 0.05
        config.load()
        protocol: Any = config.ws_protocol_class

        def schedule_ping(self: Any, original: Any = protocol.schedule_ping) -> None:
            round_trips.append(self.last_ping_rtt)
            original(self)

        protocol.schedule_ping = schedule_ping

    async def talk(client: Client) -> None:
        for _ in range(3):
            ((opcode, payload),) = await client.frames()
            assert opcode == PING
            client.writer.write(frame(PONG, payload))

    with_server(talk, adapt=adapt)
    assert len(round_trips) >= 3 and set(round_trips) == {0.0}


def test_a_quiet_client_that_answers_pings_stays_and_another_does_not() -> None:
    limits = Limits(timeout_s=0.2)

    async def talk(client: Client) -> None:
        for _ in range(10):  # more than the time to answer
            ((opcode, payload),) = await client.frames()
            assert opcode == PING
            client.writer.write(frame(PONG, payload))
        while found := await client.frames():
            assert found[0][0] == PING

    with_server(talk, limits=limits)


@pytest.mark.parametrize("last", [True, False])
def test_a_message_that_comes_too_slowly_ends_the_connection(last: bool) -> None:
    """Although each byte is a sign of life."""
    limits = Limits(timeout_s=0.2)
    begun = frame(BINARY, bytes(100), last=False) if not last else b""
    following = frame(BINARY if last else CONTINUATION, b"", length=100000)

    async def talk(client: Client) -> None:
        client.writer.write(begun + following)
        with suppress(ConnectionError):
            while not client.reader.at_eof():
                client.writer.write(b"x")
                await client.writer.drain()
                await asyncio.sleep(0.01)

    with_server(talk, limits=limits)


def test_long_messages_are_taken_at_the_path_of_realtime_only() -> None:
    size = 2 * Limits().max_short_message_bytes

    async def taken(client: Client) -> None:
        client.writer.write(frame(BINARY, bytes(size)))
        await asyncio.wait_for(client.reader.readexactly(size), WAIT_S)

    async def refused(client: Client) -> None:
        client.writer.write(frame(BINARY, b"", length=size))
        ((opcode, payload),) = await client.frames()
        assert (opcode, int.from_bytes(payload[:2], "big")) == (8, 1009)

    with_server(taken, HANDSHAKE.replace(b"/vosk", b"/v1/realtime?model=any"))
    with_server(refused, HANDSHAKE)


def test_many_long_messages_at_once_all_arrive() -> None:
    """Together they are more than clients may be ahead, so some wait, but not for each other."""
    size = 300000

    async def app(scope: dict[str, Any], receive: Any, send: Any) -> None:
        await receive()
        await send({"type": "websocket.accept"})
        assert len((await receive())["bytes"]) == size
        await asyncio.sleep(0.01)
        await send({"type": "websocket.send", "bytes": b"all"})
        await receive()

    connections = OpenConnections(Limits(max_unread_bytes=400000), lambda: None)
    most = 0

    async def talk(client: Client) -> None:
        others = [await asyncio.open_connection(*client.writer.get_extra_info("peername")) for _ in range(7)]
        for reader, writer in others:
            writer.write(HANDSHAKE)
            await reader.readuntil(b"\r\n\r\n")
        clients = [client, *(Client(*other) for other in others)]
        message = frame(BINARY, bytes(size))
        for begin in range(0, len(message), 20000):
            for each in clients:
                each.writer.write(message[begin : begin + 20000])
            await asyncio.sleep(0.001)
            nonlocal most
            most = max(most, connections.unread.num_bytes)
        for each in clients:
            assert await each.frames() == [(BINARY, b"all")]
            each.writer.transport.abort()
        while connections.unread.num_bytes:
            await asyncio.sleep(0.001)

    with_server(talk, app=app, connections=connections)
    # One is read to its end while the one before may still wait for its handling.
    assert 400000 < most < 6 * ALWAYS + 2 * size + 8 * WEBSOCKET_READ_SIZE


def test_the_kernel_ends_connections_of_clients_that_are_gone() -> None:
    """Wyoming has no pings that the server could send."""
    with listen("127.0.0.1", 0) as listening, socket.create_connection(listening.getsockname()):
        accepted, _ = listening.accept()
        with accepted:
            assert accepted.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE) == 1
            assert accepted.getsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE) == KEEPALIVE["TCP_KEEPIDLE"]
