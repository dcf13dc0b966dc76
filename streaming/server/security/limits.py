"""The limits of the server, which are printed at its start."""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from typing import Any

from asr.options import flag


def _limit(default: float, help: str) -> Any:
    return field(default=default, metadata={"help": help})


MIN_BYTES_PER_S = 16384
"""Minimum average rate of an upload and of a message, after the first `timeout_s`."""


@dataclass(frozen=True)
class Limits:
    """Limits on what clients can use. Raises ValueError for a value out of range."""

    max_sessions: int = _limit(256, "concurrent live sessions; more are refused before anything is allocated for them")
    max_uploads: int = _limit(64, "concurrent uploads, besides these sessions; more are refused")
    max_load: float = _limit(
        90.0, "refuse new clients while live streams need more than this share of the recognition threads, in percent"
    )
    max_message_bytes: int = _limit(
        15 * 1024 * 1024, "size of a message of Realtime; other protocols take at most 1048576 bytes of it"
    )
    max_upload_bytes: int = _limit(64 * 1024 * 1024, "size of an uploaded file")
    max_upload_s: float = _limit(4 * 3600.0, "duration of the audio of an uploaded file, in seconds")
    max_queued_s: float = _limit(30.0, "seconds of audio queued per session; with more, reading from the client pauses")
    max_unread_bytes: int = _limit(
        64 * 1024 * 1024, "unread bytes of all WebSocket clients together; with more, reading from clients pauses"
    )
    timeout_s: float = _limit(
        30.0, "close a connection whose client does not complete a request, take data or answer a ping for this long"
    )
    idle_s: float = _limit(
        3600.0, "close a session after this many seconds without a message, although pings are answered"
    )
    max_session_s: float = _limit(4 * 3600.0, "maximum length of a session, in seconds")
    shutdown_s: float = _limit(8.0, "seconds for sessions to send their finals after SIGTERM")
    max_batch: int = _limit(32, "streams in one batch of the network")

    def __post_init__(self) -> None:
        for each in fields(self):
            value = getattr(self, each.name)
            least = 1 if each.type == "int" else 0.05
            if isinstance(value, bool) or not isinstance(value, (int, float)) or not least <= value < float("inf"):
                raise ValueError(f"{flag(each.name)} is {value!r}; it must be a number of at least {least}")

    @property
    def max_short_message_bytes(self) -> int:
        """Maximum size of a message of the protocols whose messages are short."""
        return min(self.max_message_bytes, 1024 * 1024)

    @property
    def max_connections(self) -> int:
        """Maximum connections of all ports: includes some for requests besides the sessions."""
        return 2 * (self.max_sessions + self.max_uploads) + 32

    def slowest_s(self, num_bytes: int) -> float:
        """The seconds that a client may take to send `num_bytes`."""
        return self.timeout_s + num_bytes / MIN_BYTES_PER_S

    def __str__(self) -> str:
        return "  ".join(f"{each.name}={getattr(self, each.name):.10g}" for each in fields(self))
