"""Transforms of the samples before the features are computed: channels, rooms, noise, telephone lines.

A manifest names these transforms, so that lhotse's audio of a cut is what the features were computed from.
Importing this module registers them with lhotse. Each is deterministic in its fields.
- The room is an impulse response, or a simulated one (lhotse's FRA-RIR, Luo and Gu 2022; reverberation times of 0.1 to
  0.8 s). The direct sound is not delayed, so word times stay valid.
- The noise is part of a recording, or colored noise between white and brown.
- A telephone line passes 300 to 3400 Hz at 8 kHz and codes the speech with G.711 (mu-law, A-law) or GSM 06.10.
"""

from __future__ import annotations

import io
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import soundfile
import soxr
import torch
from lhotse.augmentation import AudioTransform
from lhotse.augmentation.utils import FastRandomRIRGenerator, convolve1d

from asr.channels import mixed
from asr.data.audio import MAX_NOISE_S, Audio, read_audio
from asr.features import SAMPLE_RATE

DIRECT_RATIO_RANGE_DB = (-6.0, 12.0)
"""Ratio of direct to reverberant energy of simulated rooms: from across the room to half an arm's length."""

_PEAK = 0.99
_ONSET = 0.25  # relative to the largest tap; finds the direct sound even if a reflection is louder
_DIRECT = 40  # in samples, 2.5 ms: duration of the direct sound

LINE_RATE = 8000
BAND_EDGES_HZ = (200.0, 300.0, 3400.0, 3700.0)
"""Stop bands are below the first and above the last frequency, the pass band is between the inner two."""
CODECS = ("ULAW", "ALAW", "GSM610")
"""libsndfile's subtypes."""


@dataclass
class Downmix(AudioTransform):
    """Average of all channels, or the first if they cancel each other.

    (num_channels, num_samples) -> (1, num_samples) float32.
    """

    def __call__(self, samples: np.ndarray, sampling_rate: int) -> np.ndarray:
        return mixed(samples.T)[0][np.newaxis]

    def reverse_timestamps(
        self, offset: float, duration: float | None, sampling_rate: int
    ) -> tuple[float, float | None]:
        return offset, duration


