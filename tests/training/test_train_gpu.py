"""`asr train-gpu`, on a CPU: it learns, its sound and features are those of `asr prepare`, bad input is refused."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from support.phones import PHONES, PRONUNCIATIONS
from support.synth import SAMPLE_RATE, hum, write_audio

from asr.cli import main
from asr.config import AugmentConfig, Config, ModelConfig, OptimConfig, TokenizerConfig
from asr.data.manifests import HAS_NOISE
from asr.data.spectral import warp_frequencies
from asr.data.transforms import Telephone, power
from asr.features import LOG_FLOOR, fbank
from asr.model.model import AsrModel
from asr.tokenizer import SPECIAL_TOKENS, Tokenizer
from asr.training.gpu.options import Options
from asr.training.gpu.plans import ALONE, MAX_FRAMES, NOTHING, WITH_SPEECH, Plan, epoch_plans
from asr.training.gpu.recordings import ROOM_TAPS, Noise, Speech, read_rooms, read_speech
from asr.training.gpu.train import Batches, configured, rate
from asr.training.gpu.views import BatchFbank, Views
from asr.training.gpu.waves import Waves, telephone
from asr.training.inputs import normalizer_of
from asr.training.pretrained import Pretrained
from asr.training.short import TrainBar
from asr.training.step import Learner

CPU = torch.device("cpu")
TEXTS = ("A", "AB", "BACK", "AB A", "BACK AB", "B")
LETTERS = Tokenizer("char", (*SPECIAL_TOKENS, "▁", *"ABCK"))
PLAIN = AugmentConfig(probability=0.0, max_gain_db=0.0)


def speech_of(*waves: np.ndarray) -> Speech:
    whole = [(wave * 32768).round().astype(np.int16) for wave in waves]
    lengths = np.array([len(wave) for wave in whole])
    return Speech(np.concatenate(whole), lengths, ["A"] * len(whole), np.ones(len(whole)), [], [])


def white(seconds: float = 2.0) -> Noise:
    samples = np.random.default_rng(1).standard_normal(int(seconds * SAMPLE_RATE)).astype(np.float32)
    return Noise(samples, np.array([len(samples)]), np.array([power(samples)]), 0)


def plan_of(speech: Speech, kind: int = NOTHING, speed: float = 1.0, num_rooms: int = 0, noise_db: float = 0.0) -> Plan:
    """One row with the first utterance, half a second after its start if there is noise."""
    length = int(speech.lengths[0])
    place = 0 if kind == NOTHING else SAMPLE_RATE // 2
    num_frames = round((length / speed + place) / 160)
    return Plan(
        utterances=[[0]],
        frames=num_frames,
        speed=speed,
        num_rooms=num_rooms,
        num_lines=0,
        seed=0,
        num_frames=torch.tensor([num_frames]),
        segments=torch.tensor([[[0], [length], [place]]]),
        num_spoken=torch.tensor([int(length / speed)]),
        rooms=torch.tensor([0]),
        noise=torch.tensor([[0, 2 * SAMPLE_RATE, 100]]),
        noise_power=torch.tensor([1.0]),
        kind=torch.tensor([kind]),
        noise_db=torch.tensor([noise_db]),
        line_db=torch.tensor([-20.0]),
        line_law=torch.tensor([0]),
    )


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a small random model with phones, recordings, a lexicon, noise and rooms."""
    folder = tmp_path_factory.mktemp("recordings")
    lines = ["path\ttext"]
    for number, text in enumerate(TEXTS):
        write_audio(folder / f"{number}.wav", hum(1.0 + 0.2 * number, seed=number))
        lines.append(f"{number}.wav\t{text.lower()}")
    (folder / "train.tsv").write_text("\n".join(lines) + "\n")
    (folder / "dev.tsv").write_text("\n".join(lines[:3]) + "\n")
    words = [f"{word}  {' '.join(variants[0])}" for word, variants in PRONUNCIATIONS.items()]
    (folder / "lexicon.txt").write_text("\n".join(words) + "\n")
    write_audio(folder / "noise" / "white.wav", 0.1 * white().samples.clip(-3, 3))
    response = np.zeros(4000, np.float32)
    response[[1000, 2000]] = 0.8, 0.3
    write_audio(folder / "rooms" / "echo.wav", response)
    sizes = {"dim": 32, "num_heads": 2, "encoder_layers": 2, "encoder_ff_dim": 64, "decoder_layers": 1}
    shape = ModelConfig(**sizes, decoder_ff_dim=64, subsampling_channels=4, phones=PHONES)
    config = Config(model=shape, tokenizer=TokenizerConfig(kind="char"))
    torch.manual_seed(2)
    model = AsrModel(Pretrained(config, LETTERS, {}).model_config)
    model.encoder.set_cmvn(torch.full((80,), -9.0), torch.full((80,), 3.0))
    weights = {name: value.half().float() for name, value in model.state_dict().items()}
    training = {"steps": 5, "audio_hours": 1.0, "wer": {"full": 0.5}}  # of an older version, of phones
    Pretrained(config, LETTERS, weights, training, "Apache-2.0").save(folder / "start.safetensors")
    return folder


