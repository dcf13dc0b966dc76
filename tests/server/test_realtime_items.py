"""Deltas of the Realtime protocol: concatenated, they are the transcript, whatever changes before the final."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from asr.runtime.search import Word
from asr.streaming import Event, Final, Partial
from asr.streaming.events import Alternative
from asr.streaming.server.protocols.realtime_items import Items, Mark


def words_of(text: str, start: float, end: float) -> tuple[Word, ...]:
    """All with the same times."""
    return tuple(Word(word, start, end, 0.5) for word in text.split())


def partial(text: str, start: float, end: float, num_stable: int = 0) -> Partial:
    return Partial(text, start, end, words_of(text, start, end), num_stable)


def final(text: str, start: float, end: float, alternatives: tuple[Alternative, ...] = ()) -> Final:
    return Final(text, start, end, words_of(text, start, end), alternatives=alternatives)


def deltas_of(items: Items, event: Any) -> list[str]:
    return [message["delta"] for message in items.take(event) if message["type"].endswith(".delta")]


def completed(items: Items, mark: str = "commit") -> str:
    return list(items.take(Mark(mark, 7, 7)))[-1]["transcript"]


def test_a_delta_is_what_will_hardly_change() -> None:
    items = Items(old_form=False, live=True)
    assert deltas_of(items, partial("ONE TOO", 0, 1)) == []
    assert deltas_of(items, partial("ONE TWO TREE", 0, 2, num_stable=1)) == ["ONE"]
    assert deltas_of(items, partial("ONE TWO THREE", 0, 3, num_stable=2)) == [" TWO"]
    assert deltas_of(items, partial("WON TWO", 0, 3, num_stable=1)) == []
    assert deltas_of(items, Mark("manual", 3, 3)) == []
    assert deltas_of(items, final("ONE TWO THREE FOUR", 0, 4)) == [" THREE FOUR"]
    assert deltas_of(items, partial("FOUR FIVE", 0, 2, num_stable=1)) == [" FOUR"]
    assert deltas_of(items, partial("", 0, 3)) == []  # it was not an utterance
    assert deltas_of(items, final("FIVE", 5, 6)) == [" FIVE"]
    last = list(items.take(Mark("commit", 7, 7)))[-1]
    assert last["transcript"] == "ONE TWO THREE FOUR FOUR FIVE" and last["usage"]["seconds"] == 7


@pytest.mark.parametrize(
    ("last", "transcript"),
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
def test_deltas_are_the_transcript_where_a_final_differs(last: str, transcript: str) -> None:
    items = Items(old_form=False, live=True)
    deltas = deltas_of(items, partial("WAS THAT THAT THEY", 0, 1, num_stable=3))
    deltas += deltas_of(items, final(last, 0, 2))
    items.take(Mark("manual", 3, 3))
    assert "".join(deltas) == transcript


def test_text_a_second_pass_may_change_is_unsent() -> None:
    items = Items(old_form=False, live=False)
    assert deltas_of(items, Mark("manual", 0, 0)) == []
    assert deltas_of(items, partial("WAS THAT THAT THEY", 0, 1, num_stable=3)) == []
    assert deltas_of(items, final("WAS THAT THEY", 0, 2)) == ["WAS THAT THEY"]
    assert completed(items) == "WAS THAT THEY"


@pytest.mark.parametrize("live", [True, False])
@pytest.mark.parametrize("vad", [True, False])
def test_deltas_are_the_transcript_of_random_partials(live: bool, vad: bool) -> None:
    """For any changes in partials, and wherever the client commits, clears or sets turn detection."""
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
            event = partial(text, now, now, num_stable=int(rng.integers(len(text.split()) + 1)))
        elif kind == "final":
            event = final(words(), now, now)
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


def seconds_of(items: Items, event: Event) -> list[int]:
    return [message["usage"]["seconds"] for message in items.take(event) if "usage" in message]


def test_usage_is_that_of_the_item() -> None:
    """Counted from the previous item, or from the last clear."""
    items = Items(old_form=False, live=False, vad=False)
    for end_s, seconds in ((7.5, 8), (9.0, 2), (12.2, 4), (13.2, 1)):
        assert seconds_of(items, Mark("commit", end_s, end_s)) == [seconds]
    assert seconds_of(items, Mark("clear", 20.0, 20.0)) == []
    assert seconds_of(items, Mark("commit", 22.5, 22.5)) == [3]


def test_usage_of_an_item_that_a_pause_ends() -> None:
    items = Items(old_form=False, live=False)
    assert seconds_of(items, final("ONE", 1.0, 2.5)) == [3]
    assert seconds_of(items, final("TWO", 3.0, 3.4)) == [1]
    assert 4.4 - 3.4 > 1 and seconds_of(items, final("THREE", 3.5, 4.4)) == [1]


def test_details_are_those_that_the_client_wants() -> None:
    """The tokens of `logprobs` are the text, also across deltas."""
    items = Items(old_form=False, live=True, vad=False)
    events = [
        partial("ONE TWO", 0.5, 1.0, num_stable=1),
        final("ONE TWO", 0.5, 2.0, (Alternative("one too", words_of("one too", 0.5, 2.0), 0.25),)),
        final("THREE", 3.0, 4.0),
        Mark("commit", 5, 5),
    ]
    plain = [message for event in events for message in items.take(event)]
    assert not any({"words", "logprobs", "alternatives"} & message.keys() for message in plain)
    items.details = frozenset({"words", "logprobs", "alternatives"})
    *deltas, _, _, _, last = [message for event in events for message in items.take(event)]
    assert [delta["delta"] for delta in deltas] == ["ONE", " TWO", " THREE"]
    for message, text in [*((delta, delta["delta"]) for delta in deltas), (last, "ONE TWO THREE")]:
        assert "".join(token["token"] for token in message["logprobs"]) == text
        assert b"".join(bytes(token["bytes"]) for token in message["logprobs"]).decode() == text
        assert {token["logprob"] for token in message["logprobs"]} == {-0.6931}
        assert [word["word"] for word in message["words"]] == text.split()
    assert [(word["start"], word["end"]) for word in last["words"]] == [(0.5, 1.0), (0.5, 2.0), (3.0, 4.0)]
    assert last["words"] == [word for delta in deltas for word in delta["words"]]
    (other,) = last["alternatives"]
    assert (other["text"], other["confidence"], other["start"], other["end"]) == ("one too", 0.25, 0.5, 2.0)
    assert other["words"][1] == {"word": "too", "start": 0.5, "end": 2.0, "confidence": 0.5}
    assert [message for message in items.take(Mark("commit", 6, 6))][-1]["alternatives"] == []


def test_tokens_are_the_text_across_line_breaks() -> None:
    """Spoken commands break lines, and a replacement may have several words."""
    items = Items(old_form=False, live=False, vad=False)
    items.details = frozenset({"logprobs"})
    words = ["Dear", "New York,", "\n", "the"]
    first = Final("Dear New York,\nthe", 0, 1, tuple(Word(word, 0, 1, 0.5) for word in words))
    (delta,) = items.take(first)
    assert delta["delta"] == first.text
    assert [token["token"] for token in delta["logprobs"]] == ["Dear", " New York,", "\n", "the"]
    (delta,) = items.take(Final("\nEnd", 1, 2, (Word("\n", 1, 2, 0.5), Word("End", 1, 2, 0.5))))
    assert delta["delta"] == "\nEnd" == "".join(token["token"] for token in delta["logprobs"])
    *_, last = items.take(Mark("commit", 3, 3))
    assert last["transcript"] == first.text + "\nEnd" == "".join(token["token"] for token in last["logprobs"])
