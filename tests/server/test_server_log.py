"""The log of the server: it contains no text of clients, and clients cannot flood it."""

from __future__ import annotations

import logging
import os
import signal
import socket
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest
from support.ports import free_port
from support.raw_sockets import BINARY, frame, websocket
from support.server import serving

from asr.streaming.server.security.log import AcceptFilter, LogFormatter

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
    assert [line.split(" ", 3)[2:] for line in done.stderr.splitlines()] == [
        ["uvicorn.error", "failed"],
        ["asr_stream.server", "vosk: 1.0 s of audio"],
    ]


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
