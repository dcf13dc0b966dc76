"""The log on stderr: it contains no text of clients, and clients cannot flood it."""

from __future__ import annotations

import logging
import sys
import time
import traceback
from typing import Any

_QUOTES_VALUES = (TypeError, ValueError, LookupError)


class LogFormatter(logging.Formatter):
    """Omits from tracebacks the messages of exceptions that quote a value, because it may come from a client."""

    def formatException(self, ei: Any) -> str:
        """The exception and its causes, the first cause first."""
        chain: list[str] = []
        error: BaseException | None = ei[1]
        while error is not None and len(chain) < 10:
            message = "(message left out)" if isinstance(error, _QUOTES_VALUES) else str(error)
            chain.append("".join([*traceback.format_tb(error.__traceback__), f"{type(error).__name__}: {message}"]))
            error = error.__cause__ or error.__context__
        return "Traceback:\n" + "\nwhich led to:\n".join(reversed(chain))


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


def set_up_logging() -> None:
    """Logs errors of all libraries, and messages of the server."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(LogFormatter("%(asctime)s %(name)s %(message)s"))
    logging.basicConfig(level=logging.WARNING, handlers=[handler])
    logging.getLogger("asr_stream").setLevel(logging.INFO)
    logging.getLogger("asyncio").addFilter(AcceptFilter())
    # Both log warnings about clients: replies to a disconnected client, and invalid forms.
    for name in ("asyncio", "python_multipart"):
        logging.getLogger(name).setLevel(logging.ERROR)
