"""Subtitles: readable cues, and files that players accept."""

from __future__ import annotations

import copy
import math
import re
import subprocess
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from asr.runtime.search import Word
from asr.streaming.events import Event, Final, Partial
from asr.streaming.terminal.cues import Cue, Cues
from asr.streaming.terminal.layout import DEFAULTS, Layout
from asr.streaming.terminal.subtitles import Subtitles, document
from asr.streaming.timestamps import parse_time


def final(text: str, start_s: float = 0.0, word_s: float = 0.3, pauses: dict[str, float] | None = None) -> Final:
    """Words of `word_s`, a tenth of a second between them; `pauses`: another pause after a word."""
    words = []
    for word in text.split():
        words.append(Word(word, start_s, start_s + word_s, 0.9))
        start_s += word_s + (pauses or {}).get(word, 0.1)
    return Final(text, words[0].start, words[-1].end, tuple(words))


def cues(finals: list[Final], layout: Layout = DEFAULTS) -> list[Cue]:
    found = Cues(layout)
    return [cue for final in finals for cue in found.add(final)] + found.settle()


@st.composite
def finals(draw: st.DrawFn) -> list[Final]:
    """Random words at any pace, some longer than a line, some longer than a cue."""
    found, now = [], draw(st.sampled_from([0.0, 35990.0, 400000.0]))
    for _ in range(draw(st.integers(1, 4))):
        words = []
        for _ in range(draw(st.integers(1, 30))):
            start = now + draw(st.sampled_from([0.0, 0.1, 0.4, 1.0, 3.0]))
            now = start + draw(st.sampled_from([0.0, 0.2, 0.5, 9.0]))
            words.append(Word("W" * draw(st.sampled_from([1, 3, 5, 8, 41, 42, 43, 100])), start, now, 0.5))
        found.append(Final(" ".join(word.word for word in words), words[0].start, now, tuple(words)))
    return found


@given(finals())
@settings(max_examples=40, deadline=None)
def test_cues_hold_to_their_limits_and_lose_nothing(finals: list[Final]) -> None:
    found = cues(finals)
    for cue in found:
        assert 1 <= len(cue.lines) <= 2 and all(0 < len(line) <= 42 for line in cue.lines)
        assert 1 - 1e-6 <= cue.end_s - cue.start_s <= 7 + 1e-6
    assert all(before.end_s <= after.start_s for before, after in pairwise(found))
    spoken = "".join(final.text for final in finals)
    assert "".join("".join(cue.lines) for cue in found).replace(" ", "") == spoken.replace(" ", "")


def test_line_breaks_in_words_end_no_cue() -> None:
    spoken = ("Dear all,", "\n\n", "thank\n\nyou", "  ")
    words = tuple(Word(word, i / 5, (i + 1) / 5, 0.9) for i, word in enumerate(spoken))
    for kept in (words, words[:1] + words[2:]):
        expected = "1\n00:00:00,000 --> 00:00:01,500\nDear all, thank you\n\n"
        assert document("srt", [Final("", 0.0, 0.8, kept)]) == expected
    assert document("srt", [Final("", 0.2, 0.4, words[1:2])]) == ""


def test_two_lines_are_of_like_length() -> None:
    (cue,) = cues([final("THE OLD MAN WALKED SLOWLY DOWN THE ROAD TO TOWN")])
    assert cue.lines == ("THE OLD MAN WALKED SLOWLY", "DOWN THE ROAD TO TOWN")


LONG = "WE WENT OUT INTO THE GARDEN BEFORE BREAKFAST AND THERE STOOD THE GREY HORSE LOOKING OVER THE GATE AT US ALL"


def texts(final: Final) -> list[str]:
    return [" ".join(cue.lines) for cue in cues([final])]


def test_a_long_utterance_is_cut_at_its_pauses() -> None:
    assert len(LONG) > 2 * 42
    first, second = texts(final(LONG, pauses={"BREAKFAST": 0.4, "THE": 0.15}))
    assert first == "WE WENT OUT INTO THE GARDEN BEFORE BREAKFAST" and second.startswith("AND THERE")
    first, second = texts(final(LONG, pauses={"HORSE": 0.4}))
    assert first.endswith("THE GREY HORSE")


def test_splits_without_pauses_into_parts_of_similar_length() -> None:
    lengths = [len(text) for text in texts(final(LONG))]
    assert len(lengths) == 2 and max(lengths) - min(lengths) < 8


