"""The line below the captions: level meter, progress of files, costs; and the microphone's loop that feeds it."""

from __future__ import annotations

import io
import re
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from rich.text import Text
from support.recognition import recognize
from support.terminal import Recording, Terminal

from asr import Recognizer
from asr.streaming.audio import audio_file
from asr.streaming.events import Final, Partial
from asr.streaming.terminal import cli, status
from asr.streaming.terminal.captions import Captions
from asr.streaming.terminal.live import Live, Source
from asr.streaming.terminal.output import Output
from asr.streaming.terminal.stats import Stats
from asr.streaming.terminal.status import MUTED_S, FileProgress, LevelMeter, StatusLine, clock


@contextmanager
def line(width: int = 80) -> Iterator[tuple[Terminal, StatusLine]]:
    terminal = Terminal(width)
    with Captions(terminal, width) as captions:
        yield terminal, StatusLine(captions)


def sine(peak: float, duration_s: float = 0.1) -> np.ndarray:
    return (peak * np.sin(np.arange(round(16000 * duration_s)) * 0.3)).astype(np.float32)


# ---- the level ----


@pytest.mark.parametrize(("peak", "peak_db"), [(1.0, 0.0), (0.5, -6.02), (0.01, -40.0), (1e-9, -60.0), (0.0, -60.0)])
def test_levels_are_in_decibels_below_full_scale(peak: float, peak_db: float) -> None:
    meter = LevelMeter()
    for samples in np.split(sine(peak), [7, 700]):
        meter.accept(samples, 16000)
    meter.update(0.1)
    assert meter.peak_db == pytest.approx(peak_db, abs=0.02)
    assert meter.rms_db == pytest.approx(max(peak_db - 3.01, -60.0), abs=0.05)


def test_the_mark_of_the_peak_comes_down_slowly() -> None:
    with line() as (_, drawn):
        meter = LevelMeter()
        labels = []
        for samples in (sine(0.1), sine(0.001), sine(0.001), sine(0.5)):
            meter.accept(samples, 16000)
            meter.update(0.5)
            bar, label = meter.parts(drawn)
            labels.append(label.plain.strip())
        assert labels == ["-20 dB", "-30 dB", "-40 dB", "-6 dB"]
        assert len(bar.plain) == 19 and bar.plain == "━" * 16 + "┃" + "─" * 2


def test_loud_and_odd_audio() -> None:
    with line() as (_, drawn):
        meter = LevelMeter()
        meter.accept(np.array([np.nan, np.inf, 7.0], np.float32), 16000)
        meter.accept(np.zeros(0, np.float32), 16000)
        meter.update(0.1)
        bar, label = meter.parts(drawn)
        assert (bar.plain, label.plain, label.style) == ("━" * 19, "too loud", "red")


@pytest.mark.parametrize(("has_words", "num_before", "num_more"), [(False, 0, 40), (True, 99, 2)])
def test_a_microphone_that_is_switched_off(has_words: bool, num_before: int, num_more: int) -> None:
    """Silence after words is mentioned later."""
    with line() as (_, drawn):
        meter = LevelMeter()
        meter.has_words = has_words
        for count, is_muted in ((num_before, False), (num_more, True)):
            for _ in range(count):
                meter.accept(np.zeros(1600, np.float32), 16000)
            assert ("is it muted?" in meter.parts(drawn)[0].plain) == is_muted
        meter.accept(sine(1e-4), 16000)
        assert len(meter.parts(drawn)) == 2


# ---- the line ----


@pytest.mark.parametrize(("width", "shown"), [(80, "ONE  TWO  字字"), (14, "ONE  TWO"), (8, "ONE"), (3, None)])
def test_what_does_not_fit_is_left_out(width: int, shown: str | None) -> None:
    with line(width) as (terminal, drawn):
        drawn.draw([Text("ONE"), Text("TWO"), Text("字字")])
        assert terminal.text == ([shown] if shown else [])


def test_terminals_without_unicode() -> None:
    with line() as (_, drawn):
        drawn.unicode = False
        assert drawn.bar(0.5, "green", 0.8).plain == "=" * 10 + "-" * 4 + "|" + "-" * 4


