"""Messages of clients are hostile until checked: JSON objects, and numbers in them, within bounds."""

from __future__ import annotations

import json
from typing import Any


class BadMessage(ValueError):
    """A message that cannot be what the client meant; the text is for the client."""


def parse_object(text: str | bytes) -> dict[str, Any]:
    """The JSON object that `text` is. Raises BadMessage for anything else, however deep or odd."""
    try:
        found = json.loads(text)
    except RecursionError:
        raise BadMessage("this JSON is nested too deeply") from None
    except ValueError as error:
        raise BadMessage(f"this is not JSON: {str(error)[:80]}") from None
    if not isinstance(found, dict):
        raise BadMessage(f"this is JSON, but {shown(found)} is no object")
    return found


def whole_number(name: str, value: Any, low: int, high: int) -> int:
    """`value` as an int in [low, high]; 16000.0 is one too. Raises BadMessage."""
    whole = isinstance(value, (int, float)) and not isinstance(value, bool) and low <= value <= high
    if not whole or value != int(value):
        raise BadMessage(f"{name} is {shown(value)}; it must be a whole number in [{low}, {high}]")
    return int(value)


def shown(value: Any) -> str:
    """`value` for a sentence: short, whatever it is."""
    if isinstance(value, (dict, list)):
        return "an object" if isinstance(value, dict) else "a list"
    text = repr(value[:60] if isinstance(value, str) else value)
    return text if len(text) <= 64 else f"{text[:60]}…"
