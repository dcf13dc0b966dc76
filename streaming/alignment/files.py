"""Files of an alignment: JSON, CTM (NIST), Praat's TextGrid, subtitles, and plain text."""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

from asr.runtime.search import Word
from asr.streaming.alignment.aligner import AlignedWord, Alignment
from asr.streaming.events import Final
from asr.streaming.terminal.subtitles import document


def to_json(alignment: Alignment, name: str) -> str:
    """All that an alignment has: `words` and `extra`; a word that is not said has no times."""
    values = {
        "audio_filepath": name,
        "duration": round(alignment.duration, 3),
        "words": [_values(word) for word in alignment.words],
        "extra": [{"word": word.word, **_times(word.start, word.end)} for word in alignment.extra],
    }
    return json.dumps(values, ensure_ascii=False, indent=1) + "\n"


def to_ctm(alignment: Alignment, name: str) -> str:
    """A line for each word: recording, channel, start and duration in seconds, word, confidence."""
    recording = "_".join(name.split())
    return "".join(
        f"{recording} 1 {start:.3f} {end - start:.3f} {'_'.join(word.text.split())} {word.confidence:.3f}\n"
        for word, start, end in _said(alignment.words)
    )


def to_textgrid(alignment: Alignment, name: str) -> str:
    """A tier of words and, if there are any, one of phones."""
    said = list(_said(alignment.words))
    tiers = {
        "words": [(start, end, word.text) for word, start, end in said],
        "phones": [(phone.start, phone.end, phone.phone) for word, _, _ in said for phone in word.phones],
    }
    if not tiers["phones"]:
        del tiers["phones"]
    head = 'File type = "ooTextFile"\nObject class = "TextGrid"\n\n'
    head += f"xmin = 0\nxmax = {alignment.duration:.3f}\ntiers? <exists>\nsize = {len(tiers)}\nitem []:\n"
    return head + "".join(
        _tier(number, name, rows, alignment.duration) for number, (name, rows) in enumerate(tiers.items(), 1)
    )


def to_srt(alignment: Alignment, name: str) -> str:
    return document("srt", _finals(alignment))


def to_vtt(alignment: Alignment, name: str) -> str:
    return document("vtt", _finals(alignment))


def to_text(alignment: Alignment, name: str) -> str:
    """A line for each word: start, end, word; an empty line between paragraphs."""
    paragraphs = itertools.groupby(_said(alignment.words), key=lambda item: item[0].paragraph)
    return "\n".join(
        "".join(f"{start:.3f}\t{end:.3f}\t{word.text}\n" for word, start, end in said) for _, said in paragraphs
    )


FORMATS: Mapping[str, Callable[[Alignment, str], str]] = {
    "json": to_json,
    "ctm": to_ctm,
    "textgrid": to_textgrid,
    "srt": to_srt,
    "vtt": to_vtt,
    "txt": to_text,
}
"""The text of a file, by suffix. Each takes the name of the recording."""


def _said(words: Iterable[AlignedWord]) -> Iterator[tuple[AlignedWord, float, float]]:
    for word in words:
        if word.start is not None and word.end is not None:
            yield word, word.start, word.end


def _values(word: AlignedWord) -> dict[str, object]:
    values: dict[str, object] = {"word": word.text, "paragraph": word.paragraph}
    if word.start is None or word.end is None:
        return values
    values |= {**_times(word.start, word.end), "confidence": round(word.confidence, 3)}
    if word.phones:
        values["phones"] = [{"phone": each.phone, **_times(each.start, each.end)} for each in word.phones]
    return values


def _times(start: float, end: float) -> dict[str, float]:
    return {"start": round(start, 3), "end": round(end, 3)}


def _finals(alignment: Alignment) -> Iterator[Final]:
    """A paragraph each, because a cue has no words of two finals."""
    for _, said in itertools.groupby(_said(alignment.words), key=lambda item: item[0].paragraph):
        words = tuple(Word(word.text, start, end, word.confidence) for word, start, end in said)
        yield Final(" ".join(word.word for word in words), words[0].start, words[-1].end, words)


def _tier(number: int, name: str, rows: Sequence[tuple[float, float, str]], duration: float) -> str:
    """A tier covers the whole recording, so intervals without text are between the others."""
    intervals: list[tuple[float, float, str]] = []
    at = 0.0
    for start, end, text in [*rows, (duration, duration, "")]:
        start, end = (min(max(round(time, 3), at), round(duration, 3)) for time in (start, end))
        if start > at:
            intervals.append((at, start, ""))
        if end > start:
            intervals.append((start, end, text))
        at = max(at, end)
    lines = [
        f"    item [{number}]:\n"
        f'        class = "IntervalTier"\n        name = "{name}"\n        xmin = 0\n        xmax = {duration:.3f}\n'
        f"        intervals: size = {len(intervals)}\n"
    ]
    for index, (start, end, text) in enumerate(intervals, 1):
        quoted = text.replace('"', '""')
        lines.append(
            f"        intervals [{index}]:\n            xmin = {start:.3f}\n            xmax = {end:.3f}\n"
            f'            text = "{quoted}"\n'
        )
    return "".join(lines)
