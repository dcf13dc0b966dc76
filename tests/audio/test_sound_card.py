"""The microphone at a sound card, which takes one sample rate only, waits for nobody and can be pulled out.

The samples of the virtual card count up, in the second channel with negative numbers, so every loss is visible.
"""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from support.recording_process import RecordingProcess
from support.sound_card import SAMPLE_RATE, SoundCard, num_missing

BLOCK = SAMPLE_RATE // 50
"""PortAudio may report a loss one block too early."""


@pytest.fixture(scope="module")
def sound_card(tmp_path_factory: pytest.TempPathFactory) -> SoundCard:
    return SoundCard(tmp_path_factory.mktemp("card"))


def listen(sound_card: SoundCard, folder: Path, *ways: str, channel: int = 1) -> RecordingProcess:
    return RecordingProcess(sound_card.env, folder / "recording.npy", *ways, channel=channel)


def test_busy_interpreter_loses_audio_only_with_python_callback(sound_card: SoundCard, tmp_path: Path) -> None:
    """The purpose of the C callback. The Python fallback loses audio, and reports position and length of each loss."""
    found = {}
    for ways in (("held-interpreter",), ("held-interpreter", "python-callback")):
        process = listen(sound_card, tmp_path, *ways)
        time.sleep(4)
        found[ways] = process.finish()
    native, python = found.values()
    assert native.reports == [] and len(native.samples) > 3 * SAMPLE_RATE
    assert not num_missing(native.samples).any()
    missing = num_missing(python.samples)
    assert missing.sum() > SAMPLE_RATE  # of four seconds
    gaps = [report for report in python.reports if report["gap"]]
    places = np.flatnonzero(missing)
    assert all(np.abs(places - gap["position"]).min() <= BLOCK for gap in gaps)
    # They may include the time that the last callback waited for the interpreter lock, which looks like a loss.
    assert -0.1 < (sum(gap["gap"] for gap in gaps) - missing.sum()) / SAMPLE_RATE < 1.1
    errors = [report["error"] for report in python.reports if report["error"]]
    assert errors[0].startswith("the sound system lost audio before it got here, ")


def test_stopped_process_finds_a_gap_of_that_length(sound_card: SoundCard, tmp_path: Path) -> None:
    process = listen(sound_card, tmp_path)
    time.sleep(0.5)
    process.signal(signal.SIGSTOP)
    time.sleep(0.5)
    process.signal(signal.SIGCONT)
    gap = process.wait_for("gap")
    recording = process.finish()
    missing = num_missing(recording.samples)
    assert np.flatnonzero(missing).tolist() == pytest.approx([gap["position"]], abs=BLOCK)
    assert 0.3 * SAMPLE_RATE < missing.sum() == pytest.approx(gap["gap"], abs=0.05 * SAMPLE_RATE)


def test_any_channel_is_read_at_the_cards_rate(sound_card: SoundCard, tmp_path: Path) -> None:
    recording = [listen(sound_card, tmp_path, channel=channel).finish() for channel in (1, 2)]
    assert [each.sample_rate for each in recording] == [SAMPLE_RATE] * 2  # not 16 kHz, which it does not support
    assert (recording[0].samples > 0).all() and (recording[1].samples < 0).all()


@pytest.mark.parametrize(
    ("channel", "status", "message"),
    [
        (3, 1, "microphone 'default' has no channel 3: it must be in [1, 2]"),
        (0, 2, "--channel is '0'; it must be mix, each or a number from 1 to 1024; see asr-stream --help"),
    ],
)
def test_a_channel_that_is_not_there_is_refused(sound_card: SoundCard, channel: int, status: int, message: str) -> None:
    command = [sys.executable, "-m", "asr.streaming.terminal.cli", "--channel", str(channel)]
    done = subprocess.run(command, env=sound_card.env, capture_output=True, text=True, timeout=60)
    assert done.returncode == status and done.stderr.splitlines()[0] == f"asr-stream: {message}"


def test_unplugged_card_is_reported_and_opened_again(sound_card: SoundCard, tmp_path: Path) -> None:
    process = listen(sound_card, tmp_path)
    begun = time.monotonic()
    time.sleep(0.3)
    pulled_out = time.monotonic()
    sound_card.pull_out()
    lost = process.wait_for("lost")
    time.sleep(0.5)
    sound_card.plug_in()
    gap = process.wait_for("gap")
    time.sleep(0.3)
    ended = time.monotonic()
    recording = process.finish()
    closed = time.monotonic()
    assert lost["error"] == "microphone 'default' stopped; opening it again"
    assert lost["when"] - pulled_out < 1
    assert gap["position"] == lost["position"] > 0
    # Samples and gap together last as long as the clock time.
    assert ended - begun - 0.25 < (len(recording.samples) + gap["gap"]) / SAMPLE_RATE < closed - begun + 0.25
    assert recording.reports == [lost, gap]


def test_new_default_is_read_when_the_old_disappears(sound_card: SoundCard, tmp_path: Path) -> None:
    process = listen(sound_card, tmp_path)
    sound_card.plug_in("spare")
    sound_card.pull_out()
    gap = process.wait_for("gap")
    process.finish()
    sound_card.pull_out("spare")
    sound_card.plug_in()
    assert gap["error"] == "microphone 'default' is gone; listening to 'spare' now"
