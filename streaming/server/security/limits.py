"""What the server grants, in one place; it is printed at the start."""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from typing import Any


def _limit(default: float, help: str) -> Any:
    return field(default=default, metadata={"help": help})


@dataclass(frozen=True)
class Limits:
    """Bounds that no client can pass. A value out of range raises ValueError."""

    max_sessions: int = _limit(256, "streams at once; more are refused before anything is set aside for them")
    max_message_bytes: int = _limit(65536, "a message from a client of a stream")
    max_upload_bytes: int = _limit(64 * 1024 * 1024, "a file to be transcribed")
    max_upload_s: float = _limit(4 * 3600.0, "the audio in it, in seconds")
    max_queued_s: float = _limit(30.0, "audio that waits to be recognised; then the client is read no further")
    idle_s: float = _limit(30.0, "seconds without a word from the client, or in which it takes nothing, that end it")
    max_session_s: float = _limit(4 * 3600.0, "seconds after which a session ends")
    shutdown_s: float = _limit(8.0, "seconds that sessions have to say their finals after SIGTERM")
    max_batch: int = _limit(32, "streams in one run of the network")

    def __post_init__(self) -> None:
        for each in fields(self):
            value = getattr(self, each.name)
            least = 1 if each.type == "int" else 0.05
            if isinstance(value, bool) or not isinstance(value, (int, float)) or not least <= value < float("inf"):
                raise ValueError(f"{each.name} is {value!r}; it must be a number of at least {least}")

    @property
    def max_connections(self) -> int:
        """Of each port, streams or not: room for requests beside all the streams."""
        return 2 * self.max_sessions + 64

    def __str__(self) -> str:
        return "  ".join(f"{each.name}={getattr(self, each.name):.10g}" for each in fields(self))
