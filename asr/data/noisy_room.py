"""Noisy copies: an utterance once more, in a random room with noise.

`asr prepare --noisy-copies` computes the features of such copies; the manifest keeps the `NoisyRoom` among
the transforms of the recording, so that lhotse, asked for the audio, plays what the features were made of.
- The room is an impulse response from a folder of real ones, or a simulated one (FRA-RIR, Luo and Gu 2022, as
  lhotse has it: reverberation times of 0.1 to 0.8 s). The direct sound stays where it was, so that word times hold.
- The noise is a stretch of a recording from a folder, or colored noise between white and brown.
- Noise alone comes before and after the words where margins are asked for: silence in training is noise too.
- Everything is drawn from the utterance's id: preparing again gives the same copies.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import numpy as np
import torch
from lhotse.augmentation import AudioTransform
from lhotse.augmentation.utils import FastRandomRIRGenerator, convolve1d

from asr.data.utterance import Audio, read_audio, require_one_channel
from asr.features import SAMPLE_RATE

AUDIO_SUFFIXES = frozenset((".wav", ".flac", ".ogg", ".opus", ".mp3", ".aiff", ".aif", ".sph"))
MAX_NOISE_S = 600.0
MAX_MARGIN_S = 30.0
SNR_RANGE_DB = (5.0, 25.0)
DIRECT_RATIO_RANGE_DB = (-6.0, 12.0)
"""Direct over reverberant energy of simulated rooms: from across the room to half an arm's length."""

_PEAK = 0.99
_ONSET = 0.25  # of the largest tap: where the direct sound arrives, even when a reflection is louder
_DIRECT = 40  # samples, 2.5 ms: what belongs to the direct sound


@dataclass(frozen=True)
class NoisyCopies:
    """The noisy copies to make of each utterance. Empty tuples: simulate."""

    count: int
    rooms: tuple[str, ...] = ()
    noises: tuple[str, ...] = ()
    snr_range_db: tuple[float, float] = SNR_RANGE_DB
    margins_s: tuple[float, float] = (0.0, 0.0)
    """Shortest and longest stretch of noise alone before the words, and after them."""

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
        """The copies of utterance `id`: (id of the copy, its room and noise) each."""
        for number in range(1, self.count + 1):
            copy_id = f"{id}_noisy{number}"
            yield copy_id, self.room_of(copy_id)

    def room_of(self, copy_id: str) -> NoisyRoom:
        """Room and noise of the copy of that name."""
        seed = zlib.crc32(copy_id.encode())
        rng = np.random.default_rng(seed)
        room, noise = (str(rng.choice(paths)) if paths else None for paths in (self.rooms, self.noises))
        snr_db, before_s, after_s = (
            round(float(rng.uniform(*bounds)), 2) for bounds in (self.snr_range_db, self.margins_s, self.margins_s)
        )
        return NoisyRoom(seed, snr_db, room, noise, before_s, after_s)


@dataclass
class NoisyRoom(AudioTransform):
    """Reverberation and noise, the same for the same fields. Power stays that of the clean speech, or less
    where the sum would clip.

    snr_db: power of the reverberant speech over that of the noise; more where a stretch of noise is 20 dB
    below its recording. room, noise: files, None to simulate. before_s, after_s: noise alone, in whole feature
    frames, by which the copy is longer.
    """

    seed: int
    snr_db: float
    room: str | None = None
    noise: str | None = None
    before_s: float = 0.0
    after_s: float = 0.0

    @property
    def num_added(self) -> tuple[int, int]:
        """Samples at 16 kHz before the words and after them."""
        return round(self.before_s * SAMPLE_RATE), round(self.after_s * SAMPLE_RATE)

    def __call__(self, samples: np.ndarray, sampling_rate: int) -> np.ndarray:
        """(1, num_samples) float32 at 16 kHz -> the same with the margins; ValueError naming an unusable file."""
        require_one_channel(samples, sampling_rate)
        rng = np.random.default_rng(self.seed)
        response = simulated_room(rng) if self.room is None else read_sound(self.room)
        speech = reverberate(np.pad(samples[0], self.num_added), response)
        speech_power = power(speech) * len(speech) / max(samples.shape[1], 1)  # of the words, not of the margins
        if self.noise is None:
            noise = colored_noise(len(speech), rng)
            reference = power(noise)
        else:
            recording = read_sound(self.noise)
            noise = stretch(recording, len(speech), rng)
            reference = max(power(noise), power(recording) / 100)
        gain = np.sqrt(speech_power / max(reference, 1e-20) / 10 ** (self.snr_db / 10))
        mixed = speech + np.float32(gain) * noise
        return without_clipping(mixed)[np.newaxis]

    def reverse_timestamps(
        self, offset: float, duration: float | None, sampling_rate: int | None
    ) -> tuple[float, float | None]:
        if any(self.num_added) and (offset or duration is not None):
            raise ValueError(f"{duration} s from {offset} s on of a copy with margins; expected all of it")
        return offset, duration


