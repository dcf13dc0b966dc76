"""Makes recognizers with a client's options, outside the event loop, because it can block for too long.

Hotwords of a client that the core rejects are skipped: one wrong word does not discard the others.
"""

from __future__ import annotations

import asyncio
import heapq
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

from asr.runtime.search import WITHOUT_LM, new_hotwords
from asr.streaming.recognizer import Recognizer

_QUICK = {"text", "second_pass", "silence_after_speech_s", "min_silence_after_speech_s"}
"""Options that can be changed in 0.1 ms."""
S_PER_LETTER = 2.5e-5
"""Seconds for pronouncing a letter of hotwords or phrases that are not in the lexicon."""
PATIENCE = 20.0
"""Seconds for which a request waits for later, smaller ones, for each second of its client's work."""
ENDING = "the server is shutting down; connect again later"
"""The message for clients that connect while the server is shutting down."""


class BuilderClosed(Exception):
    """The server is shutting down, and makes no more recognizers."""


@dataclass
class Spent:
    """What a client has had built so far, in seconds of the builder's thread."""

    seconds: float = 0.0


class Builder:
    """Makes recognizers on one thread. Clients that have used little time come first."""

    def __init__(self) -> None:
        self._executor = ThreadPoolExecutor(1, "build")
        self._lock = threading.Lock()
        self._waiting: list[tuple[float, int, Future[Recognizer], Callable[[], None]]] = []
        """A heap, the next one first."""
        self._num_requests = 0

    async def build(self, recognizer: Recognizer, spent: Spent, **changes: Any) -> Recognizer:
        """`recognizer` with `changes`, see `Recognizer.with_options`; itself if nothing changes.

        Raises ValueError, and BuilderClosed if `close` is called before its turn.
        A tuple of `hotwords` comes from a client: the result has those that it can use.
        """
        changes = {name: value for name, value in changes.items() if value != getattr(recognizer, name)}
        if not changes:
            return recognizer
        if changes.keys() <= _QUICK:
            return recognizer.with_options(**changes)
        made = asyncio.wrap_future(self._queue(recognizer, changes, spent))
        try:
            await asyncio.wait([made])  # `await made` would raise for `close` what a cancelled task raises
        finally:
            made.cancel()  # if the task is cancelled, because its client has left
        if made.cancelled():
            raise BuilderClosed(ENDING)
        return made.result()

    def close(self) -> None:
        """Stops the thread once its current recognizer is made."""
        self._executor.shutdown(wait=False, cancel_futures=True)
        with self._lock:
            waiting, self._waiting = self._waiting, []
        for _, _, turn, _ in waiting:
            turn.cancel()

    def _queue(self, recognizer: Recognizer, changes: dict[str, Any], spent: Spent) -> Future[Recognizer]:
        turn: Future[Recognizer] = Future()

        def build() -> None:
            if not turn.set_running_or_notify_cancel():
                return
            made: Recognizer | BaseException
            begun = time.thread_time()
            try:
                made = _build(recognizer, changes)
            except BaseException as error:
                made = error
            spent.seconds += time.thread_time() - begun
            if isinstance(made, BaseException):
                turn.set_exception(made)
            else:
                turn.set_result(made)

        # Requests that come later go first only within a time that grows with this one, so each has its turn.
        due = time.monotonic() + PATIENCE * (spent.seconds + _expected_s(changes))
        with self._lock:
            self._num_requests += 1
            heapq.heappush(self._waiting, (due, self._num_requests, turn, build))
        try:
            self._executor.submit(self._build_next)
        except RuntimeError:
            turn.cancel()
        return turn

    def _build_next(self) -> None:
        with self._lock:
            next_one = heapq.heappop(self._waiting) if self._waiting else None
        if next_one is not None:
            next_one[-1]()


def _expected_s(changes: dict[str, Any]) -> float:
    lists = [changes.get(name) for name in ("hotwords", "phrases")]
    return S_PER_LETTER * sum(len(word) for words in lists if isinstance(words, (list, tuple)) for word in words)


def _build(recognizer: Recognizer, changes: dict[str, Any]) -> Recognizer:
    words = changes.get("hotwords")
    try:
        made = recognizer.with_options(**changes)
        if not isinstance(words, tuple) or not any(line.startswith("hotword line") for line in made.skipped_lines):
            return made
    except ValueError:
        if not words or not isinstance(words, tuple):
            raise
    return recognizer.with_options(**changes | {"hotwords": _usable(recognizer, changes, words)})


def _usable(recognizer: Recognizer, changes: dict[str, Any], words: Sequence[str]) -> tuple[str, ...]:
    """The `words` that the core accepts individually."""
    if changes.get("search", recognizer.search) in WITHOUT_LM or changes.get("phrases", recognizer.phrases) is not None:
        return ()

    def accepted(words: Sequence[str], *pronounced: Any) -> bool:
        try:
            made = new_hotwords(words, recognizer.onnx.tokens, recognizer.hotword_boost, *pronounced)
        except ValueError:
            return False
        return not made.warnings

    spelled = tuple(word for word in words if accepted([word]))
    pronounced = recognizer.language_model, recognizer.onnx.metadata.phones
    if accepted(spelled, *pronounced):
        return spelled
    return tuple(word for word in spelled if accepted([word], *pronounced))
