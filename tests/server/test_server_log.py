"""The log of the server: it contains no text of clients, and clients cannot flood it."""

from __future__ import annotations

import json
import logging
import os
import re
import signal
import socket
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from support import wait_until
from support.ports import free_port
from support.raw_sockets import BINARY, frame, websocket
from support.server import serving
from websockets.exceptions import ConnectionClosed, InvalidStatus
from websockets.sync.client import connect

from asr import __version__
from asr.streaming.server.security import log as log_module
from asr.streaming.server.security.log import MAX_REFUSALS, AcceptFilter, LogFormatter, Refusals

SECRET = "my own name"


def logged(error: BaseException) -> str:
    record = logging.LogRecord("asr_stream", logging.ERROR, __file__, 1, "a stream failed", (), None)
    record.exc_info = (type(error), error, error.__traceback__)
    return LogFormatter("%(message)s").format(record)


def raised(error: BaseException, cause: BaseException | None = None) -> BaseException:
    try:
        raise error from cause
    except BaseException as caught:
        return caught


def test_a_traceback_does_not_quote_values() -> None:
    for error in (
        TypeError(SECRET),
        ValueError(SECRET),
        KeyError(SECRET),
        UnicodeEncodeError("utf-8", SECRET, 0, 1, ""),
    ):
        text = logged(raised(RuntimeError("out of memory"), raised(error)))
        assert SECRET not in text and "out of memory" in text
        assert text.index(type(error).__name__) < text.index("RuntimeError")
        assert text.count(__file__) == 2


def test_libraries_print_nothing_unless_they_fail() -> None:
    program = """
import logging
from asr.streaming.server.security.log import set_up_logging
set_up_logging()
logging.getLogger("asyncio").warning("socket.send() raised exception.")
logging.getLogger("python_multipart.multipart").warning("Did not find boundary character")
logging.getLogger("uvicorn.error").info("connection open")
logging.getLogger("uvicorn.error").error("failed")
logging.getLogger("asr_stream.server").info("vosk: 1.0 s of audio")
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60)
    assert [line.split(" ", 4)[2:] for line in done.stderr.splitlines()] == [
        ["ERROR", "uvicorn.error", "failed"],
        ["INFO", "asr_stream.server", "vosk: 1.0 s of audio"],
    ]


def test_a_flood_of_refusals_is_counted(caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch) -> None:
    now = 0.0
    monkeypatch.setattr(log_module, "time", SimpleNamespace(monotonic=lambda: now))
    refusals = Refusals()
    caplog.set_level(logging.INFO, "asr_stream.server")
    for _ in range(1000):
        refusals.log("token", "the token is wrong")
    assert caplog.messages == MAX_REFUSALS * ["refused: the token is wrong"]
    refusals.log("full", "all streams are taken")
    now += 1.0
    refusals.log("token", "the token is wrong")
    now += 3600.0
    refusals.log("token", "the token is wrong")
    assert caplog.messages[MAX_REFUSALS:] == [
        "refused: all streams are taken",
        f"refused: the token is wrong; {1000 - MAX_REFUSALS} more since the last line",
        "refused: the token is wrong",
    ]


def test_lines_of_json_tell_who_and_why(sample: np.ndarray) -> None:
    """Every line, from the start to the end; a client's address comes from a proxy that the server was told of."""
    with serving(
        "--log-format", "json", "--proxy", "127.0.0.1", "--wyoming-port", "0", "--max-sessions", "1"
    ) as server:
        url, forwarded = f"{server.ws_url}/vosk", {"X-Forwarded-For": "203.0.113.9, 198.51.100.7"}
        with connect(url, additional_headers=forwarded) as client:
            client.send('{"config": {"sample_rate": 16000}}')
            client.send(sample[:16000].tobytes())
            client.recv(60)
            with pytest.raises(InvalidStatus, match="503"):
                connect(url, additional_headers={"X-Forwarded-For": "<script>"})
        wait_until(lambda: "s of audio" in server.log[-1])
        for message, ending in (("nonsense", None), ('{"eof": 1}', None), (None, signal.SIGTERM)):
            num_lines = len(server.log)
            with connect(url) as client:
                if message:
                    client.send(message)
                else:
                    server.process.send_signal(ending)
                with suppress(ConnectionClosed):
                    while True:
                        client.recv(60)
            wait_until(lambda: len(server.log) > num_lines)  # noqa: B023
    start, wyoming, listening, refused, *ended = map(json.loads, server.log)
    for line in (start, wyoming, listening, refused, *ended):
        assert re.fullmatch(r"20\d\d-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", line["time"])
        assert (line["level"], line["logger"]) == ("INFO", "asr_stream.server")
    assert start["version"] == __version__ and f"asr-stream {__version__}, limits: max_sessions=1 " in start["message"]
    assert "tcp://" in wyoming["message"] and f":{server.port}" in listening["message"]
    assert (refused["reason"], refused["status"], refused["client"]) == ("full", 503, "unknown")
    assert refused["protocol"] == "vosk" and refused["message"].startswith("refused: all 1 streams are taken")
    assert [line["client"] for line in ended] == ["198.51.100.7", *3 * ["127.0.0.1"]]
    assert len({line["session"] for line in ended}) == 4 and {line["protocol"] for line in ended} == {"vosk"}
    assert ended[0]["audio_s"] == 1.0 and ended[0]["seconds"] > 0
    assert [line["reason"] for line in ended] == [
        "the client left",
        "a message or request was invalid",
        "complete",
        "the server is shutting down; connect again",
    ]


