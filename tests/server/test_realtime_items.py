"""Deltas of the Realtime protocol: whatever changes on the way, joined they are the transcript."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from asr.streaming import Event, Final, Partial
from asr.streaming.server.protocols.realtime_items import Items, Mark


def deltas_of(items: Items, event: Any) -> list[str]:
    return [message["delta"] for message in items.take(event) if message["type"].endswith(".delta")]


def completed(items: Items, mark: str = "commit") -> str:
    return list(items.take(Mark(mark, 7, 7)))[-1]["transcript"]


def test_a_delta_is_what_will_hardly_change() -> None:
    items = Items(old_form=False, live=True)
    assert deltas_of(items, Partial("ONE TOO", 0, 1)) == []
    assert deltas_of(items, Partial("ONE TWO TREE", 0, 2, num_stable=1)) == ["ONE"]
    assert deltas_of(items, Partial("ONE TWO THREE", 0, 3, num_stable=2)) == [" TWO"]
    assert deltas_of(items, Partial("WON TWO", 0, 3, num_stable=1)) == []
    assert deltas_of(items, Mark("manual", 3, 3)) == []
    assert deltas_of(items, Final("ONE TWO THREE FOUR", 0, 4)) == [" THREE FOUR"]
    assert deltas_of(items, Partial("FOUR FIVE", 0, 2, num_stable=1)) == [" FOUR"]
    assert deltas_of(items, Partial("", 0, 3)) == []  # the utterance was none
    assert deltas_of(items, Final("FIVE", 5, 6)) == [" FIVE"]
    last = list(items.take(Mark("commit", 7, 7)))[-1]
    assert last["transcript"] == "ONE TWO THREE FOUR FOUR FIVE" and last["usage"]["seconds"] == 7


@pytest.mark.parametrize(
    ("final", "transcript"),
    [
        ("IT WAS THAT THAT THEY ENFORCED", "WAS THAT THAT THEY ENFORCED"),
        ("IS THAT THAT THEY ENFORCED", "WAS THAT THAT THEY ENFORCED"),
        ("WAS THAT WHAT THEY ENFORCED", "WAS THAT THAT THEY ENFORCED"),
        ("WAS THAT A LAW THAT THEY ENFORCED", "WAS THAT THAT THEY ENFORCED"),
        ("SO FAR", "WAS THAT THAT"),
        ("SO FAR AND NO FURTHER", "WAS THAT THAT NO FURTHER"),
        ("", "WAS THAT THAT"),
    ],
)
def test_deltas_are_the_transcript_where_a_final_differs(final: str, transcript: str) -> None:
    items = Items(old_form=False, live=True)
    deltas = deltas_of(items, Partial("WAS THAT THAT THEY", 0, 1, num_stable=3))
    deltas += deltas_of(items, Final(final, 0, 2))
    items.take(Mark("manual", 3, 3))
    assert "".join(deltas) == transcript


def test_what_a_second_pass_may_change_is_not_sent() -> None:
    items = Items(old_form=False, live=False)
    assert deltas_of(items, Mark("manual", 0, 0)) == []
    assert deltas_of(items, Partial("WAS THAT THAT THEY", 0, 1, num_stable=3)) == []
    assert deltas_of(items, Final("WAS THAT THEY", 0, 2)) == ["WAS THAT THEY"]
    assert completed(items) == "WAS THAT THEY"


@pytest.mark.parametrize("live", [True, False])
@pytest.mark.parametrize("vad", [True, False])
def test_deltas_are_the_transcript_of_random_partials(live: bool, vad: bool) -> None:
    """Whatever partials change and call stable, and wherever the client commits, clears or sets turn detection."""
    rng = np.random.default_rng(7)
    vocabulary = ["A", "BE", "SEA", "9:30", "Mr."]
    kinds = {"partial": 0.7, "final": 0.15, "commit": 0.07, "clear": 0.02, "vad": 0.03, "manual": 0.03}

    def words() -> str:
        return " ".join(rng.choice(vocabulary, int(rng.integers(1, 9))))

    items = Items(old_form=False, live=live, vad=vad)
    deltas: dict[str, str] = {}
    finals: list[str] = []
    num_completed = 0
    for now in range(3000):
        kind = str(rng.choice(list(kinds), p=list(kinds.values())))
        event: Event = Mark(kind, now, now)
        if kind == "partial":
            text = words() if rng.random() < 0.9 else ""
            event = Partial(text, now, now, num_stable=int(rng.integers(len(text.split()) + 1)))
        elif kind == "final":
            event = Final(words(), now, now)
            finals.append(event.text)
        for message in items.take(event):
            if message["type"].endswith(".delta"):
                deltas[message["item_id"]] = deltas.get(message["item_id"], "") + message["delta"]
            elif message["type"].endswith(".completed"):
                transcript = message["transcript"]
                assert transcript == deltas.pop(message["item_id"], "")
                assert set(transcript.split(" ")) <= {*vocabulary, ""} and "  " not in transcript
                assert live or transcript == " ".join(finals)
                num_completed += 1
                finals = []
        finals = [] if kind == "clear" else finals
    assert num_completed > 100


def test_usage_is_that_of_the_item() -> None:
    items = Items(old_form=False, live=False)
    for end_s, seconds in ((7.5, 8), (9.0, 2), (12.2, 4)):
        assert list(items.take(Mark("commit", end_s, end_s)))[-1]["usage"]["seconds"] == seconds
