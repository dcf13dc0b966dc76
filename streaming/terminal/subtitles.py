"""Subtitles: the cues of finals in SRT, WebVTT or Advanced SubStation Alpha (ASS).

With several sources each cue names its source, and cues of different sources may overlap; they are ordered by their
start.
"""

from __future__ import annotations

import math
from collections.abc import Iterable

from asr.streaming.events import Event, Final, Partial
from asr.streaming.terminal.cues import Cue, Cues
from asr.streaming.terminal.layout import DEFAULTS, SUBTITLES, Layout
from asr.streaming.timestamps import timestamp

_SETTLED_S = 3.0
"""After this time, no utterance that overlaps a cue can still begin."""


class Subtitles:
    """A file of subtitles: the concatenation of `header`, the results of `add`, and `finish`.

    `format`: "srt" | "vtt" | "ass"; otherwise raises ValueError.
    """

    def __init__(self, format: str, layout: Layout = DEFAULTS) -> None:
        if format not in SUBTITLES:
            raise ValueError(f"subtitle format {format!r} is not known: choose srt, vtt or ass")
        self.header = {"srt": "", "vtt": "WEBVTT\n\n", "ass": _ASS_HEADER}[format]
        self._format = format
        self._layout = layout
        self._cues: dict[str, Cues] = {}
        self._num_cues = 0
        self._waiting: list[tuple[Cue, str]] = []
        self._began_s: dict[str, float] = {}
        """The start of each source's utterance that is not final yet."""

    def add(self, event: Event, label: str = "") -> str:
        """The next text of the file. label: of the event's source, if there are several.

        A cue waits for utterances of other sources that began before it, so partials count, too.
        """
        self._take(event, label)
        return self._ready()

    def _take(self, event: Event, label: str) -> None:
        if isinstance(event, Partial) and event.text:
            self._began_s[label] = event.start
            self._settle(label, event.start)
        elif isinstance(event, (Partial, Final)):
            self._began_s.pop(label, None)
        if isinstance(event, Final):
            cues = self._cues.setdefault(label, self._new_cues(label))
            self._waiting += [(cue, label) for cue in cues.add(event)]
        if isinstance(event, (Partial, Final)):
            for other, cues in self._cues.items():
                if cues.held and other != label and cues.held.end_s + _SETTLED_S < event.end:
                    self._settle(other)

    def _new_cues(self, label: str) -> Cues:
        # In WebVTT, a tag names the voice.
        return Cues(self._layout, f"{label}: " if label and self._format != "vtt" else "")

    def add_all(self, finals: Iterable[tuple[Final, str]]) -> str:
        """The rest of the file: all finals, each with its label; those of one label in order."""
        for final, label in finals:
            self._take(final, label)
        return self.finish()

    def finish(self) -> str:
        """The text of the held-back cues, at the end of the file."""
        self._began_s.clear()
        for label in self._cues:
            self._settle(label)
        return self._ready()

    def _ready(self) -> str:
        """The text of the cues that no later cue can precede."""
        self._waiting.sort(key=lambda waiting: waiting[0].start_s)
        text = ""
        while self._waiting and not self._must_wait(*self._waiting[0]):
            text += self._block(*self._waiting.pop(0))
        return text

    def _settle(self, label: str, next_s: float = math.inf) -> None:
        if label in self._cues:
            self._waiting += [(cue, label) for cue in self._cues[label].settle(next_s)]

    def _must_wait(self, cue: Cue, label: str) -> bool:
        held = {other: cues.held.start_s for other, cues in self._cues.items() if cues.held}
        return any(
            start_s < cue.start_s
            for starts_s in (self._began_s, held)
            for other, start_s in starts_s.items()
            if other != label
        )

    def _block(self, cue: Cue, label: str) -> str:
        self._num_cues += 1
        if self._format == "srt":
            return _srt(cue, self._num_cues)
        if self._format == "vtt":
            return _vtt(cue, label, self._layout.word_timestamps)
        return _ass(cue, f"{label}: " if label else "")


