"""The waveforms of a batch: speed, rooms, noise and telephone lines are as planned."""

from __future__ import annotations

import io
from typing import Any

import numpy as np
import pytest
import soundfile
import soxr
import torch
from support.clips import LETTERS, one_row, speech_of
from support.synth import SAMPLE_RATE, hum

from asr.config import AugmentConfig, Config
from asr.data.speech import Speech
from asr.training.batches import Batches
from asr.training.plans import ALONE, WITH_SPEECH, Plan, Row
from asr.training.sounds import ROOM_TAPS, Noise, power
from asr.training.waves import Waves, telephone

CPU = torch.device("cpu")
SPEEDS = (0.9, 1.0, 1.1)
ROOMS = np.zeros((2, ROOM_TAPS), np.float16)
ROOMS[:, 0] = 1
ROOMS[1, [1000, 5000]] = 0.5, -0.25
WHITE = (0.1 * np.random.default_rng(1).standard_normal(2 * SAMPLE_RATE)).clip(-1, 1)


def sound(speech: Speech, plan: Plan, noise: np.ndarray = WHITE) -> np.ndarray:
    """(N, num_samples) float32 of a plan, with rooms of two responses and one recorded noise."""
    recorded = Noise(speech_of(noise), 1)
    config = Config(augment=AugmentConfig(speeds=SPEEDS))
    gathered = Batches(speech, recorded, ROOMS, config, LETTERS, None, CPU).gather(plan)
    return Waves(ROOMS, SPEEDS, CPU)(plan, *gathered[1:4]).numpy()


def db(ratio: float) -> float:
    return float(10 * np.log10(ratio))


def test_a_plain_row_is_the_recording() -> None:
    speech = speech_of(hum(1.3))
    assert np.allclose(sound(speech, one_row(speech))[0], speech[0].waveform(), atol=1e-6)
    later = sound(speech, one_row(speech, before_s=0.5))[0]
    assert not later[:8000].any() and np.allclose(later[8000:], speech[0].waveform(), atol=1e-6)


@pytest.mark.parametrize("speed", [0.9, 1.1])
def test_speed_changes_length_and_pitch_but_no_pause(speed: float) -> None:
    time = np.arange(SAMPLE_RATE) / SAMPLE_RATE
    speech = speech_of(0.3 * np.sin(2 * np.pi * 500 * time))
    samples = sound(speech, one_row(speech, before_s=0.5, speed=speed))[0]
    assert len(samples) == pytest.approx(8000 + SAMPLE_RATE / speed, abs=80)
    assert np.abs(samples[:7950]).max() < 0.01 and np.abs(samples[8000:8100]).max() > 0.2
    spectrum = np.abs(np.fft.rfft(samples[8000:]))
    assert spectrum.argmax() / len(samples[8000:]) * SAMPLE_RATE == pytest.approx(500 * speed, abs=2)


@pytest.mark.parametrize("speed", SPEEDS)
def test_words_to_the_end_of_a_row_are_complete(speed: float) -> None:
    """Rows are whole frames, so up to half a frame of the last word is beyond the end."""
    for more in (0, 1, 79, 80, 159):
        speech = speech_of(hum((SAMPLE_RATE + more) / SAMPLE_RATE))
        row = sound(speech, one_row(speech, speed=speed))[0]
        assert len(row) == pytest.approx(len(speech.samples(0)) / speed, abs=80)
        assert power(row[-400:]) > 0.1 * power(speech[0].waveform()[-400:])


def test_noise_has_its_ratio_to_the_words_and_its_level_alone() -> None:
    """Before and after the words, and whatever its own level."""
    speech = speech_of(hum(1.0))
    for volume in (1.0, 0.1):
        plan = one_row(speech, 0.5, kind=torch.tensor([WITH_SPEECH]), noise_db=torch.tensor([10.0]))
        margin = sound(speech, plan, volume * WHITE)[0, :8000]
        assert db(power(speech[0].waveform()) / power(margin)) == pytest.approx(10, abs=0.3)
        silent = plan._replace(rows=[Row([], [], 1.5)], kind=torch.tensor([ALONE]), num_spoken=torch.tensor([0]))
        alone = sound(speech, silent._replace(noise_db=torch.tensor([-30.0])), volume * WHITE)[0]
        assert db(power(alone)) == pytest.approx(-30, abs=0.3)
        assert np.corrcoef(alone, WHITE[: len(alone)])[0, 1] > 0.99, "from its first sample on"


def test_a_row_begins_where_planned_in_the_noise() -> None:
    speech = speech_of(hum(1.0))
    plan = one_row(speech, 0.5, kind=torch.tensor([WITH_SPEECH]), noises=np.array([[0, 20000]]))
    assert np.corrcoef(sound(speech, plan)[0, :8000], WHITE[20000:28000])[0, 1] > 0.99


