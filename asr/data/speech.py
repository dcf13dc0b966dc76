"""A data set on disk: a table of utterances and one file of samples, in a folder that `asr prepare` writes.

- `utterances.tsv`: a comment with the name of the file of samples, then a row for each utterance. Rows may be removed,
  reordered or split into several tables next to the file of samples.
- `samples-*.s16`: int16 samples at 16 kHz, mono, little-endian, one utterance after another: 115 MB an hour. Processes
  map the file, so they share its memory and read only what they use.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from sys import intern
from typing import TYPE_CHECKING, TypeVar

import numpy as np

from asr.features import SAMPLE_RATE, fbank
from asr.files import replacing
from asr.tables import UTTERANCES, Refusal, lines_of, one_line

if TYPE_CHECKING:
    from torch import Tensor

T = TypeVar("T")

COLUMNS = ("id", "first", "samples", "speaker", "audio", "start", "text")
"""first: first sample of the utterance in the file of samples. audio, start: the file that it was decoded from, and the
second where it begins there. text: empty for noise."""
MARK = "# asr-stream samples: "
"""Begins the first line of a table; the name of the file of samples follows."""


@dataclass(frozen=True)
class Clip:
    """An utterance of a data set. samples: (num_samples,) int16, mapped from the file."""

    id: str
    text: str
    speaker: str | None
    samples: np.ndarray

    @property
    def seconds(self) -> float:
        return len(self.samples) / SAMPLE_RATE

    def waveform(self) -> np.ndarray:
        """(num_samples,) float32 in ±1"""
        return self.samples.astype(np.float32) / 32768

    def features(self) -> Tensor:
        """(num_frames, 80) float32, see `asr.features.fbank`."""
        return fbank(self.waveform())


class Speech(Sequence[Clip]):
    """The utterances of one or several data sets.

    texts, ids: of each utterance. starts, lengths: (num_utterances,) int64, its samples in `files[file_of[i]]`.
    """

    def __init__(
        self,
        ids: list[str],
        texts: list[str],
        speakers: list[str | None],
        files: list[np.ndarray],
        file_of: np.ndarray,
        starts: np.ndarray,
        lengths: np.ndarray,
    ) -> None:
        self.ids, self.texts, self.speakers = ids, texts, speakers
        self.files, self.file_of, self.starts, self.lengths = files, file_of, starts, lengths

    @staticmethod
    def load(path: str | Path) -> Speech:
        """Opens a data set: the folder, or a table of it. Raises ValueError if there is none, or if it is damaged."""
        table = _table_of(Path(path))
        lines = lines_of(table)
        head = next(lines, "")
        columns = next(lines, "").rstrip("\r\n").split("\t")
        if not head.startswith(MARK) or columns != list(COLUMNS):
            raise ValueError(f"{table} is not a table of `asr prepare`: it does not begin with {MARK.strip()!r}")
        samples = _mapped(table, _samples_of(head))
        ids: list[str] = []
        texts: list[str] = []
        speakers: list[str | None] = []
        places: list[tuple[int, int]] = []
        for number, line in enumerate(lines, 3):
            fields = line.rstrip("\r\n").split("\t")
            if fields == [""]:
                continue
            try:
                id, start, length, speaker, _, _, text = fields
                place = int(start), int(length)
            except ValueError as error:
                raise ValueError(f"{table}, line {number} is damaged: {error}; run `asr prepare` again") from error
            if place[0] < 0 or place[1] < 1 or sum(place) > len(samples):
                raise ValueError(
                    f"{table}, line {number}: {length} samples from sample {start} on are not in its file of "
                    f"{len(samples)} samples; run `asr prepare` again"
                )
            ids.append(id)
            texts.append(text)
            speakers.append(intern(speaker) or None)
            places.append(place)
        starts, lengths = np.array(places, np.int64).reshape(-1, 2).T
        return Speech(ids, texts, speakers, [samples], np.zeros(len(ids), np.int32), starts, lengths)

    @staticmethod
    def joined(parts: Sequence[Speech]) -> Speech:
        """All utterances of `parts`, in order."""
        if not parts:
            return Speech([], [], [], [], np.zeros(0, np.int32), *np.zeros((2, 0), np.int64))
        offsets = np.cumsum([0, *(len(part.files) for part in parts)])
        return Speech(
            [id for part in parts for id in part.ids],
            [text for part in parts for text in part.texts],
            [speaker for part in parts for speaker in part.speakers],
            [file for part in parts for file in part.files],
            np.concatenate([part.file_of + offset for part, offset in zip(parts, offsets[:-1], strict=True)]),
            np.concatenate([part.starts for part in parts]),
            np.concatenate([part.lengths for part in parts]),
        )

    def __len__(self) -> int:
        return len(self.ids)

    def __getitem__(self, index: int) -> Clip:  # type: ignore[override]
        return Clip(self.ids[index], self.texts[index], self.speakers[index], self.samples(index))

    def samples(self, index: int) -> np.ndarray:
        """(num_samples,) int16 of an utterance."""
        start = self.starts[index]
        return self.files[self.file_of[index]][start : start + self.lengths[index]]

    @property
    def seconds(self) -> float:
        return float(self.lengths.sum()) / SAMPLE_RATE

    def only(self, indexes: Iterable[int]) -> Speech:
        """These utterances."""
        chosen = list(indexes)
        kept = np.array(chosen, np.int64)
        return Speech(
            [self.ids[i] for i in chosen],
            [self.texts[i] for i in chosen],
            [self.speakers[i] for i in chosen],
            self.files,
            self.file_of[kept],
            self.starts[kept],
            self.lengths[kept],
        )

    def usable(self, min_s: float, max_s: float) -> tuple[Speech, list[Refusal]]:
        """The utterances of this length that have a text, and the others."""
        kept, refused = list[int](), list[Refusal]()
        for index, (text, length) in enumerate(zip(self.texts, self.lengths / SAMPLE_RATE, strict=True)):
            reason = "empty text" if not text.strip() else "too long" if length > max_s else "too short"
            if text.strip() and min_s <= length <= max_s:
                kept.append(index)
            else:
                detail = f"{length:.2f} s, expected {min_s:g} to {max_s:g} s" if text.strip() else ""
                refused.append(Refusal(self.ids[index], "", reason, detail))
        return self.only(kept), refused


def evenly_spread(items: Sequence[T], number: int | None) -> list[T]:
    """`number` evenly spread items; all of them if `number` is None or there are no more."""
    number = len(items) if number is None else min(number, len(items))
    return [items[index * len(items) // number] for index in range(number)]


def batches_by_length(clips: Sequence[Clip], max_batch_s: float) -> list[list[Clip]]:
    """Groups of similar length, each at most `max_batch_s` including padding; if it is 0, one clip per group."""
    out: list[list[Clip]] = []
    for clip in sorted(clips, key=lambda clip: len(clip.samples)):
        if out and clip.seconds * (len(out[-1]) + 1) <= max_batch_s:
            out[-1].append(clip)
        else:
            out.append([clip])
    return out


def write_table(path: Path, samples: str, rows: Iterable[Sequence[str]]) -> None:
    """Writes a table of COLUMNS, for the file of samples with this name in the same folder. Raises OSError."""
    with (
        replacing(path, durable=True) as part,
        part.open("w", encoding="utf-8", errors="backslashreplace", newline="") as file,
    ):
        file.write(f"{MARK}{samples}\n")
        for row in (COLUMNS, *rows):
            file.write("\t".join(map(one_line, row)) + "\n")


def write_subset(table: Path, indexes: Iterable[int], path: Path) -> None:
    """Writes these rows of a table, counted from 0, to `path`, a table in the same folder. Raises OSError."""
    head, columns, *rows = table.read_text(encoding="utf-8").splitlines(keepends=True)
    with replacing(path) as part:
        part.write_text("".join((head, columns, *(rows[index] for index in indexes))), encoding="utf-8")


def samples_by_table(folder: Path) -> dict[str, str]:
    """The name of the file of samples that each table in `folder` names."""
    heads = {path.name: next(lines_of(path), "") for path in sorted(folder.glob("*.tsv"))}
    return {table: samples for table, head in heads.items() if (samples := _samples_of(head))}


def _samples_of(head: str) -> str:
    """The name in the first line of a table; "" if the line is of something else."""
    return head.removeprefix(MARK).strip() if head.startswith(MARK) else ""


def _table_of(path: Path) -> Path:
    table = path / UTTERANCES if path.is_dir() else path
    if not table.is_file():
        others = sorted(each.parent.name for each in path.absolute().parent.glob(f"*/{UTTERANCES}"))
        there = f"; {path.parent} has {', '.join(others)}" if others else ""
        raise ValueError(f"{path} is not a data set: {table} does not exist; write one with `asr prepare`{there}")
    return table


def _mapped(table: Path, name: str) -> np.ndarray:
    """The samples of the file `name` next to a table."""
    if not name or name != Path(name).name:
        raise ValueError(f"{table} names {name!r} as its file of samples; expected a file next to it")
    path = table.parent / name
    try:
        size = path.stat().st_size
        return np.memmap(path, "<i2", "r") if size else np.zeros(0, "<i2")
    except (OSError, ValueError) as error:
        raise ValueError(f"the samples {path} cannot be read: {error}; keep them next to {table.name}") from error
