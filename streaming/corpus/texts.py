"""The text of one recording on disk. It is complete or missing, so that an interrupted run can continue.

`<id>.jsonl`: the recording, {"type": "recording", ...}, then its events without partials, one per line, as in
`asr-stream --format json`. `<id>.srt`: optional subtitles. With `channel` "each", events and cues name their channel.
"""

from __future__ import annotations

import contextlib
import json
import os
from argparse import Namespace
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from asr.channels import Channel
from asr.files import part_of, replacing
from asr.streaming.terminal.layout import Layout
from asr.tables import Recording

if TYPE_CHECKING:
    from asr.streaming.events import Event
    from asr.streaming.recognizer import Recognizer


class Done(NamedTuple):
    """A recording that was transcribed: seconds of audio, and sentences about trouble that did not end it."""

    audio_s: float
    warnings: tuple[str, ...] = ()


class Stopped(Exception):
    """The process that requested the text has ended."""


@dataclass(frozen=True)
class Task:
    """The work to do for each recording. Can be sent to other processes.

    options: those of `add_recognition_options`. out: the folder for texts. srt: the layout of subtitles, if they are
    written. channel: see `read_blocks`.
    """

    options: Namespace
    out: Path
    srt: Layout | None = None
    channel: Channel = "mix"

    def recognizer(self) -> Recognizer:
        """The same recognizer as `asr-stream --file`, so that the text is the same. Raises ValueError."""
        from asr.streaming.terminal.options import new_recognizer

        return new_recognizer(self.options)

    def is_done(self, recording: Recording) -> bool:
        """Whether all outputs of `recording` exist."""
        return all(map(os.path.exists, self._paths(recording)))  # false for a name that is too long

    def do(self, recognizer: Recognizer, recording: Recording, stopped: Callable[[], bool] = lambda: False) -> Done:
        """Writes the text of `recording`.

        Raises ValueError if the recording cannot be read to its end, OSError if the text cannot be written, and Stopped
        if `stopped` became true; then nothing is written.
        """
        target, *subtitles = self._paths(recording)
        if target.exists():
            events, done = read_finals(target), Done(0.0)
        else:
            events, done = self._recognize(recognizer, recording, stopped)
        finals = [(event, label) for event, label in events if event.type == "final"]
        target.parent.mkdir(parents=True, exist_ok=True)
        if self.srt:
            from asr.streaming.terminal.subtitles import labeled_document

            _write(subtitles[0], labeled_document("srt", finals, self.srt))
        if not target.exists():
            rows = [event.to_dict() | ({"label": label} if label else {}) for event, label in events]
            write_rows(target, [_row(recording, [event for event, _ in finals], done.audio_s), *rows])
        return done

    def _recognize(
        self, recognizer: Recognizer, recording: Recording, stopped: Callable[[], bool]
    ) -> tuple[list[tuple[Event, str]], Done]:
        from asr.streaming.terminal.files import Reading, Transcription

        transcription = Transcription(str(recording.audio))
        transcription.run(recognizer, Reading(channel=self.channel), wants_partials=False, stopped=stopped)
        if stopped():
            raise Stopped
        if transcription.error:
            raise ValueError(transcription.error)
        queued = (transcription.events.get() for _ in range(transcription.events.qsize()))
        events = [item for item in queued if not isinstance(item, str)]
        return events, Done(round(transcription.stats.audio_s, 3), tuple(transcription.warnings))

    def discard_parts(self, recording: Recording) -> None:
        """Removes the partial files of a worker that died."""
        for path in self._paths(recording):
            with contextlib.suppress(OSError):
                part_of(path).unlink(missing_ok=True)

    def row(self, recording: Recording) -> dict[str, Any] | None:
        """The row of `recording` in the manifest; None if it is not done."""
        path = self._paths(recording)[0]
        if not os.path.exists(path):
            return None
        with path.open(encoding="utf-8") as file:
            row = json.loads(file.readline())
        del row["type"]
        return row

    def other_of(self, recording: Recording) -> Path | None:
        """Another recording, which still exists, whose text is where that of `recording` belongs."""
        row = self.row(recording)
        other = recording.audio if row is None else Path(row["audio_filepath"])
        if other == recording.audio or not other.exists() or not recording.audio.exists():
            return None  # recordings may have moved
        return None if other.samefile(recording.audio) else other

    def _paths(self, recording: Recording) -> list[Path]:
        # Not with_suffix: an id may contain dots.
        return [self.out / f"{recording.id}{suffix}" for suffix in (".jsonl", ".srt")[: 2 if self.srt else 1]]


def read_finals(path: Path) -> list[tuple[Event, str]]:
    """The finals of a text file, each with its label."""
    from asr.runtime.search import Word
    from asr.streaming.events import Final

    with path.open(encoding="utf-8") as file:
        events = [event for line in file if (event := json.loads(line))["type"] == "final"]
    finals: list[tuple[Event, str]] = []
    for event in events:
        words = tuple(Word(*word.values()) for word in event["words"])
        finals.append((Final(event["text"], event["start"], event["end"], words), event.get("label", "")))
    return finals


def write_rows(path: Path, rows: Sequence[dict[str, Any]]) -> None:
    """Writes JSON lines atomically. Raises OSError."""
    _write(path, "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows))


def _row(recording: Recording, finals: Sequence[Event], length_s: float) -> dict[str, Any]:
    """A row for `asr prepare`: `text` has the recognized words, without digits and punctuation."""
    confidences = [word.confidence for event in finals for word in event.raw_words]
    row = {
        "type": "recording",
        "audio_filepath": str(recording.audio),
        "duration": length_s,
        "text": " ".join(event.raw for event in finals),
        "formatted": " ".join(event.text for event in finals),
        "confidence": round(sum(confidences) / len(confidences), 3) if confidences else 0.0,
    }
    return row | ({"speaker": recording.speaker} if recording.speaker else {})


def _write(path: Path, text: str) -> None:
    with replacing(path, durable=True) as part:
        part.write_bytes(text.encode(errors="backslashreplace"))  # a file name may not be UTF-8
