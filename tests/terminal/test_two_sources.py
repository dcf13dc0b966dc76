"""The microphone and system audio side by side: one clock, and labels in every format."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from support.terminal import Recording, Terminal

from asr import Recognizer
from asr.runtime.search import Word
from asr.streaming.events import Event, Final, Gap, Partial
from asr.streaming.terminal.captions import Captions
from asr.streaming.terminal.live import Live, Source
from asr.streaming.terminal.output import Output
from asr.streaming.terminal.subtitles import Subtitles


def test_times_of_both_count_from_the_same_moment(sample: np.ndarray, tmp_path: Path) -> None:
    recognizer = Recognizer()
    samples = np.concatenate([sample[:48000], np.zeros(16000, np.int16)]).astype(np.float32) / 32768
    with Output(("json",), str(tmp_path / "events")) as output:
        sources = [
            Source(Recording(samples, late_s=0.1), recognizer.stream(), "me"),  # type: ignore[arg-type]
            Source(Recording(samples, late_s=1.6), recognizer.stream(), "others"),  # type: ignore[arg-type]
        ]
        live = Live(sources, output, with_stats=False, begun_ns=5_000_000_000)
        while live.step():
            pass
        live.finish()
    events = [json.loads(line) for line in (tmp_path / "events").read_text().splitlines()]
    finals = [event for event in events if event["type"] == "final"]
    assert sorted(event["label"] for event in finals) == ["me", "others"]
    me, others = sorted(finals, key=lambda event: event["label"])
    assert me["start"] >= 0.1 and me["text"] == others["text"]
    assert others["start"] - me["start"] == pytest.approx(1.5, abs=0.05)


def test_times_follow_the_clock_of_the_computer(sample: np.ndarray, tmp_path: Path) -> None:
    """A device that is slower by 2 % has the times of the other one, but for the delay with which that is measured."""
    recognizer = Recognizer(second_pass=False)
    samples = np.concatenate([np.zeros(480000, np.int16), sample[:48000], np.zeros(16000, np.int16)])
    with Output(("json",), str(tmp_path / "events")) as output:
        recordings = [Recording(samples.astype(np.float32) / 32768, drift=drift) for drift in (0.0, 0.02)]
        sources = [
            Source(recording, recognizer.stream(), label)  # type: ignore[arg-type]
            for recording, label in zip(recordings, ("me", "others"), strict=True)
        ]
        live = Live(sources, output, with_stats=False, begun_ns=5_000_000_000)
        while live.step():
            pass
        live.finish()
    events = [json.loads(line) for line in (tmp_path / "events").read_text().splitlines()]
    me, others = (next(e for e in events if e["type"] == "final" and e["label"] == label) for label in ("me", "others"))
    assert me["text"] == others["text"]
    assert [word["start"] - other["start"] for word, other in zip(others["words"], me["words"], strict=True)] == [
        pytest.approx(0.02 * 20, abs=0.01) for _ in me["words"]
    ]


def words(text: str, start_s: float) -> tuple[Word, ...]:
    return tuple(Word(word, start_s + 0.4 * i, start_s + 0.4 * i + 0.4, 1.0) for i, word in enumerate(text.split()))


def final(text: str, start_s: float) -> Event:
    said = words(text, start_s)
    return Final(text, said[0].start, said[-1].end, said)


def partial(text: str, start_s: float) -> Event:
    return Partial(text, start_s, start_s + 1, words(text, start_s))


@pytest.mark.parametrize("format", ["text", "json"])
def test_lines_name_the_source(format: str, capsys: pytest.CaptureFixture[str]) -> None:
    with Output((format,)) as output:
        output.begin("microphone", several=False)
        output.show(final("shall we", 1.0), "me")
        output.show(final("yes", 1.5), "others")
        output.show(Gap("1.000 s of audio were lost", 3.0, 4.0), "others")
    out, err = capsys.readouterr()
    if format == "text":
        assert out == "me: shall we\nothers: yes\n"
        assert err == "asr-stream: others: 1.000 s of audio were lost at 3.00 s\n"
    else:
        assert [json.loads(line)["label"] for line in out.splitlines()] == ["me", "others", "others"]


def test_cues_name_the_source_and_stand_in_order() -> None:
    """An utterance that begins while the other side speaks waits for the other's final, whose cues begin earlier."""
    subtitles = Subtitles("srt")
    long = " ".join(f"sentence{i}" for i in range(20))
    added = [
        subtitles.add(partial("sentence0 sentence1", 1.0), "me"),
        subtitles.add(partial("is it", 5.0), "others"),
        subtitles.add(final("is it so", 5.0), "others"),
        subtitles.add(final(long, 1.0), "me"),
        subtitles.add(partial("well", 12.0), "others"),
        subtitles.add(partial("", 12.0), "others"),
        subtitles.add(final("right", 12.5), "me"),
        subtitles.finish(),
    ]
    assert [bool(text) for text in added] == [False, False, False, True, True, False, False, True]
    cues = [cue.splitlines() for cue in "".join(added).split("\n\n") if cue]
    assert [cue[0] for cue in cues] == [str(i + 1) for i in range(len(cues))]
    starts = [cue[1][:12] for cue in cues]
    assert starts == sorted(starts) and "00:00:05,000" in starts
    assert [cue[2].split(": ")[0] for cue in cues].count("others") == 1
    assert cues[-1][1:] == ["00:00:12,500 --> 00:00:14,000", "me: right"]
    assert all(len(line) <= 42 for cue in cues for line in cue[2:])


def test_each_source_has_its_line_on_the_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    terminal = Terminal(40)
    with Captions(terminal, width=40) as captions:
        captions.show(partial("shall", 0.0), "me")
        captions.show(partial("well I would not say anything of the kind", 0.0), "others")
        captions.show(partial("shall we", 0.0), "me")
        others = ["others: well I would not say anything", "        of the kind"]
        assert terminal.text == ["me: shall we", *others]
        captions.show(final("shall we go", 0.0), "me")
        assert terminal.text == ["me: shall we go", *others]
        captions.show(partial("", 0.0), "others")
        captions.show(final("yes", 0.0), "others")
    assert terminal.text == ["me: shall we go", "others: yes"]