def test_pause_within_a_short_utterance_splits_it() -> None:
    one = "I THOUGHT SO THEN BUT NOW I DO NOT"
    assert texts(final(one)) == [one]
    assert texts(final(one, pauses={"THEN": 0.8})) == ["I THOUGHT SO THEN", "BUT NOW I DO NOT"]
    assert texts(final("NO BUT NOW I DO", pauses={"NO": 0.6})) == ["NO BUT NOW I DO"]  # "NO" would flash by


def test_srt() -> None:
    assert document("srt", []) == ""
    assert document("srt", [final("YES", 0.44), final("A < B", 3.0, 0.5)]) == (
        "1\n00:00:00,440 --> 00:00:01,940\nYES\n\n2\n00:00:03,000 --> 00:00:05,200\nA < B\n\n"
    )


def test_vtt() -> None:
    assert document("vtt", []) == "WEBVTT\n\n"
    assert document("vtt", [final("A <B> --> R&D", 0.44, 0.5)]) == (
        "WEBVTT\n\n00:00:00.440 --> 00:00:03.240\nA &lt;B&gt; --&gt; R&amp;D\n\n"
    )


@pytest.mark.parametrize(
    ("seconds", "time"),
    [
        (0.0, "00:00:00,000"),
        (59.9996, "00:01:00,000"),
        (36000.0 - 0.001, "09:59:59,999"),
        (45296.7, "12:34:56,700"),
        (360000.0, "100:00:00,000"),
    ],
)
def test_times(seconds: float, time: str) -> None:
    found = re.search(r"^(\S+) --> ", document("srt", [final("YES", seconds)]), re.MULTILINE)
    assert found is not None and found[1] == time


@given(finals())
@settings(max_examples=40, deadline=None)
def test_a_file_grows_by_what_is_added(finals: list[Final]) -> None:
    """Written cues do not change. After a crash, a file lacks only its end."""
    subtitles = Subtitles("vtt")
    text = subtitles.header
    for number, each in enumerate(finals, 1):
        text += subtitles.add(each)
        assert text + copy.deepcopy(subtitles).finish() == document("vtt", finals[:number])
    assert subtitles.finish() and not subtitles.finish()


def ends(*starts_s: float) -> list[float]:
    """Ends of cues whose words begin at `starts_s` and last 1.2 s."""
    return [round(cue.end_s, 3) for cue in cues([final("EVERYBODY", start_s, word_s=1.2) for start_s in starts_s])]


def test_a_cue_stands_longer_where_there_is_room() -> None:
    assert ends(0, 5) == [1.7, 6.7]
    assert ends(0, 2.1) == [2.017, 3.8]  # a gap of 0.4 s would flicker
    assert ends(0, 1.5) == [1.417, 3.2]
    assert ends(0, 1.2) == [1.117, 2.9]
    (cue,) = cues([final("EVERYBODY", 0, word_s=6.9)])
    assert cue.end_s == 7.0


def test_line_does_not_end_with_a_leading_word() -> None:
    (cue,) = cues([final("HE TOLD US OF THE STORM AT THE END OF A LONG DAY ABROAD")])
    assert cue.lines == ("HE TOLD US OF THE STORM", "AT THE END OF A LONG DAY ABROAD")
    (cue,) = cues([final("Yesterday afternoon we met old Dr. Livingstone again.")])
    assert not cue.lines[0].endswith("Dr.")


@pytest.mark.parametrize("num_before", range(8))
def test_cue_does_not_end_with_a_leading_word(num_before: int) -> None:
    *whole, _ = texts(final(" ".join(["HORSES"] * num_before) + " " + LONG))
    assert whole and not any(text.endswith((" THE", " AND", " INTO", " AT")) for text in whole)


def test_voices_of_webvtt() -> None:
    subtitles = Subtitles("vtt")
    text = subtitles.add(final("A LINE OF JUST AS MANY LETTERS AS CAN STAND"[:42], 0.5), "R&D") + subtitles.finish()
    assert text.splitlines()[1:] == ["<v R&amp;D>A LINE OF JUST AS MANY LETTERS AS CAN STAN", ""]


def test_labels_count_in_the_length_of_a_line() -> None:
    subtitles = Subtitles("srt")
    text = subtitles.add(final(LONG, 0.5), "everybody else") + subtitles.finish()
    lines = [line for line in text.splitlines() if line and "-->" not in line and not line.isdigit()]
    assert lines[0].startswith("everybody else: WE") and max(map(len, lines)) <= 42


