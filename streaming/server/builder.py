"""Makes recognizers with a client's options, outside the event loop, because it can block for too long.

Hotwords of a client that the core rejects are skipped: one wrong word does not discard the others.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from asr.runtime.search import WITHOUT_LM, new_hotwords
from asr.streaming.recognizer import Recognizer

_QUICK = {"text", "second_pass", "silence_after_speech_s", "min_silence_after_speech_s"}
"""Options that can be changed in 0.1 ms."""
ENDING = "the server is about to end; connect again later"
"""The message for clients that connect while the server is shutting down."""


class BuilderClosed(Exception):
    """The server is about to end, and makes no more recognizers."""


class Builder:
    """Makes recognizers on one thread, in order of the requests."""

    def __init__(self) -> None:
        self._executor = ThreadPoolExecutor(1, "build")

    async def build(self, recognizer: Recognizer, **changes: Any) -> Recognizer:
        """`recognizer` with `changes`, see `Recognizer.with_options`; itself if nothing changes.

        Raises ValueError, and BuilderClosed if `close` is called before its turn.
        A tuple of `hotwords` comes from a client: the result has those that it can use.
        """
        changes = {name: value for name, value in changes.items() if value != getattr(recognizer, name)}
        if not changes:
            return recognizer
        if changes.keys() <= _QUICK:
            return recognizer.with_options(**changes)
        try:
            turn = self._executor.submit(_build, recognizer, changes)
        except RuntimeError as error:
            raise BuilderClosed(ENDING) from error
        made = asyncio.wrap_future(turn)
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


def _build(recognizer: Recognizer, changes: dict[str, Any]) -> Recognizer:
    words = changes.get("hotwords")
    try:
        made = recognizer.with_options(**changes)
        if not made.skipped_lines or not isinstance(words, tuple):
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
