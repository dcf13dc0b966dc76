"""What the server grants, in one place; it is printed at the start."""

from __future__ import annotations

from dataclasses import dataclass, fields


@dataclass(frozen=True)
class Limits:
    """Bounds that no client can pass. A value out of range raises ValueError."""

    max_sessions: int = 256
    """streams at once; more are refused before anything is set aside for them"""
    max_message_bytes: int = 65536
    """a message from a client of a stream"""
    max_upload_bytes: int = 64 * 1024 * 1024
    """a file to be transcribed"""
    max_upload_s: float = 4 * 3600.0
    """the audio in it, in seconds"""
    max_queued_s: float = 30.0
    """audio that waits to be recognised; the client is read no further while there is more"""
    idle_s: float = 30.0
    """seconds without a message from the client, or in which it takes nothing, that end a session"""
    max_session_s: float = 4 * 3600.0
    """seconds after which a session ends"""
    shutdown_s: float = 8.0
    """seconds that sessions have to say their finals after SIGTERM"""
    max_batch: int = 32
    """streams in one run of the network"""

    def __post_init__(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            least = 1 if field.type == "int" else 0.05
            if isinstance(value, bool) or not isinstance(value, (int, float)) or not least <= value < float("inf"):
                raise ValueError(f"{field.name} is {value!r}; it must be a number of at least {least}")

    @property
    def max_connections(self) -> int:
        """Of each port, streams or not: room for requests beside all the streams."""
        return 2 * self.max_sessions + 64

    def __str__(self) -> str:
        return "  ".join(f"{field.name}={getattr(self, field.name):.10g}" for field in fields(self))