def test_cue_is_written_before_its_speaker_continues() -> None:
    subtitles = Subtitles("srt")
    assert subtitles.add(final("YES", 0.5)) == ""
    assert subtitles.add(Partial("NO", 1.8, 2.0)) == "1\n00:00:00,500 --> 00:00:01,717\nYES\n\n"
    assert subtitles.add(final("NO", 1.8)) == ""
    assert subtitles.finish() == "2\n00:00:01,800 --> 00:00:03,300\nNO\n\n"


def test_a_silent_source_holds_no_other_back() -> None:
    subtitles = Subtitles("srt")
    assert subtitles.add(final("YES", 0.5), "me") == ""
    assert subtitles.add(final("SO", 2.0), "others") == ""
    assert subtitles.add(final("AND", 6.0), "others").count("-->") == 2


@given(st.data())
@settings(max_examples=60, deadline=None)
def test_cues_of_two_sources_are_in_order(data: st.DataObject) -> None:
    """Each continues while the other ends, begins or is silent."""
    events: list[tuple[float, Event, str]] = []
    num_words = 0
    for label in ("me", "others"):
        now = 0.0
        for _ in range(data.draw(st.integers(0, 6))):
            start_s = now + data.draw(st.sampled_from([0.3, 1.0, 7.0]))
            spoken = final(" ".join(["WORDS"] * data.draw(st.integers(1, 40))), start_s)
            num_words += len(spoken.words)
            now = spoken.end + 0.3
            events += [(start_s + 0.2, Partial("WORDS", start_s, start_s + 0.2), label), (now, spoken, label)]
    subtitles = Subtitles("vtt")
    text = "".join(subtitles.add(event, label) for _, event, label in sorted(events, key=lambda each: each[0]))
    text += subtitles.finish()
    starts = re.findall(r"^(\S+) -->", text, re.MULTILINE)
    assert starts == sorted(starts) and text.count("WORDS") == num_words


def test_an_unknown_format() -> None:
    with pytest.raises(ValueError, match="'ssa' is not known: choose srt, vtt or ass"):
        Subtitles("ssa")


# ---- layouts ----


layouts = st.builds(
    Layout,
    line_length=st.sampled_from([10, 20, 42, 200]),
    max_lines=st.integers(1, 4),
    max_words=st.sampled_from([None, 1, 3, 8]),
    max_cue_s=st.sampled_from([1.0, 2.5, 7.0, 30.0]),
)


@given(finals(), layouts)
@settings(max_examples=100, deadline=None)
def test_every_layout_is_kept_to(finals: list[Final], layout: Layout) -> None:
    found = cues(finals, layout)
    for cue in found:
        assert 1 <= len(cue.lines) <= layout.max_lines and all(
            0 < len(line) <= layout.line_length for line in cue.lines
        )
        assert 0 < cue.end_s - cue.start_s <= layout.max_cue_s + 1e-6
        assert sum(map(len, cue.words)) <= (layout.max_words or math.inf)
        assert cue.lines == tuple(" ".join(piece.word for piece in line) for line in cue.words)
    assert all(before.end_s <= after.start_s for before, after in pairwise(found))
    spoken = "".join(final.text for final in finals)
    assert "".join("".join(cue.lines) for cue in found).replace(" ", "") == spoken.replace(" ", "")


def test_three_lines_are_of_like_length() -> None:
    spoken = final("WE WENT OUT INTO THE GARDEN BEFORE BREAKFAST AND THERE STOOD THE HORSE")
    (cue,) = cues([spoken], Layout(line_length=30, max_lines=3))
    assert cue.lines == ("WE WENT OUT INTO THE GARDEN", "BEFORE BREAKFAST", "AND THERE STOOD THE HORSE")
    (cue,) = cues([spoken], Layout(line_length=42, max_lines=3))
    assert len(cue.lines) == 2  # no more lines than needed
    assert len(cues([spoken], Layout(line_length=30, max_lines=2))) == 2


def test_words_per_cue_are_shared_out() -> None:
    found = cues([final("ONE TWO THREE FOUR FIVE SIX SEVEN EIGHT")], Layout(max_words=3))
    assert sorted(len(cue.lines[0].split()) for cue in found) == [2, 3, 3]


@pytest.mark.parametrize(
    "layout", [Layout(max_words=1), Layout(max_words=2), Layout(line_length=10, max_lines=1), Layout(max_cue_s=1)]
)
def test_small_cues_keep_up_with_fast_speech(layout: Layout) -> None:
    """A minute without a pause, at 4 words in a second."""
    spoken = final(" ".join(["HORSES AND MEN WENT BY"] * 48), word_s=0.25, pauses=dict.fromkeys("HORSES AND MEN", 0.0))
    said = {word.start for word in spoken.words}
    for cue in cues([spoken], layout):
        assert cue.start_s - cue.words[0][0].start < 0.5 and cue.words[0][0].start in said


