"""Nothing leaves the machine: commands, training and the server call nobody, and write only what the docs name."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from conftest import SAMPLE
from support.traced import trespasses

TRESPASS = """
import pathlib, socket
(pathlib.Path.home() / ".secret").mkdir()
(pathlib.Path.home() / ".secret" / "id").write_text("1")
pathlib.Path("allowed").write_text("1")
for address in ("192.0.2.1", 9), ("127.0.0.1", 53), ("127.0.0.1", 9):
    socket.socket(socket.AF_INET, socket.SOCK_DGRAM).sendto(b"id", address)
"""

TESTS = {"PYTHONPATH": str(Path(__file__).parent)}

SERVE = """
import subprocess
from conftest import SAMPLE
from support.server import serving
with serving(second_pass=True) as server:
    url = server.url + "/v1/audio/transcriptions"
    subprocess.run(["curl", "-sSf", "-F", f"file=@{SAMPLE}", url], check=True)
"""

TRAIN = """
from pathlib import Path
from asr.cli import main
from support.tones import RECIPE, prepare_tones
data = prepare_tones(Path("."), 4, "speech")
Path("recipe.yaml").write_text(RECIPE)
sets = [f"data.train={data}", f"data.valid={data}"]
assert main(["train", "recipe.yaml", *sets, "train.output=run", "train.max_steps=1"]) == 0
assert main(["evaluate", "run", "--data", str(data), "--chunk-ms", "640", "--plot", "wer.png"]) == 0
"""

RAY = "import asr; from ray._common.usage import usage_lib; print(usage_lib.usage_stats_enabled())"


def test_the_check_sees_files_and_addresses(tmp_path: Path) -> None:
    folder = tmp_path / "home" / ".secret"
    calls = ["127.0.0.1 port 53", "192.0.2.1 port 9"]
    assert trespasses(tmp_path, sys.executable, "-c", TRESPASS) == [str(folder), f"{folder}/id", *calls]


def test_nothing_leaves_the_machine_from_a_file(tmp_path: Path) -> None:
    assert trespasses(tmp_path, "asr-stream", SAMPLE) == []


@pytest.mark.slow
def test_nothing_leaves_the_machine_from_the_server(tmp_path: Path) -> None:
    assert trespasses(tmp_path, sys.executable, "-c", SERVE, env=TESTS) == []


@pytest.mark.slow
def test_nothing_leaves_the_machine_from_training(tmp_path: Path) -> None:
    assert trespasses(tmp_path, sys.executable, "-c", TRAIN, env=TESTS) == []


@pytest.mark.parametrize(("given", "enabled"), [({}, False), ({"RAY_USAGE_STATS_ENABLED": "1"}, True)])
def test_ray_reports_nothing_unless_told_to(given: dict[str, str], enabled: bool) -> None:
    others = {name: value for name, value in os.environ.items() if name != "RAY_USAGE_STATS_ENABLED"}
    assert subprocess.check_output([sys.executable, "-c", RAY], env=others | given, text=True) == f"{enabled}\n"


def test_a_value_of_the_user_is_kept(tmp_path: Path) -> None:
    kept = "import asr, os; assert os.environ['ORT_DISABLE_TELEMETRY'] == '0'"
    subprocess.run([sys.executable, "-c", kept], env=os.environ | {"ORT_DISABLE_TELEMETRY": "0"}, check=True)