def without_clipping(samples: np.ndarray) -> np.ndarray:
    """As float32, and quieter as a whole where a sample would leave the range."""
    peak = np.abs(samples).max(initial=0.0)
    return (samples if peak <= _PEAK else samples * (_PEAK / peak)).astype(np.float32)


def reverberate(speech: np.ndarray, response: np.ndarray) -> np.ndarray:
    """Speech (num_samples,) in the room of an impulse response (num_taps,): float32, as long, as loud, in time."""
    taps = np.abs(response)
    onset = int(np.argmax(taps >= _ONSET * taps.max()))
    wet = convolve1d(torch.from_numpy(speech), torch.from_numpy(response)).numpy()[onset : onset + len(speech)]
    return wet * np.float32(np.sqrt(power(speech) / max(power(wet), 1e-20)))


def simulated_room(rng: np.random.Generator) -> np.ndarray:
    """A random impulse response, (num_taps,) float32 at 16 kHz."""
    room_seed, source_seed, torch_seed = (int(seed) for seed in rng.integers(2**31, size=3))
    with torch.random.fork_rng(devices=[]):  # the generator draws from PyTorch's global numbers too
        torch.manual_seed(torch_seed)
        response = FastRandomRIRGenerator(SAMPLE_RATE, room_seed=room_seed, source_seed=source_seed)(nsource=1)[0]
    # Its sources stand up to 12 m away, most of them far beyond the critical distance.
    taps = np.abs(response)
    end = int(np.argmax(taps >= _ONSET * taps.max())) + _DIRECT
    direct, tail = float(np.sum(response[:end] ** 2)), float(np.sum(response[end:] ** 2))
    ratio = 10 ** (rng.uniform(*DIRECT_RATIO_RANGE_DB) / 10)
    response = response.copy()
    response[:end] *= np.float32(np.sqrt(ratio * tail / direct))
    return response


def colored_noise(num_samples: int, rng: np.random.Generator) -> np.ndarray:
    """Noise with a power spectrum of 1/f^0 (white) to 1/f^2 (brown): (num_samples,) float32 of power 1 or so."""
    exponent = rng.uniform(0.0, 2.0)
    spectrum = np.fft.rfft(rng.standard_normal(num_samples))
    frequency = np.fft.rfftfreq(num_samples, 1 / SAMPLE_RATE)
    noise = np.fft.irfft(spectrum * np.maximum(frequency, 50.0) ** (-exponent / 2), num_samples)
    return (noise / np.sqrt(power(noise))).astype(np.float32)


def stretch(recording: np.ndarray, num_samples: int, rng: np.random.Generator) -> np.ndarray:
    """`num_samples` of a recording (any,) from a random place on; after its end it begins again."""
    # The place does not depend on the number, which resamplers round in their own ways.
    places = np.arange(int(rng.integers(len(recording))), len(recording) + num_samples)[:num_samples]
    return recording.take(places, mode="wrap")


def find_sounds(folder: str | Path, what: str) -> tuple[str, ...]:
    """Absolute paths of all audio files under `folder`, sorted; `what` names them in errors.

    Raises ValueError when there is none, and naming the first whose header cannot be read.
    """
    import soundfile

    if not Path(folder).is_dir():
        raise ValueError(f"{what} folder {folder} does not exist or is not a folder")
    paths = sorted(p.absolute() for p in Path(folder).rglob("*") if p.suffix.lower() in AUDIO_SUFFIXES and p.is_file())
    if not paths:
        raise ValueError(f"{what} folder {folder} holds no audio; expected {', '.join(sorted(AUDIO_SUFFIXES))}")
    for path in paths:
        try:
            duration_s = soundfile.info(str(path)).duration
        except (soundfile.SoundFileError, OSError, TypeError) as error:
            raise ValueError(f"{what} file {path} cannot be read: {error}; repair or remove it") from error
        if not 0 < duration_s <= MAX_NOISE_S:
            raise ValueError(
                f"{what} file {path} lasts {duration_s:.1f} s; expected at most {MAX_NOISE_S:.0f} s and not none: "
                "cut or remove it"
            )
    return tuple(map(str, paths))


@lru_cache(maxsize=32)
def read_recording(path: str) -> Audio:
    """A whole file; ValueError naming it if it is broken or silent."""
    try:
        audio = read_audio(path, MAX_NOISE_S)
    except ValueError as error:
        raise ValueError(f"{path}: {error}; repair or remove it") from error
    if not audio.samples.any():
        raise ValueError(f"{path} holds only digital silence; remove it")
    return audio


def read_sound(path: str) -> np.ndarray:
    """The samples of `read_recording`."""
    return read_recording(path).samples


def power(samples: np.ndarray) -> float:
    """Mean square of (num_samples,); 0 for none."""
    return float(np.mean(np.square(samples, dtype=np.float64))) if len(samples) else 0.0
