"""What the microphone hears from the loudspeaker: which words are left out, and that the user is told."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from support.terminal import Recording

from asr import Recognizer
from asr.runtime.search import Word
from asr.streaming.events import Event, Final, Partial
from asr.streaming.terminal.arguments import new_parser, parse
from asr.streaming.terminal.echo import Echoes
from asr.streaming.terminal.live import ECHO, Live, Source
from asr.streaming.terminal.output import Output


def said(text: str, start_s: float) -> tuple[Word, ...]:
    return tuple(Word(word, start_s + 0.4 * i, start_s + 0.4 * i + 0.4, 0.9) for i, word in enumerate(text.split()))


def final(text: str, start_s: float) -> Final:
    words = said(text, start_s)
    return Final(text, words[0].start, words[-1].end, words)


def partial(text: str, start_s: float, num_stable: int = 0) -> Partial:
    words = said(text, start_s)
    return Partial(text, words[0].start, words[-1].end, words, num_stable=num_stable)


def text_of(event: Event | None) -> str | None:
    return None if event is None else event.text


@pytest.mark.parametrize(
    ("played", "heard", "start_s", "left"),
    [
        ("shall we begin with the numbers", "shall we begin with the numbers", 1.2, None),
        ("shall we begin with the numbers", "shall we begun with a lumber", 1.2, None),  # badly understood
        ("shall we begin with the numbers", "shall we begin with the numbers yes please do", 1.2, "yes please do"),
        ("shall we begin with the numbers", "shall we begin with the numbers", 9.0, "shall we begin with the numbers"),
        ("shall we begin with the numbers", "no wait i have a question", 1.2, "no wait i have a question"),
        ("and then", "well first of all and then we see what happens", 0.0, "well first of all we see what happens"),
    ],
)
def test_words_that_were_played_are_left_out(played: str, heard: str, start_s: float, left: str | None) -> None:
    echoes = Echoes()
    at = 1.0 if not heard.startswith("well") else 1.5
    echoes.played(final(played, at))
    assert text_of(echoes.without_echo(final(heard, start_s))) == left
    assert bool(echoes.num_removed) == (left != heard)


def test_partials_are_filtered_by_partials() -> None:
    echoes = Echoes()
    echoes.played(partial("shall we begin", 1.0))
    event = echoes.without_echo(partial("shall we begin", 1.2, num_stable=2))
    assert isinstance(event, Partial) and event.text == "" and event.num_stable == 0
    more = echoes.without_echo(partial("shall we begin yes", 1.2, num_stable=4))
    assert isinstance(more, Partial) and more.text == "yes" and more.num_stable == 1
    assert echoes.num_removed == 0  # only finals count
    echoes.played(final("another sentence", 1.0))
    assert text_of(echoes.without_echo(partial("shall we begin", 1.2))) == "shall we begin"


def test_formatted_words_go_with_what_was_said() -> None:
    echoes = Echoes()
    echoes.played(final("we have twenty five people", 1.0))
    raw = said("we have twenty five people in the office", 1.1)
    shown = (Word("We", 1.1, 1.5, 0.9), Word("have", 1.5, 1.9, 0.9), Word("25", 1.9, 2.7, 0.9), *raw[4:])
    event = Final("We have 25 people in the office", 1.1, 4.3, shown, raw=" ".join(w.word for w in raw), raw_words=raw)
    left = echoes.without_echo(event)
    assert isinstance(left, Final)
    assert (left.text, left.raw) == ("in the office", "in the office")
    assert left.start == raw[5].start and left.end == raw[-1].end


def in_a_room(samples: np.ndarray, delay_s: float = 0.12, gain: float = 0.3) -> np.ndarray:
    """What a microphone hears of a loudspeaker: later, softer, with reverberation of 0.3 s."""
    rng = np.random.default_rng(3)
    response = rng.standard_normal(4800) * np.exp(-np.arange(4800) / 700)
    response[0] = 8.0
    response /= np.sqrt(np.sum(response**2))
    late = np.zeros(int(delay_s * 16000))
    return gain * np.convolve(np.concatenate([late, samples]), response)[: len(samples)]


@pytest.mark.parametrize("keeps", [False, True])
def test_a_meeting_without_headphones(
    keeps: bool, sample: np.ndarray, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    speech = sample.astype(np.float32) / 32768
    pause = np.zeros(24000, np.float32)
    others = np.concatenate([speech, pause, 0 * speech, pause])
    me = np.concatenate([0 * speech, pause, 0.7 * speech[::1], pause])
    me = (me + in_a_room(others)).astype(np.float32)
    recognizer = Recognizer()
    with Output(("json",), str(tmp_path / "events")) as output:
        sources = [
            Source(Recording(me), recognizer.stream(), "me"),  # type: ignore[arg-type]
            Source(Recording(others), recognizer.stream(), "others"),  # type: ignore[arg-type]
        ]
        live = Live(sources, output, False, begun_ns=5_000_000_000, echoes=None if keeps else Echoes())
        while live.step():
            pass
        live.finish()
    events = [json.loads(line) for line in (tmp_path / "events").read_text().splitlines()]
    finals = [(event["label"], event["start"]) for event in events if event["type"] == "final"]
    assert [start < 6 for label, start in finals if label == "others"] == [True]
    assert [start < 6 for label, start in finals if label == "me"] == ([True, False] if keeps else [False])
    assert capsys.readouterr().err.count(ECHO) == (not keeps)


def test_the_option_needs_both_sources(capsys: pytest.CaptureFixture[str]) -> None:
    assert parse(new_parser(), ["--system-audio", "--microphone", "--keep-echo"]).keep_echo
    with pytest.raises(SystemExit):
        parse(new_parser(), ["--system-audio", "--keep-echo"])
    assert "--keep-echo is for the microphone beside the system audio" in capsys.readouterr().err
