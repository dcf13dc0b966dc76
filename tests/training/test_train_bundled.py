"""scripts/train_bundled.sh: the order of its commands, their validity, and that it continues where it stopped."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from asr.recipe import load_config

SCRIPT = Path(__file__).parents[2] / "scripts" / "train_bundled.sh"
STAND_IN = """#!{python}
import json, os, pathlib, sys
words = sys.argv[1:]
with open(os.environ["CALLS"], "a") as calls:
    print(json.dumps(words), file=calls)
settings = dict(word.split("=", 1) for word in words if "=" in word)
if "train.output" in settings:
    made = [settings["train.output"] + "/checkpoint-9.pt"]
elif words[0] == "prepare":
    made = [words[words.index("--out") + 1] + "/" + name + ".jsonl.gz"
            for name in [words[words.index("--name") + 1] if "--name" in words else pathlib.Path(words[2]).stem]]
elif words[0] == "transcribe":
    made = ["texts/manifest.jsonl"]
else:
    made = [words[words.index("-o") + 1]] if "-o" in words else []
for path in map(pathlib.Path, made):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text('{{"confidence": 0.9, "text": "TWO WORDS"}}\\n{{"confidence": 0.5, "text": "NOT SURE"}}\\n')
sys.exit(settings.get("train.output") == os.environ.get("FAILS"))
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "bin").mkdir()
    stand_in = tmp_path / "bin" / "asr"
    stand_in.write_text(STAND_IN.format(python=sys.executable))
    stand_in.chmod(0o755)
    (tmp_path / "data" / "unlabeled").mkdir(parents=True)
    return tmp_path


def calls(folder: Path, fails: str = "") -> tuple[int, list[list[str]]]:
    """The exit status of a run of the script, and the commands of `asr` that it called."""
    log = folder / "calls"
    log.unlink(missing_ok=True)
    environment = os.environ | {"PATH": f"{folder / 'bin'}:{os.environ['PATH']}", "CALLS": str(log), "FAILS": fails}
    command = [str(SCRIPT), str(folder / "data"), str(folder / "out"), "train.log_every=7"]
    status = subprocess.run(command, env=environment, timeout=120).returncode
    return status, [json.loads(line) for line in log.read_text().splitlines()] if log.exists() else []


def test_the_steps_follow_each_other(folder: Path) -> None:
    status, found = calls(folder)
    assert status == 0
    names = ["prepare"] * 4 + ["train"] * 2 + ["average", "export", "transcribe", "prepare", "train", "average"]
    assert [words[0] for words in found] == [*names, "export", "export", "evaluate"]
    ctc, discriminative, last = (
        load_config(words[1], [word for word in words[2:] if "=" in word]) for words in found if words[0] == "train"
    )
    assert (ctc.train.init, discriminative.train.init, last.train.init) == ("", "runs/ctc", "first.safetensors")
    assert (
        ctc.loss.denominator_weight == 0 and last.loss.denominator_weight == discriminative.loss.denominator_weight > 0
    )
    assert any("unlabeled" in name for name in last.data.train) and ctc.train.log_every == 7
    assert (folder / "out" / "sure.jsonl").read_text().count("\n") == 1  # of two, one is sure


def test_an_interrupted_run_is_resumed(folder: Path) -> None:
    status, found = calls(folder, fails="runs/discriminative")
    assert status != 0 and found[-1][0] == "train"
    status, found = calls(folder)
    assert status == 0 and "--resume" in found[0] and "train.output=runs/discriminative" in found[0]
    status, again = calls(folder)  # finished runs are not trained again
    assert status == 0 and [words[0] for words in again] == ["average", "average", "export", "export", "evaluate"]
