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
    made = [words[words.index("--out") + 1] + "/" + words[words.index("--name") + 1] + "/utterances.tsv"]
else:
    made = [words[words.index("-o") + 1]] if "-o" in words else []
for path in map(pathlib.Path, made):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.touch()
sys.exit(settings.get("train.output") == os.environ.get("FAILS"))
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "bin").mkdir()
    stand_in = tmp_path / "bin" / "asr"
    stand_in.write_text(STAND_IN.format(python=sys.executable))
    stand_in.chmod(0o755)
    (tmp_path / "bin" / "nvidia-smi").write_text("#!/bin/sh\nexit ${NO_GPU:-0}\n")
    (tmp_path / "bin" / "nvidia-smi").chmod(0o755)
    (tmp_path / "data" / "unlabeled").mkdir(parents=True)
    return tmp_path


def calls(folder: Path, fails: str = "", no_gpu: bool = False) -> tuple[int, list[list[str]]]:
    """The exit status of a run of the script, and the commands of `asr` that it called."""
    log = folder / "calls"
    log.unlink(missing_ok=True)
    environment = os.environ | {"PATH": f"{folder / 'bin'}:{os.environ['PATH']}", "CALLS": str(log), "FAILS": fails}
    environment["NO_GPU"] = str(int(no_gpu))
    command = [str(SCRIPT), str(folder / "data"), str(folder / "out"), "train.log_every=7"]
    status = subprocess.run(command, env=environment, timeout=120).returncode
    return status, [json.loads(line) for line in log.read_text().splitlines()] if log.exists() else []


@pytest.mark.parametrize("no_gpu", [True, False])
def test_the_steps_follow_each_other(folder: Path, no_gpu: bool) -> None:
    status, found = calls(folder, no_gpu=no_gpu)
    assert status == 0
    names = ["prepare"] * 3 + ["train"] * 2 + ["average", "label", "prepare", "train", "average"]
    names += ["train"] * (2 + (not no_gpu)) + ["average", "export", "export", "evaluate"]
    assert [words[0] for words in found] == names
    ctc, discriminative, last, *gpu, first_seed, second_seed = (
        load_config(words[1], [word for word in words[2:] if "=" in word]) for words in found if words[0] == "train"
    )
    assert (ctc.train.init, discriminative.train.init, last.train.init) == ("", "runs/ctc", "first.safetensors")
    assert (
        ctc.loss.denominator_weight == 0 and last.loss.denominator_weight == discriminative.loss.denominator_weight > 0
    )
    assert last.data.train == ("data/train", "data/unlabeled") and ctc.train.log_every == 7
    label = next(words for words in found if words[0] == "label")
    assert label[1] == str(folder / "data" / "unlabeled") and label[3] == str(folder / "data" / "teacher")
    for each in gpu:
        assert each.train.minutes == 10 and each.data.valid and each.data.train == last.data.train
    best = "tiny.safetensors" if no_gpu else "runs/gpu"
    assert (first_seed.train.init, second_seed.train.init) == (best, best)
    assert (first_seed.train.seed, second_seed.train.seed) == (1, 2)
    assert found[-4][1:3] == ["runs/voices1", "runs/voices2"] and found[-2][1] == found[-4][-1]


def test_an_interrupted_run_is_resumed(folder: Path) -> None:
    status, found = calls(folder, fails="runs/discriminative")
    assert status != 0 and found[-1][0] == "train"
    status, found = calls(folder)
    assert status == 0 and not any(words[0] == "prepare" and "unlabeled" not in words for words in found)
    status, again = calls(folder)
    assert status == 0 and {words[0] for words in again} == {"train", "average", "label", "export", "evaluate"}
    assert all("--resume" in words for words in again if words[0] == "train")  # ends at once for a finished run
