"""File descriptors: their number is limited, and a server without free ones accepts no connection and writes no file.

So connections of all ports are counted together, and the process's limit has room for all that the server's own limits
allow: checked at the start, rather than found out under load.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from asr.streaming.server.security.limits import Limits

BACKLOG = 64
"""Connections of a port that are accepted in one go, or wait to be. Those accepted are counted a moment later."""
_BASE = 32  # the process's own: standard streams, event loop, ports, threads, what libraries open


class OpenConnections:
    """Connections of all ports."""

    def __init__(self, max_connections: int, on_refused: Callable[[], None]) -> None:
        self._max_connections = max_connections
        self._on_refused = on_refused
        self._open: set[asyncio.BaseTransport] = set()

    def add(self, transport: asyncio.WriteTransport) -> bool:
        """Counts a connection, once; one too many is aborted: False."""
        self._open.add(transport)
        if len(self._open) <= self._max_connections:
            return True
        self._on_refused()
        transport.abort()
        return False

    def discard(self, transport: asyncio.BaseTransport) -> None:
        """To be called when the connection is lost."""
        self._open.discard(transport)


def num_needed(limits: Limits, num_ports: int) -> int:
    """Descriptors at most: each connection has one, each upload another, and each port its backlog."""
    return _BASE + limits.max_connections + limits.max_sessions + BACKLOG * num_ports


def provide(limits: Limits, num_ports: int) -> None:
    """Raises the process's soft limit as far as `limits` need it. ValueError if the hard limit does not allow that."""
    try:
        import resource
    except ImportError:  # Windows, which has no such limit
        return
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    needed = num_needed(limits, num_ports)
    if soft == resource.RLIM_INFINITY or soft >= needed:
        return
    if hard != resource.RLIM_INFINITY and hard < needed:
        fewer = [n for n in range(1, limits.max_sessions) if num_needed(Limits(max_sessions=n), num_ports) <= hard]
        way_out = f", or give --max-sessions {fewer[-1]}" if fewer else ""
        raise ValueError(
            f"--max-sessions {limits.max_sessions} may need {needed} open files, and this process may have {hard}: "
            f"raise its limit (ulimit -n {needed}, LimitNOFILE={needed} for systemd){way_out}"
        )
    resource.setrlimit(resource.RLIMIT_NOFILE, (needed, hard))
