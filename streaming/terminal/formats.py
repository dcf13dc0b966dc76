"""Formats of events as text: plain lines, JSON lines, SubRip, WebVTT.

A format turns each event into the next text of its file, so that the file is valid at any time. `end` returns text that
was held back.
"""

from __future__ import annotations

import json
import os
import stat
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from asr.streaming.events import Event
    from asr.streaming.terminal.subtitles import Subtitles

FORMATS = ("text", "json", "srt", "vtt")
_SUFFIXES = {"text": ".txt", "json": ".jsonl", "srt": ".srt", "vtt": ".vtt"}


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

    def begin(self, name: str) -> str:
        return f"== {name} ==\n" if name else ""

    def add(self, event: Event, label: str = "") -> str:
        is_shown = event.type == "final" and event.text.strip()
        return f"{labeled(event.text, label)}\n" if is_shown else ""

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

    def __init__(self, kind: str) -> None:
        self._kind = kind
        self._subtitles: Subtitles | None = None

    def begin(self, name: str) -> str:
        from asr.streaming.terminal.subtitles import Subtitles

        self._subtitles = Subtitles(self._kind)
        return self._subtitles.header

    def add(self, event: Event, label: str = "") -> str:
        assert self._subtitles is not None, "begin comes first"
        return self._subtitles.add(event, label)

    def end(self) -> str:
        subtitles, self._subtitles = self._subtitles, None
        return subtitles.finish() if subtitles else ""


def new_format(name: str) -> Format:
    """name: of FORMATS."""
    if name in ("srt", "vtt"):
        return SubtitleFile(name)
    return JsonLines() if name == "json" else PlainText()


def labeled(text: str, label: str) -> str:
    """`text` after the label of its source, if there are several."""
    return f"{label}: {text}" if label else text


def output_path(folder: str | Path, recording: str, format: str) -> Path:
    """The file in `folder` for the text of a recording: talk.mp3 becomes talk.srt; "-" is stdin."""
    stem = "stdin" if recording == "-" else Path(recording).stem
    return Path(folder) / (stem + _SUFFIXES[format])


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
