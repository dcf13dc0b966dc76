"""File descriptors: a server without free ones cannot accept connections or write files, and their number is limited.

So connections of all ports are counted together, and the start checks that the process's limit covers the server's own
limits. When all places are taken, a new connection replaces the one that has waited longest without a request, so that
silent connections do not keep others out.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace

from asr.streaming.server.security.limits import Limits
from asr.streaming.server.security.unread import Unread

BACKLOG = 64
"""Number of connections per port that are accepted at once or queued. Accepted ones are counted a moment later."""
FIRST_BYTE_S = 5.0
"""Time limit in seconds for the first byte of a connection."""
_BASE = 32  # used by the process itself: standard streams, event loop, ports, threads, libraries


class OpenConnections:
    """The connections of all ports; records which of them have not made a request yet."""

    def __init__(self, limits: Limits, on_refused: Callable[[], None]) -> None:
        self._limits = limits
        self._on_refused = on_refused
        self.unread = Unread(limits.max_unread_bytes)
        self._open: set[asyncio.WriteTransport] = set()
        self._waiting: dict[asyncio.WriteTransport, asyncio.TimerHandle] = {}
        """Each connection with the timer that ends it, the longest-waiting first."""

    def add(self, transport: asyncio.WriteTransport) -> bool:
        """Counts a new connection. Returns False if it was aborted because all others are in use."""
        if transport in self._open:
            return True
        self._open.add(transport)
        self.wait(transport, FIRST_BYTE_S)
        if len(self._open) > self._limits.max_connections:
            self._on_refused()
            self._abort(next(iter(self._waiting)))
        return transport in self._open

    def wait(self, transport: asyncio.WriteTransport, seconds: float = float("inf")) -> None:
        """Gives the connection `seconds`, at most `timeout_s`, to make a request. Does nothing if it already waits."""
        if transport in self._open and transport not in self._waiting:
            later = min(seconds, self._limits.timeout_s)
            timer = asyncio.get_running_loop().call_later(later, self._abort, transport)
            self._waiting[transport] = timer

    def serve(self, transport: asyncio.WriteTransport) -> None:
        """Must be called when the connection has made a request."""
        if (timer := self._waiting.pop(transport, None)) is not None:
            timer.cancel()

    def discard(self, transport: asyncio.WriteTransport) -> None:
        """Must be called when the connection is lost."""
        self.serve(transport)
        self._open.discard(transport)

    def _abort(self, transport: asyncio.WriteTransport) -> None:
        self.discard(transport)
        transport.abort()


def num_needed(limits: Limits, num_ports: int) -> int:
    """Maximum descriptors: one per connection, three per upload through ffmpeg, and the backlog of each port."""
    return _BASE + limits.max_connections + 3 * limits.max_uploads + BACKLOG * num_ports


def provide(limits: Limits, num_ports: int) -> None:
    """Raises the process's soft limit for `limits`. Raises ValueError if the hard limit is too low."""
    try:
        import resource
    except ImportError:  # Windows, which has no such limit
        return
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    needed = num_needed(limits, num_ports)
    if soft == resource.RLIM_INFINITY or soft >= needed:
        return
    if hard != resource.RLIM_INFINITY and hard < needed:
        fewer = [
            replace(limits, max_sessions=n, max_uploads=min(n, limits.max_uploads))
            for n in range(limits.max_sessions, 0, -1)
        ]
        found = next((each for each in fewer if num_needed(each, num_ports) <= hard), None)
        way_out = f", or give {_options(found)}" if found else ""
        raise ValueError(
            f"{_options(limits)} may need {needed} open files, and this process may have {hard}: "
            f"raise its limit (ulimit -n {needed}, LimitNOFILE={needed} for systemd){way_out}"
        )
    resource.setrlimit(resource.RLIMIT_NOFILE, (needed, hard))


def _options(limits: Limits) -> str:
    return f"--max-sessions {limits.max_sessions} --max-uploads {limits.max_uploads}"
