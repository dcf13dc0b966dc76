"""The server with hostile or broken clients: it closes their connections and continues to serve others."""

from __future__ import annotations

import asyncio
import json
import os
import random
import re
import signal
import socket
import threading
import time
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import uvicorn
from support import wait_until
from support.raw_sockets import (
    BINARY,
    CONTINUATION,
    HANDSHAKE,
    TEXT,
    close_code,
    closed,
    frame,
    health,
    leave,
    rest,
    tcp,
    websocket,
)
from support.server import RunningServer, serving
from test_server_wyoming import event, wyoming_port
from websockets.exceptions import ConnectionClosed, InvalidStatus
from websockets.sync.client import ClientConnection, connect

from asr.streaming.server.cli import main
from asr.streaming.server.security.connections import limited_protocols
from asr.streaming.server.security.descriptors import OpenConnections
from asr.streaming.server.security.limits import Limits

AT_16K = '{"config": {"sample_rate": 16000}}'
FORMAT = {"rate": 16000, "width": 2, "channels": 1}
IDLE_S = 1.0


@pytest.fixture(scope="module")
def server() -> Iterator[RunningServer]:
    """A server with short timeouts and few sessions. At the end, its log has no errors and no text."""
    options = ("--timeout-s", str(IDLE_S), "--idle-s", str(IDLE_S), "--max-sessions", "4", "--wyoming-port", "0")
    with serving(*options, "--max-unread-bytes", "4194304") as running:
        yield running
    log = "\n".join(running.log)
    assert running.process.returncode == 0
    assert "Traceback" not in log and "rror" not in log, log
    assert "old man" not in log.lower() and "{" not in log, log


@pytest.fixture(autouse=True)
def goes_on(server: RunningServer) -> Iterator[None]:
    """After each test the server still works and has no session."""
    yield
    wait_until(lambda: health(server)["status"] == "ok" and health(server)["sessions"] == 0)


# ---- too much ----


def test_message_of_1_gb_is_refused_by_header(server: RunningServer) -> None:
    with websocket(server, frame(BINARY, b"", length=1 << 30)) as client:
        assert close_code(rest(client)) == 1009


def test_oversized_message_of_many_pieces_is_refused(server: RunningServer) -> None:
    pieces = [frame(CONTINUATION if i else BINARY, bytes(300000), last=False) for i in range(4)]
    with websocket(server, b"".join(pieces)) as client:
        assert close_code(rest(client)) == 1009


def test_a_head_without_end_is_refused(server: RunningServer) -> None:
    with tcp(server.port, b"GET / HTTP/1.1\r\nHost: localhost\r\nX: " + bytes(200_000).replace(b"\0", b"x")) as client:
        assert rest(client)[:12] in (b"HTTP/1.1 400", b"")


def test_no_more_streams_than_allowed(server: RunningServer) -> None:
    with ExitStack() as stack:
        clients = [stack.enter_context(connect(f"{server.ws_url}/vosk")) for _ in range(4)]
        with pytest.raises(InvalidStatus) as refused:
            connect(f"{server.ws_url}/vosk")
        assert refused.value.response.status_code == 503
        assert "all 4 streams are taken" in json.loads(refused.value.response.body)["error"]["message"]
        with tcp(wyoming_port(server), event("audio-start", **FORMAT)) as client:
            assert b"all 4 streams are taken" in rest(client)
        clients[0].close()
        wait_until(lambda: health(server)["sessions"] == 3)
        stack.enter_context(connect(f"{server.ws_url}/vosk"))