@pytest.fixture
def command(data: Path, tmp_path: Path) -> list[str]:
    """It writes `tmp_path / "new.safetensors"`."""
    names = [f"--{name}={data / path}" for name, path in (("init", "start.safetensors"), ("lexicon", "lexicon.txt"))]
    names += [f"--noise={data / 'noise'}", f"--rooms={data / 'rooms'}", "--jobs=1", "--batch-s=20"]
    return ["train-gpu", str(data / "train.tsv"), *names, "--minutes=0.03", "-o", str(tmp_path / "new.safetensors")]


def test_weights_change_and_stay_finite(command: list[str], data: Path, tmp_path: Path) -> None:
    assert main([*command, "--valid", str(data / "dev.tsv")]) == 0
    before, after = (Pretrained.load(path) for path in (data / "start.safetensors", tmp_path / "new.safetensors"))
    assert all(value.isfinite().all() for value in after.weights.values())
    for name in ("encoder.layers.0.attention.out.weight", "ctc.weight", "phone_ctc.weight"):
        assert not torch.equal(before.weights[name], after.weights[name]), name
    assert after.training["steps"] > 6 and after.training["audio_hours"] >= 1.0
    assert after.training["data"] == ["train.tsv"] and "wer" not in after.training
    assert set(after.training["phone_error_rate"]) == {"full", "640ms", "320ms"}
    assert (after.phones, after.license, after.config.model.dim) == (PHONES, "Apache-2.0", 32)


