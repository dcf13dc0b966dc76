"""Prepared speech on disk: lhotse cuts with features in one flat float16 file.

- A data set is `<name>.jsonl.gz` (a lhotse CutSet) next to `<name>.features/` (its feature frames).
  The manifest has the path of the features relative to itself, so the folder can be moved.
- Frames are stored as float16: 160 bytes per frame, 58 MB per hour. The rounding error (at most 0.004 for log-mel
  values in ±8, 0.008 in ±16) is far below the noise of the features. Reading is one `pread` and one cast.
- Sets too large for one file are stored as shards, a lhotse Shar directory written by `asr shard` (see
  `asr.data.shards`); the same reader reads their features in place.
- A cut with the custom field `no_speech` contains only noise: its text is "" (see `asr.data.noise_alone`).
- Importing this module registers the storage and the transforms (`asr.data.transforms`) with lhotse.
"""

from __future__ import annotations

import os
import zlib
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from lhotse import CutSet
from lhotse.features.io import FeaturesReader, FeaturesWriter, register_reader, register_writer
from torch import Tensor

import asr.data.transforms  # noqa: F401, registers what manifests name
from asr.features import NUM_MEL_BINS
from asr.tables import Refusal

_DAMAGE = (OSError, EOFError, zlib.error, LookupError, ValueError, TypeError, AttributeError, AssertionError)
"""Errors that lhotse raises for malformed lines of a manifest."""
MANIFEST_SUFFIX = ".jsonl.gz"


@register_writer
class Float16Writer(FeaturesWriter):
    """Appends feature matrices to one flat float16 file; the key is `first_value:num_frames:num_bins`."""

    name = "asr_float16"

    def __init__(self, storage_path: str | Path) -> None:
        self._path = Path(storage_path)
        self._file = self._path.open("wb")
        self._num_values = 0

    @property
    def storage_path(self) -> str:
        return str(self._path)

    def write(self, key: str, value: np.ndarray) -> str:
        """Appends `value` (num_frames, num_bins); returns the key to read it with. `key` is not used."""
        half = np.ascontiguousarray(value, dtype="<f2")
        offset = self._num_values
        self._file.write(half.data)
        self._num_values += half.size
        return f"{offset}:{half.shape[0]}:{half.shape[1]}"

    def close(self) -> None:
        self._file.close()

    def __exit__(self, *args: object) -> None:
        self.close()


@register_reader
class Float16Reader(FeaturesReader):
    """Reads files of `Float16Writer`. Keeps no file open: safe to fork, copy and send."""

    name = "asr_float16"

    def __init__(self, storage_path: str | Path) -> None:
        self._path = Path(storage_path)

    def read(self, key: str, left_offset_frames: int = 0, right_offset_frames: int | None = None) -> np.ndarray:
        """Frames [left, right) of one matrix, (num_frames, num_bins) float32."""
        offset, num_frames, num_bins = (int(part) for part in key.split(":"))
        right = num_frames if right_offset_frames is None else min(right_offset_frames, num_frames)
        left = min(left_offset_frames, right)
        count = (right - left) * num_bins
        try:
            half = np.fromfile(self._path, "<f2", count, offset=2 * (offset + left * num_bins))
        except FileNotFoundError:
            raise ValueError(
                f"features {self._path} not found; open the manifest with asr.data.cuts.load_cuts "
                "and keep `<name>.features` next to it"
            ) from None
        if half.size != count:
            raise ValueError(f"features {self._path} end early; run `asr prepare` again")
        return half.astype(np.float32).reshape(right - left, num_bins)


def load_cuts(path: str | Path) -> CutSet:
    """Opens a prepared data set lazily: each iteration reads the manifest again; features are loaded on demand.

    path: the manifest `<name>.jsonl.gz`, or a directory of shards.
    Raises ValueError if there is no such file, or it is not a manifest.
    """
    manifest = Path(path)
    if manifest.is_dir():
        shards = sorted(manifest.glob(f"cuts.*{MANIFEST_SUFFIX}"))
        if not shards:
            raise ValueError(f"{manifest} holds no shards cuts.*{MANIFEST_SUFFIX}; write them with `asr shard`")
        cuts = CutSet.from_files(shards, shuffle_iters=False)
        return cuts.with_features_path_prefix(manifest)
    if not manifest.name.endswith((".jsonl", MANIFEST_SUFFIX)):
        raise ValueError(f"{manifest} is not a prepared data set; expected a file `<name>{MANIFEST_SUFFIX}`")
    if not manifest.is_file():
        others = sorted(p.name for p in manifest.parent.glob(f"*{MANIFEST_SUFFIX}"))
        there = f"; {manifest.parent} has {', '.join(others)}" if others else ""
        raise ValueError(f"{manifest} does not exist; run `asr prepare` first{there}")
    return CutSet.from_jsonl_lazy(manifest).with_features_path_prefix(manifest.parent)


