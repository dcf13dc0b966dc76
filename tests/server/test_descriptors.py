"""The number of connections: file descriptors, and clients that send no request or half of one."""

from __future__ import annotations

import asyncio
import re
import resource
import subprocess
import sys

import pytest
from support.connections import Client, with_server
from support.raw_sockets import HANDSHAKE

from asr.streaming.server.security import descriptors
from asr.streaming.server.security.descriptors import OpenConnections, num_needed
from asr.streaming.server.security.limits import Limits


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
    status, complaint = start(100, 600)
    needed = num_needed(Limits(), 1)
    assert status == 1
    assert (
        f"--max-sessions 256 --max-uploads 64 may need {needed} open files, and this process may have 600" in complaint
    )
    found = re.search(r"or give --max-sessions (\d+) --max-uploads 64$", complaint, re.MULTILINE)
    assert found
    most = int(found[1])
    assert num_needed(Limits(max_sessions=most), 1) <= 600 < num_needed(Limits(max_sessions=most + 1), 1)
    status, complaint = start(100, 600, "--max-sessions", str(most))
    assert "open files" not in complaint and "none.onnx" in complaint
    _, complaint = start(100, 300)
    found = re.search(r"or give (--max-sessions \d+ --max-uploads \d+)$", complaint, re.MULTILINE)
    assert found and "none.onnx" in start(100, 300, *found[1].split())[1]


def test_socket_gets_no_standard_descriptor() -> None:
    """C libraries write to standard error."""
    program = """
import os
from asr.streaming.server import cli
from asr.streaming.terminal.cli import main
cli.main = lambda argv: print(os.path.samestat(os.fstat(0), os.stat(os.devnull)))
os.close(0)
main(["serve"])
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60)
    assert (done.stdout, done.stderr) == ("True\n", "")


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

    with_server(talk, b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n", limits=Limits(timeout_s=1.0))


def test_a_long_head_of_a_websocket_is_answered() -> None:
    async def closed(client: Client) -> None:
        await asyncio.wait_for(client.reader.read(), 10)

    with_server(closed, HANDSHAKE[:-2] + b"X-Long: " + 8100 * b"x" + b"\r\n\r\n", status=400)
    with_server(closed, HANDSHAKE[:-2] + b"".join(b"X-%d: x\r\n" % i for i in range(130)) + b"\r\n", status=400)
