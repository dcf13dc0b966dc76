"""Dictation: stable words are typed into the focused window, in order, each once, and never deleted.

A word is typed when it belongs to the stable prefix of a partial, with the case and the marks that it has there; the
rest of an utterance is typed with its final. A space follows each utterance. A thread types, so that recognition
does not wait for a window.
"""

from __future__ import annotations

import queue
import threading
from typing import TYPE_CHECKING

from asr.streaming.events import Event, Final, Partial
from asr.streaming.terminal.typing_tools import TypingError

if TYPE_CHECKING:
    from asr.runtime.search import Word
    from asr.streaming.terminal.typing_tools import TypingTool


class StableWords:
    """The text of events as it grows: pieces that are typed one after the other."""

    def __init__(self) -> None:
        self._typed: list[Word] = []

    def add(self, event: Event) -> str:
        """The text to type now; "" for nothing."""
        if isinstance(event, Final):
            text = self._new(event.words)
            self._typed = []
            return f"{text} "
        return self._new(event.words[: event.num_stable]) if isinstance(event, Partial) else ""

    def _new(self, words: tuple[Word, ...]) -> str:
        """The words after those that were typed. Where a typed word has changed, which is rare, times decide."""
        typed = self._typed
        new = words[len(typed) :]
        if typed and [word.word for word in words[: len(typed)]] != [word.word for word in typed[: len(words)]]:
            new = tuple(word for word in words if (word.start_s + word.end_s) / 2 > typed[-1].end_s)
        separator = " " if typed and new else ""
        typed.extend(new)
        return separator + " ".join(word.word for word in new)


class TypingThread:
    """Types in a thread of its own. `fault`: why it has stopped, until `resume`; "" while it runs."""

    def __init__(self, tool: TypingTool) -> None:
        self.fault = ""
        self._tool = tool
        self._words = StableWords()
        self._pieces: queue.SimpleQueue[str | None] = queue.SimpleQueue()
        self._reported = False
        self._thread = threading.Thread(target=self._run, name="type", daemon=True)
        self._thread.start()

    def show(self, event: Event) -> None:
        """Types what is new and will not change in `event`."""
        if text := self._words.add(event):
            self._pieces.put(text)

    def new_error(self) -> str:
        """A message when typing has failed since the last call, else ""."""
        if not self.fault or self._reported:
            return ""
        self._reported = True
        return f"typing has stopped, captions go on: {self.fault}; to try again: asr-stream toggle, twice"

    def resume(self) -> None:
        """After a pause: types again, also after a failure."""
        self.fault, self._reported = "", False

    def close(self, timeout_s: float = 30.0) -> None:
        """Waits until all is typed, at most `timeout_s`."""
        self._pieces.put(None)
        self._thread.join(timeout_s)

    def _run(self) -> None:
        while (text := self._pieces.get()) is not None:
            if self.fault:  # what came since is not typed: words would be missing between
                continue
            try:
                self._tool.type(text)
            except Exception as error:
                self.fault = str(error) if isinstance(error, TypingError) else repr(error)