@pytest.mark.parametrize("ports", ["http", "wyoming", "both"])
def test_no_more_connections_than_allowed(sample: np.ndarray, ports: str) -> None:
    """On all ports together. Open connections are still served, and rejected connections do not flood the log."""
    with serving("--wyoming-port", "0", "--max-sessions", "7", "--max-uploads", "1", max_files=320) as server:
        numbers = {"http": server.port, "wyoming": wyoming_port(server)}
        used = list(numbers.values()) if ports == "both" else [numbers[ports]]
        silent = [tcp(used[i % len(used)]) for i in range(400)]
        wait_until(lambda: sum(map(closed, silent)) == 352)  # 48 are allowed
        for client in silent:
            leave(client, abruptly=True)
        wait_until(lambda: serves(server))
        with connect(f"{server.ws_url}/vosk") as client:
            client.send(AT_16K)
            client.send(sample[:32000].tobytes())
            assert json.loads(client.recv(60))["partial"]
        with urllib.request.urlopen(f"{server.url}/metrics") as metrics:
            (refused,) = re.findall(rb'asr_stream_refused_total{reason="connections"} (\d+)', metrics.read())
        assert 352 <= int(refused) < 362  # and those that connected before there was room
        assert len(server.log) < 50, server.log[:50]  # of 352 refused connections, most are only counted


def serves(server: RunningServer) -> bool:
    with suppress(OSError):
        return health(server)["status"] == "ok"
    return False


# ---- too slow ----


def test_half_open_connections_end(server: RunningServer) -> None:
    """Clients that send nothing, and clients that stop in the middle, at every position."""
    wyoming = wyoming_port(server)
    chunk = event("audio-chunk", bytes(2000), **FORMAT)
    clients = [
        tcp(server.port),
        tcp(server.port, b"GET /heal"),
        tcp(server.port, b"GET /healthz HTTP/1.1\r\nHost: loc"),
        tcp(server.port, b"POST /healthz HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1000\r\n\r\nabc"),
        tcp(server.port, b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\nGET /hea"),
        websocket(server),
        websocket(server, frame(BINARY, bytes(3200)) + frame(BINARY, bytes(100), length=3200)),
        websocket(server, frame(TEXT, b'{"config"', last=False)),
        tcp(wyoming),
        tcp(wyoming, b'{"type": "ping"'),
        tcp(wyoming, chunk[:40]),
        tcp(wyoming, chunk + chunk[:-10]),
    ]
    begin = time.monotonic()
    alive = set(range(len(clients)))
    while alive:
        health(server)
        assert time.monotonic() - begin < 60, f"still open: {alive}"
        for index in sorted(alive):
            try:
                clients[index].setblocking(False)
                if not clients[index].recv(65536):
                    alive.discard(index)
            except BlockingIOError:
                pass
            except ConnectionError:
                alive.discard(index)
        time.sleep(0.05)
    assert time.monotonic() - begin > 0.8 * IDLE_S


@pytest.mark.parametrize("port", ["http", "wyoming"])
def test_client_sending_byte_by_byte_is_disconnected(server: RunningServer, port: str) -> None:
    number = server.port if port == "http" else wyoming_port(server)
    with tcp(number, b'{"type": "p') as client:
        begin = time.monotonic()
        while not closed(client):
            with suppress(ConnectionError):  # closed since
                client.send(b"x")
            time.sleep(0.1)
            assert time.monotonic() - begin < 60, "each byte lets it wait anew"


def test_idle_session_gets_its_final_and_reason(server: RunningServer, sample: np.ndarray) -> None:
    with connect(f"{server.ws_url}/vosk") as client:
        client.send(AT_16K)
        client.send(sample[:32000].tobytes())
        recognized = json.loads(client.recv(60))["partial"]
        final = json.loads(client.recv(60))["text"]
        assert recognized and final.startswith(recognized.split()[0])
        with pytest.raises(ConnectionClosed) as end:
            client.recv(60)
    assert end.value.rcvd is not None
    assert (end.value.rcvd.code, end.value.rcvd.reason) == (1008, "no data arrived for 1 s")


def test_who_never_reads_is_left(server: RunningServer, sample: np.ndarray) -> None:
    """Replies fill the client's buffers; then the server stops reading and closes the connection."""
    before = resident_mb(server)
    client = websocket(server, frame(TEXT, AT_16K.encode()) + frame(BINARY, sample[:32000].tobytes()))
    num_sent = 0
    with client, pytest.raises(ConnectionError):
        while True:
            client.sendall(1000 * frame(BINARY, b""))
            num_sent += 1000
            health(server)
            assert num_sent < 80_000
    assert resident_mb(server) - before < 16


@pytest.mark.parametrize("kind", ["http", "websocket"])
def test_unread_last_words_do_not_keep_the_connection(kind: str) -> None:
    """They are too few to fill the buffers, so the server can still send them."""
    limits = Limits(timeout_s=0.5)
    http, websocket_protocol = limited_protocols(limits, OpenConnections(limits, lambda: None))

    async def app(scope: dict[str, Any], receive: Any, send: Any) -> None:
        if kind == "http":
            await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"60000")]})
            await send({"type": "http.response.body", "body": bytes(60000)})
        else:
            await send({"type": "websocket.accept"})
            await send({"type": "websocket.send", "bytes": bytes(60000)})
            await send({"type": "websocket.close"})

    async def run() -> None:
        config = uvicorn.Config(app, http=http, ws=websocket_protocol, lifespan="off", log_level="error")
        server = uvicorn.Server(config)
        listening = socket.create_server(("127.0.0.1", 0))
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4096)
        serving = asyncio.create_task(server.serve([listening]))
        while not server.started:
            await asyncio.sleep(0.01)
        request = HANDSHAKE if kind == "websocket" else b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n"
        with tcp(listening.getsockname()[1], request):
            for present in (True, False):
                begin = time.monotonic()
                while bool(server.server_state.connections) is not present:
                    assert time.monotonic() - begin < 60
                    await asyncio.sleep(0.01)
                assert present or time.monotonic() - begin > 0.3
        server.should_exit = True
        await serving

    asyncio.run(run())


