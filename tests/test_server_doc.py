"""The lines of docs/server.md, as they stand there, with the address of a server of the test."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import fields
from pathlib import Path

import pytest
from conftest import SAMPLE
from server import RunningServer, serving

from asr.streaming.server.limits import Limits

DOC = (Path(__file__).parent.parent / "docs" / "server.md").read_text()


@pytest.fixture(scope="module")
def server() -> Iterator[RunningServer]:
    with serving(token="TOKEN") as server:
        yield server


@pytest.mark.parametrize(
    ("heading", "language", "expected"),
    [
        ("Files: OpenAI", "python", r"^THE OLD MAN [A-Z ]+\n$"),
        ("Files: OpenAI", "js", r"^1\n00:00:00,\d+ --> 00:00:0\d,\d+\nTHE OLD MAN "),
        ("Live audio: OpenAI Realtime", "python", r"^THE OLD MAN ([A-Z ]+)\nTHE OLD MAN [A-Z ]+\n$"),
    ],
)
def test_lines_of_clients(server: RunningServer, tmp_path: Path, heading: str, language: str, expected: str) -> None:
    section = DOC.split(f"\n## {heading}\n")[1].split("\n## ")[0]
    (code, *_) = re.findall(rf"^```{language}\n(.*?)^```$", section, re.MULTILINE | re.DOTALL)
    (tmp_path / "speech.wav").write_bytes(SAMPLE.read_bytes())
    script = tmp_path / ("lines.mjs" if language == "js" else "lines.py")
    script.write_text(code.replace("127.0.0.1:8000", f"127.0.0.1:{server.port}"))
    command = ["node" if language == "js" else sys.executable, str(script)]
    result = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=60)
    assert result.returncode == 0, result.stderr
    assert re.match(expected, result.stdout), result.stdout


def test_limits_are_as_they_are() -> None:
    table = dict(re.findall(r"^\| `--([a-z-]+)` \| (\d+) \|", DOC, re.MULTILINE))
    assert table == {field.name.replace("_", "-"): f"{field.default:.0f}" for field in fields(Limits)}
