"""Copies of an utterance: in a random room with noise, or through a telephone line.

`asr prepare --noisy-copies` and `--telephone` compute the features of such copies; the manifest keeps their transforms
(see `asr.data.transforms`). With margins, noise alone precedes and follows the words: training needs noisy silence.
Random choices depend only on the utterance's id: preparing again gives the same copies.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from asr.data.transforms import CODECS, NoisyRoom, Telephone

MAX_MARGIN_S = 30.0
SNR_RANGE_DB = (5.0, 25.0)
LEVEL_RANGE_DB = (-35.0, -15.0)
"""Power of the speech on the line, relative to full scale; the coding noise depends on it."""


@dataclass(frozen=True)
class NoisyCopies:
    """The noisy copies to make of each utterance. Empty tuples stand for simulated rooms and colored noise."""

    count: int
    rooms: tuple[str, ...] = ()
    noises: tuple[str, ...] = ()
    snr_range_db: tuple[float, float] = SNR_RANGE_DB
    margins_s: tuple[float, float] = (0.0, 0.0)
    """Shortest and longest noise before the words, and after them."""

    def __post_init__(self) -> None:
        low, high = self.snr_range_db
        if not 1 <= self.count <= 100:
            raise ValueError(f"{self.count} noisy copies; expected 1 to 100")
        if not -20 <= low <= high <= 60:
            raise ValueError(f"signal-to-noise ratios {low} to {high} dB; expected a range within -20 to 60 dB")
        shortest, longest = self.margins_s
        if not 0 <= shortest <= longest <= MAX_MARGIN_S:
            raise ValueError(f"margins of {shortest} to {longest} s; expected a range within 0 to {MAX_MARGIN_S:.0f} s")

    def draw(self, id: str) -> Iterator[tuple[str, NoisyRoom]]:
        """The copies of utterance `id`: the id of each copy and its room with noise."""
        for number in range(1, self.count + 1):
            copy_id = f"{id}_noisy{number}"
            yield copy_id, self.room_of(copy_id)

    def room_of(self, copy_id: str) -> NoisyRoom:
        """The room and noise of the copy with this id."""
        seed = zlib.crc32(copy_id.encode())
        rng = np.random.default_rng(seed)
        room, noise = (str(rng.choice(paths)) if paths else None for paths in (self.rooms, self.noises))
        snr_db, before_s, after_s = (
            round(float(rng.uniform(*bounds)), 2) for bounds in (self.snr_range_db, self.margins_s, self.margins_s)
        )
        return NoisyRoom(seed, snr_db, room, noise, before_s, after_s)


@dataclass(frozen=True)
class TelephoneCopies:
    """Number of telephone copies of each utterance; below 1: the share of utterances with a copy."""

    count: float

    def __post_init__(self) -> None:
        if not (0 < self.count <= 1 or (1 <= self.count <= 100 and self.count == int(self.count))):
            raise ValueError(f"{self.count} telephone copies; expected a share in (0, 1) or a whole number up to 100")

    def draw(self, id: str) -> Iterator[tuple[str, Telephone]]:
        """The copies of utterance `id`: the id of each copy and its telephone line."""
        for number in range(1, max(1, int(self.count)) + 1):
            copy_id = f"{id}_telephone{number}"
            rng = np.random.default_rng(zlib.crc32(copy_id.encode()))
            codec, level_db = str(rng.choice(CODECS)), round(float(rng.uniform(*LEVEL_RANGE_DB)), 2)
            if rng.random() < self.count:
                yield copy_id, Telephone(codec, level_db)
