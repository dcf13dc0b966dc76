"""Dictation: stable words are typed into the focused window, in order, each once.

A word is typed when it belongs to the stable prefix of a partial, with the case and the marks that it has there; the
rest of an utterance is typed with its final. A space follows each utterance, so that one begins apart from the one
before, also that of another dictation into the same field. A thread types, so that recognition does not wait for a
window.

"Scratch that" is the only thing that deletes: as many characters as were typed, and only while the window that they
were typed into has had the focus all the time. Where the focus is not known nothing is deleted.
"""

from __future__ import annotations

import queue
import threading
from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING

from asr.streaming.events import Event, Final, Partial, joined
from asr.streaming.terminal.typing_tools import TypingError

if TYPE_CHECKING:
    from asr.runtime.search import Word
    from asr.streaming.terminal.typing_tools import TypingTool

MOST_UTTERANCES = 100
"""That can be taken back, one after the other."""
_CLOSING = tuple(",.?!:;)]%\n")
_OPENING = tuple("([{\n")


@dataclass(frozen=True)
class Change:
    """What is to be done: utterances deleted, the one under way among them, then `text` typed."""

    text: str = ""
    num_erased: int = 0
    ends: bool = False
    """The utterance is over."""


class StableWords:
    """The text of events as it grows: pieces that are typed one after the other."""

    def __init__(self) -> None:
        self._typed: list[Word] = []

    def add(self, event: Event) -> Change:
        """What is to be done now."""
        if isinstance(event, Final):
            is_gone = self._is_gone(event.words)
            if is_gone:
                self._typed = []
            text = self._new(event.words)
            space = "" if not event.words or event.words[-1].word.endswith(_OPENING) else " "
            self._typed = []
            return Change(text + space, event.num_taken_back + is_gone, ends=True)
        if not isinstance(event, Partial) or self._is_gone(event.words):  # the final tells
            return Change()
        return Change(self._new(event.words[: event.num_stable]))

    def _is_gone(self, words: tuple[Word, ...]) -> bool:
        """Whether all that was typed of the utterance is taken back."""
        return bool(self._typed) and (not words or words[0].start_s >= self._typed[-1].end_s)

    def _new(self, words: tuple[Word, ...]) -> str:
        """The words after those that were typed. Where a typed word has changed, which is rare, times decide."""
        typed = self._typed
        new = words[len(typed) :]
        if typed and [word.word for word in words[: len(typed)]] != [word.word for word in typed[: len(words)]]:
            new = tuple(word for word in words if (word.start_s + word.end_s) / 2 > typed[-1].end_s)
        before = [typed[-1].word] if typed and new else []
        typed.extend(new)
        return joined([*before, *(word.word for word in new)])[len("".join(before)) :]


@dataclass
class _Utterance:
    """What was typed of it, and into which window; "": not known, or several."""

    text: str
    window: str


class TypingThread:
    """Types in a thread of its own. `fault`: why it has stopped, until `resume`; "" while it runs."""

    def __init__(self, tool: TypingTool) -> None:
        self.fault = ""
        self._tool = tool
        self._words = StableWords()
        self._changes: queue.SimpleQueue[Change | None] = queue.SimpleQueue()
        self._utterances: deque[_Utterance] = deque(maxlen=MOST_UTTERANCES)
        self._is_under_way = False
        self._reported = False
        self._refusal = ""
        self._thread = threading.Thread(target=self._run, name="type", daemon=True)
        self._thread.start()

    def show(self, event: Event) -> None:
        """Types what is new and will not change in `event`."""
        if (change := self._words.add(event)) != Change():
            self._changes.put(change)

    def new_error(self) -> str:
        """A message when typing has failed since the last call, or could not take back, else ""."""
        if refusal := self._refusal:
            self._refusal = ""
            return refusal
        if not self.fault or self._reported:
            return ""
        self._reported = True
        return f"typing has stopped, captions go on: {self.fault}; to try again: asr-stream toggle, twice"

    def resume(self) -> None:
        """After a pause: types again, also after a failure."""
        self.fault, self._reported = "", False

    def close(self, timeout_s: float = 30.0) -> None:
        """Waits until all is typed, at most `timeout_s`."""
        self._changes.put(None)
        self._thread.join(timeout_s)

    def _run(self) -> None:
        while (change := self._changes.get()) is not None:
            if self.fault:  # what came since is not typed: words would be missing between
                self._utterances.clear()
                self._is_under_way = False
                continue
            try:
                self._do(change)
            except Exception as error:
                self.fault = str(error) if isinstance(error, TypingError) else repr(error)

    def _do(self, change: Change) -> None:
        window = self._tool.window()
        if change.num_erased:
            self._take_back(change.num_erased, window)
        if change.text:
            self._type(change.text, window)
        self._is_under_way = self._is_under_way and not change.ends

    def _take_back(self, count: int, window: str) -> None:
        erased = [self._utterances.pop() for _ in range(min(count, len(self._utterances)))]
        self._is_under_way = False
        if not window:
            self._refusal = f"scratch that: {self._tool.name} does not tell which window has the focus; delete it there"
        elif any(utterance.window != window for utterance in erased):
            self._refusal = "scratch that: another window had the focus since, so nothing is deleted"
        else:
            self._tool.erase(sum(len(utterance.text) for utterance in erased))

    def _type(self, text: str, window: str) -> None:
        last = self._utterances[-1] if self._utterances else None
        if not self._is_under_way:
            if text.startswith(_CLOSING) and last and window and last.window == window and last.text.endswith(" "):
                self._tool.erase(1)  # "hello ," -> "hello,"
                last.text = last.text[:-1]
            last = _Utterance("", window)
            self._utterances.append(last)
            self._is_under_way = True
        assert last is not None
        self._tool.type(text)
        last.text += text
        if last.window != window or self._tool.window() != window:
            last.window = ""
