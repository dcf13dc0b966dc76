"""Sources of utterances: tables of recordings and transcripts, and the LibriSpeech tree.

Rows that cannot be used become a `Refusal`, see `asr.tables`. No audio is opened here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TypeVar

from asr.tables import Recording, Refusal, find, is_unicode, lines_of, read_recordings
from asr.text import NormalizedText, TextNormalizer

TEXT_COLUMNS = ("text", "transcript", "sentence", "transcription")
HAS_NOISE = "noise tags or cut-off words (--noise-tags strip or keep uses them)"
"""Why an utterance is left out."""

T = TypeVar("T")


@dataclass(frozen=True)
class Utterance:
    """One recording and its transcript. duration_s: as stated in the table, or None."""

    id: str
    audio: Path
    text: str
    speaker: str | None = None
    duration_s: float | None = None


def read_table(path: str | Path, audio_root: str | Path | None = None) -> Iterator[Utterance | Refusal]:
    """Utterances of a TSV, CSV or JSONL table, in order.

    Columns are found by name: audio path, text, optional speaker and duration (seconds). Relative audio paths start at
    `audio_root`, or at the table's folder. The utterance's id is its path as written, without suffix.
    Raises ValueError if the table is missing, has an unknown format, is empty or lacks a column.
    """
    rows = read_recordings(Path(path), audio_root, {"text": TEXT_COLUMNS})
    return (row if isinstance(row, Refusal) else _utterance(*row) for row in rows)


def normalized(
    utterances: Iterable[Utterance | T],
    normalizer: TextNormalizer,
    on_text: Callable[[NormalizedText], object] | None = None,
) -> Iterator[Utterance | Refusal | T]:
    """Normalizes the texts. Utterances without a usable text, or with the id of an earlier one, become a Refusal.

    on_text: called with each normalized text.
    """
    seen: set[str] = set()
    for utterance in utterances:
        if not isinstance(utterance, Utterance):
            yield utterance
            continue
        if utterance.id in seen:
            yield Refusal(utterance.id, str(utterance.audio), "duplicate id", "the first one is kept")
            continue
        seen.add(utterance.id)
        normal = normalizer(utterance.text)
        if on_text is not None:
            on_text(normal)
        if normal.has_noise:
            detail = f"{' '.join(normal.noise_tags)} in: {utterance.text}"
            yield Refusal(utterance.id, str(utterance.audio), HAS_NOISE, detail)
        elif normal.refused:
            detail = f"{' '.join(normal.refused)} in: {utterance.text}"
            yield Refusal(utterance.id, str(utterance.audio), "outside the alphabet", detail)
        elif not normal.text:
            yield Refusal(utterance.id, str(utterance.audio), "empty text", repr(utterance.text))
        else:
            yield replace(utterance, text=normal.text)


def read_librispeech(part: str | Path) -> Iterator[Utterance | Refusal]:
    """Utterances of one LibriSpeech part: every line of every `*.trans.txt`, with the FLAC files next to it.

    lhotse's recipe is not used: it only logs missing files, opens all audio, and stops at one malformed line or broken
    file.
    Raises ValueError if the folder has no transcript.
    """
    folder = Path(part)
    transcripts = sorted(folder.rglob("*.trans.txt"))
    if not transcripts:
        raise ValueError(f"{folder} holds no *.trans.txt; expected LibriSpeech's tree speaker/chapter/*.flac")
    return (
        _librispeech_utterance(transcript, line)
        for transcript in transcripts
        for line in lines_of(transcript)
        if line.strip()
    )


def find_librispeech_parts(corpus: str | Path, parts: Iterable[str] | None = None) -> list[Path]:
    """Folders of the parts of a LibriSpeech corpus. The corpus folder or its parent is given.

    parts: names such as "train-clean-100"; None for all existing ones.
    Raises ValueError that lists the existing parts if one is not found.
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
        raise ValueError(f"no part {', '.join(missing) or 'at all'} in {root}; there: {', '.join(there) or 'nothing'}")
    return [root / p for p in dict.fromkeys(wanted)]


def _librispeech_utterance(transcript: Path, line: str) -> Utterance | Refusal:
    id, _, text = line.strip().partition(" ")
    audio = transcript.parent / f"{id}.flac"
    if not is_unicode(line):
        return Refusal(id, str(audio), "text is not UTF-8", text)
    return Utterance(id, audio, text, speaker=id.split("-")[0])


def _utterance(recording: Recording, row: dict[str, object]) -> Utterance | Refusal:
    id, audio, text = recording.id, recording.audio, find(row, TEXT_COLUMNS)
    if not isinstance(text, str):
        return Refusal(id, str(audio), "empty text", f"text is {text!r}")
    if not is_unicode(text):
        return Refusal(id, str(audio), "text is not UTF-8", text)
    return Utterance(id, audio, text, recording.speaker, recording.duration_s)