@pytest.mark.usefixtures("restore_signals")
def test_lengths_are_read_only_for_progress(monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[str] = []
    monkeypatch.setattr(audio_file, "duration_s", lambda path, raw_rate: read.append(path) or 1.0)
    assert cli.main(["--search", "greedy", str(cli.SAMPLE)]) == 0
    assert read == []
    monkeypatch.setattr(sys, "stderr", Terminal(80))
    monkeypatch.setenv("TERM", "xterm-256color")
    assert cli.main(["--search", "greedy", str(cli.SAMPLE)]) == 0
    assert read == [str(cli.SAMPLE)]


def test_progress_by_length_and_by_number(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 100.0
    monkeypatch.setattr(status.time, "monotonic", lambda: now)
    with line(200) as (_, drawn):
        known, unknown = FileProgress(3, 600.0), FileProgress(4, 0.0)
        now += 10
        shown = ["  ".join(part.plain for part in found) for found in (
            known.parts(drawn, 1, 150.0),
            unknown.parts(drawn, 1, 150.0),
            FileProgress(1, 600.0).parts(drawn, 0, 900.0),
        )]  # fmt: skip
    bars = "━" * 8 + "─" * 22
    assert shown[0] == f"{bars}   25 %  0:30 left  1/3 files  15× as fast as spoken"
    assert shown[1] == f"{bars}   25 %  0:30 left  1/4 files  15× as fast as spoken"
    assert shown[2] == f"{'━' * 30}  100 %"


def test_clock() -> None:
    assert [clock(seconds) for seconds in (0, 59.9, 61, 3599, 3600, 36061)] == [
        "0:00", "0:59", "1:01", "59:59", "1:00:00", "10:01:01"
    ]  # fmt: skip


# ---- costs ----


def test_stats_are_those_of_all_streams() -> None:
    partial, final = Partial("A", 0.0, 1.0), Final("A", 0.0, 1.0)
    one, two, total = Stats(), Stats(), Stats()
    for number in range(1, 21):
        one.add(0.5, number / 1000, [partial, partial], waited_s=0.02)
    two.add(10.0, 0.1, [])
    two.add(0.0, 0.29, [partial, final])
    total.merge(one)
    total.merge(two)
    first, second, third = total.summary().splitlines()
    assert first.startswith("20.0 s of audio in 0.00 s; real-time factor 0.0300")
    assert second == "partials: 21; delay: median 31 ms, 95th percentile 40 ms"
    assert third == "finals: 1; delay: median 290 ms, 95th percentile 290 ms"
    assert [part.plain for part in two.now()] == ["delay 290 ms", "RTF 0.039"]
    assert [part.plain for part in Stats().now()] == ["RTF 0.000"] and Stats().summary().count("\n") == 0


@pytest.mark.usefixtures("restore_signals")
def test_costs_come_after_the_status_line_is_gone(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = Terminal(80)
    for name in ("stdout", "stderr"):
        monkeypatch.setattr(f"sys.{name}", terminal)

    class Interrupted:
        """Live captions with a status line, during which Ctrl-C is pressed."""

        def __init__(self, sources: object, output: Output, *_: object) -> None:
            self.stats, self.captions = Stats(), output.captions

        def step(self) -> None:
            assert self.captions
            self.captions.status(Text("-20 dB"))
            signal.raise_signal(signal.SIGINT)

        def finish(self) -> None: ...

    microphone = SimpleNamespace(device=SimpleNamespace(name="USB"))
    monkeypatch.setattr("asr.streaming.audio.microphone.Microphone", lambda *_, **options: nullcontext(microphone))
    monkeypatch.setattr("asr.streaming.terminal.live.Live", Interrupted)
    monkeypatch.setattr(cli, "recognizer_or_error", lambda *_: SimpleNamespace(stream=lambda: None))
    assert cli.main(["--stats"]) == 0
    assert [line[:14] for line in terminal.text] == ["Listening on U", "0.0 s of audio"]


@pytest.mark.usefixtures("restore_signals")
@pytest.mark.parametrize(("is_terminal", "realtime"), [(True, True), (False, False)])
def test_sample_is_real_time_only_in_a_terminal(
    is_terminal: bool, realtime: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    found: dict[str, Any] = {}

    def transcriber(*_: object, **options: Any) -> None:
        found.update(options)
        raise SystemExit

    monkeypatch.setattr("sys.stdout", Terminal(80) if is_terminal else io.StringIO())
    monkeypatch.setattr("asr.streaming.terminal.files.Transcriber", transcriber)
    monkeypatch.setattr(cli, "recognizer_or_error", lambda *_: object())
    with pytest.raises(SystemExit):
        cli.main(["--sample"])
    assert (found["reading"].realtime, found["wants_partials"]) == (realtime, realtime)


# ---- from a microphone to the terminal ----


def test_live_captions_with_level_clock_and_costs(
    recognizer: Recognizer, conversation: np.ndarray, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    terminal = Terminal(80)
    monkeypatch.setattr("sys.stdout", terminal)
    monkeypatch.setenv("NO_COLOR", "1")
    monkeypatch.setattr(status, "REDRAW_S", 1e-9)
    # After words, such a silence does not mean that the microphone is switched off.
    conversation = np.concatenate([conversation, np.zeros(round((MUTED_S + 4) * 16000), np.float32)])
    microphone = Recording(conversation, num_left=30)
    with Output(("text",), str(tmp_path / "notes.txt")) as output:
        source = Source(microphone, recognizer.stream())  # type: ignore[arg-type]
        live = Live([source], output, with_stats=True)
        while live.step():
            pass
        *_, partial, shown = terminal.text
        live.finish()
    finals = [event.text for event in recognize(recognizer, conversation) if isinstance(event, Final)]
    assert (tmp_path / "notes.txt").read_text().splitlines() == finals
    assert " ".join(terminal.text) == " ".join(finals)  # long ones were wrapped
    bar, decibels, time, delay, factor = re.split(" {2,}", shown)
    assert set(bar) <= {*"━─┃"} and decibels.endswith(" dB") and time == clock(len(conversation) / 16000 - 3.0)
    assert delay.startswith("delay ") and int(delay.split()[1]) >= 100  # it includes the time to fill the block
    assert factor.startswith("RTF 0.") and partial
    assert live.stats.audio_s == pytest.approx(len(conversation) / 16000)