def iterate_cuts(path: str | Path) -> Iterator[Any]:
    """Yields the utterances of a prepared data set.

    Raises ValueError if there is no such data set, and, at the damaged place, if it is damaged.
    """
    return _checked(load_cuts(path), Path(path))


def _checked(cuts: CutSet, path: Path) -> Iterator[Any]:
    folder = Path(os.path.abspath(path if path.is_dir() else path.parent))
    number = 0  # number of intact utterances
    try:
        for cut in cuts:
            features = _features_path(cut)
            if features and not Path(os.path.abspath(features)).is_relative_to(folder):
                raise ValueError(f"features {features} of {cut.id} are missing")
            yield cut
            number += 1
    except _DAMAGE as error:
        raise ValueError(f"{path} is damaged after {number} utterances: {error!r}; run `asr prepare` again") from error


def evenly_spread(cuts: Sequence[Any], number: int | None) -> list[Any]:
    """`number` evenly spread utterances; all of them if `number` is None or there are no more."""
    number = len(cuts) if number is None else min(number, len(cuts))
    return [cuts[index * len(cuts) // number] for index in range(number)]


def usable_cuts(path: str, min_s: float, max_s: float) -> tuple[list[Any], list[Refusal]]:
    """The cuts of a prepared data set that training can use, and the others. Reads no features."""
    kept, refused = [], []
    for cut in iterate_cuts(path):
        refusal = _refusal(cut, min_s, max_s)
        if refusal is None:
            kept.append(cut)
        else:
            refused.append(refusal)
    return kept, refused


def _refusal(cut: Any, min_s: float, max_s: float) -> Refusal | None:
    reason, detail = "", f"{cut.duration:.2f} s, expected {min_s:g} to {max_s:g} s"
    texts = [supervision.text for supervision in cut.supervisions]
    if is_without_speech(cut) and texts != [""]:
        reason, detail = "text without speech", f"marked no_speech, but text is {texts}"
    elif not is_without_speech(cut) and (len(texts) != 1 or not (texts[0] or "").strip()):
        reason, detail = "empty text", f"text is {texts}"
    elif cut.duration > max_s:
        reason = "too long"
    elif cut.duration < min_s:
        reason = "too short"
    return Refusal(cut.id, _features_path(cut), reason, detail) if reason else None


def is_without_speech(cut: Any) -> bool:
    """Whether the cut is marked as noise alone."""
    return bool((cut.custom or {}).get("no_speech"))


def _features_path(cut: Any) -> str:
    """Path of the features of a cut."""
    return str(cut.features.storage_path) if cut.has_features else ""


def read_features(cut: Any) -> Tensor:
    """Reads (num_frames, 80) float32. Raises ValueError with the defect if they are damaged."""
    try:
        features = cut.load_features()
    except (ValueError, OSError, AssertionError) as error:
        raise ValueError(str(error).partition("\n")[0]) from error  # lhotse appends the whole cut
    if features is None:
        raise ValueError("no features; run `asr prepare`")
    if features.shape != (cut.num_frames, NUM_MEL_BINS):
        raise ValueError(f"features of shape {features.shape}, expected {(cut.num_frames, NUM_MEL_BINS)}")
    if not np.isfinite(features).all():
        raise ValueError("features hold NaN or infinite values")
    return torch.from_numpy(features)


def read_all(cuts: Iterable[Any]) -> tuple[list[Any], list[Tensor], list[Refusal]]:
    """The readable cuts, their features, and the unreadable cuts."""
    readable, matrices, unreadable = [], [], []
    for cut in cuts:
        try:
            matrices.append(read_features(cut))
            readable.append(cut)
        except ValueError as error:
            unreadable.append(Refusal(cut.id, _features_path(cut), "unreadable features", str(error)))
    return readable, matrices, unreadable


def batches_by_length(cuts: Sequence[Any], max_batch_s: float) -> list[list[Any]]:
    """Groups of cuts of similar length, each at most `max_batch_s` including padding; if it is 0, one cut per group."""
    out: list[list[Any]] = []
    for cut in sorted(cuts, key=lambda c: c.duration):
        if out and cut.duration * (len(out[-1]) + 1) <= max_batch_s:
            out[-1].append(cut)
        else:
            out.append([cut])
    return out
