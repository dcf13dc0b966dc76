"""Times as people write them, and events that begin within a recording."""

from __future__ import annotations

import pytest

from asr.runtime.search import Word
from asr.streaming.events import Alternative, Final, Gap
from asr.streaming.timestamps import parse_duration, parse_time, timestamp


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("0", 0.0), ("90", 90.0), ("90.25", 90.25), ("1:30", 90.0), ("01:02:03.500", 3723.5), ("100:00:00", 360000.0)],
)
def test_times_in_seconds_or_hours(text: str, seconds: float) -> None:
    assert parse_time(text) == seconds


@pytest.mark.parametrize("text", ["", "-1", "1:60", "60:00:00:00", "1:2:", "nan", "1e3", "1:75:00", ".5", "٣", "1\n"])
def test_what_is_no_time(text: str) -> None:
    with pytest.raises(ValueError, match=r"^is .*; it must be in seconds or \[HH:\]MM:SS, such as 90, 1:30"):
        parse_time(text)


def test_duration_is_not_zero() -> None:
    assert parse_duration("0:00.5") == 0.5
    with pytest.raises(ValueError, match="is '0:00'; it must be greater than 0"):
        parse_duration("0:00")


def test_written_times_are_read_back() -> None:
    for seconds in (0.0, 59.9996, 3661.001, 360000.0):
        assert parse_time(timestamp(seconds)) == round(seconds, 3)
    assert timestamp(45296.7, ",") == "12:34:56,700"


def test_all_times_of_an_event_are_shifted() -> None:
    words, raw = (Word("9:30", 1.0, 2.0, 0.5),), (Word("NINE", 1.0, 1.5, 0.5), Word("THIRTY", 1.5, 2.0, 0.5))
    other = Alternative("nine", (Word("nine", 1.0, 2.0, 0.5),), 0.2)
    final = Final("9:30", 1.0, 2.0, words, "silence_after_speech", (other,), 2, raw="NINE THIRTY", raw_words=raw)
    assert final.shifted(0.0) == final
    later = final.shifted(100.0)
    assert later.to_dict() == {
        "type": "final",
        "text": "9:30",
        "start": 101.0,
        "end": 102.0,
        "words": [{"word": "9:30", "start": 101.0, "end": 102.0, "confidence": 0.5}],
        "raw": "NINE THIRTY",
        "raw_words": [
            {"word": "NINE", "start": 101.0, "end": 101.5, "confidence": 0.5},
            {"word": "THIRTY", "start": 101.5, "end": 102.0, "confidence": 0.5},
        ],
        "endpoint": "silence_after_speech",
        "alternatives": [
            {
                "text": "nine",
                "confidence": 0.2,
                "words": [{"word": "nine", "start": 101.0, "end": 102.0, "confidence": 0.5}],
            }
        ],
        "num_taken_back": 2,
    }
    assert Gap("lost", 1.0, 2.0).shifted(3.0) == Gap("lost", 4.0, 5.0)
