"""Finds the recordings of folders, tables, and data sets of `asr prepare`.

The id of a recording is the path of its text below the output folder: the name of the input, then the path within the
input, without suffix.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

from asr.streaming.audio.audio_file import duration_s
from asr.tables import AUDIO_SUFFIXES, TABLE_SUFFIXES, UTTERANCES, Recording, Refusal, read_recordings

SUFFIXES = AUDIO_SUFFIXES.union(
    """
    .3g2 .3gp .aac .ac3 .amr .ape .asf .avi .awb .bw64 .dts .eac3 .flv .m2ts .m4a .m4b .m4v .mka .mkv .mov .mp4 .mpeg
    .mpg .mts .mxf .ogv .tak .ts .tta .webm .wma .wmv .wv
    """.split()
)
"""Suffixes of recordings in folders; ffmpeg reads those that are not of libsndfile."""
_HEADERS_AT_A_TIME = 16
"""Number of files whose durations are looked up concurrently, because each lookup is slow on a network drive."""


def find_recordings(inputs: Sequence[str], audio_root: str | None = None) -> list[Recording | Refusal]:
    """The recordings of all `inputs` in order, those of a folder by name, without duplicates.

    audio_root: base folder of relative paths in tables, instead of the table's folder.
    Raises ValueError for an input that is not a folder, table or data set, or if no recording is found.
    """
    seen: dict[str, Path] = {}
    found: list[Recording | Refusal] = []
    for name in inputs:
        path = Path(name)
        recordings: Iterable[Recording | Refusal]
        full = Path(os.path.abspath(path))
        if (path / UTTERANCES).is_file():
            recordings = _of_table(path / UTTERANCES, audio_root)
        elif path.is_dir():
            recordings = _of_folder(path)
        elif path.suffix.lower() in TABLE_SUFFIXES:
            recordings = _of_table(path, audio_root)
        else:
            what = "neither a folder nor a table" if path.exists() else "not there"
            raise ValueError(f"{name} is {what}: give a folder of recordings, or a table ({', '.join(TABLE_SUFFIXES)})")
        found += _named(recordings, (full.name if path.is_dir() else full.stem) or "root", seen)
    if not any(isinstance(each, Recording) for each in found):
        why = f": {found[0].audio}: {found[0].reason}" if found and isinstance(found[0], Refusal) else ""
        suffixes = ", ".join(sorted(SUFFIXES))
        raise ValueError(f"no recording in {' '.join(inputs)}{why}; recordings in folders have the suffixes {suffixes}")
    return found


def parse_shard(text: str) -> tuple[int, int]:
    """ "3/16" -> (3, 16). Raises ValueError."""
    if not (found := re.fullmatch(r"(\d{1,9})/(\d{1,9})", text)) or not 1 <= int(found[1]) <= int(found[2]):
        raise ValueError(f"--shard is {text!r}; expected i/n with i in 1 to n, such as 3/16 (SLURM: --array=1-16)")
    return int(found[1]), int(found[2])


def longest_first(recordings: Iterable[Recording]) -> list[Recording]:
    """Sorts by duration, so that all cores finish together. Reads durations that tables lack; uses 0 s if that
    fails."""
    recordings = list(recordings)
    with ThreadPoolExecutor(_HEADERS_AT_A_TIME) as pool:
        lengths = pool.map(lambda each: each.duration_s or duration_s(each.audio), recordings)
    known = [replace(each, duration_s=length) for each, length in zip(recordings, lengths, strict=True)]
    return sorted(known, key=lambda each: -(each.duration_s or 0.0))


def _named(
    recordings: Iterable[Recording | Refusal], prefix: str, seen: dict[str, Path]
) -> Iterator[Recording | Refusal]:
    """Adds unique ids, whose paths stay below the output folder."""
    for each in recordings:
        if isinstance(each, Refusal):
            yield each
            continue
        parts = [part for part in Path(each.id).parts if part not in (os.sep, "..") and part != Path(each.id).anchor]
        id = "/".join((prefix, *parts))
        audio = Path(os.path.abspath(each.audio))
        if (other := seen.setdefault(id, audio)) is audio:
            yield replace(each, id=id, audio=audio)
        elif other != audio:
            yield Refusal(id, str(audio), f"its text would overwrite that of {other}; give it another name")


def _of_table(table: Path, audio_root: str | None) -> Iterator[Recording | Refusal]:
    for row in read_recordings(table, audio_root):
        if isinstance(row, Refusal):
            yield row
            continue
        each, fields = row
        if {"id", "first", "samples"} <= fields.keys():  # of a data set
            each = replace(each, id=str(fields["id"]))
        if each.start_s:
            yield Refusal(each.id, str(each.audio), "segment of a longer recording", "transcribe the recording itself")
        else:
            yield each


def _of_folder(folder: Path) -> Iterator[Recording | Refusal]:
    errors: list[OSError] = []
    for place, folders, files in os.walk(folder, onerror=errors.append):
        folders.sort()
        for name in sorted(files):
            path = Path(place, name)
            if path.suffix.lower() in SUFFIXES and not name.startswith("."):
                yield Recording(str(path.relative_to(folder).with_suffix("")), path)
    for error in errors:
        yield Refusal(error.filename, error.filename, f"folder cannot be read: {error.strerror}")
