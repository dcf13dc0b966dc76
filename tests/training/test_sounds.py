"""Noise and rooms of training: simulated ones sound like rooms, recorded ones are read from folders."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from support.clips import speech_of
from support.synth import SAMPLE_RATE, hum, write_audio

from asr.training.sounds import (
    DIRECT_RATIO_DB,
    REVERBERATION_S,
    ROOM_TAPS,
    Noise,
    colored_noise,
    power,
    read_rooms,
    simulated_room,
)

ROOMS = [simulated_room(np.random.default_rng(seed)) for seed in range(40)]


def decay_s(response: np.ndarray, lowest_hz: float, highest_hz: float) -> float:
    """The time in which a band of the reverberation decays by 60 dB, from the first 20 dB."""
    hertz = np.fft.rfftfreq(4 * ROOM_TAPS, 1 / SAMPLE_RATE)
    tail = np.concatenate(([0.0], response[1:]))
    spectrum = np.fft.rfft(tail, 4 * ROOM_TAPS) * ((hertz >= lowest_hz) & (hertz < highest_hz))
    band = np.fft.irfft(spectrum)[:ROOM_TAPS]
    left_db = 10 * np.log10(np.cumsum(band[::-1] ** 2)[::-1] / np.sum(band**2))  # Schroeder's integral
    first, last = (int(np.argmax(left_db < level)) for level in (-2, -22))
    return float(60 / 20 * (last - first) / SAMPLE_RATE)


def test_rooms_decay_in_their_range_and_faster_at_high_frequencies() -> None:
    low, high = ([decay_s(room, *band) for room in ROOMS] for band in ((50, 800), (3000, 8000)))
    shortest, longest = REVERBERATION_S
    assert 0.85 * shortest < min(low) < 1.5 * shortest and 0.85 * longest < max(low) < 1.15 * longest
    assert sum(a < b for a, b in zip(high, low, strict=True)) > 0.9 * len(ROOMS)
    assert 0.5 < np.median(np.array(high) / low) < 0.85


def test_rooms_begin_with_the_direct_sound_from_near_or_far() -> None:
    for room in ROOMS:
        assert room.shape == (ROOM_TAPS,) and np.isfinite(room).all()
        assert np.argmax(np.abs(room) >= 0.25 * np.abs(room).max()) == 0
    ratios = [10 * np.log10(room[0] ** 2 / np.sum(room[1:] ** 2)) for room in ROOMS]
    least, most = DIRECT_RATIO_DB
    assert least - 0.01 <= min(ratios) < least + 2 and most - 2 < max(ratios) <= most + 0.01


def test_simulated_rooms_depend_on_the_seed_alone() -> None:
    rooms = read_rooms("", 3, num_jobs=1, seed=5)
    assert rooms.shape == (3, ROOM_TAPS) and rooms.dtype == np.float16
    assert np.abs(rooms).max(1).tolist() == [1.0, 1.0, 1.0] and np.array_equal(read_rooms("", 3, 1, 5), rooms)
    assert np.array_equal(read_rooms("", 2, 1, 5), rooms[:2])
    others = [*rooms, *read_rooms("", 3, 1, 6)]
    assert len({room.tobytes() for room in others}) == 6


def test_recorded_rooms_begin_with_the_direct_sound(tmp_path: Path) -> None:
    """Even if a reflection is louder, and what is before it is not silent."""
    response = np.zeros(30000, np.float32)
    response[[100, 300, 900, 20000]] = 0.05, 0.4, -0.6, 0.1
    write_audio(tmp_path / "b" / "hall.flac", response)
    write_audio(tmp_path / "a.wav", np.array([0.5, 0.25], np.float32))
    short, hall = read_rooms(str(tmp_path), 7, num_jobs=1, seed=1).astype(np.float32)
    assert np.flatnonzero(short).tolist() == [0, 1] and short[:2].tolist() == [1.0, 0.5]
    assert np.flatnonzero(hall).tolist() == [0, 600]
    assert hall[[0, 600]] == pytest.approx([0.4 / 0.6, -1.0], abs=1e-3)


def test_a_long_room_fades_out(tmp_path: Path) -> None:
    write_audio(tmp_path / "a.wav", np.full(20000, 0.5, np.float32))
    (room,) = read_rooms(str(tmp_path), 1, num_jobs=1, seed=1)
    assert room[0] == room[-1000] == 1.0 and room[-400] == pytest.approx(0.5, abs=0.01) and room[-1] == 0.0


def test_rooms_that_cannot_be_used_are_named(tmp_path: Path) -> None:
    def refused(message: str, folder: Path = tmp_path) -> None:
        with pytest.raises(ValueError, match=message):
            read_rooms(str(folder), 1, num_jobs=1, seed=1)

    refused("impulse response folder .*gone does not exist", tmp_path / "gone")
    refused("holds no audio; expected .aif")
    path = write_audio(tmp_path / "hall.wav", np.zeros(1000, np.float32))
    refused("hall.wav holds only digital silence; remove it")
    write_audio(path, hum(0.5))
    path.write_bytes(path.read_bytes()[:5000])
    refused("hall.wav: is cut off")
    path.write_bytes(b"no sound")
    refused("hall.wav cannot be read")
    write_audio(path, hum(0.5)[:0])
    refused("hall.wav lasts 0.0 s")
    write_audio(path, np.zeros(601 * 1000), 1000)
    refused("lasts 601.0 s; expected more than 0 and at most 600 s")


def test_colored_noise_goes_from_white_to_brown() -> None:
    slopes = []
    for seed in range(20):
        noise = colored_noise(32000, np.random.default_rng(seed))
        assert power(noise) == pytest.approx(1.0, rel=1e-3)
        spectrum = np.square(np.abs(np.fft.rfft(noise)))
        low, high = spectrum[400:800].mean(), spectrum[8000:12000].mean()  # 200-400 Hz, 4-6 kHz
        slopes.append(np.log(low / high) / np.log(5000 / 300))
    assert -0.2 < min(slopes) < 0.4 and 1.6 < max(slopes) < 2.2


def test_recordings_come_before_synthesized_noise() -> None:
    ramp, loud = np.arange(1000) / 2000, np.full(500, -0.5)
    noise, alone = Noise(speech_of(ramp, loud), 3), Noise(None, 3)
    assert (noise.num_recorded, alone.num_recorded) == (2, 0)
    assert noise.lengths.tolist() == [1000, 500, *alone.lengths] and len(alone.lengths) == 24
    assert noise.power(1) == pytest.approx(0.25) and noise.power(0) == pytest.approx(np.mean(ramp**2), rel=1e-3)
    for index in range(24):
        assert np.array_equal(noise.part(2 + index, 5, 100), alone.part(index, 5, 100))
        assert alone.power(index) == pytest.approx(0.01, rel=0.05)
    assert len({alone.part(index, 0, 50).tobytes() for index in range(24)}) == 24
    assert not np.array_equal(Noise(None, 4).part(0, 0, 100), alone.part(0, 0, 100)), "the seed counts"


def test_noise_goes_on_from_its_beginning() -> None:
    noise = Noise(speech_of(np.arange(1000) / 32768), 1)
    assert noise.part(0, 990, 30).tolist() == [*range(990, 1000), *range(20)]
    assert noise.part(0, 500, 2500).tolist() == [*range(500, 1000), *range(1000), *range(1000)]