def resident_mb(server: RunningServer) -> float:
    status = Path(f"/proc/{server.process.pid}/status").read_text()
    return int(status.split("VmRSS:")[1].split()[0]) / 1024


# ---- gone ----


def test_a_client_gone_in_mid_utterance_leaves_nothing(sample: np.ndarray) -> None:
    """Immediately, long before the client would count as idle."""
    audio = sample[:24000].tobytes()
    with serving("--wyoming-port", "0", "--idle-s", "1000") as server:
        for abruptly in (False, True):
            clients = [
                websocket(server, frame(BINARY, audio)),
                tcp(wyoming_port(server), event("audio-chunk", audio, **FORMAT)),
            ]
            wait_until(lambda: health(server)["sessions"] == 2)
            for client in clients:
                leave(client, abruptly)
            wait_until(lambda: health(server)["sessions"] == 0)


def test_connects_and_disconnects_leave_nothing(server: RunningServer, sample: np.ndarray) -> None:
    wyoming = wyoming_port(server)
    audio = sample[:3200].tobytes()

    def come_and_go(count: int) -> None:
        for index in range(count):
            kinds = [
                lambda: tcp(server.port),
                lambda: websocket(server),
                lambda: websocket(server, frame(BINARY, audio)),
                lambda: tcp(wyoming, event("audio-chunk", audio, **FORMAT)),
            ]
            leave(kinds[index % 4](), abruptly=index % 8 < 4)
            if index % 4 == 3:  # there are four streams
                wait_until(lambda: health(server)["status"] == "ok" and health(server)["sessions"] == 0)

    come_and_go(300)
    before, files = resident_mb(server), num_files(server)
    come_and_go(300)
    wait_until(lambda: num_files(server) <= files + 1)
    assert resident_mb(server) - before < 24, "a stream stays, which has half a megabyte or more"


def num_files(server: RunningServer) -> int:
    return len(os.listdir(f"/proc/{server.process.pid}/fd"))


# ---- nonsense ----


