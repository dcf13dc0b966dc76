"""Times within a recording as people write them: 90, 1:30 or 01:02:03.500."""

from __future__ import annotations

import re

_TIME = re.compile(r"(?:(?:(\d{1,4}):)?([0-5]?\d):)?(\d{1,9}(?:\.\d{1,9})?)", re.ASCII)


def parse_time(text: str) -> float:
    """Seconds, or [HH:]MM:SS with or without a fraction -> seconds. Raises ValueError, which says what it must be."""
    found = _TIME.fullmatch(text)
    if found is None or (found[2] is not None and float(found[3]) >= 60):
        raise ValueError(f"is {text[:64]!r}; it must be in seconds or [HH:]MM:SS, such as 90, 1:30 or 1:02:03.5")
    return 3600 * int(found[1] or 0) + 60 * int(found[2] or 0) + float(found[3])


def parse_duration(text: str) -> float:
    """Like `parse_time`, but not 0."""
    if (seconds := parse_time(text)) == 0:
        raise ValueError(f"is {text[:64]!r}; it must be greater than 0")
    return seconds


def timestamp(seconds: float, point: str = ".") -> str:
    """Seconds -> HH:MM:SS.mmm, with `point` before the milliseconds. Hours have at least two digits."""
    seconds, ms = divmod(round(seconds * 1000), 1000)
    return f"{seconds // 3600:02}:{seconds // 60 % 60:02}:{seconds % 60:02}{point}{ms:03}"
