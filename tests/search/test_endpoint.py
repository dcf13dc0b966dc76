"""Endpoint rules: each fires at its frame and is named in the result."""

import math
from typing import Any

import numpy as np
import pytest

from asr._core import Endpointer


def rule(endpointer: Endpointer, frames: int, silence: int, speech: bool, word_begins: bool = False) -> str | None:
    return endpointer.update(
        num_frames=frames, num_trailing_silence_frames=silence, has_speech=speech, word_begins=word_begins
    )


def test_silence_after_speech() -> None:
    endpointer = Endpointer()
    assert rule(endpointer, 100, 16, True) is None
    assert rule(endpointer, 100, 17, True) == "silence_after_speech"  # 17 frames of 40 ms are 0.68 s


@pytest.mark.parametrize(
    ("cues", "frames"),
    [
        ({"end_log_prob": -1.0}, 13),  # 0.5 s at least
        ({"end_log_prob": -5.0}, 25),
        ({"end_log_prob": -np.inf}, 29),
        ({"end_log_prob": -np.inf, "num_words": 1}, 41),
        ({"num_words": 1}, 29),
        ({"num_words": 100}, 17),
        ({"longest_pause_frames": 16}, 24),
        ({"longest_pause_frames": 2**40}, 50),  # 2 s at most
        ({"end_log_odds": 2.0}, 18),  # 0.7 s
        ({"end_log_odds": np.inf, "end_log_prob": -1.5}, 17),
        ({"end_log_odds": -4.0}, 45),
        ({"end_log_odds": 0.0}, 27),
        ({"end_log_odds": 0.0, "end_log_prob": -5.0}, 28),
        ({"end_log_odds": 3.0, "num_words": 1}, 25),
        ({"end_log_odds": 3.0, "longest_pause_frames": 20}, 28),
    ],
)
def test_cues_set_the_silence_between_its_bounds(cues: dict[str, Any], frames: int) -> None:
    endpointer = Endpointer()
    for silence, expected in ((frames - 1, None), (frames, "silence_after_speech")):
        assert expected == endpointer.update(
            num_frames=100, num_trailing_silence_frames=silence, has_speech=True, **cues
        )


def test_silence_without_speech() -> None:
    endpointer = Endpointer()
    assert rule(endpointer, 124, 124, False) is None
    assert rule(endpointer, 125, 125, False) == "silence_without_speech"


def test_long_utterance_ends_at_pause_word_then_anywhere() -> None:
    endpointer = Endpointer()
    infinite = Endpointer(silence_after_speech_s=math.inf)
    assert rule(infinite, 499, 13, True, True) is None
    assert rule(infinite, 500, 12, True, True) is None
    assert rule(infinite, 500, 13, True) == "max_utterance"  # half a second, a pause between sentences
    assert rule(endpointer, 562, 6, True) is None
    assert rule(endpointer, 563, 5, True, True) is None
    assert rule(endpointer, 563, 6, True) == "max_utterance"
    assert rule(endpointer, 624, 0, True, True) is None
    assert rule(endpointer, 625, 0, True, True) == "max_utterance"
    assert rule(endpointer, 749, 5, True) is None
    assert rule(endpointer, 750, 0, True) == "max_utterance"


def test_frame_length_counts() -> None:
    for frame_s in (0.01, 0.02, 0.03, 0.07, 0.1):
        silence_s = 12 * frame_s
        endpointer = Endpointer(silence_after_speech_s=silence_s, min_silence_after_speech_s=silence_s, frame_s=frame_s)
        assert rule(endpointer, 50, 11, True) is None
        assert rule(endpointer, 50, 12, True) == "silence_after_speech"


def test_infinity_switches_a_rule_off() -> None:
    endpointer = Endpointer(silence_without_speech_s=math.inf, max_utterance_s=math.inf)
    assert rule(endpointer, 10**12, 10**12, False) is None
    endpointer = Endpointer(silence_after_speech_s=math.inf, max_utterance_s=math.inf)
    assert rule(endpointer, 10**12, 10**11, True) is None
    assert endpointer.max_utterance_s == math.inf


@pytest.mark.parametrize(
    "name",
    [
        "silence_after_speech_s",
        "min_silence_after_speech_s",
        "silence_without_speech_s",
        "max_utterance_s",
        "frame_s",
    ],
)
@pytest.mark.parametrize("value", [0.0, -1.0, math.nan])
def test_durations_are_checked(name: str, value: float) -> None:
    with pytest.raises(ValueError, match=name):
        Endpointer(**{name: value})


def test_frame_length_must_be_finite() -> None:
    with pytest.raises(ValueError, match="frame_s"):
        Endpointer(frame_s=math.inf)


@pytest.mark.parametrize(("frames", "silence"), [(-1, 0), (5, 6), (5, -1)])
def test_counts_are_checked(frames: int, silence: int) -> None:
    with pytest.raises(ValueError, match="num_"):
        rule(Endpointer(), frames, silence, True)
