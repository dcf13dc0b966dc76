"""Ports for servers that cannot listen on port 0 and report their port."""

from __future__ import annotations

import random
import socket


def free_port() -> int:
    """Finds a port on which no process listens and which the system will not assign before the caller's server uses it:
    ports that the system chooses, for port 0 or a connection, are above 32000."""
    while True:
        port = random.SystemRandom().randrange(10000, 32000)
        with socket.socket() as probe:
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
            return port
