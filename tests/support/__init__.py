"""Helpers that several test files share."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")


def wait_until(condition: Callable[[], T], seconds: float = 60.0) -> T:
    """What `condition` returns as soon as it is true; fails if that takes too long."""
    end = time.monotonic() + seconds
    while not (value := condition()):
        assert time.monotonic() < end, "it did not come true"
        time.sleep(0.002)
    return value