def test_interruption_saves_the_average(
    command: list[str], data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(TrainBar, "step", interrupt)
    assert main([*command, "--minutes=60"]) == 130
    assert "has the weights so far" in capsys.readouterr().err
    saved = Pretrained.load(tmp_path / "new.safetensors")
    assert saved.training["steps"] == 6 and saved.config.train.max_steps == 1
    assert not torch.equal(saved.weights["ctc.bias"], Pretrained.load(data / "start.safetensors").weights["ctc.bias"])


def test_interruption_before_training_keeps_former_weights(
    command: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    (tmp_path / "new.safetensors").write_bytes(b"former")
    monkeypatch.setattr(Batches, "tokens", interrupt)
    assert main([*command, "--minutes=60"]) == 130
    assert (tmp_path / "new.safetensors").read_bytes() == b"former"


def test_minutes_are_those_of_training_alone(
    command: list[str], data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By a clock on which a step takes a second and a validation an hour."""
    now, step, speeds = [0.0], Learner.__call__, []

    def validate(*_: object) -> dict[str, object]:
        now[0] += 3600.0
        return {}

    def timed_step(*arguments: Any) -> object:
        now[0] += 1.0
        return step(*arguments)

    monkeypatch.setattr("asr.training.gpu.train.time", SimpleNamespace(monotonic=lambda: now[0]))
    monkeypatch.setattr("asr.training.gpu.train.validate", validate)
    monkeypatch.setattr(Learner, "__call__", timed_step)
    monkeypatch.setattr(TrainBar, "step", lambda self, report: speeds.append(report.units_per_s))
    assert main([*command, "--minutes=0.1", "--valid", str(data / "dev.tsv")]) == 0
    assert Pretrained.load(tmp_path / "new.safetensors").training["steps"] == 5 + 6
    assert len(speeds) == 6 and min(speeds) > 0.5


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--minutes=0"], "--minutes 0 must be a number above 0"),
        (["--lr=nan"], "--lr nan must be"),
        (["--jobs=0"], "--jobs 0 must be at least 1"),
        (["--num-rooms=0"], "--num-rooms 0 must be at least 1"),
        (["--num-rooms=9"], "--num-rooms 9 is for simulated rooms: --rooms reads all of"),
        (["-o", "new.onnx"], "new.onnx must end with .safetensors"),
        (["-o", "nowhere/new.safetensors"], "there is no folder nowhere"),
        (["--noise=nowhere"], "noise folder nowhere does not exist"),
        (["--init=nowhere.safetensors"], "nowhere.safetensors"),
    ],
)
def test_bad_options_are_refused(
    command: list[str], options: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([*command, *options]) == 1
    assert message in capsys.readouterr().err


def test_a_lexicon_needs_weights_with_phones(
    command: list[str], data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    start, letters = Pretrained.load(data / "start.safetensors"), tmp_path / "letters.safetensors"
    weights = {name: value for name, value in start.weights.items() if not name.startswith("phone_ctc.")}
    config = replace(start.config, model=replace(start.config.model, phones=()))
    replace(start, config=config, weights=weights).save(letters)
    assert main([*command, f"--init={letters}"]) == 1
    assert f"lexicon.txt: the weights of {letters} have no phones; leave it out" in capsys.readouterr().err


def test_bad_sounds_are_refused_before_reading_speech(
    command: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("asr.training.gpu.recordings.read_speech", lambda *_: pytest.fail("work has begun"))
    for option, message in (
        ("--noise=nowhere", "noise folder nowhere does not exist"),
        ("--rooms=nowhere", "impulse response folder nowhere does not exist"),
        ("--lexicon=nowhere", "nowhere"),
    ):
        assert main([*command, option]) == 1
        assert message in capsys.readouterr().err


def test_bad_tables_are_refused(
    command: list[str], data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([*command[:1], f"{data / 'train.tsv'}*2", *command[2:]]) == 1
    assert "the share after * must be a number in (0, 1]" in capsys.readouterr().err
    table = tmp_path / "words.tsv"
    table.write_text(f"path\ttext\n{data / '0.wav'}\tCAB\n")
    assert main([*command[:1], str(table), *command[2:]]) == 1
    assert "lacks 1 words of the data, such as CAB" in capsys.readouterr().err
    table.write_text(f"path\ttext\n{tmp_path / 'missing.wav'}\tA\n")
    assert main([*command[:1], str(table), *command[2:]]) == 1
    assert f"{table} has no usable recording, such as {tmp_path / 'missing'}: unreadable" in capsys.readouterr().err
    good, table = tmp_path / "good.tsv", tmp_path / "header.tsv"
    good.write_text(f"path\ttext\n{data / '0.wav'}\tA\n{tmp_path / 'missing.wav'}\tA\n")
    table.write_text("path\ttext\n")
    assert main([*command[:1], str(good), str(table), *command[2:]]) == 1
    assert f"{table} has no usable recording\n" in capsys.readouterr().err


def test_unusable_recordings_are_left_out(data: Path, tmp_path: Path) -> None:
    silent = write_audio(tmp_path / "silent.wav", np.zeros(SAMPLE_RATE, np.float32))
    short = write_audio(tmp_path / "short.wav", hum(0.2))
    long = write_audio(tmp_path / "long.wav", hum(21.0))
    rows = [(silent, "A"), (short, "A"), (long, "A"), (data / "0.wav", "A" * 40), (data / "1.wav", "É"), (short, "A")]
    rows += [(data / "2.wav", "k, a"), (data / "3.wav", "k [a] a")]
    (tmp_path / "table.tsv").write_text("path\ttext\n" + "".join(f"{path}\t{text}\n" for path, text in rows))
    speech = read_speech([(str(tmp_path / "table.tsv"), 0.5)], LETTERS, num_jobs=1)
    assert [refusal.reason for refusal in speech.refusals] == [
        *("outside the alphabet", "duplicate id", HAS_NOISE, "digital silence", "too short", "too long"),
        "more letters than frames",
    ]
    assert (speech.texts, speech.shares.tolist(), speech.tables) == (["K A"], [0.5], ["table.tsv"])
    stripped = read_speech([(str(tmp_path / "table.tsv"), 0.5)], LETTERS, num_jobs=1, noise_tags="strip")
    assert stripped.texts == ["K A", "K A"] and HAS_NOISE not in {refusal.reason for refusal in stripped.refusals}
    (samples,) = speech.waveforms()
    assert np.abs(samples - hum(1.4, seed=2)).max() < 2e-4, "rounded to 16 bits twice"


@pytest.mark.parametrize(
    ("letters", "text", "expected"), [("ABCK-", "ab-k", "AB-K"), ("abck", "AB", "ab"), ("Aabk", "Ab", "Ab")]
)
def test_texts_get_the_case_of_the_model(letters: str, text: str, expected: str) -> None:
    assert normalizer_of(Tokenizer("char", (*SPECIAL_TOKENS, "▁", *letters)))(text).text == expected


def test_plain_features_are_those_of_a_recording() -> None:
    speech = speech_of(hum(1.3))
    plan = plan_of(speech)
    (recording,) = speech.waveforms()
    rooms = np.zeros((1, ROOM_TAPS), np.float16)
    samples = Waves(speech, white(), rooms, CPU)(plan)
    assert torch.allclose(samples[0], torch.from_numpy(recording), atol=1e-6)
    features = Views(PLAIN, CPU)(BatchFbank(CPU)(samples), plan.num_frames)
    assert torch.allclose(features[0], fbank(recording), atol=1e-3)


@pytest.mark.parametrize("speed", [0.9, 1.1])
def test_speed_changes_length_and_pitch(speed: float) -> None:
    time = np.arange(SAMPLE_RATE) / SAMPLE_RATE
    speech = speech_of(0.3 * np.sin(2 * np.pi * 500 * time))
    samples = Waves(speech, white(), np.zeros((1, ROOM_TAPS), np.float16), CPU)(plan_of(speech, speed=speed))[0]
    assert len(samples) == pytest.approx(SAMPLE_RATE / speed, abs=160)
    spectrum = torch.fft.rfft(samples).abs()
    assert spectrum.argmax().item() / len(samples) * SAMPLE_RATE == pytest.approx(500 * speed, abs=2)


def test_noise_has_its_ratio_and_level() -> None:
    speech = speech_of(hum(1.0))
    waves = Waves(speech, white(), np.zeros((1, ROOM_TAPS), np.float16), CPU)
    (recording,) = speech.waveforms()
    margin = waves(plan_of(speech, WITH_SPEECH, noise_db=10.0))[0, : SAMPLE_RATE // 2].numpy()
    assert 10 * np.log10(power(recording) / power(margin)) == pytest.approx(10, abs=0.3)
    margin = waves(plan_of(speech, ALONE, noise_db=-30.0))[0, : SAMPLE_RATE // 2].numpy()
    assert 10 * np.log10(power(margin)) == pytest.approx(-30, abs=0.3)


def test_words_in_a_room_keep_time_and_power(data: Path) -> None:
    rooms = read_rooms(data / "rooms", 0, num_jobs=1, seed=0)
    assert rooms.shape == (1, ROOM_TAPS) and np.flatnonzero(rooms[0] > 0.1).tolist() == [0, 1000]
    speech = speech_of(hum(1.0))
    (dry,) = speech.waveforms()
    wet = Waves(speech, white(), rooms, CPU)(plan_of(speech, num_rooms=1))[0].numpy()
    echo = np.convolve(dry, rooms[0].astype(np.float32))[: len(dry)]
    assert np.allclose(wet, echo * np.sqrt(power(dry) / power(echo)), atol=1e-4)
    assert read_rooms(None, 2, num_jobs=1, seed=0).shape == (2, ROOM_TAPS)


@pytest.mark.parametrize("codec", ["ULAW", "ALAW"])
def test_telephone_sounds_as_in_prepared_data(codec: str) -> None:
    samples = hum(1.0)
    expected = Telephone(codec, -20.0)(samples[None], SAMPLE_RATE)[0]
    row, law = torch.from_numpy(samples)[None], torch.tensor([int(codec == "ALAW")])
    found = telephone(row, torch.tensor([power(samples)]), torch.tensor([-20.0]), law)[0].numpy()
    assert found.shape == samples.shape
    middle = slice(800, -800)
    found, expected = found[middle], expected[middle]
    found = found * np.float32(found @ expected / (found @ found))  # only there is the level that after the band limit
    assert power(found - expected) < 2e-3 * power(expected)


def test_views_keep_shapes_and_silence() -> None:
    torch.manual_seed(1)
    features = torch.randn(6, 200, 80)
    features[:, 150:] = LOG_FLOOR
    num_frames = torch.tensor([200, 190, 180, 170, 160, 1])
    config = AugmentConfig(probability=0.0, max_frequency_warp=0.1, max_response_db=4.0)
    changed = Views(config, CPU)(features, num_frames)
    assert changed.shape == features.shape and torch.equal(changed[:, 150:], features[:, 150:])
    assert not torch.isclose(changed[:, :150].mean((1, 2)), features[:, :150].mean((1, 2)), atol=0.1).all()
    masked = Views(AugmentConfig(probability=1.0, max_gain_db=0.0), CPU)(features, num_frames)
    hidden = masked != features
    assert masked.shape == features.shape and masked.isfinite().all() and hidden[0].any()
    bands = hidden[0].all(0)
    assert 0 < bands.sum() <= 2 * 27
    assert hidden[0][:, ~bands].any(1).sum() <= 0.15 * 200
    widest = Views(AugmentConfig(probability=0.0, max_gain_db=0.0, max_frequency_warp=0.1), CPU)
    warps = [warp_frequencies(features[0], factor) for factor in np.linspace(0.9, 1.1, 41)]
    found = widest(features, num_frames)[0]
    assert min((found - warp).abs().max().item() for warp in warps) < 1e-4


def test_an_epoch_has_every_utterance_once() -> None:
    lengths = np.random.default_rng(0).integers(5000, 20 * SAMPLE_RATE, 300)
    speech = Speech(np.zeros(lengths.sum(), np.int16), lengths, ["A"] * 300, np.ones(300), [], [])
    plans = list(epoch_plans(speech, white(), 3, 12000, np.random.default_rng(0)))
    assert Counter(u for plan in plans for row in plan.utterances for u in row) == dict.fromkeys(range(300), 1)
    rows = [row for plan in plans for row in plan.utterances]
    assert 0 < sum(len(row) > 1 for row in rows) < 60 and 0 < sum(not row for row in rows) < 20
    kinds = torch.cat([plan.kind for plan in plans]).bincount()
    assert kinds[ALONE] == sum(not row for row in rows) and min(kinds[NOTHING], kinds[WITH_SPEECH]) > 10
    assert len({plan.speed for plan in plans}) == 5 and sum(plan.num_rooms for plan in plans) > 60
    for plan in plans:
        assert len(plan.num_frames) * plan.frames <= max(12000, plan.frames) and plan.frames <= MAX_FRAMES
        assert plan.num_frames.min() > 0 and plan.num_frames.max() <= plan.frames
        on_line = len(plan.utterances) - plan.num_lines
        assert plan.num_rooms <= on_line and all(plan.utterances[: plan.num_rooms] + plan.utterances[on_line:])
        for row, segments in zip(plan.utterances, plan.segments, strict=True):
            starts, sizes, places = segments[:, : len(row)].numpy()
            assert np.array_equal(starts, speech.starts[row]) and np.array_equal(sizes, speech.lengths[row])
            ends = places + sizes
            assert (places[1:] > ends[:-1]).all()
            assert not row or ends[-1] / plan.speed <= 160 * (plan.frames + 1)


def test_no_row_is_longer_than_a_small_batch() -> None:
    lengths = np.random.default_rng(0).integers(SAMPLE_RATE, 16 * SAMPLE_RATE, 500)
    speech = Speech(np.zeros(1, np.int16), lengths, ["A"] * 500, np.ones(500), [], [])
    for plan in epoch_plans(speech, white(), 3, 3000, np.random.default_rng(0)):
        assert plan.num_frames.max() <= plan.frames and len(plan.num_frames) * plan.frames <= 3000


def test_an_epoch_draws_the_shares() -> None:
    lengths = np.full(400, SAMPLE_RATE)
    speech = Speech(np.zeros(1, np.int16), lengths, ["A"] * 400, np.repeat([1.0, 0.3], 200), [], [])
    plans = list(epoch_plans(speech, white(), 1, 3000, np.random.default_rng(0)))
    drawn = [utterance for plan in plans for row in plan.utterances for utterance in row]
    assert sum(u < 200 for u in drawn) == 200 and 40 < sum(u >= 200 for u in drawn) < 80


def test_rate_rises_by_steps_and_falls_by_time() -> None:
    config = OptimConfig(lr=1.0, warmup_steps=10)
    steps_and_shares = ((1, 0.0), (10, 0.0), (50, 0.75), (60, 1.0))
    assert [rate(config, *each) for each in steps_and_shares] == [0.1, 1.0, 0.25, 0.0]


def test_recordings_beyond_the_memory_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda device: (40 * SAMPLE_RATE, 0))
    config = configured(Config(), Options(1.0))
    with pytest.raises(ValueError, match="take at most 0 hours, or use `asr train`"):
        Batches(speech_of(hum(11.0)), white(), np.zeros((1, ROOM_TAPS)), config, LETTERS, None, torch.device("cuda"))
