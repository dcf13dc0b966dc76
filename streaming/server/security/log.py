"""The log on stderr, as text or JSON: it contains no text of clients, and clients cannot flood it.

Lines about a client have its address and the number of its session.
"""

from __future__ import annotations

import json
import logging
import sys
import time
import traceback
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from types import MappingProxyType
from typing import Any

LOG_FORMATS = ("text", "json")
MAX_REFUSALS, REFUSALS_PER_S = 20, 1.0
"""Lines about refused clients: a burst for each reason, and their rate on average."""
_about: ContextVar[Mapping[str, str]] = ContextVar("about", default=MappingProxyType({}))
_QUOTES_VALUES = (TypeError, ValueError, LookupError)


@contextmanager
def logged_as(**fields: str) -> Iterator[None]:
    """Adds `fields` to the log lines of the current task while the context lasts."""
    token = _about.set({**_about.get(), **fields})
    try:
        yield
    finally:
        _about.reset(token)


class LogFormatter(logging.Formatter):
    """Omits from tracebacks the messages of exceptions that quote a value, because it may come from a client."""

    def formatMessage(self, record: logging.LogRecord) -> str:
        """The line, with the fields of `logged_as`."""
        about = ", ".join(f"{name} {value}" for name, value in _about.get().items())
        return super().formatMessage(record) + f" ({about})" * bool(about)

    def formatException(self, ei: Any) -> str:
        """The exception and its causes, the first cause first."""
        chain: list[str] = []
        error: BaseException | None = ei[1]
        while error is not None and len(chain) < 10:
            message = "(message left out)" if isinstance(error, _QUOTES_VALUES) else str(error)
            chain.append("".join([*traceback.format_tb(error.__traceback__), f"{type(error).__name__}: {message}"]))
            error = error.__cause__ or error.__context__
        return "Traceback:\n" + "\nwhich led to:\n".join(reversed(chain))


class JsonFormatter(LogFormatter):
    """A line of JSON with the fields of `logged_as` and of the record's `fields`."""

    def format(self, record: logging.LogRecord) -> str:
        """The line."""
        created = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(record.created))
        line = {"time": f"{created}.{int(record.msecs):03}Z", "level": record.levelname, "logger": record.name}
        line |= {"message": record.getMessage(), **_about.get(), **getattr(record, "fields", {})}
        if record.exc_info:
            line["traceback"] = self.formatException(record.exc_info)
        return json.dumps(line)


class Refusals:
    """Logs refused clients, but not all of a flood."""

    def __init__(self) -> None:
        self._left: dict[str, float] = {}
        self._last_s: dict[str, float] = {}
        self._num_unlogged: dict[str, int] = {}

    def log(self, reason: str, sentence: str, **fields: object) -> None:
        """Logs a refusal for `reason`, or counts it for a later line."""
        now = time.monotonic()
        earned = (now - self._last_s.get(reason, now)) * REFUSALS_PER_S
        left = min(self._left.get(reason, MAX_REFUSALS) + earned, MAX_REFUSALS)
        self._last_s[reason] = now
        self._left[reason] = left - (left >= 1)
        unlogged = self._num_unlogged.get(reason, 0)
        self._num_unlogged[reason] = unlogged + 1 if left < 1 else 0
        if left >= 1:
            more = f"; {unlogged} more since the last line" if unlogged else ""
            fields |= {"reason": reason} | ({"num_unlogged": unlogged} if unlogged else {})
            logging.getLogger("asr_stream.server").info("refused: %s%s", sentence, more, extra={"fields": fields})


class AcceptFilter(logging.Filter):
    """One line a minute while no descriptors are free for connections; asyncio logs a traceback for each attempt."""

    every_s = 60.0

    def __init__(self) -> None:
        super().__init__()
        self._last_s = -float("inf")

    def filter(self, record: logging.LogRecord) -> bool:
        if "out of system resource" not in record.getMessage():
            return True
        if time.monotonic() - self._last_s < self.every_s:
            return False
        self._last_s = time.monotonic()
        record.msg, record.args, record.exc_info = "too many open files: new connections wait", (), None
        return True


def set_up_logging(log_format: str = "text") -> None:
    """Logs errors of all libraries, and messages of the server. log_format: one of LOG_FORMATS."""
    handler = logging.StreamHandler(sys.stderr)
    text = LogFormatter("%(asctime)s %(levelname)s %(name)s %(message)s")
    handler.setFormatter(JsonFormatter() if log_format == "json" else text)
    logging.basicConfig(level=logging.WARNING, handlers=[handler])
    logging.getLogger("asr_stream").setLevel(logging.INFO)
    logging.getLogger("asyncio").addFilter(AcceptFilter())
    # Both log warnings about clients: replies to a disconnected client, and invalid forms.
    for name in ("asyncio", "python_multipart"):
        logging.getLogger(name).setLevel(logging.ERROR)
