"""What is done to the samples of a recording before its features: channels, rooms, noise, telephone lines.

A manifest names these transforms, so that lhotse, asked for the audio of a cut, plays what the features were made of.
Importing this module registers them with lhotse. Each is the same for the same fields.
- The room is an impulse response, or a simulated one (FRA-RIR, Luo and Gu 2022, as lhotse has it: reverberation
  times of 0.1 to 0.8 s). The direct sound stays where it was, so that word times hold.
- The noise is a stretch of a recording, or colored noise between white and brown.
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

from asr.data.audio import MAX_NOISE_S, Audio, read_audio
from asr.features import SAMPLE_RATE

DIRECT_RATIO_RANGE_DB = (-6.0, 12.0)
"""Direct over reverberant energy of simulated rooms: from across the room to half an arm's length."""

_PEAK = 0.99
_ONSET = 0.25  # of the largest tap: where the direct sound arrives, even when a reflection is louder
_DIRECT = 40  # samples, 2.5 ms: what belongs to the direct sound

LINE_RATE = 8000
BAND_EDGES_HZ = (200.0, 300.0, 3400.0, 3700.0)
"""Nothing passes below the first and above the last; all passes between the inner two."""
CODECS = ("ULAW", "ALAW", "GSM610")
"""Subtypes of libsndfile."""


@dataclass
class Downmix(AudioTransform):
    """Average of all channels: (num_channels, num_samples) -> (1, num_samples) float32."""

    def __call__(self, samples: np.ndarray, sampling_rate: int) -> np.ndarray:
        return samples.mean(axis=0, keepdims=True, dtype=np.float32)

    def reverse_timestamps(
        self, offset: float, duration: float | None, sampling_rate: int
    ) -> tuple[float, float | None]:
        return offset, duration


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


@dataclass
class NoiseAlone(AudioTransform):
    """A stretch of a recording, the same for the same fields.

    level_db: power, of full scale, of the whole recording with what is on top; a quiet stretch of it stays quiet, and
    all is less where it would clip. reverberant: in the room of the file `room`, simulated for None. mixed: file of the
    other recording. mixed_db: its power, or that of colored noise for None, relative to the recording; None for nothing
    on top.
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
        """At 16 kHz."""
        return round(self.duration_s * SAMPLE_RATE)

    def __call__(self, samples: np.ndarray, sampling_rate: int) -> np.ndarray:
        """A whole recording, (1, any) float32 at 16 kHz -> (1, num_samples); ValueError naming an unusable file."""
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


def require_one_channel(samples: np.ndarray, sampling_rate: int) -> None:
    """ValueError unless the samples, (num_channels, num_samples), are of one channel at 16 kHz."""
    if sampling_rate != SAMPLE_RATE or samples.shape[0] != 1:
        raise ValueError(f"samples are {samples.shape} at {sampling_rate} Hz; expected one channel at 16000 Hz")


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


def _of_power_1(part: np.ndarray, whole: float) -> np.ndarray:
    """A stretch of a recording whose power is `whole`, at the level at which that would be 1."""
    return part / np.float32(np.sqrt(max(whole, 1e-20)))


def band_limited(samples: np.ndarray) -> np.ndarray:
    """The telephone band of samples (num_samples,) at 8 kHz: float32, without delay."""
    spectrum = np.fft.rfft(samples)
    frequency = np.fft.rfftfreq(len(samples), 1 / LINE_RATE)
    return np.fft.irfft(spectrum * np.interp(frequency, BAND_EDGES_HZ, (0, 1, 1, 0)), len(samples)).astype(np.float32)
