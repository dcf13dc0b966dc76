"""Threads that report their exceptions to the code that waits for their work."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")


class ReportingThread(threading.Thread):
    """A daemon thread that starts at once and keeps an exception of `work` for `check`."""

    def __init__(self, name: str, work: Callable[[], None]) -> None:
        super().__init__(name=name, daemon=True)
        self._work = work
        self._error: BaseException | None = None
        self.start()

    def run(self) -> None:
        try:
            self._work()
        except BaseException as error:
            self._error = error

    def check(self) -> None:
        """Raises the exception of `work`, if any."""
        if self._error is not None:
            raise self._error


def run_apart(name: str, work: Callable[[], T], waiting: Callable[[], None] = lambda: None) -> T:
    """The result of `work`, done on a thread: while C code hangs, the main thread would handle no signal, not even
    Ctrl-C. Calls `waiting` ten times a second until then."""
    results: list[T] = []
    thread = ReportingThread(name, lambda: results.append(work()))
    while thread.is_alive():
        thread.join(0.1)
        waiting()
    thread.check()
    return results[0]
