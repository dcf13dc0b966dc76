"""Typing into windows: the words, the program that types, and the keys after a program ends."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from support import wait_until
from support.x_server import Window, XServer

from asr import Recognizer
from asr.runtime.search import Word
from asr.streaming.events import Error, Event, Final, Partial
from asr.streaming.terminal.typing_thread import Change, StableWords, TypingThread
from asr.streaming.terminal.typing_tools import TypingError, TypingTool, find_tool


def words(text: str) -> tuple[Word, ...]:
    """Consecutive words of 0.4 s each."""
    return tuple(Word(word, 0.4 * i, 0.4 * i + 0.4, 1.0) for i, word in enumerate(text.split()))


def partial(text: str, num_stable: int) -> Event:
    return Partial(text, 0.0, 1.0, words(text), num_stable=num_stable)


def final(text: str) -> Event:
    return Final(text, 0.0, 1.0, words(text))


@pytest.mark.parametrize(
    ("events", "typed"),
    [
        ([partial("the awe", 0), partial("the old man we", 3), final("the old man went")], ["the old man", " went "]),
        ([final("yes"), partial("no sir", 1), final("no")], ["yes ", "no", " "]),
        ([partial("the old", 2), partial("the", 1), final("the old man")], ["the old", " man "]),
        # Words that changed although they were stable: one for another, two for one, one for two.
        ([partial("see for me", 2), final("see four men")], ["see for", " men "]),
        ([Partial("25 o clock", 0, 1, (Word("25", 0.0, 0.8, 1.0), *words("a b c d")[2:]), num_stable=1),
          final("twenty five of them")], ["25", " of them "]),
        ([partial("a b", 2), Error("hum", 0.0, 0.0), partial("", 0), final("c d e f")], ["a b", " e f "]),
    ],
)  # fmt: skip
def test_each_word_is_typed_once_stable(events: list[Event], typed: list[str]) -> None:
    stable_words = StableWords()
    assert [text for event in events if (text := stable_words.add(event).text)] == typed


@pytest.mark.parametrize("text", ["plain", "formatted"])
def test_types_the_text_of_the_finals(conversation: np.ndarray, text: str) -> None:
    """With the bundled model and one pass; most words are typed before the final."""
    stream = Recognizer(second_pass=False, text=text).stream()
    stable_words, early, typed, finals = StableWords(), 0, "", []
    for begin in range(0, 140000, 1600):
        stream.accept_waveform(conversation[begin : begin + 1600])
        for event in stream.events():
            new = stable_words.add(event).text
            typed += new
            early += len(new) if isinstance(event, Partial) else 0
            finals += [event.text] if isinstance(event, Final) else []
    stream.finish()
    for event in stream.events():
        typed += stable_words.add(event).text
        finals += [event.text]
    assert typed == "".join(f"{each} " for each in finals)
    assert len(finals) >= 2 and early > 0.25 * len(typed)


@pytest.fixture(scope="module")
def display() -> Iterator[XServer]:
    with XServer() as server:
        yield server


@pytest.fixture
def window(display: XServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Window:
    """A window with the focus, on the display that `find_tool` finds."""
    monkeypatch.delenv("WAYLAND_DISPLAY", raising=False)
    monkeypatch.setenv("DISPLAY", display.env["DISPLAY"])
    window = display.window(tmp_path / "typed.txt")
    window.focus()
    return window


def test_text_arrives_in_the_window(window: Window) -> None:
    typing = TypingThread(find_tool())
    text = 'It\'s 9:30 & Zoë said: -v --help \\n "5 %"; “so”!'
    typing.show(final(text))
    typing.close()
    assert (typing.fault, window.text) == ("", f"{text} ")


def spoken(text: str, start_s: float = 0.0, num_taken_back: int = 0) -> Event:
    """A final; "\\n" is a line break."""
    said = tuple(
        Word(word.replace("\\n", "\n"), start_s + i, start_s + i + 0.9, 1.0) for i, word in enumerate(text.split())
    )
    return Final(text, 0.0, 1.0, said, num_taken_back=num_taken_back)


@pytest.mark.parametrize(
    ("events", "changes"),
    [
        ([spoken("one"), spoken("", 0, 1)], [Change("one ", 0, True), Change("", 1, True)]),
        ([spoken("Dear\\n")], [Change("Dear\n", 0, True)]),
        ([spoken("a\\n b")], [Change("a\nb ", 0, True)]),
        # Words of the same utterance that were typed as stable: the final has none of them.
        ([partial("call bob", 2), partial("", 0), spoken("")],
         [Change("call bob"), Change(), Change("", 1, True)]),
        ([partial("call bob", 2), Partial("ann", 0, 1, spoken("ann", 5).words, num_stable=1), spoken("ann", 5, 2)],
         [Change("call bob"), Change(), Change("ann ", 3, True)]),
    ],
)  # fmt: skip
def test_withdrawn_text_is_erased_with_the_final(events: list[Event], changes: list[Change]) -> None:
    stable_words = StableWords()
    assert [stable_words.add(event) for event in events] == changes


def test_scratch_that_erases_text_typed_into_the_window(window: Window) -> None:
    typing = TypingThread(find_tool())
    for event in (
        spoken("Hello"),
        spoken(", Zoë"),
        spoken("stay"),
        partial("call bob", 2),
        spoken(""),
        spoken("", 0, 1),
    ):
        typing.show(event)
    typing.close()
    erased = "\x7f"  # of a raw terminal, which erases nothing by itself
    typed = ""
    for letter in window.text.replace("\x08", erased):
        typed = typed[:-1] if letter == erased else typed + letter
    assert (typing.fault, typing.new_error(), typed) == ("", "", "Hello, Zoë ")


def test_nothing_is_erased_where_the_focus_has_moved(window: Window, display: XServer, tmp_path: Path) -> None:
    typing = TypingThread(find_tool())
    typing.show(spoken("mine"))
    wait_until(lambda: window.text == "mine ")
    other = display.window(tmp_path / "other.txt")
    other.focus()
    typing.show(spoken("", 0, 1))
    typing.show(spoken("there"))
    typing.close()
    assert typing.new_error() == "scratch that: another window had the focus since, so nothing is deleted"
    assert (window.text, other.text) == ("mine ", "there ")


def test_nothing_is_erased_in_an_unknown_focus(tmp_path: Path) -> None:
    typed = tmp_path / "typed"
    typing = TypingThread(TypingTool("wtype", ("sh", "-c", f"cat >> {typed}")))
    for event in (spoken("one"), spoken("two", 0, 1)):
        typing.show(event)
    typing.close()
    assert typing.new_error() == "scratch that: wtype does not tell which window has the focus; delete it there"
    assert typed.read_text() == "one two "


def test_line_reader_gets_a_key_per_line_break(tmp_path: Path) -> None:
    typed = tmp_path / "typed"
    TypingTool("dotool", ("sh", "-c", f"cat > {typed}"), before="type ", enter="key enter").type("one\n\ntwo\n")
    assert typed.read_text().split("\n") == ["type one", "key enter", "", "key enter", "type two", "key enter", ""]


def test_characters_without_a_key_are_typed_slowly(tmp_path: Path) -> None:
    commands = [("sh", "-c", f"cat >> {tmp_path / name}; echo >> {tmp_path / name}") for name in ("typed", "slow")]
    TypingTool("xdotool", commands[0], slow=commands[1]).type("Zoë said: “yes”")
    assert (tmp_path / "typed").read_text().splitlines() == ["Zo", " said: ", "yes"]
    assert (tmp_path / "slow").read_text().splitlines() == ["ë", "“", "”"]


def test_killed_typing_process_leaves_no_key_pressed(window: Window, display: XServer) -> None:
    """With its whole process group, which also receives Ctrl-C."""
    code = "from asr.streaming.terminal.typing_tools import find_tool; find_tool().type('typing away ' * 10)"
    process = subprocess.Popen([sys.executable, "-c", code], env=display.env, start_new_session=True)
    wait_until(lambda: display.num_keys_pressed)
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    wait_until(lambda: len(window.text) == len("typing away ") * 10)
    wait_until(lambda: not display.num_keys_pressed)


def test_failing_tool_stops_only_the_typing(tmp_path: Path) -> None:
    """Its failure is reported once, and tried again after `resume`."""
    ok, typed = tmp_path / "ok", tmp_path / "typed"
    tool = TypingTool("xdotool", ("sh", "-c", f'cat >> {typed}; test -e {ok} || {{ echo "Can\'t open" >&2; exit 1; }}'))
    typing = TypingThread(tool)
    typing.show(final("one"))
    wait_until(lambda: typing.fault)
    typing.show(final("two"))
    said = [typing.new_error(), typing.new_error()]
    assert said == [
        "typing has stopped, captions continue: xdotool: Can't open; to try again: asr-stream toggle, twice",
        "",
    ]
    ok.touch()
    typing.resume()
    typing.show(final("three"))
    typing.close()
    assert (typing.new_error(), typed.read_text()) == ("", "one three ")


def test_window_that_takes_no_keys_blocks_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("asr.streaming.terminal.typing_tools.TIMEOUT_S", 0.5)
    typing = TypingThread(TypingTool("ydotool", ("sleep", "2")))
    typing.show(final("one"))
    assert typing.fault == ""  # `show` did not wait
    wait_until(lambda: typing.fault == "ydotool does not end")


# ---- choice of the program ----


def program(folder: Path, name: str, script: str) -> None:
    (folder / name).write_text(f"#!/bin/sh\n{script}\n")
    (folder / name).chmod(0o755)


@pytest.fixture
def programs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The only folder with programs; under Wayland."""
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("WAYLAND_DISPLAY", "wayland-0")
    monkeypatch.setenv("DISPLAY", ":0")
    return tmp_path


