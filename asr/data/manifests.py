"""Sources of utterances: tables of recordings and transcripts, and the LibriSpeech tree.

A row that cannot be used becomes a `Refusal` with a reason instead of an exception: one bad line
among a hundred thousand must not end the work, and must not vanish either. What is wrong with the
whole file (no such file, no such column) is a ValueError. No audio is opened here.
"""

from __future__ import annotations

import csv
import json
import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

AUDIO_COLUMNS = ("path", "audio", "audio_path", "audio_filepath", "wav", "file", "filename")
TEXT_COLUMNS = ("text", "transcript", "sentence", "transcription")
SPEAKER_COLUMNS = ("speaker", "speaker_id", "client_id")
DURATION_COLUMNS = ("duration", "duration_s")
OFFSET_COLUMNS = ("offset", "start")
TABLE_SUFFIXES = {".tsv": "tsv", ".csv": "csv", ".jsonl": "jsonl", ".json": "jsonl", ".ndjson": "jsonl"}


@dataclass(frozen=True)
class Utterance:
    """One recording and its transcript. duration_s: as the table states it, if it does."""

    id: str
    audio: Path
    text: str
    speaker: str | None = None
    duration_s: float | None = None


@dataclass(frozen=True)
class Refusal:
    """An utterance that is left out. reason: one of a few; detail: what was found."""

    id: str
    audio: str
    reason: str
    detail: str = ""


def read_table(path: str | Path, audio_root: str | Path | None = None) -> Iterator[Utterance | Refusal]:
    """Utterances of a TSV, CSV or JSONL table, in its order.

    Columns are found by name: audio path, text, optional speaker and duration (seconds). Relative
    audio paths start at `audio_root`, or at the table's folder. The utterance's id is its path as
    written, without suffix.
    Raises ValueError when the table is missing, of unknown format, empty or lacks a column.
    """
    table = Path(path)
    kind = TABLE_SUFFIXES.get(table.suffix.lower())
    if kind is None:
        raise ValueError(f"{table} is none of {', '.join(TABLE_SUFFIXES)}; rename or convert the manifest")
    if not table.is_file():
        raise ValueError(f"{table} does not exist or is not a file")
    root = table.parent if audio_root is None else Path(audio_root)
    if not root.is_dir():
        raise ValueError(f"audio root {root} is not a folder")
    rows = _json_rows(table) if kind == "jsonl" else _delimited_rows(table, kind)
    return (_utterance(row, root) for row in rows)


def read_librispeech(part: str | Path) -> Iterator[Utterance | Refusal]:
    """Utterances of one LibriSpeech part: every line of every `*.trans.txt`, FLAC files beside it.

    lhotse's recipe is not used: it leaves missing files out with no more than a log line, opens all
    audio on the way, and one malformed line or broken file ends it.
    Raises ValueError when the folder holds no transcript.
    """
    folder = Path(part)
    transcripts = sorted(folder.rglob("*.trans.txt"))
    if not transcripts:
        raise ValueError(f"{folder} holds no *.trans.txt; expected LibriSpeech's tree speaker/chapter/*.flac")
    return (
        _librispeech_utterance(transcript, line)
        for transcript in transcripts
        for line in _lines(transcript)
        if line.strip()
    )


def find_librispeech_parts(corpus: str | Path, parts: Iterable[str] | None = None) -> list[Path]:
    """Folders of the parts of a LibriSpeech corpus, whose folder or its parent is given.

    parts: names such as "train-clean-100"; None for all that are there.
    Raises ValueError naming the parts that exist when one is not found.
    """
    root = Path(corpus)
    if (root / "LibriSpeech").is_dir():
        root = root / "LibriSpeech"
    if not root.is_dir():
        raise ValueError(f"{root} is not a folder")
    there = sorted(p.name for p in root.iterdir() if p.is_dir())
    wanted = list(parts) if parts else [p for p in there if any((root / p).rglob("*.trans.txt"))]
    missing = [p for p in wanted if p not in there]
    if missing or not wanted:
        raise ValueError(f"no part {', '.join(missing) or 'at all'} in {root}; there: {there or 'nothing'}")
    return [root / p for p in dict.fromkeys(wanted)]


def _librispeech_utterance(transcript: Path, line: str) -> Utterance | Refusal:
    id, _, text = line.strip().partition(" ")
    audio = transcript.parent / f"{id}.flac"
    if not _is_unicode(line):
        return Refusal(id, str(audio), "text is not UTF-8", text)
    return Utterance(id, audio, text, speaker=id.split("-")[0])


