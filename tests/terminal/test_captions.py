"""Captions: the text that a person sees on the terminal."""

from __future__ import annotations

import os
import re

import pytest
from rich.text import Text
from support.terminal import Terminal

from asr.runtime.search import Word
from asr.streaming.events import Event, Final, Partial
from asr.streaming.terminal.captions import Captions

LONG = " ".join(f"WORD{i}" for i in range(60))


def partial(text: str, num_stable: int = 0) -> Event:
    return Partial(text, 0.0, 1.0, num_stable=num_stable)


def final(text: str) -> Event:
    return Final(text, 0.0, 1.0)


@pytest.fixture(autouse=True)
def plain_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("NO_COLOR", "FORCE_COLOR", "COLUMNS", "TTY_COMPATIBLE", "TTY_INTERACTIVE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("TERM", "xterm-256color")


@pytest.mark.parametrize("width", [80, 100, 200])
def test_partial_changes_in_place_until_the_final(width: int) -> None:
    terminal = Terminal(width)
    with Captions(terminal, width) as captions:
        captions.show(partial("HELLO"))
        assert terminal.text == ["HELLO"]
        captions.show(partial("HELLO THERE"))
        assert terminal.text == ["HELLO THERE"]
        captions.show(final("HELLO THERE YOU"))
        assert terminal.text == ["HELLO THERE YOU"]
        captions.show(partial("NEXT"))
        assert terminal.text == ["HELLO THERE YOU", "NEXT"]
        captions.show(partial(""))
        assert terminal.text == ["HELLO THERE YOU"]
    assert terminal.text == ["HELLO THERE YOU"]


def test_line_break_in_a_partial_is_a_sign() -> None:
    """It is counted as part of a row."""
    words = tuple(Word(word, 0.0, 1.0, 1.0) for word in ("Dear", "all,\n\n", "thank", "you"))
    terminal = Terminal(80)
    with Captions(terminal, 80) as captions:
        captions.show(Partial("Dear all,\n\nthank you", 0.0, 1.0, words))
        assert terminal.text == ["Dear all,⏎⏎ thank you"]


def test_a_file_name_cannot_control_the_terminal() -> None:
    terminal = Terminal(80)
    with Captions(terminal, 80) as captions:
        captions.begin("a\x1b[31m\udcff.wav")
    assert terminal.text == ["== a?[31m?.wav =="]


def test_what_is_stable_in_a_partial_is_firm() -> None:
    terminal = Terminal(20)
    with Captions(terminal, 20) as captions:
        captions.show(partial("SOFT"))
        captions.show(partial("HERE IT STANDS", 2))
        assert "HERE IT \x1b[2mSTANDS\x1b[0m" in terminal.raw
        captions.show(partial("WORDS THAT FILL THE ROW AND MORE", 5))
        assert "WORDS THAT FILL THE\nROW \x1b[2mAND MORE\x1b[0m" in terminal.raw
        captions.show(partial("ALL FIRM", 2))
        captions.show(final("FINAL"))
    assert terminal.raw.count("\x1b[2m") == 3 and "\x1b[2mSOFT\x1b[0m" in terminal.raw
    assert re.search(r"(?<!m)FINAL(?!\x1b\[0m)", terminal.raw)


def test_no_color_means_no_attributes_at_all(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    terminal = Terminal(80)
    with Captions(terminal, 80) as captions:
        captions.status(Text("-20 dB", "green"))
        captions.show(partial("SOFT"))
        captions.warn("trouble")
        assert terminal.text == ["trouble", "SOFT", "-20 dB"]
        captions.show(final("FIRM"))
    assert not re.search(r"\x1b\[[0-9;]*m", terminal.raw)
    assert terminal.text == ["trouble", "FIRM"]


@pytest.mark.parametrize("width", [20, 80, 81, 120, 200])
@pytest.mark.parametrize(("height", "most"), [(25, 8), (12, 4), (9, 3), (4, 2), (3, 1), (1, 1)])
def test_long_partial_is_wrapped_and_shows_its_end(
    width: int, height: int, most: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LINES", str(height))
    terminal = Terminal(width)
    words = LONG.split()
    before: list[str] = []
    with Captions(terminal, width) as captions:
        for count in range(1, len(words) + 1):
            captions.show(partial(" ".join(words[:count])))
            rows = terminal.text
            assert len(rows) <= most and all(len(row) < width for row in rows)
            assert " ".join(words[:count]).endswith(" ".join(rows))
            if len(rows) < most:
                assert " ".join(rows) == " ".join(words[:count])
            # No shown word has moved to another position in its row.
            assert rows[:-1] == before[len(before) - len(rows) + 1 :] or rows[:-1] == before[:-1]
            before = rows
        captions.show(final(LONG))
    assert " ".join(terminal.text) == LONG and len(terminal.text) > 1


def test_wraps_overlong_words_and_wide_characters() -> None:
    terminal = Terminal(80)
    with Captions(terminal, 80) as captions:
        captions.show(partial("A" * 300 + "END"))
        assert "".join(terminal.text)[-78:] == "A" * 75 + "END" and max(map(len, terminal.text)) == 79
        captions.show(partial("字" * 100))
        assert terminal.text == ["字" * 39, "字" * 39, "字" * 22]  # two columns each


def test_text_never_flickers_between_events() -> None:
    """No flicker: no write removes text that the next one shows again."""
    terminal = Terminal(80)
    with Captions(terminal, 80) as captions:
        captions.show(partial("ONE"))
        first = len(terminal.screens)
        captions.show(partial("ONE TWO"))
        captions.warn("trouble")
        captions.show(final("ONE TWO THREE"))
        shown = terminal.screens[first - 1 :]
    assert len(shown) <= 5
    assert all(any("ONE" in line for line in screen) for screen in shown)


def test_troubles_stand_above_the_partial() -> None:
    terminal = Terminal(80)
    with Captions(terminal, 80) as captions:
        captions.begin("a.wav")
        captions.show(partial("STILL TALKING"))
        captions.warn("the microphone [bold]stopped[/bold]")
        assert terminal.text == [
            "== a.wav ==",
            "the microphone [bold]stopped[/bold]",
            "STILL TALKING",
        ]


@pytest.mark.parametrize("width", [1, 2, 3, 5, 20])
def test_the_narrowest_terminals(width: int) -> None:
    """`Terminal` itself fails if a line wraps."""
    terminal = Terminal(width)
    with Captions(terminal, width) as captions:
        captions.status(Text("status")[: captions.width])
        for text in ("A", "AB CD", "WORD AFTER WORD", "字" * 30, LONG):
            captions.show(partial(text))
    assert terminal.text == []


def test_status_is_below_the_partial_until_the_end() -> None:
    terminal = Terminal(80)
    with Captions(terminal, 80) as captions:
        captions.status(Text("-20 dB", "green"))
        captions.show(partial("HELLO"))
        assert terminal.text == ["HELLO", "-20 dB"]
        captions.show(final("HELLO THERE"))
        captions.print("1\n00:00:00,000 --> 00:00:01,000\n" + "X" * 79 + "\n\n")
        assert [line for line in terminal.text if line != "X" * 79] == [
            "HELLO THERE",
            "1",
            "00:00:00,000 --> 00:00:01,000",
            "-20 dB",
        ]
        captions.status(None)
        captions.show(partial("NEXT"))
        assert terminal.text[-1] == "NEXT"
    assert terminal.text[-1] == "X" * 79


@pytest.mark.parametrize("last", [partial("NEXT"), final("NEXT"), None])
def test_narrower_terminal_keeps_no_stale_lines(last: Event | None, monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = Terminal(60)
    monkeypatch.setattr("os.get_terminal_size", lambda *_: os.terminal_size((terminal.width, 24)))
    monkeypatch.delenv("XTERM_VERSION", raising=False)
    with Captions(terminal) as captions:
        captions.show(final("THE FIRST ONE"))
        captions.status(Text("status " * 6))
        captions.show(partial(LONG))
        assert len(terminal.text) == 10
        terminal.resize(25)
        assert len(terminal.text) > 18
        if last is None:
            captions.warn("NEXT")
        else:
            captions.show(last)
        assert terminal.text[:2] == ["THE FIRST ONE", "NEXT"] and len(terminal.text) == 3 + 8 * (last is None)
        terminal.resize(60)
        captions.show(final("THE LAST ONE"))
    assert terminal.text == ["THE FIRST ONE", *(["NEXT"] if not isinstance(last, Partial) else []), "THE LAST ONE"]
