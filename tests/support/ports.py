"""Ports for servers that cannot listen on port 0 and report their port."""

from __future__ import annotations

import random
import socket


def free_port() -> int:
    """One that nothing listens on, and that the system gives to nobody before the caller's server takes it: what it
    chooses by itself, for port 0 or a connection, lies above 32000."""
    while True:
        port = random.SystemRandom().randrange(10000, 32000)
        with socket.socket() as probe:
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
            return port