@dataclass
class NoisyRoom(AudioTransform):
    """Reverberation and noise. The power stays that of the clean speech, or less if the sum would clip.

    snr_db: power of the reverberant speech relative to the noise; higher if a part of the noise is 20 dB below its
    recording. room, noise: files; None to simulate. before_s, after_s: noise alone, in whole feature frames, that
    extends the copy.
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
        """(1, num_samples) float32 at 16 kHz -> the same with the margins. Raises ValueError for an unusable file."""
        require_one_channel(samples, sampling_rate)
        rng = np.random.default_rng(self.seed)
        response = simulated_room(rng) if self.room is None else read_sound(self.room)
        speech = reverberate(np.pad(samples[0], self.num_added), response)
        speech_power = power(speech) * len(speech) / max(samples.shape[1], 1)  # without the margins
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


@dataclass
class NoiseAlone(AudioTransform):
    """Part of a recording, mixed with other noise.

    level_db: power of the whole recording including the mixed noise, relative to full scale; a quiet part stays quiet,
    and the level is reduced if it would clip. reverberant: in the room of the file `room`; None: simulated. mixed: file
    of the other recording; None: colored noise. mixed_db: its power relative to the recording; None: nothing is mixed.
    """

    seed: int
    duration_s: float
    level_db: float
    reverberant: bool = False
    room: str | None = None
    mixed: str | None = None
    mixed_db: float | None = None

    @property
    def num_samples(self) -> int:
        """Number of samples at 16 kHz."""
        return round(self.duration_s * SAMPLE_RATE)

    def __call__(self, samples: np.ndarray, sampling_rate: int) -> np.ndarray:
        """A whole recording, (1, any) float32 at 16 kHz -> (1, num_samples). Raises ValueError for an unusable file."""
        require_one_channel(samples, sampling_rate)
        rng = np.random.default_rng(self.seed)
        piece = _of_power_1(stretch(samples[0], self.num_samples, rng), power(samples[0]))
        if self.mixed_db is not None:
            if self.mixed is None:
                other = colored_noise(self.num_samples, rng)
            else:
                recording = read_sound(self.mixed)
                other = _of_power_1(stretch(recording, self.num_samples, rng), power(recording))
            ratio = 10 ** (self.mixed_db / 10)
            piece = (piece + np.float32(np.sqrt(ratio)) * other) / np.float32(np.sqrt(1 + ratio))
        if self.reverberant:
            piece = reverberate(piece, simulated_room(rng) if self.room is None else read_sound(self.room))
        piece = piece * np.float32(10 ** (self.level_db / 20))
        return without_clipping(piece)[np.newaxis]

    def reverse_timestamps(
        self, offset: float, duration: float | None, sampling_rate: int | None
    ) -> tuple[float, float | None]:
        if offset or duration is not None:
            raise ValueError(f"{duration} s from {offset} s on of a piece of noise; expected all of it")
        return offset, duration


@dataclass
class Telephone(AudioTransform):
    """A telephone line: band limit, level in dB relative to full scale, coding. Does not change the length."""

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
        decoded = soundfile.read(coded, dtype="float32")[0][: len(line)]  # GSM pads its last block
        num_samples = samples.shape[1]
        decoded = soxr.resample(decoded, LINE_RATE, SAMPLE_RATE)[:num_samples]
        return np.pad(decoded, (0, num_samples - len(decoded)))[np.newaxis]

    def reverse_timestamps(
        self, offset: float, duration: float | None, sampling_rate: int
    ) -> tuple[float, float | None]:
        return offset, duration


def require_one_channel(samples: np.ndarray, sampling_rate: int) -> None:
    """Raises ValueError unless the samples (num_channels, num_samples) have one channel at 16 kHz."""
    if sampling_rate != SAMPLE_RATE or samples.shape[0] != 1:
        raise ValueError(f"samples are {samples.shape} at {sampling_rate} Hz; expected one channel at 16000 Hz")


def without_clipping(samples: np.ndarray) -> np.ndarray:
    """The samples as float32, scaled down if they would clip."""
    peak = np.abs(samples).max(initial=0.0)
    return (samples if peak <= _PEAK else samples * (_PEAK / peak)).astype(np.float32)


def reverberate(speech: np.ndarray, response: np.ndarray) -> np.ndarray:
    """Speech (num_samples,) convolved with an impulse response (num_taps,): float32, same length, power and timing."""
    onset = arrival(response)
    wet = convolve1d(torch.from_numpy(speech), torch.from_numpy(response)).numpy()[onset : onset + len(speech)]
    return wet * np.float32(np.sqrt(power(speech) / max(power(wet), 1e-20)))


def arrival(response: np.ndarray) -> int:
    """The tap of an impulse response (num_taps,) where the direct sound arrives."""
    taps = np.abs(response)
    return int(np.argmax(taps >= _ONSET * taps.max()))


def simulated_room(rng: np.random.Generator) -> np.ndarray:
    """A random impulse response, (num_taps,) float32 at 16 kHz."""
    room_seed, source_seed, torch_seed = (int(seed) for seed in rng.integers(2**31, size=3))
    with torch.random.fork_rng(devices=[]):  # the simulation also uses PyTorch's global state
        torch.manual_seed(torch_seed)
        response = FastRandomRIRGenerator(SAMPLE_RATE, room_seed=room_seed, source_seed=source_seed)(nsource=1)[0]
    # FRA-RIR's sources are up to 12 m away, most of them far beyond the critical distance.
    end = arrival(response) + _DIRECT
    direct, tail = float(np.sum(response[:end] ** 2)), float(np.sum(response[end:] ** 2))
    ratio = 10 ** (rng.uniform(*DIRECT_RATIO_RANGE_DB) / 10)
    response = response.copy()
    response[:end] *= np.float32(np.sqrt(ratio * tail / direct))
    return response


def colored_noise(num_samples: int, rng: np.random.Generator) -> np.ndarray:
    """Noise with a power spectrum of 1/f^0 (white) to 1/f^2 (brown): (num_samples,) float32 of power about 1."""
    exponent = rng.uniform(0.0, 2.0)
    spectrum = np.fft.rfft(rng.standard_normal(num_samples))
    frequency = np.fft.rfftfreq(num_samples, 1 / SAMPLE_RATE)
    noise = np.fft.irfft(spectrum * np.maximum(frequency, 50.0) ** (-exponent / 2), num_samples)
    return (noise / np.sqrt(power(noise))).astype(np.float32)


def stretch(recording: np.ndarray, num_samples: int, rng: np.random.Generator) -> np.ndarray:
    """Repeats a recording (any,) and returns `num_samples` of it from a random position."""
    # The position does not depend on the length, which resamplers round differently.
    places = np.arange(int(rng.integers(len(recording))), len(recording) + num_samples)[:num_samples]
    return recording.take(places, mode="wrap")


@lru_cache(maxsize=32)
def read_recording(path: str) -> Audio:
    """Reads a whole file. Raises ValueError with its name if it is broken or silent."""
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
    """Mean square of (num_samples,); 0 if there are no samples."""
    return float(np.mean(np.square(samples, dtype=np.float64))) if len(samples) else 0.0


def _of_power_1(part: np.ndarray, whole: float) -> np.ndarray:
    """Part of a recording with power `whole`, scaled so that the whole has power 1."""
    return part / np.float32(np.sqrt(max(whole, 1e-20)))


def band_limited(samples: np.ndarray) -> np.ndarray:
    """Telephone band of samples (num_samples,) at 8 kHz: float32, without delay."""
    spectrum = np.fft.rfft(samples)
    frequency = np.fft.rfftfreq(len(samples), 1 / LINE_RATE)
    return np.fft.irfft(spectrum * np.interp(frequency, BAND_EDGES_HZ, (0, 1, 1, 0)), len(samples)).astype(np.float32)
