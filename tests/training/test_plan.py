"""`asr train --dry-run`: the memory equals that of a real step; the error for a large batch names one that fits."""

from __future__ import annotations

import io
import re
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
from rich.console import Console

from asr.cli import main
from asr.config import Config
from asr.recipe import load_config
from asr.training import plan
from asr.training.plan import GPUS, Cost, Gpu, Rows, batch_that_fits, cost, peak_gb, room_gb, shapes

SMALL = ["model.encoder_layers=2", "model.condition_layers=[1]", "model.decoder_layers=1", "train.precision=fp32"]
VIEWS = ["loss.cr_ctc_weight=0.2", "model.activation=swiglu", "train.batches_per_step=2"]
ROWS = Rows(8, 10.0)

REAL_STEPS = """
import ctypes, re, sys
from asr.recipe import load_config
from asr.training.plan import Rows, learner, take_steps

def resident(key):
    return int(re.search(key + r":\\s+(\\d+)", open("/proc/self/status").read())[1]) * 1024

ctypes.CDLL(None).mallopt(-3, 1 << 16)  # what is freed goes back at once
config = load_config("tiny", sys.argv[1:])
take_steps(learner(config), config, Rows(1, 1.0))  # the code of the kernels is loaded
open("/proc/self/clear_refs", "w").write("5")
before = resident("VmRSS")
take_steps(learner(config), config, Rows(8, 10.0))
print(resident("VmHWM") - before)
"""


def test_memory_is_that_of_a_real_step() -> None:
    options = [*SMALL, *VIEWS]
    done = subprocess.run([sys.executable, "-c", REAL_STEPS, *options], capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    calculated = cost(load_config("tiny", options), ROWS, fused=False)
    assert int(done.stdout) == pytest.approx(calculated.peak_bytes, rel=0.15)


def test_operations_are_those_of_a_steps_batches() -> None:
    one = cost(load_config("tiny", SMALL), ROWS, fused=False)
    three = cost(load_config("tiny", [*SMALL, "train.batches_per_step=3"]), ROWS, fused=False)
    longer = cost(load_config("tiny", SMALL), Rows(4, 20.0), fused=False)
    assert three.flops == 3 * one.flops
    assert one.flops < longer.flops < 1.5 * one.flops, "scores of attention grow with the length"
    # Two operations per weight and frame in the forward pass and four in the backward pass; the decoder has fewer
    # tokens than frames.
    frames = ROWS.number * ROWS.seconds * 25
    assert 0.8 < one.flops / (6 * one.num_parameters * frames) < 2


def test_a_plan_is_printed_without_data(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["train", "tiny", "--dry-run", "--on", "h100", *SMALL, "train.max_steps=10"]) == 0
    output = " ".join(capsys.readouterr().out.split())
    assert re.search(r"\d\.\d M parameters.* 3 utterances of 12\.3 s.* 0\.0\d TFLOP.*10 steps", output), output
    assert "are assumed" in output and "an epoch" not in output and "h100" in output
    assert "<0.01 EFLOP" in output and "<0.01 to <0.01" in output and "<1 to <1" in output, "more than nothing"


def test_a_plan_counts_the_prepared_data(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*arguments, "--dry-run", "--on", "cpu", "train.max_steps=100"]) == 0
    output = capsys.readouterr().out
    assert "are assumed" not in output
    assert re.search(r"an epoch: 0\.0 h of audio, .* [1-9]\d* steps", output) and re.search(
        r"all: 100 steps", output
    ), output
    assert not (Path(arguments[-1].partition("=")[2])).exists(), "nothing is trained"


def test_oversized_batch_is_refused_with_one_that_fits(capsys: pytest.CaptureFixture[str]) -> None:
    large = [*SMALL, "data.max_batch_s=20000", "augment.concat_probability=0", "augment.silence_probability=0"]
    assert main(["train", "tiny", "--dry-run", "--on", "l4", *large]) == 1
    error = capsys.readouterr().err
    found = re.search(
        r"GB do not fit into the [\d.]+ GB of l4: take (data\.max_batch_s=\S+) (train\.batches_per_step=\d+)", error
    )
    assert found, error
    assert main(["train", "tiny", "--dry-run", "--on", "l4", *large, *found.groups()]) == 0
    once_larger = [f"data.max_batch_s={2 * float(found[1].partition('=')[2])}"]
    assert peak_gb(load_config("tiny", [*large, *once_larger]), fused=True) > room_gb("l4")


def printed(config: Config, device: str = "") -> str:
    """The plan, with one space between words."""
    console = Console(file=io.StringIO(), width=200)
    plan.dry_run(config, "some", device, console)
    return " ".join(re.sub("[│┃]", " ", console.file.getvalue()).split())


