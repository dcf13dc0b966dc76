"""Limits and layouts of texts: their ranges, and how command lines state them."""

from __future__ import annotations

import argparse
from dataclasses import fields
from typing import Any

import pytest

from asr.streaming.terminal.formats import FORMATS
from asr.streaming.terminal.layout import DEFAULTS, Layout, add_layout_options, layout_of, parse_row, rows


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"line_length": 9}, r"line_length is 9; it must be a whole number in \[10, 1000\]"),
        ({"line_length": 42.0}, "line_length is 42.0"),
        ({"max_lines": 0}, r"max_lines is 0; it must be a whole number in \[1, 10\]"),
        ({"max_lines": None}, "max_lines is None"),
        ({"max_words": True}, "max_words is True"),
        ({"max_cue_s": 0.5}, r"max_cue_s is 0.5; it must be a number in \[1, 60\]"),
        ({"max_cue_s": float("nan")}, "max_cue_s is nan"),
        ({"timestamps": 1}, "timestamps is 1; it must be true or false"),
    ],
)
def test_values_out_of_their_range(values: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Layout(**values)


def test_rows_state_the_defaults() -> None:
    assert [row.name for row in rows()] == [each.name for each in fields(Layout)]
    for row in rows():
        assert row.default == getattr(DEFAULTS, row.name) and set(row.formats) <= set(FORMATS)
    assert [row.name for row in rows(["text"])] == ["timestamps"]


def layout(options: str, *formats: str) -> Layout:
    parser = argparse.ArgumentParser()
    add_layout_options(parser)
    return layout_of(parser.parse_args(options.split()), formats)


def test_options_make_a_layout() -> None:
    assert layout("", "json") == DEFAULTS
    found = layout("--line-length 30 --max-lines 3 --max-words 5 --max-cue-s 4.5 --word-timestamps", "vtt", "json")
    assert found == Layout(line_length=30, max_lines=3, max_words=5, max_cue_s=4.5, word_timestamps=True)
    assert layout("--timestamps --max-words 1", "srt", "text") == Layout(max_words=1, timestamps=True)


@pytest.mark.parametrize(
    ("options", "formats", "message"),
    [
        ("--line-length x", ["srt"], r"--line-length is 'x'; it must be a whole number in \[10, 1000\]"),
        ("--max-words 0", ["srt"], r"--max-words is '0'; it must be a whole number in \[1, 100\]"),
        ("--max-cue-s inf", ["ass"], r"--max-cue-s is 'inf'; it must be a number in \[1, 60\]"),
        ("--max-lines 1", ["text", "json"], "--max-lines is for srt, vtt, ass; the format is text, json"),
        ("--word-timestamps", ["srt"], "--word-timestamps is for vtt; the format is srt"),
        ("--timestamps", ["srt", "vtt"], "--timestamps is for text; the format is srt, vtt"),
    ],
)
def test_options_that_do_not_fit(options: str, formats: list[str], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        layout(options, *formats)


def test_flags_in_forms() -> None:
    (row,) = rows(["text"])
    assert [parse_row(row, text, ["text"]) for text in ("true", "1", "false", "0")] == [True, True, False, False]
    with pytest.raises(ValueError, match="is 'yes'; it must be true or false"):
        parse_row(row, "yes", ["text"])
