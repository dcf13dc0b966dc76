"""What training mixes with speech: recorded noise and noise of all colors, and the rooms that speech is played in."""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from asr.data.audio import MAX_NOISE_S, find_sounds, read_audio
from asr.data.prepare import in_processes
from asr.data.speech import Speech
from asr.features import SAMPLE_RATE

ROOM_TAPS = 9600
"""Samples of a room's impulse response: 0.6 s."""
_FADE = 800  # samples of fade-out at its end
_ONSET = 0.25  # relative to the largest tap; finds the direct sound even if a reflection is louder

_NUM_COLORED, _COLORED_S = 24, 8.0  # number of synthesized noises, and their length
_COLORED_RMS = 0.1

REVERBERATION_S = (0.15, 0.9)
"""Time in which the sound of a simulated room decays by 60 dB."""
DIRECT_RATIO_DB = (-6.0, 12.0)
"""Ratio of direct to reverberant energy of simulated rooms: from across the room to half an arm's length."""
_SPEED_OF_SOUND = 343.0
_CROSSOVER_HZ = (800.0, 3000.0)  # above, walls and air absorb more


class Noise:
    """Recordings without speech, then synthesized noise.

    lengths: (num_noises,) int64 samples; the first `num_recorded` are recordings.
    """

    def __init__(self, recorded: Speech | None, seed: int) -> None:
        rng = np.random.default_rng((seed, 1))
        colored = [_COLORED_RMS * colored_noise(int(_COLORED_S * SAMPLE_RATE), rng) for _ in range(_NUM_COLORED)]
        self._recorded = recorded
        self._colored = [(32768 * noise).clip(-32768, 32767).astype(np.int16) for noise in colored]
        self.num_recorded = 0 if recorded is None else len(recorded)
        lengths = np.array([len(noise) for noise in self._colored])
        self.lengths = lengths if recorded is None else np.concatenate([recorded.lengths, lengths])
        self.power = lru_cache(maxsize=None)(self._power)

    def part(self, index: int, start: int, size: int) -> np.ndarray:
        """(size,) int16 of a noise from a sample on; it repeats."""
        samples = self._samples(index)
        return samples.take(np.arange(start, start + size), mode="wrap")

    def _samples(self, index: int) -> np.ndarray:
        if self._recorded is None or index >= self.num_recorded:
            return self._colored[index - self.num_recorded]
        return self._recorded.samples(index)

    def _power(self, index: int) -> float:
        """Mean square of a noise, relative to full scale."""
        return power(self._samples(index)) / 32768**2


def read_rooms(folder: str, num_simulated: int, num_jobs: int, seed: int) -> np.ndarray:
    """Impulse responses, (num_rooms, ROOM_TAPS) float16: those in a folder, or `num_simulated` simulated ones.

    They begin with the direct sound, so that words stay where they are. Raises ValueError for a file that cannot be
    used.
    """
    if not folder:
        return np.stack([_trimmed(simulated_room(np.random.default_rng((seed, 2, i)))) for i in range(num_simulated)])
    return np.stack(list(in_processes(_recorded_room, find_sounds(folder, "impulse response"), num_jobs)))


def _recorded_room(path: str) -> np.ndarray:
    try:
        samples = read_audio(path, MAX_NOISE_S).samples
    except ValueError as error:
        raise ValueError(f"{path}: {error}; repair or remove it") from error
    if not samples.any():
        raise ValueError(f"{path} holds only digital silence; remove it")
    return _trimmed(samples)


def _trimmed(response: np.ndarray) -> np.ndarray:
    """(ROOM_TAPS,) float16 from the direct sound on; the largest tap is 1."""
    taps = np.abs(response)
    response = response[int(np.argmax(taps >= _ONSET * taps.max())) :][:ROOM_TAPS]
    response = np.pad(response, (0, ROOM_TAPS - len(response)))
    response[-_FADE:] *= np.linspace(1, 0, _FADE, dtype=np.float32)
    return (response / np.abs(response).max()).astype(np.float16)


def simulated_room(rng: np.random.Generator) -> np.ndarray:
    """A random impulse response, (ROOM_TAPS,) float32 at 16 kHz.

    The reflections arrive at random, with the mean density of a rectangular room, and decay exponentially, faster at
    high frequencies (Kuttruff, "Room Acoustics", sections 4.1 and 5.1).
    """
    volume = rng.uniform(3, 10) * rng.uniform(3, 8) * rng.uniform(2.4, 4)
    decay_s = rng.uniform(*REVERBERATION_S)
    distance = rng.uniform(0.3, 4.0)
    time = np.arange(ROOM_TAPS) / SAMPLE_RATE
    path = distance + _SPEED_OF_SOUND * time
    counts = rng.poisson(4 * np.pi * _SPEED_OF_SOUND * path**2 / volume / SAMPLE_RATE)
    reflections = (2.0 * rng.binomial(counts, 0.5) - counts) * distance / path
    spectrum, hertz = np.fft.rfft(reflections), np.fft.rfftfreq(ROOM_TAPS, 1 / SAMPLE_RATE)
    above = np.interp(hertz, _CROSSOVER_HZ, (0.0, 1.0))
    response = np.zeros(ROOM_TAPS)
    for band, share in ((1 - above, 1.0), (above, rng.uniform(0.4, 1.0))):
        response += np.fft.irfft(spectrum * band) * np.exp(-np.log(1000) * time / (decay_s * share))
    ratio = 10 ** (rng.uniform(*DIRECT_RATIO_DB) / 10)
    response[0] = np.sqrt(ratio * np.sum(response[1:] ** 2))
    return response.astype(np.float32)


def colored_noise(num_samples: int, rng: np.random.Generator) -> np.ndarray:
    """Noise with a power spectrum of 1/f^0 (white) to 1/f^2 (brown): (num_samples,) float32 of power about 1."""
    exponent = rng.uniform(0.0, 2.0)
    spectrum = np.fft.rfft(rng.standard_normal(num_samples))
    frequency = np.fft.rfftfreq(num_samples, 1 / SAMPLE_RATE)
    noise = np.fft.irfft(spectrum * np.maximum(frequency, 50.0) ** (-exponent / 2), num_samples)
    return (noise / np.sqrt(power(noise))).astype(np.float32)


def power(samples: np.ndarray) -> float:
    """Mean square of (num_samples,); 0 if there are no samples."""
    return float(np.mean(np.square(samples, dtype=np.float64))) if len(samples) else 0.0