def _lines(path: Path) -> Iterator[str]:
    # Bytes that are not UTF-8 become U+FFFD, by which the rows they spoil are found.
    with path.open(encoding="utf-8-sig", errors="replace", newline="\n") as file:
        yield from file


def _delimited_rows(table: Path, kind: str) -> Iterator[dict[str, object] | Refusal]:
    # In TSV a quote is a character like any other: Common Voice and LibriSpeech-like lists have
    # sentences that begin with one.
    lines = (line.replace("\0", "\ufffd") for line in _lines(table))
    tsv: dict[str, Any] = {"delimiter": "\t", "quoting": csv.QUOTE_NONE}
    reader = csv.DictReader(lines, **(tsv if kind == "tsv" else {}))
    try:
        columns = [str(name).strip().lower() for name in reader.fieldnames or ()]
        reader.fieldnames = columns
        _check_columns(table, columns)
        for row in reader:
            if None in row or None in row.values():
                found = len(columns) + len(row.get(None) or ()) - list(row.values()).count(None)
                name = f"{table.name}:{reader.line_num}"
                yield Refusal(name, "", "malformed row", f"{found} fields, expected {len(columns)}")
            else:
                yield dict(row)
    except csv.Error as error:
        raise ValueError(f"{table}, line {reader.line_num}: {error}") from error


def _json_rows(table: Path) -> Iterator[dict[str, object] | Refusal]:
    checked = False
    for number, line in enumerate(_lines(table), 1):
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
        if not checked:  # the first object stands for the header
            _check_columns(table, list(row))
            checked = True
        elif not all(any(name in row for name in names) for names in (AUDIO_COLUMNS, TEXT_COLUMNS)):
            yield Refusal(name, "", "malformed row", f"keys {', '.join(row)}")
            continue
        yield row
    if not checked:
        raise ValueError(f"{table} holds no JSON object; expected one per line")


def _check_columns(table: Path, columns: list[str]) -> None:
    for what, names in (("audio path", AUDIO_COLUMNS), ("text", TEXT_COLUMNS)):
        if not any(name in columns for name in names):
            raise ValueError(
                f"{table} has no column for the {what}: expected one of {', '.join(names)}; "
                f"it has {', '.join(columns) or 'none'}"
            )


def _find(row: dict[str, object], names: tuple[str, ...]) -> object | None:
    return next((row[name] for name in names if name in row), None)


def _utterance(row: dict[str, object] | Refusal, root: Path) -> Utterance | Refusal:
    if isinstance(row, Refusal):
        return row
    audio, text = _find(row, AUDIO_COLUMNS), _find(row, TEXT_COLUMNS)
    speaker, stated, offset = (_find(row, n) for n in (SPEAKER_COLUMNS, DURATION_COLUMNS, OFFSET_COLUMNS))
    if not isinstance(audio, str) or not audio.strip() or not _is_unicode(audio):
        return Refusal(str(audio), str(audio), "malformed row", "no usable audio path")
    audio = audio.strip()
    path = root / audio
    id = str(Path(audio).with_suffix("")) if Path(audio).name else audio
    if not isinstance(text, str):
        return Refusal(id, str(path), "empty text", f"text is {text!r}")
    if not _is_unicode(text):
        return Refusal(id, str(path), "text is not UTF-8", text)
    if _number(offset) not in (None, 0.0):
        detail = f"starts at {offset} s: cut the recording into one file per utterance"
        return Refusal(id, str(path), "segment of a longer recording", detail)
    duration_s = _number(stated)
    if duration_s is not None and not 0 <= duration_s < math.inf:
        return Refusal(id, str(path), "malformed row", f"duration is {stated!r}, expected seconds")
    speaker = None if speaker is None else str(speaker).strip() or None
    return Utterance(id, path, text, speaker, duration_s)


def _is_unicode(text: str) -> bool:
    """False for text that was not UTF-8 in the file, or holds half a character by a JSON escape."""
    return not any(c == "\ufffd" or "\ud800" <= c <= "\udfff" for c in text)


def _number(value: object) -> float | None:
    """The number a cell holds; None for an empty cell, NaN for anything else."""
    if value is None or value == "":
        return None
    try:
        return float(value)  # type: ignore[arg-type]
    except (TypeError, ValueError):
        return math.nan
