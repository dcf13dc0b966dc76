"""Tables of recordings: TSV, CSV or JSONL with one row per recording; columns are found by name.

A row that cannot be used becomes a `Refusal` with a reason instead of an exception: one bad line among a hundred
thousand must neither end the work nor disappear. An error of the whole file (no such file, no such column) is a
ValueError. No audio is opened here. Imports only the standard library.
"""

from __future__ import annotations

import csv
import json
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from asr.files import replacing

if TYPE_CHECKING:
    from rich.console import Console

AUDIO_COLUMNS = ("path", "audio", "audio_path", "audio_filepath", "wav", "file", "filename")
SPEAKER_COLUMNS = ("speaker", "speaker_id", "client_id")
DURATION_COLUMNS = ("duration", "duration_s")
OFFSET_COLUMNS = ("offset", "start")
RECORDED = "manifest.tsv"
"""The table in a folder of `asr record`."""
UTTERANCES = "utterances.tsv"
"""The table in a data set of `asr prepare`."""
AUDIO_SUFFIXES = frozenset(".wav .flac .ogg .oga .opus .mp3 .aif .aiff .aifc .au .caf .w64 .rf64 .sph".split())
"""Suffixes of the formats of libsndfile that folders of recordings may contain."""
TABLE_SUFFIXES = {".tsv": "tsv", ".csv": "csv", ".jsonl": "jsonl", ".json": "jsonl", ".ndjson": "jsonl"}


@dataclass(frozen=True)
class Refusal:
    """An utterance that is left out. reason: one of a few fixed texts; detail: the value found."""

    id: str
    audio: str
    reason: str
    detail: str = ""


def print_left_out(console: Console, refusals: Iterable[Refusal], most: int = 10, where: str = "") -> None:
    """Prints one line per reason, which names at most `most` utterances. where: " of ...", the name of the set."""
    reasons: dict[str, list[Refusal]] = {}
    for refusal in refusals:
        reasons.setdefault(refusal.reason, []).append(refusal)
    for reason, found in reasons.items():
        names = "; ".join(f"{each.id} ({each.detail})" for each in found[:most])
        more = f"; and {len(found) - most} more" if len(found) > most else ""
        console.print(f"left out{where}, {reason}: {names}{more}", markup=False, soft_wrap=True)


@dataclass(frozen=True)
class Recording:
    """A row of a table. id: its path as written, without suffix; duration_s: as stated in the table, if it is; start_s:
    where the recording begins in the file."""

    id: str
    audio: Path
    speaker: str | None = None
    duration_s: float | None = None
    start_s: float = 0.0


def read_recordings(
    table: Path, audio_root: str | Path | None = None, needed: Mapping[str, tuple[str, ...]] | None = None
) -> Iterator[tuple[Recording, dict[str, object]] | Refusal]:
    """The recordings of a table in order, each with its row, keyed by column names in lower case.

    Relative audio paths start at `audio_root`, or at the table's folder. needed: required columns besides the audio,
    with their possible names.
    Raises ValueError if the table is missing, has an unknown format, is empty or lacks a column.
    """
    kind = TABLE_SUFFIXES.get(table.suffix.lower())
    if kind is None and table.exists():
        raise ValueError(f"{table} must end in one of {', '.join(TABLE_SUFFIXES)}: rename or convert it")
    if kind is None or not table.is_file():
        raise ValueError(f"{table} does not exist or is not a file")
    root = table.parent if audio_root is None else Path(audio_root)
    if not root.is_dir():
        raise ValueError(f"audio root {root} is not a folder")
    columns = {"audio path": AUDIO_COLUMNS, **(needed or {})}
    rows = _json_rows(table, columns) if kind == "jsonl" else _delimited_rows(table, kind, columns)
    return (row if isinstance(row, Refusal) else _recording(row, root) for row in rows)


def _recording(row: dict[str, object], root: Path) -> tuple[Recording, dict[str, object]] | Refusal:
    audio = find(row, AUDIO_COLUMNS)
    speaker, stated, offset = (find(row, names) for names in (SPEAKER_COLUMNS, DURATION_COLUMNS, OFFSET_COLUMNS))
    if not isinstance(audio, str) or not audio.strip() or not is_unicode(audio):
        return Refusal(str(audio), str(audio), "malformed row", "no usable audio path")
    audio = audio.strip()
    path = root / audio
    id = str(Path(audio).with_suffix("")) if Path(audio).name else audio
    start_s, duration_s = _number(offset) or 0.0, _number(stated)
    for name, value, seconds in (("start", offset, start_s), ("duration", stated, duration_s)):
        if seconds is not None and not 0 <= seconds < math.inf:
            return Refusal(id, str(path), "malformed row", f"{name} is {value!r}, expected seconds")
    if start_s:
        id += f"@{round(start_s, 3):.12g}"
    speaker = None if speaker is None else str(speaker).strip() or None
    return Recording(id, path, speaker, duration_s, start_s), row


def lines_of(path: Path) -> Iterator[str]:
    """The lines of a text file."""
    # Bytes that are not UTF-8 become U+FFFD, which identifies the affected rows.
    with path.open(encoding="utf-8-sig", errors="replace", newline="\n") as file:
        yield from file


