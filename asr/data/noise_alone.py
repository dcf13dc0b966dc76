"""Noise alone: pieces of recordings without speech, which teach the model to write nothing there.

`asr prepare noise` makes a data set of them. A piece has the text "" and the mark `no_speech`; without the mark,
training treats an empty text as a fault of the transcripts.
- A piece is a random part of a recording at a random level. Every second one is in a room, real or simulated; some are
  mixed with part of another recording, some with colored noise.
- Random choices depend only on the piece's id, which contains the name of the data set: preparing again gives the same
  pieces.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from asr.data.manifests import Utterance
from asr.data.transforms import NoiseAlone, read_recording
from asr.data.utterance import Prepared, prepared, recording_of
from asr.features import SAMPLE_RATE

LENGTHS_S = (2.0, 12.0)
LEVELS_DB = (-60.0, -20.0)
"""Power of the whole recording relative to full scale, from a quiet room to noise as loud as speech."""
ROOM_SHARE = 0.5
MIXED_SHARE = 0.3
COLORED_SHARE = 0.2
MIXED_DB = (-10.0, 10.0)
"""Power of the other recording, or of the colored noise, relative to the recording."""


@dataclass(frozen=True)
class NoisePiece:
    """An utterance without words. audio: the recording that the piece is cut from."""

    id: str
    audio: str
    transform: NoiseAlone

    def prepare(self) -> Prepared:
        """Returns the piece with its features, marked as without speech. Raises ValueError for an unusable noise
        file."""
        transform = self.transform
        audio = read_recording(self.audio)
        recording = recording_of(self.id, self.audio, audio)
        recording.transforms = [*(recording.transforms or ()), transform]
        recording.num_samples, recording.duration = transform.num_samples, transform.num_samples / SAMPLE_RATE
        samples = transform(audio.samples[np.newaxis], SAMPLE_RATE)[0]
        one = prepared(Utterance(self.id, Path(self.audio), ""), recording, samples)
        one.cut.no_speech = True
        return one


def draw_pieces(
    name: str,
    recordings: Sequence[str],
    hours: float,
    lengths_s: tuple[float, float] = LENGTHS_S,
    rooms: Sequence[str] = (),
) -> Iterator[NoisePiece]:
    """Draws pieces of `recordings` with a total of `hours` for the data set `name`. rooms: impulse responses; if empty,
    rooms are simulated.

    Raises ValueError for hours or lengths out of range.
    """
    shortest, longest = lengths_s
    if not 0 < hours <= 1000:
        raise ValueError(f"{hours} hours of noise; expected above 0 and at most 1000")
    if not 0.1 <= shortest <= longest <= 40:
        raise ValueError(f"pieces of {shortest} to {longest} s; expected a range within 0.1 to 40 s")
    total_s, number = 0.0, 0
    while total_s < hours * 3600:
        number += 1
        piece_id = f"{name}_noise{number:06d}"
        seed = zlib.crc32(piece_id.encode())
        rng = np.random.default_rng(seed)
        audio = str(rng.choice(recordings))
        duration_s, level_db, mixed_db = (
            round(float(rng.uniform(*bounds)), 2) for bounds in (lengths_s, LEVELS_DB, MIXED_DB)
        )
        reverberant = bool(rng.random() < ROOM_SHARE)
        room = str(rng.choice(rooms)) if reverberant and rooms else None
        on_top = rng.random()
        mixed = str(rng.choice(recordings)) if on_top < MIXED_SHARE else None
        nothing = on_top >= MIXED_SHARE + COLORED_SHARE
        transform = NoiseAlone(seed, duration_s, level_db, reverberant, room, mixed, None if nothing else mixed_db)
        yield NoisePiece(piece_id, audio, transform)
        total_s += duration_s
