"""Sources of utterances: tables of recordings and transcripts, the LibriSpeech tree, Kaldi's and lhotse's manifests.

Rows that cannot be used become a `Refusal`, see `asr.tables`. No audio is opened here.
"""

from __future__ import annotations

import gzip
import json
import zlib
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeAlias, TypeVar

from asr.tables import OFFSET_COLUMNS, Recording, Refusal, find, is_unicode, lines_of, read_recordings
from asr.text import NormalizedText, TextNormalizer

TEXT_COLUMNS = ("text", "transcript", "sentence", "transcription")
HAS_NOISE = "noise tags or cut-off words (--noise-tags strip or keep uses them)"
"""Why an utterance is left out."""

T = TypeVar("T")


@dataclass(frozen=True)
class Utterance:
    """One recording and its transcript. duration_s: as stated in the table, or None; start_s, segment_s: the part of
    the file, to its end if segment_s is None; is_noise: there is nothing to transcribe."""

    id: str
    audio: Path
    text: str
    speaker: str | None = None
    duration_s: float | None = None
    start_s: float = 0.0
    segment_s: float | None = None
    is_noise: bool = False


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
        if utterance.is_noise:
            yield utterance
            continue
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


def read_kaldi(folder: str | Path) -> Iterator[Utterance | Refusal]:
    """Utterances of a Kaldi data directory: `wav.scp` and `text`, and `segments` and `utt2spk` if they exist.

    Entries of `wav.scp` that are commands (`... |`) are refused, because reading them would run programs. Relative
    paths start at the current folder, as in Kaldi. Raises ValueError if a file is missing or malformed.
    """
    root = Path(folder)
    waves, texts = _kaldi_map(root / "wav.scp"), _kaldi_map(root / "text")
    speakers = _kaldi_map(root / "utt2spk") if (root / "utt2spk").is_file() else {}
    segments: dict[str, Segment] = {id: (id, 0.0, None) for id in waves}
    if (root / "segments").is_file():
        segments = {id: _kaldi_segment(root, id, value) for id, value in _kaldi_map(root / "segments").items()}
    return (_kaldi_utterance(id, texts, waves, segments[id], speakers.get(id)) for id in segments)


Segment: TypeAlias = tuple[str, float, float | None]
"""The recording of a segment, its start, and its end; None: the end of the recording."""


def _kaldi_utterance(
    id: str, texts: dict[str, str], waves: dict[str, str], segment: Segment, speaker: str | None
) -> Utterance | Refusal:
    recording, start_s, end_s = segment
    source, text = waves.get(recording, ""), texts.get(id, "")
    if not source:
        return Refusal(id, "", "missing file", f"wav.scp has no recording {recording!r}")
    if source.endswith("|"):
        return Refusal(id, source, "command in wav.scp", "write its output into files, and name these in wav.scp")
    if not is_unicode(text):
        return Refusal(id, source, "text is not UTF-8", text)
    return Utterance(id, Path(source), text, speaker, None, start_s, None if end_s is None else end_s - start_s)


def _kaldi_map(path: Path) -> dict[str, str]:
    """The lines of a file of Kaldi: a key and a value that may have spaces. Raises ValueError if there is none."""
    if not path.is_file():
        raise ValueError(f"{path} does not exist; a Kaldi data directory has wav.scp and text")
    pairs = (line.strip().split(maxsplit=1) for line in lines_of(path) if line.strip())
    return {key: "".join(value) for key, *value in pairs}


def _kaldi_segment(folder: Path, id: str, value: str) -> Segment:
    try:
        recording, start, end = value.split()
        return recording, max(float(start), 0.0), None if float(end) == -1 else float(end)
    except ValueError:
        raise ValueError(f"{folder / 'segments'}: {id} {value}: expected a recording, its start and its end") from None


def read_lhotse(manifest: str | Path) -> Iterator[Utterance | Refusal]:
    """Utterances of a manifest of cuts by lhotse (.jsonl or .jsonl.gz): one recording file and one text each.

    Its speed or volume changes and its features are not used. Raises ValueError for any other file.
    """
    path = Path(manifest)
    opened = gzip.open if path.suffix == ".gz" else open
    try:
        with opened(path, "rt", encoding="utf-8") as file:
            for line in file:
                if line.strip():
                    yield _of_cut(json.loads(line))
    except (OSError, EOFError, zlib.error, LookupError, TypeError, ValueError) as error:
        raise ValueError(f"{path} cannot be read: {error!r}; expected lhotse's cuts, one JSON object a line") from error


def _of_cut(cut: dict[str, Any]) -> Utterance | Refusal:
    id, recording, supervisions = cut["id"], cut["recording"], cut["supervisions"]
    source = recording["sources"][0]
    if source["type"] != "file":
        return Refusal(id, str(source["source"]), "not a file", f"its recording is of type {source['type']!r}")
    if len(recording["sources"]) > 1 or len(recording.get("channel_ids") or (0,)) > 1:
        return Refusal(id, source["source"], "one of several channels", "write it into a file of its own")
    if len(supervisions) != 1:
        detail = f"{len(supervisions)} texts; cut it with trim_to_supervisions"
        return Refusal(id, source["source"], "not one text", detail)
    if changes := [each["name"] for each in recording.get("transforms") or () if each["name"] != "Resample"]:
        return Refusal(id, source["source"], "changed recording", f"{', '.join(changes)}: prepare the original")
    text, speaker = supervisions[0].get("text") or "", supervisions[0].get("speaker")
    start_s, segment_s = float(cut["start"]), float(cut["duration"])
    whole = not start_s and segment_s == recording["duration"]
    return Utterance(id, Path(source["source"]), text, speaker, None, start_s, None if whole else segment_s)


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
        what = ", ".join(missing) or "with a *.trans.txt"
        raise ValueError(f"{root} has no part {what}; it has {', '.join(there) or 'none'}")
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
    is_segment = find(row, OFFSET_COLUMNS) not in (None, "")
    segment_s = recording.duration_s if is_segment else None
    return Utterance(id, audio, text, recording.speaker, recording.duration_s, recording.start_s, segment_s)
