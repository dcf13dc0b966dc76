"""The real server, as a process, for tests: `with serving() as server: ... server.url`."""

from __future__ import annotations

import os
import re
import resource
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from asr import Recognizer
from asr.runtime.onnx_model import bundled_model


def quick_recognizer(**options: Any) -> Recognizer:
    """The recognizer of the process of `serving`, with `options` of its command line."""
    return Recognizer(bundled_model("int8"), **{"search": "greedy", "second_pass": False, **options})


@dataclass
class RunningServer:
    """A process of `asr-stream serve` that listens on 127.0.0.1. `log`: lines of its stderr so far."""

    process: subprocess.Popen[str]
    port: int = 0
    log: list[str] = field(default_factory=list)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def ws_url(self) -> str:
        return f"ws://127.0.0.1:{self.port}"


@contextmanager
def serving(
    *args: str, token: str = "", second_pass: bool = False, max_files: int = 0, program: str = ""
) -> Iterator[RunningServer]:
    """`asr-stream serve` on a free port, fast unless `args` say otherwise; ended by SIGTERM.

    max_files: limit of file descriptors; 0: that of this process. program: another `asr-stream`
    than that of this Python.
    """
    quick = ("serve", "--port", "0", "--search", "greedy", "--threads", "1")
    quick += () if second_pass else ("--no-second-pass",)
    command = [program] if program else [sys.executable, "-m", "asr.streaming.terminal.cli"]
    process = subprocess.Popen(
        [*command, *quick, *args],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        env=os.environ | {"ASR_STREAM_TOKEN": token},
        preexec_fn=(lambda: resource.setrlimit(resource.RLIMIT_NOFILE, 2 * (max_files,))) if max_files else None,
    )
    server = RunningServer(process)
    ready = threading.Event()

    def read() -> None:
        assert process.stderr is not None
        for line in process.stderr:
            server.log.append(line.rstrip("\n"))
            if found := re.search(r"Listening on https?://\S+:(\d+)", line):
                server.port = int(found[1])
                ready.set()
        ready.set()

    reader = threading.Thread(target=read)
    reader.start()
    try:
        ready.wait(120)
        assert server.port, "the server does not start:\n" + "\n".join(server.log)
        yield server
    finally:
        process.terminate()
        try:
            process.wait(15)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        reader.join()
        if process.stderr is not None:
            process.stderr.close()
