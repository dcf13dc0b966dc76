"""The options of recognition, from the table in csrc/options.h: their texts for command lines and documentation."""

from __future__ import annotations

from asr._core import OPTIONS, Option

__all__ = ["LISTS", "OPTIONS", "default", "described", "flag"]

LISTS = tuple(name for name, option in OPTIONS.items() if option.type == "list")
"""Options that are lists of words, phrases or lines."""


def flag(name: str) -> str:
    """The command-line name of an option."""
    return f"--{name.replace('_', '-')}"


def default(option: Option) -> str:
    """The default value as text for users."""
    if option.default is None:
        return "none"
    value = str(option.default).lower() if option.type in ("flag", "choice") else f"{option.default:g}"
    return f"the model file's, usually {value}" if option.of_model else value


def described(option: Option) -> str:
    """The help text of an option on one line."""
    allowed = "" if option.type in ("flag", "choice") else f"; {option.allowed}"
    return f"{option.doc}{allowed}; default: {default(option)}"