def test_the_first_program_that_works_types(programs: Path) -> None:
    program(programs, "wtype", "echo 'Compositor does not support the virtual keyboard protocol' >&2; exit 1")
    program(programs, "xdotool", "exit 0")  # would reach only the windows of X11 programs
    program(programs, "ydotool", f"/bin/cat > {programs}/ydotool.txt")
    program(programs, "dotool", f"/bin/cat > {programs}/dotool.txt")
    tool = find_tool()
    tool.type("well, then ")
    assert tool.name == "dotool"
    assert (programs / "dotool.txt").read_text() == "type well, then "
    assert find_tool("ydotool").name == "ydotool"
    (programs / "dotool").unlink()
    assert find_tool().name == "ydotool"


@pytest.mark.parametrize(
    ("unset", "said"),
    [
        ((), ["(Wayland):", "wtype: Compositor does not", "dotool is not installed", "ydotool: exit status 2",
              "sudo apt-get install wtype", "ydotoold"]),
        (("WAYLAND_DISPLAY",), ["(X11):", "xdotool is not installed", "sudo apt-get install xdotool"]),
        (("WAYLAND_DISPLAY", "DISPLAY"), ["neither WAYLAND_DISPLAY nor DISPLAY is set"]),
    ],
)  # fmt: skip
def test_what_is_missing_is_listed(
    programs: Path, monkeypatch: pytest.MonkeyPatch, unset: tuple[str, ...], said: list[str]
) -> None:
    program(programs, "wtype", "echo 'Compositor does not support the virtual keyboard protocol' >&2; exit 1")
    program(programs, "ydotool", "exit 2")
    for name in unset:
        monkeypatch.delenv(name)
    with pytest.raises(TypingError) as error:
        find_tool()
    for each in ["--type: no program can type into windows here", *said]:
        assert each in str(error.value)