def _delimited_rows(
    table: Path, kind: str, needed: Mapping[str, tuple[str, ...]]
) -> Iterator[dict[str, object] | Refusal]:
    # In TSV a quote is an ordinary character: Common Voice and LibriSpeech-like lists have
    # sentences that begin with one.
    lines = (line.replace("\0", "\ufffd") for line in lines_of(table))
    tsv = (
        (number, line.rstrip("\r\n").split("\t"))
        for number, line in enumerate(lines, 1)
        if number > 1 or not line.startswith("#")  # the comment of a data set of `asr prepare`
    )
    columns: list[str] | None = None
    for number, row in tsv if kind == "tsv" else _csv_rows(lines):
        if isinstance(row, csv.Error):
            if columns is None:
                raise ValueError(f"{table}, line {number}: {row}") from row
            yield Refusal(f"{table.name}:{number}", "", "malformed row", str(row))
        elif columns is None:
            columns = [name.strip().lower() for name in row]
            _check_columns(table, columns, needed)
        elif row in ([], [""]):
            continue
        elif len(row) != len(columns):
            yield Refusal(f"{table.name}:{number}", "", "malformed row", f"{len(row)} fields, expected {len(columns)}")
        else:
            yield dict(zip(columns, row, strict=True))
    if columns is None:
        _check_columns(table, [], needed)


def _csv_rows(lines: Iterator[str]) -> Iterator[tuple[int, list[str] | csv.Error]]:
    """Line numbers and fields, or the error of a line: the reader goes on with the next one."""
    reader = csv.reader(lines)
    while True:
        first = reader.line_num + 1
        try:
            row: list[str] | csv.Error = next(reader)
        except StopIteration:
            return
        except csv.Error as error:
            row = error
        # A stray quotation mark joins all lines up to the next one, whose rows would disappear.
        if reader.line_num > first:
            row = csv.Error(
                f"lines {first} to {reader.line_num} are read as one row: a quotation mark is not closed, or a field "
                'has a line break; write a quotation mark as "" in a quoted field, or use a .tsv without quoting'
            )
        yield first, row


def _json_rows(table: Path, needed: Mapping[str, tuple[str, ...]]) -> Iterator[dict[str, object] | Refusal]:
    checked = False
    for number, line in enumerate(lines_of(table), 1):
        if not line.strip():
            continue
        name = f"{table.name}:{number}"
        try:
            row = json.loads(line)
        except (ValueError, RecursionError) as error:
            yield Refusal(name, "", "malformed row", f"not JSON: {error}")
            continue
        if not isinstance(row, dict):
            yield Refusal(name, "", "malformed row", "not a JSON object")
            continue
        row = {str(key).strip().lower(): value for key, value in row.items()}
        if not checked:  # the first object serves as the header row
            _check_columns(table, list(row), needed)
            checked = True
        elif not all(any(name in row for name in names) for names in needed.values()):
            yield Refusal(name, "", "malformed row", f"keys {', '.join(row)}")
            continue
        yield row
    if not checked:
        raise ValueError(f"{table} has no JSON object; expected one per line")


def _check_columns(table: Path, columns: list[str], needed: Mapping[str, tuple[str, ...]]) -> None:
    for what, names in needed.items():
        if not any(name in columns for name in names):
            raise ValueError(
                f"{table} has no column for the {what}: expected one of {', '.join(names)}; "
                f"it has {', '.join(columns) or 'none'} (tabs separate the columns of a .tsv)"
            )


def tsv_line(fields: Mapping[str, str]) -> str:
    """A line of a TSV table. Raises ValueError for a field that `read_recordings` would not read back as it is."""
    for name, field in fields.items():
        if set("\t\n\r\0") & set(field) or not is_unicode(field) or field != field.strip():
            raise ValueError(
                f"{name} {field!r} does not fit into a table: it must be Unicode, without tabs, line breaks and NULs, "
                "and without spaces at its ends"
            )
    return "\t".join(fields.values()) + "\n"


def write_tsv(path: Path, columns: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
    """Writes a TSV table for people, in which white space in a field becomes one space."""
    with replacing(path) as part, part.open("w", encoding="utf-8", errors="backslashreplace", newline="") as file:
        for row in (columns, *rows):
            file.write("\t".join(map(one_line, row)) + "\n")


def one_line(field: str) -> str:
    """A field of a table, in which white space becomes one space."""
    return " ".join(field.replace("\0", " ").split())


def find(row: Mapping[str, object], names: tuple[str, ...]) -> object | None:
    """The value of the first column of `names` that the row has."""
    return next((row[name] for name in names if name in row), None)


def is_unicode(text: str) -> bool:
    """False for text that was not UTF-8 in the file, or has half a surrogate pair from a JSON escape."""
    return not any(c == "\ufffd" or "\ud800" <= c <= "\udfff" for c in text)


def _number(value: object) -> float | None:
    """The number in a cell; None for an empty cell, NaN for anything else."""
    if value is None or value == "":
        return None
    try:
        return float(value)  # type: ignore[arg-type]
    except (TypeError, ValueError, OverflowError):
        return math.nan
