"""uvicorn's connections with limits: floods of empty frames, pongs that come late, file descriptors, releases."""

from __future__ import annotations

import asyncio
import re
import resource
import socket
import subprocess
import sys
from collections.abc import Awaitable, Callable
from contextlib import suppress
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import uvicorn
from packaging.requirements import Requirement
from support.raw_sockets import BINARY, CONTINUATION, HANDSHAKE, frame

from asr.streaming.server.cli import listen
from asr.streaming.server.security import connections as connections_module
from asr.streaming.server.security import descriptors
from asr.streaming.server.security.connections import MAX_UNREAD, READ_SIZE, server_config
from asr.streaming.server.security.descriptors import OpenConnections, num_needed
from asr.streaming.server.security.limits import Limits

PING, PONG = 9, 10
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
) -> None:
    """Serves `app` as `asr-stream serve` does its application, to a client that has sent `head`."""

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
        if head is HANDSHAKE:
            assert (await reader.readuntil(b"\r\n\r\n")).startswith(b"HTTP/1.1 101")
        await talk(Client(reader, writer))
        writer.transport.abort()
        server.should_exit = True
        await serving

    asyncio.run(run())


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


def test_silence_earns_no_flood(monkeypatch: pytest.MonkeyPatch) -> None:
    """The allowance must not grow during silence, however long."""
    now = 0.0
    monkeypatch.setattr(connections_module, "time", SimpleNamespace(monotonic=lambda: now))
    allowance = connections_module.Allowance()
    now += 3600.0
    assert [allowance.spend() for _ in range(1000)].index(False) == connections_module.MAX_SMALL_FRAMES
    now += 1000.0
    assert allowance.spend()


def record_reads(config: uvicorn.Config, sizes: list[int]) -> None:
    """Appends the size of each read of a WebSocket to `sizes`."""
    config.load()
    protocol = config.ws_protocol_class
    assert isinstance(protocol, type)

    def data_received(self: Any, data: bytes, original: Any = protocol.data_received) -> None:
        sizes.append(len(data))
        original(self, data)

    protocol.data_received = data_received  # type: ignore[attr-defined]


def test_a_read_brings_few_frames() -> None:
    """Frames of one read are parsed without interruption. 256 KiB, asyncio's default, would block all others for half a
    second."""
    sizes: list[int] = []

    async def talk(client: Client) -> None:
        client.writer.write(4 * frame(BINARY, bytes(60000)))
        for _ in range(4):
            await asyncio.wait_for(client.reader.readexactly(60004), 10)

    with_server(talk, adapt=lambda config: record_reads(config, sizes))
    assert sum(sizes) > 240000 and max(sizes[1:]) <= READ_SIZE


def test_no_more_is_read_while_messages_wait() -> None:
    """A client may send faster than it is served, and data that has been read stays in memory."""
    sizes: list[int] = []
    left = asyncio.Event()
    messages = 12 * frame(BINARY, bytes(60000))

    async def talk(client: Client) -> None:
        client.writer.write(messages)
        while sum(sizes) < 60000 * MAX_UNREAD:
            await asyncio.sleep(0.001)
        for _ in range(200):  # iterations of the loop, each of which could read data
            await asyncio.sleep(0)
        assert sum(sizes) < 60004 * MAX_UNREAD + 2 * READ_SIZE
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
        while connections.unread_bytes < 20 * 60000:
            await asyncio.sleep(0.001)
        client.writer.transport.abort()
        while connections.unread_bytes:
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


# ---- file descriptors ----


def start(soft: int, hard: int, *args: str) -> tuple[int, str]:
    """Exit status and stderr of a server with this limit of open files; its model file does not exist."""
    done = subprocess.run(
        [sys.executable, "-m", "asr.streaming.terminal.cli", "serve", "--port", "0", "--model", "none.onnx", *args],
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard)),
        capture_output=True,
        text=True,
        timeout=60,
    )
    return done.returncode, done.stderr


