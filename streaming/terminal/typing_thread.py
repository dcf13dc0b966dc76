"""Dictation: stable words are typed into the focused window, in order, each once.

A word is typed when it belongs to the stable prefix of a partial, with its case and punctuation at that time; the rest
of an utterance is typed with its final. A space follows each utterance, to separate it from the next one, even one of
another dictation into the same field. A separate thread types, so that recognition does not wait for a window.

Only "scratch that" deletes: as many characters as were typed, and only if the window they were typed into has had the
focus all the time. If the focus is unknown, nothing is deleted.
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
"""Maximum number of utterances that can be taken back."""
_CLOSING = tuple(",.?!:;)]%\n")
_OPENING = tuple("([{\n")


@dataclass(frozen=True)
class Change:
    """A number of utterances to delete, including the current one, and `text` to type after that."""

    text: str = ""
    num_erased: int = 0
    ends: bool = False
    """Whether the utterance has ended."""


class StableWords:
    """Turns events into pieces of text to type."""

    def __init__(self) -> None:
        self._typed: list[Word] = []

    def add(self, event: Event) -> Change:
        """The change to make for `event`."""
        if isinstance(event, Final):
            is_gone = self._is_gone(event.words)
            if is_gone:
                self._typed = []
            text = self._new(event.words)
            space = "" if not event.words or event.words[-1].word.endswith(_OPENING) else " "
            self._typed = []
            return Change(text + space, event.num_taken_back + is_gone, ends=True)
        if not isinstance(event, Partial) or self._is_gone(event.words):  # only the final is reliable
            return Change()
        return Change(self._new(event.words[: event.num_stable]))

    def _is_gone(self, words: tuple[Word, ...]) -> bool:
        """Whether all typed words of the utterance are taken back."""
        return bool(self._typed) and (not words or words[0].start >= self._typed[-1].end)

    def _new(self, words: tuple[Word, ...]) -> str:
        """The words after the typed ones. If the final has changed a typed word, the times decide."""
        typed = self._typed
        new = words[len(typed) :]
        if typed and [word.word for word in words[: len(typed)]] != [word.word for word in typed[: len(words)]]:
            new = tuple(word for word in words if (word.start + word.end) / 2 > typed[-1].end)
        before = [typed[-1].word] if typed and new else []
        typed.extend(new)
        return joined([*before, *(word.word for word in new)])[len("".join(before)) :]


@dataclass
class _Utterance:
    """Text typed for an utterance, and the window it was typed into; "" if unknown or several."""

    text: str
    window: str


class TypingThread:
    """Types in its own thread. `fault`: why it has stopped, until `resume`; "" while it runs."""

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
        """Types the new words of `event` that will not change; drops them while typing has stopped, because words
        before them are missing."""
        if (change := self._words.add(event)) != Change() and not self.fault:
            self._changes.put(change)

    def new_error(self) -> str:
        """A message if typing or deleting has failed since the last call, else ""."""
        if refusal := self._refusal:
            self._refusal = ""
            return refusal
        if not self.fault or self._reported:
            return ""
        self._reported = True
        return f"typing has stopped, captions continue: {self.fault}; to try again: asr-stream toggle, twice"

    def resume(self) -> None:
        """Resumes typing after a pause or a failure."""
        self.fault, self._reported = "", False

    def close(self, timeout_s: float = 30.0) -> None:
        """Waits until everything is typed, at most `timeout_s`."""
        self._changes.put(None)
        self._thread.join(timeout_s)

    def _run(self) -> None:
        while (change := self._changes.get()) is not None:
            if self.fault:  # queued before
                continue
            try:
                self._do(change)
            except Exception as error:
                self._utterances.clear()
                self._is_under_way = False
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