def test_a_proxy_must_be_named(sample: np.ndarray) -> None:
    """Otherwise any client could choose its address."""
    with serving() as server:
        with connect(f"{server.ws_url}/vosk", additional_headers={"X-Forwarded-For": "198.51.100.7"}) as client:
            client.send('{"eof": 1}')
            client.recv(60)
        wait_until(lambda: "s of audio" in server.log[-1])
        assert re.search(
            r" INFO .* vosk: 0\.0 s of audio in \d+\.\d s: complete \(client 127.0.0.1, session [0-9a-f]+\)",
            server.log[-1],
        )


def test_a_missing_package_is_named() -> None:
    for package in ("uvicorn", "starlette"):
        program = (
            f"import sys; sys.modules[{package!r}] = None; "
            "from asr.streaming.server.cli import main; sys.exit(main([]))"
        )
        done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60)
        assert done.returncode == 1 and done.stderr == (
            "asr-stream: the server needs more packages: "
            "run `make serve` in a clone, or `pip install 'WHEEL[server]'` for a wheel\n"
        )


def test_ctrl_c_before_listening_is_not_an_error(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "hotwords.txt")  # nobody writes to it, so the server waits
    port = free_port()
    command = [sys.executable, "-m", "asr.streaming.terminal.cli", "serve", "--port", str(port)]
    command += ["--hotwords", str(tmp_path / "hotwords.txt")]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    while True:
        with suppress(OSError), socket.create_connection(("127.0.0.1", port)):
            break
        assert process.poll() is None
        time.sleep(0.02)
    process.send_signal(signal.SIGINT)
    assert process.communicate(timeout=60)[1] == ""
    assert process.returncode in (130, -signal.SIGINT)  # which a shell shows as 130, too


def test_second_ctrl_c_also_ends_without_error(sample: np.ndarray) -> None:
    with serving() as server, websocket(server, frame(BINARY, sample[:16000].tobytes())) as client:
        client.recv(1 << 16)
        server.process.send_signal(signal.SIGINT)
        while b'"text"' not in client.recv(1 << 16):  # and the server waits for the client to close
            pass
        server.process.send_signal(signal.SIGINT)
        assert server.process.wait(60) == 0
    assert "Traceback" not in "\n".join(server.log), server.log


def test_full_descriptor_table_logs_once_a_minute(caplog: pytest.LogCaptureFixture) -> None:
    logger = logging.getLogger("test.accept")
    logger.addFilter(AcceptFilter())
    error = OSError(24, "Too many open files")
    for _ in range(50):
        logger.error("socket.accept() out of system resource\nsocket: <asyncio.TransportSocket fd=4>", exc_info=error)
    logger.error("another error")
    assert [record.getMessage() for record in caplog.records] == [
        "too many open files: new connections wait",
        "another error",
    ]
    assert not caplog.records[0].exc_info
