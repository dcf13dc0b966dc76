"""Formats of events as text: plain lines, JSON lines, SubRip, WebVTT, Advanced SubStation Alpha.

A format turns each event into the next text of its file, so that the file is valid at any time. `end` returns text that
was held back.
"""

from __future__ import annotations

import json
import os
import stat
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from asr.streaming.terminal.layout import DEFAULTS, SUBTITLES, Layout
from asr.streaming.timestamps import timestamp

if TYPE_CHECKING:
    from asr.streaming.events import Event
    from asr.streaming.terminal.subtitles import Subtitles

FORMATS = ("text", "json", *SUBTITLES)
_SUFFIXES = {"text": ".txt", "json": ".jsonl", **{name: f".{name}" for name in SUBTITLES}}


class Format(Protocol):
    """The state of one output file."""

    complete: bool
    """Whether it needs every event, or only finals."""

    def begin(self, name: str) -> str:
        """Text before a recording; `name` is empty if there is only one."""

    def add(self, event: Event, label: str = "") -> str:
        """Text of an event; empty if the format does not show it. label: the source of the audio, if several."""

    def end(self) -> str:
        """Text after a recording, including text that was held back."""


class PlainText:
    """Finals, one per line. Text that "scratch that" takes back has already been written, so it stays."""

    complete = False

    def __init__(self, layout: Layout) -> None:
        self._layout = layout

    def begin(self, name: str) -> str:
        return f"== {name} ==\n" if name else ""

    def add(self, event: Event, label: str = "") -> str:
        is_shown = event.type == "final" and event.text.strip()
        return f"{utterance(event, label, self._layout)}\n" if is_shown else ""

    def end(self) -> str:
        return ""


class JsonLines:
    """One event per line. With several recordings each event also names its `file`, with two sources its `label`."""

    complete = True

    def __init__(self) -> None:
        self._about: dict[str, str] = {}

    def begin(self, name: str) -> str:
        self._about = {"file": name} if name else {}
        return ""

    def add(self, event: Event, label: str = "") -> str:
        about = self._about | ({"label": label} if label else {})
        return json.dumps(event.to_dict() | about, ensure_ascii=False) + "\n"

    def end(self) -> str:
        return ""


class SubtitleFile:
    """Subtitle cues, written when they are complete. Each recording has its own file."""

    complete = False

    def __init__(self, kind: str, layout: Layout) -> None:
        self._kind, self._layout = kind, layout
        self._subtitles: Subtitles | None = None

    def begin(self, name: str) -> str:
        from asr.streaming.terminal.subtitles import Subtitles

        self._subtitles = Subtitles(self._kind, self._layout)
        return self._subtitles.header

    def add(self, event: Event, label: str = "") -> str:
        assert self._subtitles is not None, "begin comes first"
        return self._subtitles.add(event, label)

    def end(self) -> str:
        subtitles, self._subtitles = self._subtitles, None
        return subtitles.finish() if subtitles else ""


def new_format(name: str, layout: Layout = DEFAULTS) -> Format:
    """name: of FORMATS."""
    if name in SUBTITLES:
        return SubtitleFile(name, layout)
    return JsonLines() if name == "json" else PlainText(layout)


def utterance(event: Event, label: str, layout: Layout) -> str:
    """The text of a final after the label of its source, if there are several, and after its times, if wanted."""
    times = f"[{timestamp(event.start)} --> {timestamp(event.end)}] " if layout.timestamps else ""
    return times + labeled(event.text, label)


def labeled(text: str, label: str) -> str:
    """`text` after the label of its source, if there are several."""
    return f"{label}: {text}" if label else text


def output_path(folder: str | Path, recording: str, format: str) -> Path:
    """The file in `folder` for the text of a recording: talk.mp3 becomes talk.srt; "-" is stdin."""
    stem = "stdin" if recording == "-" else Path(recording).stem
    return Path(folder) / (stem + _SUFFIXES[format])


def parse_formats(text: str) -> tuple[str, ...]:
    """Names of FORMATS between commas. Raises ValueError, which says what it must be."""
    names = tuple(dict.fromkeys(name.strip() for name in text.split(",")))
    if not set(names) <= set(FORMATS):
        raise ValueError(f"is {text[:64]!r}; choose from {', '.join(FORMATS)}, several with commas between them")
    return names


def is_taken(path: str | Path) -> bool:
    """Whether a nonempty file exists; a device or a pipe counts as empty. Raises OSError."""
    try:
        status = os.stat(path)
    except (FileNotFoundError, NotADirectoryError):
        return False
    return stat.S_ISREG(status.st_mode) and status.st_size > 0


def is_folder(path: str | None) -> bool:
    """Whether `--output` names a folder: it is one, or ends with a slash."""
    return path is not None and (path.endswith(("/", os.sep)) or Path(path).is_dir())


def format_of(path: str | None) -> str:
    """The format for a file name, by its suffix; text by default."""
    suffix = Path(path or "").suffix.lower()
    return next((format for format in FORMATS if _SUFFIXES[format] == suffix), "json" if suffix == ".json" else "text")
