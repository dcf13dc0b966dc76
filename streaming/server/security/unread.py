"""Memory for the messages of WebSocket clients, which may send faster than their audio is recognized.

A client may always be `ALWAYS` bytes ahead. When all clients together are more than `limit` bytes ahead, those that are
further ahead are not read until others are handled. Of the clients in the middle of a long message, the first one is
still read, so that they cannot all wait for each other.
"""

from __future__ import annotations

from typing import Protocol

ALWAYS = 131072


class Reader(Protocol):
    """A connection."""

    num_messages: int
    """Complete messages that are not handled yet."""
    num_bytes: int
    """Bytes of these, and of the incomplete message."""

    def go_on(self) -> None:
        """Resumes reading."""


class Unread:
    """What the connections have read from their sockets and the server has not handled."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self.num_bytes = 0
        self._ahead: dict[Reader, None] = {}
        """Connections with more than ALWAYS bytes, in the order in which they got there."""
        self._paused: dict[Reader, None] = {}

    def changed(self, reader: Reader, num_bytes: int) -> None:
        """Must be called when the bytes of `reader` have changed by `num_bytes`."""
        self.num_bytes += num_bytes
        if reader.num_bytes > ALWAYS:
            self._ahead.setdefault(reader)
        else:
            self._ahead.pop(reader, None)
        if self._paused:
            some = [reader, self._first()]  # only these have changed while there is too much
            for each in list(self._paused) if self.num_bytes <= self._limit else some:
                if each is not None and each in self._paused and self.may_read(each):
                    del self._paused[each]
                    each.go_on()

    def may_read(self, reader: Reader) -> bool:
        """Whether more may be read from the connection now."""
        if self.num_bytes <= self._limit or reader.num_bytes <= ALWAYS:
            return True
        return self._first() is reader

    def _first(self) -> Reader | None:
        """The first client that is ahead only by the beginning of a message."""
        return next((each for each in self._ahead if not each.num_messages), None)

    def pause(self, reader: Reader) -> None:
        """Must be called when `reader` has stopped reading: it goes on when it may read again."""
        self._paused.setdefault(reader)

    def discard(self, reader: Reader) -> None:
        """Must be called when the connection is lost."""
        self._paused.pop(reader, None)
        num_bytes, reader.num_bytes = reader.num_bytes, 0
        self.changed(reader, -num_bytes)