def test_one_word_at_a_time_follows_the_next_at_once() -> None:
    found = cues([final("ONE TWO THREE")], Layout(max_words=1))
    assert [(cue.lines, round(cue.start_s, 3), round(cue.end_s, 3)) for cue in found] == [
        (("ONE",), 0.0, 0.4),
        (("TWO",), 0.4, 0.8),
        (("THREE",), 0.8, 1.8),
    ]


def test_a_long_label_leaves_half_a_line() -> None:
    subtitles = Subtitles("srt", Layout(line_length=12))
    text = subtitles.add(final("ONE TWO THREE FOUR", 0.5), "channel 1") + subtitles.finish()
    assert "channel 1: ONE" in text and text.count("channel 1: ") == text.count("-->")


# ---- word by word ----


def test_word_times_in_vtt() -> None:
    layout = Layout(line_length=10, word_timestamps=True)
    text = document("vtt", [final("R&D <A> IS HARD", 1.0)], layout)
    assert text == (
        "WEBVTT\n\n00:00:01.000 --> 00:00:03.000\n"
        "R&amp;D <00:00:01.400>&lt;A&gt;\n<00:00:01.800>IS <00:00:02.200>HARD\n\n"
    )


@given(finals(), layouts)
@settings(max_examples=50, deadline=None)
def test_word_times_increase_within_their_cue(finals: list[Final], layout: Layout) -> None:
    """As WebVTT requires. The text is that without them."""
    plain = document("vtt", finals, layout)
    text = document("vtt", finals, replace(layout, word_timestamps=True))
    assert re.sub("<[0-9:.]+>", "", text) == plain
    for block in text.split("\n\n")[1:-1]:
        start, end = block.partition("\n")[0].split(" --> ")
        times = list(map(parse_time, [start, *re.findall("<([0-9:.]+)>", block), end]))
        assert all(before < after for before, after in pairwise(times))


def dialogues(text: str) -> list[str]:
    return [line for line in text.splitlines() if line.startswith("Dialogue: ")]


def test_ass() -> None:
    text = document("ass", [final("ONE TWO THREE FOUR", 3599.0)], Layout(line_length=10))
    assert dialogues(text) == [
        "Dialogue: 0,0:59:59.00,1:00:01.00,Default,,0,0,0,,{\\k40}ONE {\\k40}TWO\\N{\\k40}THREE {\\k30}FOUR"
    ]
    assert document("ass", []).endswith("Effect, Text\n")


@given(finals(), layouts)
@settings(max_examples=50, deadline=None)
def test_ass_tags_are_the_times_of_words(finals: list[Final], layout: Layout) -> None:
    found = cues(finals, layout)
    lines = dialogues(document("ass", finals, layout))
    assert len(lines) == len(found)
    for line, cue in zip(lines, found, strict=True):
        text = line.split(",", 9)[9]
        assert re.sub(r"\{\\k\d+\}", "", text) == "\\N".join(cue.lines)
        num_hundredths = sum(map(int, re.findall(r"\{\\k(\d+)\}", text)))
        assert abs(cue.start_s + num_hundredths / 100 - max(cue.start_s, min(cue.end_s, cue.words[-1][-1].end))) < 0.02


def drawn(folder: Path, text: str) -> tuple[int, int]:
    """Width and height of the text in pixels, as drawn by libass, which players use."""
    word = Word(text, 0.0, 1.0, 0.9)
    (folder / "a.ass").write_text(document("ass", [Final(text, 0.0, 1.0, (word,))]))
    command = ["ffmpeg", "-v", "error", "-f", "lavfi", "-i", "color=c=black:s=1920x1080:r=1:d=1", "-vf", "ass=a.ass"]
    command += ["-f", "rawvideo", "-pix_fmt", "gray", "-"]
    picture = subprocess.run(command, check=True, capture_output=True, cwd=folder).stdout
    rows, columns = np.nonzero(np.frombuffer(picture, np.uint8).reshape(1080, 1920) > 40)
    return int(np.ptp(columns)), int(np.ptp(rows))


def test_what_looks_like_a_tag_of_ass_is_drawn(tmp_path: Path) -> None:
    width, height = drawn(tmp_path, "AB")
    for text in ("A{i1}B", r"A\NB", r"A\hB", r"A{\i1}B"):
        found = drawn(tmp_path, text)
        assert found[0] > 1.3 * width and found[1] < 1.5 * height, text