def test_quiet_stretch_of_noise_is_not_amplified() -> None:
    speech = speech_of(hum(1.0))
    half = np.concatenate((1e-2 * WHITE, WHITE))
    ratios = []
    for start in (0, len(WHITE)):
        changes: dict[str, Any] = {"noises": np.array([[0, start]]), "noise_db": torch.tensor([10.0])}
        margin = sound(speech, one_row(speech, 0.5, kind=torch.tensor([WITH_SPEECH]), **changes), half)[0, :8000]
        ratios.append(db(power(speech[0].waveform()) / power(margin)))
    assert ratios[0] > 25 and ratios[1] == pytest.approx(10, abs=0.3)


def test_words_in_a_room_keep_time_and_power() -> None:
    speech = speech_of(hum(1.0))
    dry = speech[0].waveform()
    wet = sound(speech, one_row(speech, num_rooms=1, rooms=torch.tensor([1])))[0]
    echo = np.convolve(dry, ROOMS[1].astype(np.float32))[: len(dry)]
    assert np.allclose(wet, echo * np.sqrt(power(dry) / power(echo)), atol=1e-4)


def test_loud_rows_are_scaled_and_not_cut_off() -> None:
    loud = hum(1.0)
    speech = speech_of(loud / np.abs(loud).max())
    row = sound(speech, one_row(speech))[0]
    assert np.abs(row).max() == pytest.approx(0.99, abs=1e-5)
    assert np.allclose(row, 0.99 * speech[0].waveform() / np.abs(speech[0].waveform()).max(), atol=1e-5)


def test_only_the_last_rows_are_on_lines_and_only_the_first_in_rooms() -> None:
    speech = speech_of(hum(1.0))
    plan = one_row(speech)
    rows = plan._replace(rows=3 * plan.rows, num_rooms=1, num_lines=1, noises=np.zeros((3, 2), np.int64))
    repeated = {name: x.repeat(3) for name, x in rows._asdict().items() if isinstance(x, torch.Tensor)}
    first, middle, last = sound(speech, rows._replace(**repeated | {"rooms": torch.tensor([1, 1, 1])}))
    assert np.allclose(middle, speech[0].waveform(), atol=1e-6)
    assert np.allclose(first, sound(speech, one_row(speech, num_rooms=1, rooms=torch.tensor([1])))[0], atol=1e-6)
    assert np.allclose(last, sound(speech, one_row(speech, num_lines=1))[0], atol=1e-6)
    assert not np.allclose(first, middle, atol=0.01) and not np.allclose(last, middle, atol=0.01)


@pytest.mark.parametrize("law", [0, 1])
def test_a_line_passes_its_band_and_delays_nothing(law: int) -> None:
    hiss = 0.05 * np.random.default_rng(0).standard_normal(50001).astype(np.float32)
    row = torch.from_numpy(hiss)[None]
    line = telephone(row, torch.tensor([power(hiss)]), torch.tensor([-20.0]), torch.tensor([law]))[0].numpy()
    assert line.shape == hiss.shape
    spectrum, hertz = np.abs(np.fft.rfft(line)) ** 2, np.fft.rfftfreq(len(line), 1 / SAMPLE_RATE)
    below, passed, above = (
        db(spectrum[(hertz > low) & (hertz < high)].mean()) for low, high in ((0, 150), (400, 3300), (3900, 8000))
    )
    assert passed > below + 10 and passed > above + 25
    correlation = np.fft.irfft(np.conj(np.fft.rfft(hiss)) * np.fft.rfft(line))
    assert np.abs(correlation).argmax() == 0


@pytest.mark.parametrize("level_db", [-20.0, -45.0])
@pytest.mark.parametrize(("law", "codec"), [(0, "ULAW"), (1, "ALAW")])
def test_a_line_codes_as_the_standard_does(law: int, codec: str, level_db: float) -> None:
    """Tones in its band come with the level of the line, and with as much coding noise as libsndfile's G.711."""
    time = np.arange(SAMPLE_RATE) / SAMPLE_RATE
    tones = sum(np.sin(2 * np.pi * hertz * time) for hertz in (501.3, 1107.7, 2310.1)).astype(np.float32)
    tones *= np.sqrt(10 ** (level_db / 10) / power(tones))
    row, level = torch.from_numpy(0.3 * tones)[None], torch.tensor([level_db])
    found = telephone(row, torch.tensor([power(0.3 * tones)]), level, torch.tensor([law]))[0].numpy()
    file = io.BytesIO()
    whole = (32768 * soxr.resample(tones, SAMPLE_RATE, 8000)).round().astype(np.int16)
    soundfile.write(file, whole, 8000, format="WAV", subtype=codec)
    expected = soxr.resample(soundfile.read(io.BytesIO(file.getvalue()), dtype="float32")[0], 8000, SAMPLE_RATE)
    middle = slice(800, -800)
    noise = [power(each[middle] - tones[middle]) / power(tones) for each in (found, expected)]
    assert max(noise) < 10**-2.5
    assert 0.5 < noise[0] / noise[1] < 2