def document(format: str, finals: Iterable[Final], layout: Layout = DEFAULTS) -> str:
    """The text of a file in SRT (SubRip), WebVTT (https://www.w3.org/TR/webvtt1/) or ASS. `format`: see `Subtitles`."""
    return labeled_document(format, ((final, "") for final in finals), layout)


def labeled_document(format: str, finals: Iterable[tuple[Final, str]], layout: Layout = DEFAULTS) -> str:
    """Like `document`, of several sources: each final with the label of its source."""
    subtitles = Subtitles(format, layout)
    return subtitles.header + subtitles.add_all(finals)


def _srt(cue: Cue, number: int) -> str:
    text = "\n".join(cue.lines)
    return f"{number}\n{timestamp(cue.start_s, ',')} --> {timestamp(cue.end_s, ',')}\n{text}\n\n"


def _vtt(cue: Cue, label: str, with_words: bool) -> str:
    """with_words: with a tag before each word that has a time of its own."""
    text = _escaped("\n".join(cue.lines))
    if with_words:
        (_, text), *rest = _syllables(cue, 1000)
        text = _escaped(text) + "".join(f"<{timestamp(ms / 1000)}>{_escaped(each)}" for ms, each in rest)
    voice = f"<v {_escaped(label)}>" if label else ""
    return f"{timestamp(cue.start_s)} --> {timestamp(cue.end_s)}\n{voice}{text}\n\n"


def _escaped(text: str) -> str:
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def _ass(cue: Cue, before: str) -> str:
    """A line of events; \\k tags have the duration of each word, in hundredths of a second."""
    syllables = _syllables(cue, 100)
    ends = [*(start for start, _ in syllables[1:]), round(min(cue.words[-1][-1].end, cue.end_s) * 100)]
    text = _ass_escaped(before)
    for (start, each), end in zip(syllables, ends, strict=True):
        text += f"{{\\k{max(0, end - start)}}}{_ass_escaped(each)}"
    return f"Dialogue: 0,{_ass_time(cue.start_s)},{_ass_time(cue.end_s)},Default,,0,0,0,,{text}\n"


def _ass_escaped(text: str) -> str:
    """Braces begin tags. There is no way to escape a backslash, so an invisible character separates it from the letter
    that would make it a line break or a space."""
    text = text.replace("\\", "\\\N{WORD JOINER}").replace("{", "\\{").replace("}", "\\}")
    return text.replace("\n", "\\N")


def _ass_time(seconds: float) -> str:
    hundredths = round(seconds * 100)
    return timestamp(hundredths / 100)[:-1].removeprefix("0")


_ASS_HEADER = """\
[Script Info]
ScriptType: v4.00+
PlayResX: 1920
PlayResY: 1080
WrapStyle: 0
ScaledBorderAndShadow: yes

[V4+ Styles]
Format: Name, Fontname, Fontsize, PrimaryColour, SecondaryColour, OutlineColour, BackColour, Bold, Italic, Underline, \
StrikeOut, ScaleX, ScaleY, Spacing, Angle, BorderStyle, Outline, Shadow, Alignment, MarginL, MarginR, MarginV, Encoding
Style: Default,Arial,64,&H00FFFFFF,&H00A0A0A0,&H00000000,&H80000000,0,0,0,0,100,100,0,0,1,3,1,2,96,96,60,1

[Events]
Format: Layer, Start, End, Style, Name, MarginL, MarginR, MarginV, Effect, Text
"""
"""Of ASS. Words are gray (SecondaryColour) until they are said, then white (PrimaryColour)."""


def _syllables(cue: Cue, per_s: int) -> list[tuple[int, str]]:
    """The text of the cue in parts, each with its start in units of 1 / `per_s` seconds: the first begins with the cue,
    every other one later than the one before it and before the end of the cue."""
    found: list[tuple[int, str]] = []
    for line in cue.words:
        for i, piece in enumerate(line):
            start = round(piece.start * per_s)
            if not found:
                found.append((round(cue.start_s * per_s), piece.word))
                continue
            last, text = found.pop()
            text += " " if i else "\n"
            if last < start < round(cue.end_s * per_s):
                found += [(last, text), (start, piece.word)]
            else:
                found.append((last, text + piece.word))
    return found
