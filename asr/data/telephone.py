"""Telephone copies: an utterance as it comes through a telephone line.

`asr prepare --telephone` computes the features of such copies; the manifest keeps the `Telephone` among the
transforms of the recording, after its `NoisyRoom` if it has one.
- The line passes 300 to 3400 Hz at 8 kHz and codes the speech with G.711 (mu-law, A-law) or GSM 06.10.
- Everything is drawn from the utterance's id: preparing again gives the same copies.
"""

from __future__ import annotations

import io
import zlib
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import soundfile
import soxr
from lhotse.augmentation import AudioTransform

from asr.data.noisy_room import power
from asr.data.utterance import require_one_channel
from asr.features import SAMPLE_RATE

LINE_RATE = 8000
BAND_EDGES_HZ = (200.0, 300.0, 3400.0, 3700.0)
"""Nothing passes below the first and above the last; all passes between the inner two."""
CODECS = ("ULAW", "ALAW", "GSM610")
"""Subtypes of libsndfile."""
LEVEL_RANGE_DB = (-35.0, -15.0)
"""Power of the speech on the line, of full scale: the coding's noise depends on it."""


@dataclass(frozen=True)
class TelephoneCopies:
    """Telephone copies to make of each utterance; below 1: the share of utterances to make one of."""

    count: float

    def __post_init__(self) -> None:
        if not (0 < self.count <= 1 or (1 <= self.count <= 100 and self.count == int(self.count))):
            raise ValueError(f"{self.count} telephone copies; expected a share in (0, 1) or a whole number up to 100")

    def draw(self, id: str) -> Iterator[tuple[str, Telephone]]:
        """The copies of utterance `id`: (id of the copy, its line) each."""
        for number in range(1, max(1, int(self.count)) + 1):
            copy_id = f"{id}_telephone{number}"
            rng = np.random.default_rng(zlib.crc32(copy_id.encode()))
            codec, level_db = str(rng.choice(CODECS)), round(float(rng.uniform(*LEVEL_RANGE_DB)), 2)
            if rng.random() < self.count:
                yield copy_id, Telephone(codec, level_db)


@dataclass
class Telephone(AudioTransform):
    """A telephone line: band limit, level in dB of full scale, coding. Length and time stay as they are."""

    codec: str
    level_db: float

    def __call__(self, samples: np.ndarray, sampling_rate: int) -> np.ndarray:
        """(1, num_samples) float32 at 16 kHz -> the same."""
        require_one_channel(samples, sampling_rate)
        if self.codec not in CODECS:
            raise ValueError(f"codec is {self.codec!r}; expected one of {', '.join(CODECS)}")
        line = band_limited(soxr.resample(samples[0], SAMPLE_RATE, LINE_RATE))
        line *= np.float32(10 ** (self.level_db / 20) / np.sqrt(max(power(line), 1e-20)))
        coded = io.BytesIO()
        soundfile.write(coded, np.clip(line, -1, 1), LINE_RATE, format="WAV", subtype=self.codec)
        coded.seek(0)
        decoded = soundfile.read(coded, dtype="float32")[0][: len(line)]  # GSM fills up its last block
        num_samples = samples.shape[1]
        decoded = soxr.resample(decoded, LINE_RATE, SAMPLE_RATE)[:num_samples]
        return np.pad(decoded, (0, num_samples - len(decoded)))[np.newaxis]

    def reverse_timestamps(
        self, offset: float, duration: float | None, sampling_rate: int
    ) -> tuple[float, float | None]:
        return offset, duration


def band_limited(samples: np.ndarray) -> np.ndarray:
    """The telephone band of samples (num_samples,) at 8 kHz: float32, without delay."""
    spectrum = np.fft.rfft(samples)
    frequency = np.fft.rfftfreq(len(samples), 1 / LINE_RATE)
    return np.fft.irfft(spectrum * np.interp(frequency, BAND_EDGES_HZ, (0, 1, 1, 0)), len(samples)).astype(np.float32)
