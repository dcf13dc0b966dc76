"""Parsing of client messages, which are untrusted: JSON objects, numbers within bounds, strings that are Unicode."""

from __future__ import annotations

import json
from typing import Any

LANGUAGE = "en"
"""The language of the models that this server runs."""


class BadMessage(ValueError):
    """A message that cannot be used; the text is for the client."""


def parse_object(text: str | bytes) -> dict[str, Any]:
    """The JSON object in `text`. Raises BadMessage for anything else."""
    try:
        if isinstance(text, bytes):
            text = text.decode()  # json.loads would also take UTF-16, and surrogates
        found = json.loads(text)
        if "\\u" in text:
            # Half of a surrogate pair is valid JSON but not text: it can be neither encoded nor recognized.
            json.dumps(found, ensure_ascii=False).encode()
    except RecursionError:
        raise BadMessage("this JSON is nested too deeply") from None
    except UnicodeEncodeError:
        raise BadMessage("a string has a lone surrogate (\\ud800 to \\udfff), which is no character") from None
    except ValueError as error:
        raise BadMessage(f"this is not JSON: {str(error)[:80]}") from None
    if not isinstance(found, dict):
        raise BadMessage(f"this is JSON, but {shown(found)} is no object")
    return found


def whole_number(name: str, value: Any, low: int, high: int) -> int:
    """`value` as an int in [low, high]; 16000.0 is accepted too. Raises BadMessage."""
    whole = isinstance(value, (int, float)) and not isinstance(value, bool) and low <= value <= high
    if not whole or value != int(value):
        raise BadMessage(f"{name} is {shown(value)}; it must be a whole number in [{low}, {high}]")
    return int(value)


def check_language(value: Any, name: str) -> None:
    """Raises BadMessage unless `value` is the model's language, with or without a region ("en", "en-US"), or empty."""
    if value in (None, ""):
        return
    if not isinstance(value, str) or value.replace("_", "-").lower().split("-")[0] not in (LANGUAGE, "english"):
        raise BadMessage(f"{name} is {shown(value)}; this server recognizes {LANGUAGE!r} only: leave it out")


def shown(value: Any) -> str:
    """`value` for an error message: at most 64 characters."""
    if isinstance(value, (dict, list)):
        return "an object" if isinstance(value, dict) else "a list"
    text = repr(value[:60] if isinstance(value, str) else value)
    return text if len(text) <= 64 else f"{text[:60]}…"