@pytest.fixture
def two_devices(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two GPUs and this machine, and a step of 1 PFLOP that takes 0.1 GB per second of audio, 0.2 without fusion."""

    def known_cost(_: Config, rows: Rows, fused: bool) -> Cost:
        return Cost(round(rows.number * rows.seconds * (1e8 if fused else 2e8)), 10**15, 10**7)

    gpus = {"large": Gpu(80, bf16=1000, fp32=100, euros=2.0), "small": Gpu(40, bf16=500, fp32=50, euros=1.0)}
    sizes = {"SC_PHYS_PAGES": 10**8, "SC_PAGE_SIZE": 2000}
    monkeypatch.setattr(plan, "cost", known_cost)
    monkeypatch.setattr(plan, "GPUS", gpus)
    monkeypatch.setattr("os.sysconf", sizes.get)


OPTIONS = ["data.max_batch_s=640", "augment.concat_probability=0", "augment.silence_probability=0"]
OPTIONS += ["train.max_steps=86400", "train.batches_per_step=3"]


@pytest.mark.parametrize(("precision", "factor"), [("bf16", 1), ("fp32", 10)])
def test_table_has_room_days_and_price(two_devices: None, precision: str, factor: int) -> None:
    """40 to 2 % of 1 PFLOP/s: 2.5 to 50 s for a step of 3 x 52 x 12.3 s."""
    text = printed(load_config("tiny", [*OPTIONS, f"train.precision={precision}"]))
    days, euros = f"{2.5 * factor:.2f} to {50 * factor:.2f}", f"{120 * factor} to {2400 * factor}"
    speeds = " to ".join(f"{3 * 52 * 12.3 / seconds / factor:.0f}" for seconds in (50, 2.5))
    assert "days at 40% to 2% of its peak rate EUR reads, h/h" in text
    assert f"large 67.7 64.0 {days} {euros} {speeds} small 33.4 64.0 " in text
    assert "cpu 110.0 128.0" in text
    way = "take data.max_batch_s=320 train.batches_per_step=6"
    assert f"64.0 GB do not fit into the 33.4 GB of small: {way}" in text
    assert f"128.0 GB do not fit into the 110.0 GB of cpu: {way}" in text


def test_epochs_follow_the_shares_of_the_data(two_devices: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """2 h of 10 s, and three times 2 h of 20 s."""
    ten, twenty = (SimpleNamespace(duration=seconds, custom=None) for seconds in (10.0, 20.0))
    parts = [([ten] * 720, 1.0), ([twenty] * 360, 3.0)]
    monkeypatch.setattr(plan, "load_training_cuts", lambda _: (parts, []))
    text = printed(load_config("tiny", OPTIONS), "large")
    assert "a step: 3 x 40 utterances of 16.0 s, views: 1; 1920 s of audio, about 28800 char units" in text
    assert text.startswith("8.00 hours of speech cannot make a model: without train.init, a network begins to learn")
    assert "an epoch: 8.0 h of audio, about 0.43 M units, 15 steps" in text
    assert "all: 86400 steps, 46080 h of audio, 5760.0 epochs, 86.40 EFLOP" in text


def test_assumed_utterances_are_not_too_long(two_devices: None) -> None:
    text = printed(load_config("tiny", [*OPTIONS, "data.max_utterance_s=10"]), "large")
    assert "utterances of 10 s are assumed" in text and "64 utterances of 10.0 s" in text


def test_utterance_too_long_for_a_device_is_refused() -> None:
    config = load_config("tiny", [*SMALL, "data.max_batch_s=4000", "data.max_utterance_s=3000"])
    assert batch_that_fits(config, 0.1, fused=True) is None


def test_plan_counts_the_longest_augmented_batch() -> None:
    config = load_config("tiny", ["data.max_batch_s=100", "data.max_utterance_s=20"])
    assert shapes(config) == [Rows(5, 20.0), Rows(1, 62.0)]
    assert shapes(load_config("tiny", ["data.max_batch_s=45"])) == [Rows(2, 20.0), Rows(1, 45.0)]


def test_devices_are_named(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["train", "tiny", "--dry-run", "--on", "h101"]) == 1
    error = capsys.readouterr().err
    assert "h101" in error and all(name in error for name in (*GPUS, "cpu"))


def test_plan_without_sysconf_leaves_out_the_cpu(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delattr("os.sysconf")  # as on Windows
    assert main(["train", "tiny", "--dry-run", *SMALL]) == 0
    output = capsys.readouterr().out
    assert all(name in output for name in GPUS) and "cpu" not in output
    assert main(["train", "tiny", "--dry-run", "--on", "cpu", *SMALL]) == 1
    assert "--on 'cpu' is not a device of the table: take one of l4, " in capsys.readouterr().err
