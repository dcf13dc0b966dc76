"""Captions: what a person sees on the terminal."""

from __future__ import annotations

import io
import re

import pytest

from asr.search import Word
from asr.streaming.captions import Captions
from asr.streaming.events import Event, Final, Partial

LONG = " ".join(f"WORD{i}" for i in range(60))


def words(text: str) -> tuple[Word, ...]:
    return tuple(Word(word, i, i + 0.5, 0.5) for i, word in enumerate(text.split()))


def partial(text: str) -> Event:
    return Partial(text, 0.0, max(len(text.split()) - 0.5, 0.0), words(text))


def final(text: str) -> Event:
    return Final(text, 0.0, len(text.split()) - 0.5, words(text))


class Terminal(io.StringIO):
    """A terminal without colours: keeps the screen's lines, and every screen that a write left behind."""

    encoding = "utf-8"

    def __init__(self, width: int) -> None:
        super().__init__()
        self.width = width
        self.lines = [""]
        self.row = self.column = 0
        self.screens: list[list[str]] = []
        self.raw = ""
        self._waiting = ""

    def isatty(self) -> bool:
        return True

    def write(self, text: str) -> int:
        self._waiting += text
        return len(text)

    def flush(self) -> None:
        if not self._waiting:
            return
        self.raw += self._waiting
        for code, char in re.findall(r"(\x1b\[[?0-9;]*[A-Za-z])|(.|\n)", self._waiting, re.DOTALL):
            self._command(code) if code else self._put(char)
        self._waiting = ""
        self.screens.append(list(self.lines))

    def _command(self, code: str) -> None:
        number = int(code[2:-1]) if code[2:-1].isdigit() else 1
        if code[-1] == "A":
            self.row -= number
        elif code[-1] == "K":
            assert code == "\x1b[2K"
            self.lines[self.row] = ""
        else:
            assert code[-1] in "mhl", f"unknown control sequence {code!r}"

    def _put(self, char: str) -> None:
        if char == "\r":
            self.column = 0
        elif char == "\n":
            self.row, self.column = self.row + 1, 0
            if self.row == len(self.lines):
                self.lines.append("")
        else:
            assert self.column < self.width, f"wraps at column {self.column}: {self.lines[self.row]!r}"
            line = self.lines[self.row].ljust(self.column)
            self.lines[self.row] = line[: self.column] + char + line[self.column + 1 :]
            self.column += 1

    @property
    def text(self) -> list[str]:
        return [line.rstrip() for line in self.lines if line.strip()]


@pytest.fixture(autouse=True)
def plain_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("NO_COLOR", "FORCE_COLOR", "COLUMNS", "TTY_COMPATIBLE", "TTY_INTERACTIVE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("TERM", "xterm-256color")


@pytest.mark.parametrize("width", [80, 100, 200])
def test_the_partial_changes_in_place_and_the_final_takes_its_place(width: int) -> None:
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


def test_the_partial_is_dimmed_and_the_final_is_not() -> None:
    terminal = Terminal(80)
    with Captions(terminal, 80) as captions:
        captions.show(partial("SOFT"))
        captions.show(final("FIRM"))
    assert "\x1b[2mSOFT\x1b[0m" in terminal.raw
    assert re.search(r"(?<!m)FIRM(?!\x1b\[0m)", terminal.raw)


def test_no_color_means_no_attributes_at_all(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    terminal = Terminal(80)
    with Captions(terminal, 80) as captions:
        captions.show(partial("SOFT"))
        captions.warn("trouble")
        captions.show(final("FIRM"))
    assert not re.search(r"\x1b\[[0-9;]*m", terminal.raw)
    assert terminal.text == ["trouble", "FIRM"]


@pytest.mark.parametrize("width", [80, 81, 120, 200])
def test_a_long_partial_shows_its_end_in_one_line(width: int) -> None:
    terminal = Terminal(width)
    words = LONG.split()
    with Captions(terminal, width) as captions:
        for count in range(1, len(words) + 1):
            captions.show(partial(" ".join(words[:count])))
            (line,) = terminal.text
            assert len(line) < width
            assert line.endswith(words[count - 1])
            assert line == " ".join(words[:count]) or re.fullmatch(r"… (WORD\d+ ?)+", line)
        captions.show(final(LONG))
    assert " ".join(terminal.text) == LONG and len(terminal.text) > 1


def test_a_word_longer_than_the_line_and_wide_characters() -> None:
    terminal = Terminal(80)
    with Captions(terminal, 80) as captions:
        captions.show(partial("A" * 300 + "END"))
        assert len(terminal.text[0]) == 79 and terminal.text[0].endswith("AEND")
        captions.show(partial("字" * 100))
        assert terminal.text == ["… " + "字" * 38]  # two columns each


def test_nothing_is_drawn_between_events_and_no_screen_is_without_its_text() -> None:
    """No flicker: the text is never taken away in one write to be put back by the next."""
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
