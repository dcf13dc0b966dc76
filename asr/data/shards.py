"""`asr shard`: splits a data set into pieces for storage that cannot hold all of it: several disks, a file server.

- The result is a lhotse Shar directory, `cuts.000000.jsonl.gz` next to `features.000000.tar` and so on, which
  `CutSet.from_shar` streams from anywhere.
- Every cut also has the position of its frames in its tar file, so that training reads them in place like those of an
  unsharded set: in any order, by any number of processes, resuming at any batch without reading earlier ones.
  Streaming could not do that. A shard may be moved to another disk and linked.
- The directory is renamed to its final name after all of it is written.
"""

from __future__ import annotations

import io
import json
import shutil
import tarfile
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
from lhotse import CutSet
from lhotse.shar.utils import to_shar_placeholder
from lhotse.utils import fastcopy

from asr.data.cuts import MANIFEST_SUFFIX, Float16Writer, read_all
from asr.tables import Refusal


@dataclass
class ShardResult:
    """The number of shards written, and the utterances left out because they could not be read."""

    num_shards: int = 0
    num_utterances: int = 0
    refusals: list[Refusal] = field(default_factory=list)


def write_shards(
    cuts: Iterable[Any], out: str | Path, size: int, on_progress: Callable[[], object] | None = None
) -> ShardResult:
    """Writes `cuts` in order as the Shar directory `out`, `size` utterances per shard.

    on_progress: called after every utterance.
    Raises ValueError if `size` is not positive, `out` exists or nothing is readable; then nothing is written.
    """
    folder = Path(out)
    if size < 1:
        raise ValueError(f"{size} utterances per shard; expected at least 1")
    if folder.exists():
        raise ValueError(f"{folder} exists; remove it or choose another directory")
    result = ShardResult()
    part = folder.with_name(folder.name + ".part")
    shutil.rmtree(part, ignore_errors=True)  # left by a run that was killed
    part.mkdir(parents=True)
    remaining = iter(cuts)
    try:
        while shard := list(islice(remaining, size)):
            name = f"features.{result.num_shards:06d}.tar"
            manifest = part / f"cuts.{result.num_shards:06d}{MANIFEST_SUFFIX}"
            with tarfile.open(part / name, "w") as tar, CutSet.open_writer(manifest) as writer:
                for cut in shard:
                    _, matrices, unreadable = read_all([cut])
                    result.refusals += unreadable
                    for matrix in matrices:
                        writer.write(_with_features_in(cut, matrix, tar, name), flush=False)
                        result.num_utterances += 1
                    if on_progress is not None:
                        on_progress()
            result.num_shards += 1
        if not result.num_utterances:
            raise ValueError(f"nothing to write to {folder}: none of {len(result.refusals)} utterances is readable")
        part.rename(folder)
    finally:
        shutil.rmtree(part, ignore_errors=True)
    return result


def _with_features_in(cut: Any, matrix: Any, tar: tarfile.TarFile, name: str) -> Any:
    """Appends the frames of `cut`, (num_frames, 80) float32, to `tar`; returns the cut with their position."""
    frames = matrix.numpy().astype("<f2")
    array = io.BytesIO()
    np.save(array, frames, allow_pickle=False)
    placeholder = json.dumps(to_shar_placeholder(cut.features, cut).to_dict()).encode()
    end = _append(tar, f"{cut.id}.npy", array.getvalue())
    _append(tar, f"{cut.id}.json", placeholder)
    # tar and npy headers are multiples of 64 bytes, so `Float16Reader` can address the frames.
    offset = (end - frames.nbytes) // frames.itemsize
    key = f"{offset}:{frames.shape[0]}:{frames.shape[1]}"
    features = fastcopy(cut.features, storage_type=Float16Writer.name, storage_path=name, storage_key=key, start=0)
    return fastcopy(cut, start=0, features=features)


def _append(tar: tarfile.TarFile, name: str, content: bytes) -> int:
    """Adds a member; returns the offset in the tar file where its content ends."""
    member = tarfile.TarInfo(name)
    member.size = len(content)
    tar.addfile(member, io.BytesIO(content))
    return tar.offset - (-member.size) % tarfile.BLOCKSIZE
