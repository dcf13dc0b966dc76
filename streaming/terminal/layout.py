"""How texts and subtitles are laid out. A limit is a row of `Layout`: its default, range, sentence and formats.

Command lines and the fields of HTTP forms are made from these rows.
"""

from __future__ import annotations

import argparse
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field, fields
from typing import Any, NamedTuple

from asr.options import flag

SUBTITLES = ("srt", "vtt", "ass")


class Row(NamedTuple):
    """A value of `Layout`. kind: int, float or bool. low, high: the range of a number, which may be None by default.
    formats: those that have it."""

    name: str
    kind: type
    default: Any
    what: str
    formats: tuple[str, ...]
    low: float
    high: float

    @property
    def values(self) -> str:
        """The allowed values, for messages."""
        if self.kind is bool:
            return "true or false"
        return f"{'a whole number' if self.kind is int else 'a number'} in [{self.low:g}, {self.high:g}]"

    def accepts(self, value: Any) -> bool:
        if value is None or self.kind is bool:
            return isinstance(value, bool) or value is self.default
        numbers = int if self.kind is int else (int, float)
        return isinstance(value, numbers) and not isinstance(value, bool) and self.low <= value <= self.high

    def parse(self, text: str) -> Any:
        """The value that `text` states. Raises ValueError, which says what it must be."""
        try:
            value = (
                {"true": True, "1": True, "false": False, "0": False}[text] if self.kind is bool else self.kind(text)
            )
        except (KeyError, ValueError):
            value = None
        if value is None or not self.accepts(value):
            raise ValueError(f"is {text[:64]!r}; it must be {self.values}")
        return value


def _row(kind: type, default: Any, what: str, formats: tuple[str, ...], low: float = 0, high: float = 0) -> Any:
    return field(default=default, metadata={"row": (kind, default, what, formats, low, high)})


@dataclass(frozen=True)
class Layout:
    """The layout of texts and subtitles, with the values of `rows`. Raises ValueError for a value out of its range."""

    line_length: int = _row(int, 42, "letters per line of subtitles", SUBTITLES, 10, 1000)
    max_lines: int = _row(int, 2, "lines per cue of subtitles", SUBTITLES, 1, 10)
    max_words: int | None = _row(int, None, "words per cue of subtitles; 1 shows word by word", SUBTITLES, 1, 100)
    max_cue_s: float = _row(float, 7.0, "seconds per cue of subtitles", SUBTITLES, 1, 60)
    word_timestamps: bool = _row(bool, False, "the time of each word in the cues; ass always has them", ("vtt",))
    timestamps: bool = _row(bool, False, "the times of each utterance before its text", ("text",))

    def __post_init__(self) -> None:
        for row in rows():
            if not row.accepts(value := getattr(self, row.name)):
                raise ValueError(f"{row.name} is {value!r}; it must be {row.values}")


def rows(formats: Collection[str] = ()) -> Iterator[Row]:
    """The values of `Layout` that some of `formats` have; all by default."""
    for each in fields(Layout):
        row = Row(each.name, *each.metadata["row"])
        if not formats or set(formats) & set(row.formats):
            yield row


DEFAULTS = Layout()


def parse_row(row: Row, text: str, formats: Collection[str]) -> Any:
    """The value for a text in `formats`. Raises ValueError, also if none of them has it."""
    if not set(formats) & set(row.formats):
        raise ValueError(f"is for {', '.join(row.formats)}; the format is {', '.join(formats)}")
    return row.parse(text)


def add_layout_options(parser: Any, formats: Collection[str] = ()) -> None:
    """Declares the options of `rows(formats)` on an argparse parser or group."""
    for row in rows(formats):
        where = "" if len(row.formats) == len(SUBTITLES) else f"; for {', '.join(row.formats)}"
        if row.kind is bool:
            parser.add_argument(flag(row.name), action="store_const", const="true", help=f"{row.what}{where}")
        else:
            metavar = "N" if row.kind is int else row.name[row.name.rfind("_") + 1 :].upper()
            default = "no limit" if row.default is None else f"{row.default:g}"
            what = f"{row.what}, {row.low:g} to {row.high:g} (default: {default}){where}"
            parser.add_argument(flag(row.name), metavar=metavar, help=what)


def layout_of(args: argparse.Namespace, formats: Collection[str]) -> Layout:
    """The layout of texts in `formats` from the options of `add_layout_options`. Raises ValueError, which names the
    option."""
    given: Mapping[str, Any] = vars(args)
    values = {}
    for row in rows():
        if given.get(row.name) is not None:
            try:
                values[row.name] = parse_row(row, given[row.name], formats)
            except ValueError as error:
                raise ValueError(f"{flag(row.name)} {error}") from error
    return Layout(**values)