def test_too_few_descriptors_are_an_error_at_startup() -> None:
    status, complaint = start(100, 500)
    needed = num_needed(Limits(), 1)
    assert status == 1
    assert f"--max-sessions 256 may need {needed} open files, and this process may have 500" in complaint
    found = re.search(r"or give --max-sessions (\d+)", complaint)
    assert found
    most = int(found[1])
    assert num_needed(Limits(max_sessions=most), 1) <= 500 < num_needed(Limits(max_sessions=most + 1), 1)
    status, complaint = start(100, 500, "--max-sessions", str(most))
    assert "open files" not in complaint and "none.onnx" in complaint


def test_default_limits_fit_the_usual_descriptor_limit() -> None:
    assert num_needed(Limits(), num_ports=2) <= 1024


def test_the_soft_limit_is_raised(monkeypatch: pytest.MonkeyPatch) -> None:
    raised = []
    monkeypatch.setattr(resource, "getrlimit", lambda which: (64, 5000))
    monkeypatch.setattr(resource, "setrlimit", lambda which, limits: raised.append(limits))
    descriptors.provide(Limits(), 2)
    assert raised == [(num_needed(Limits(), 2), 5000)]
    monkeypatch.setattr(resource, "getrlimit", lambda which: (4096, 5000))
    descriptors.provide(Limits(), 2)
    assert len(raised) == 1


class Transport(asyncio.Transport):
    aborted = False

    def abort(self) -> None:
        self.aborted = True


def test_connections_of_all_ports_are_counted_together() -> None:
    async def run() -> None:
        refused = []
        limits = Limits(max_sessions=1)
        connections = OpenConnections(limits, lambda: refused.append(1))
        served = [Transport() for _ in range(limits.max_connections)]
        for transport in served:
            assert connections.add(transport) and connections.add(transport)
            connections.serve(transport)
        late = Transport()
        assert not connections.add(late) and late.aborted and len(refused) == 1
        assert not any(transport.aborted for transport in served)
        connections.discard(served[0])
        assert connections.add(Transport())

    asyncio.run(run())


def test_new_connection_replaces_the_longest_silent_one() -> None:
    async def run() -> None:
        limits = Limits(max_sessions=1)
        connections = OpenConnections(limits, lambda: None)
        silent = [Transport() for _ in range(limits.max_connections)]
        for transport in silent:
            connections.add(transport)
        connections.serve(silent[0])
        connections.serve(silent[2])
        connections.wait(silent[2])  # for its next request
        assert connections.add(Transport()) and connections.add(Transport())
        assert [i for i, transport in enumerate(silent) if transport.aborted] == [1, 3]

    asyncio.run(run())


def test_the_first_byte_must_come_soon(monkeypatch: pytest.MonkeyPatch) -> None:
    """A client that has sent one stays, when a later one that has not is gone."""
    monkeypatch.setattr(descriptors, "FIRST_BYTE_S", 0.3)

    async def talk(client: Client) -> None:
        silent, writer = await asyncio.open_connection(*client.writer.get_extra_info("peername"))
        assert await asyncio.wait_for(silent.read(), 10) == b""
        writer.close()
        assert not client.reader.at_eof()

    with_server(talk, b"G")


def test_kept_connection_has_time_for_one_head() -> None:
    """The second half of a request has the same timeout after a complete request as on a new connection."""

    async def talk(client: Client) -> None:
        await asyncio.wait_for(client.reader.readuntil(b"0\r\n\r\n"), 10)
        client.writer.write(b"GET / HT")
        assert await asyncio.wait_for(client.reader.read(), 10) == b""

    with_server(talk, b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n", limits=Limits(idle_s=1.0))


def test_a_long_head_of_a_websocket_is_answered() -> None:
    async def talk(client: Client) -> None:
        assert (await asyncio.wait_for(client.reader.readline(), 10)).startswith(b"HTTP/1.1 400")

    with_server(talk, HANDSHAKE[:-2] + b"X-Long: " + 8100 * b"x" + b"\r\n\r\n")
    with_server(talk, HANDSHAKE[:-2] + b"".join(b"X-%d: x\r\n" % i for i in range(130)) + b"\r\n")