def test_odd_bytes_get_an_error(server: RunningServer) -> None:
    noise = random.Random(0)
    for _ in range(20):
        data = noise.randbytes(noise.randrange(1, 3000))
        for port, end, answer in ((server.port, b"\r\n\r\n", b"HTTP/1.1 400 "), (wyoming_port(server), b"\n", b"{")):
            with tcp(port, data + end) as client:
                client.shutdown(socket.SHUT_WR)
                assert rest(client).startswith(answer)


@pytest.mark.parametrize(
    ("data", "code"),
    [
        (frame(TEXT, b"\xff\xfe{}"), 1007),
        (frame(3, b"abc"), 1002),
        (frame(CONTINUATION, b"abc"), 1002),
        (b"\x82\x03abc", 1002),  # not masked
        (frame(9, bytes(200)), 1002),  # a ping may have 125 bytes
        (b"\xf2\x80\0\0\0\0", 1002),
    ],
)
def test_odd_frames(server: RunningServer, data: bytes, code: int) -> None:
    with websocket(server, data) as client:
        assert close_code(rest(client)) == code


def test_second_start_reports_the_port_as_taken(server: RunningServer, capsys: pytest.CaptureFixture[str]) -> None:
    for option, port in (("--port", server.port), ("--wyoming-port", wyoming_port(server))):
        assert main(["--port", "0", option, str(port)]) == 1
        complaint = f"cannot listen on 127.0.0.1 port {port}: Address already in use; choose another with {option}"
        assert complaint in capsys.readouterr().err


def test_clients_leaving_before_replies_are_not_logged(sample: np.ndarray) -> None:
    """asyncio warns about each reply to a client that has disconnected."""
    with serving() as server:
        for _ in range(3):
            client = websocket(server, frame(TEXT, AT_16K.encode()) + 40 * frame(BINARY, sample[:3200].tobytes()))
            leave(client, abruptly=True)
        assert health(server)["status"] == "ok"
    assert all("listening" in line.lower() or "limits:" in line or " s of audio" in line for line in server.log), (
        server.log
    )


# ---- the end ----


def test_sigterm_sends_every_final(sample: np.ndarray) -> None:
    """To a client that waits, one that sends audio continuously, and a voice assistant."""
    with serving("--wyoming-port", "0") as server, ExitStack() as stack:
        waits: ClientConnection = stack.enter_context(connect(f"{server.ws_url}/vosk"))
        waits.send(AT_16K)
        waits.send(sample[:32000].tobytes())
        recognized = json.loads(waits.recv(60))["partial"]
        speaks = stack.enter_context(websocket(server, frame(TEXT, AT_16K.encode())))
        assistant = stack.enter_context(
            tcp(wyoming_port(server), event("audio-chunk", sample[:32000].tobytes(), **FORMAT))
        )
        received = bytearray()

        def speak() -> None:
            with suppress(OSError):
                while True:
                    speaks.sendall(frame(BINARY, sample[:3200].tobytes()))

        def receive() -> None:
            with suppress(OSError):
                while piece := speaks.recv(65536):
                    received.extend(piece)

        threads = [threading.Thread(target=speak), threading.Thread(target=receive)]
        for thread in threads:
            thread.start()
        wait_until(lambda: received.count(b"partial") > 20)
        server.process.send_signal(signal.SIGTERM)
        final = json.loads(waits.recv(60))["text"]
        assert recognized and final.startswith(recognized.split()[0])
        with pytest.raises(ConnectionClosed) as end:
            waits.recv(60)
        assert end.value.rcvd is not None
        assert (end.value.rcvd.code, end.value.rcvd.reason) == (1001, "the server is shutting down; connect again")
        said = rest(assistant)
        assert b'"transcript"' in said and final.split()[0].encode() in said
        for thread in threads:
            thread.join(60)
        assert b'"text"' in received and b"the server is shutting down" in received
        assert server.process.wait(60) == 0
    assert "Traceback" not in "\n".join(server.log), server.log
