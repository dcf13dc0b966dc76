"""The server over TLS: with a certificate made here, for clients that trust it, and connections without a handshake."""

from __future__ import annotations

import json
import ssl
import subprocess
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from support import wait_until
from support.raw_sockets import closed, leave, rest, tcp
from support.server import RunningServer, serving
from websockets.sync.client import connect

from asr.streaming.server.cli import main


def certificate(folder: Path, name: str) -> tuple[Path, Path]:
    """A certificate for localhost and its key."""
    cert, key = folder / f"{name}.pem", folder / f"{name}.key"
    command = "openssl req -x509 -nodes -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -days 2 -subj /CN=localhost"
    command += f" -addext subjectAltName=DNS:localhost,IP:127.0.0.1 -out {cert} -keyout {key}"
    subprocess.run(command.split(), check=True, capture_output=True)
    return cert, key


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    return certificate(tmp_path_factory.mktemp("tls"), "own")


@pytest.fixture(scope="module")
def server(files: tuple[Path, Path]) -> Iterator[RunningServer]:
    cert, key = files
    with serving("--tls-cert", str(cert), "--tls-key", str(key), "--max-sessions", "8") as running:
        yield running
    assert running.process.returncode == 0 and not any("Traceback" in line for line in running.log), running.log


@pytest.fixture(scope="module")
def trusting(files: tuple[Path, Path]) -> ssl.SSLContext:
    return ssl.create_default_context(cafile=str(files[0]))


def test_files_and_live_audio_over_tls(server: RunningServer, trusting: ssl.SSLContext, sample: np.ndarray) -> None:
    assert any(f"Listening on https://127.0.0.1:{server.port}" in line for line in server.log)
    with urllib.request.urlopen(f"https://localhost:{server.port}/healthz", context=trusting, timeout=60) as answer:
        assert json.load(answer)["status"] == "ok"
    with connect(f"wss://localhost:{server.port}/vosk", ssl=trusting) as client:
        client.send('{"config": {"sample_rate": 16000}}')
        client.send(sample.tobytes())  # in many records
        texts = [json.loads(client.recv(60)).get("text", "")]
        client.send('{"eof": 1}')
        assert "old man" in " ".join([*texts, json.loads(client.recv(60))["text"]])


def test_a_request_that_comes_with_the_end_of_the_handshake(server: RunningServer, trusting: ssl.SSLContext) -> None:
    """A client may send it at once, so that the server reads both together."""
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    client = trusting.wrap_bio(incoming, outgoing, server_hostname="localhost")
    with tcp(server.port) as connection:
        while True:
            try:
                client.do_handshake()
                break
            except ssl.SSLWantReadError:
                connection.sendall(outgoing.read())
                incoming.write(connection.recv(65536))
        client.write(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
        connection.sendall(outgoing.read())  # with the last message of the handshake
        incoming.write(rest(connection))  # the client does not answer the end of TLS
    assert client.read(15) == b"HTTP/1.1 200 OK"


def test_connections_without_handshake_are_counted_and_end(server: RunningServer, trusting: ssl.SSLContext) -> None:
    silent = [tcp(server.port) for _ in range(200)]
    wait_until(lambda: sum(map(closed, silent)) >= 120)  # 80 are allowed
    with urllib.request.urlopen(f"https://localhost:{server.port}/healthz", context=trusting, timeout=60) as answer:
        assert answer.status == 200
    plain = tcp(server.port, b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n")
    assert b"200" not in rest(plain)
    wait_until(lambda: all(map(closed, silent)))
    for client in silent:
        leave(client, abruptly=True)


def test_unusable_certificates_are_named(
    files: tuple[Path, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    cert, key = map(str, files)
    _, other = certificate(tmp_path, "other")
    (tmp_path / "text").write_text("no certificate")
    for given, said in (
        ([str(tmp_path / "none"), key], f"--tls-cert {tmp_path / 'none'} cannot be read: No such file or directory"),
        ([cert, str(other)], f"--tls-cert {cert} and --tls-key {other} are not a certificate and its private key"),
        ([str(tmp_path / "text"), key], f"--tls-cert {tmp_path / 'text'} and --tls-key {key} are not a certificate"),
    ):
        assert main(["--port", "0", "--tls-cert", given[0], "--tls-key", given[1]]) == 1
        assert said in capsys.readouterr().err
    for option, value in (("--tls-cert", cert), ("--tls-key", key)):
        with pytest.raises(SystemExit) as ended:
            main(["--port", "0", option, value])
        assert ended.value.code == 2 and "give both --tls-cert and --tls-key, or neither" in capsys.readouterr().err
