"""Noise without speech: segments have the documented level, are reproducible and marked, and are trained on."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.synth import SAMPLE_RATE, write_audio
from test_data import plans

from asr.cli import main
from asr.config import DataConfig
from asr.data.batches import BatchPlan, BatchSampler, Position, SpeechDataset, load_training_cuts
from asr.data.cuts import iterate_cuts, load_cuts, usable_cuts
from asr.data.noise_alone import LEVELS_DB, draw_pieces
from asr.data.transforms import NoiseAlone, power
from asr.features import fbank
from asr.tokenizer import Tokenizer
from asr.training.checkpoint import Checkpoint, checkpoint_path


@pytest.fixture(scope="module")
def sounds(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A hiss in stereo, a hum at another rate and a tone shorter than most pieces."""
    folder = tmp_path_factory.mktemp("sounds") / "kitchen"
    rng = np.random.default_rng(5)
    write_audio(folder / "hiss.wav", 0.02 * rng.standard_normal((64000, 2)).astype(np.float32))
    write_audio(folder / "hum.flac", np.sin(2 * np.pi * 100 * np.arange(30000) / 8000).astype(np.float32) / 4, 8000)
    write_audio(folder / "tone.wav", np.sin(2 * np.pi * 440 * np.arange(9600) / SAMPLE_RATE).astype(np.float32) / 2)
    return folder


def prepare_noise(folder: Path, out: Path, *more: str) -> Path:
    arguments = ["--hours", "0.02", "--lengths", "0.5,4", "--jobs", "1", "--out", str(out), *more]
    assert main(["prepare", "noise", str(folder), *arguments]) == 0
    return out / "kitchen.jsonl.gz"


@pytest.fixture(scope="module")
def noise(sounds: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return prepare_noise(sounds, tmp_path_factory.mktemp("noise"))


def test_pieces_are_marked_and_of_the_requested_length(noise: Path) -> None:
    cuts = list(iterate_cuts(noise))
    assert 72 <= sum(cut.duration for cut in cuts) < 76
    assert min(cut.duration for cut in cuts) < 1.5 and max(cut.duration for cut in cuts) > 3
    for cut in cuts:
        assert cut.custom == {"no_speech": True}
        assert [supervision.text for supervision in cut.supervisions] == [""]
        assert 0.5 <= cut.duration <= 4 and cut.num_frames == len(cut.load_features())
    assert len({cut.id for cut in cuts}) == len(cuts)
    assert len({cut.recording.sources[0].source for cut in cuts}) == 3


def test_lhotse_plays_what_the_features_were_made_of(noise: Path) -> None:
    for cut in list(load_cuts(noise))[:12]:
        expected = fbank(cut.load_audio()[0]).numpy()
        # lhotse resamples the hum differently, which is visible in bins with very low energy.
        assert np.median(np.abs(cut.load_features() - expected)) < 0.02


def test_pieces_depend_on_the_name_only(
    noise: Path, sounds: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    again, other = (prepare_noise(sounds, tmp_path, "--name", name) for name in ("kitchen", "other"))
    assert f"0 words; {len(list(load_cuts(again)))} without speaker; " in capsys.readouterr().out
    pairs = list(zip(load_cuts(noise), load_cuts(again), strict=True))
    assert all(one.id == same.id and np.array_equal(one.load_features(), same.load_features()) for one, same in pairs)
    one, another = (next(iter(load_cuts(path))) for path in (noise, other.with_name("other.jsonl.gz")))
    assert one.id != another.id and one.duration != another.duration


def test_rooms_of_the_command_are_used(sounds: Path, tmp_path: Path) -> None:
    room = write_audio(tmp_path / "rooms" / "hall.wav", np.eye(1, 4000, dtype=np.float32)[0])
    path = prepare_noise(sounds, tmp_path, "--rir", str(room.parent), "--hours", "0.005")
    rooms = {cut.recording.transforms[-1].room for cut in load_cuts(path)}
    assert rooms == {str(room), None}


def test_pieces_differ_in_recording_room_level_and_overlay(sounds: Path) -> None:
    names = [str(path) for path in sorted(sounds.iterdir())]
    pieces = [piece.transform for piece in draw_pieces("x", names, 3.0, rooms=("room.flac",))]
    assert 1450 < len(pieces) < 1650
    levels = [piece.level_db for piece in pieces]
    assert min(levels) < LEVELS_DB[0] + 1 and max(levels) > LEVELS_DB[1] - 1
    assert np.mean([piece.reverberant for piece in pieces]) == pytest.approx(0.5, abs=0.05)
    assert {piece.room for piece in pieces if piece.reverberant} == {"room.flac"}
    assert {piece.room for piece in pieces if not piece.reverberant} == {None}
    assert np.mean([piece.mixed is not None for piece in pieces]) == pytest.approx(0.3, abs=0.05)
    assert np.mean([piece.mixed_db is None for piece in pieces]) == pytest.approx(0.5, abs=0.05)
    assert all(piece.mixed_db is not None for piece in pieces if piece.mixed)


@pytest.mark.parametrize("on_top", [{}, {"mixed_db": -3.0}, {"mixed": "hiss.wav", "mixed_db": 6.0}])
@pytest.mark.parametrize("reverberant", [False, True])
def test_a_piece_has_the_promised_level(sounds: Path, on_top: dict[str, Any], reverberant: bool) -> None:
    if "mixed" in on_top:
        on_top = on_top | {"mixed": str(sounds / on_top["mixed"])}
    recording = np.random.default_rng(0).standard_normal((1, 48000)).astype(np.float32)
    piece = NoiseAlone(7, 5.0, -30.0, reverberant, **on_top)(recording, SAMPLE_RATE)
    assert piece.shape == (1, 80000) and piece.dtype == np.float32
    assert 10 * np.log10(power(piece)) == pytest.approx(-30.0, abs=0.5)
    assert np.array_equal(piece, NoiseAlone(7, 5.0, -30.0, reverberant, **on_top)(recording, SAMPLE_RATE))


@pytest.mark.parametrize("mixed_db", [-6.0, 6.0])
def test_what_is_on_top_has_the_promised_share(sounds: Path, mixed_db: float) -> None:
    """A tone, whose power is at one frequency; also with a recording that is ten times as loud."""
    tone = np.sin(2 * np.pi * 1000 * np.arange(64000) / SAMPLE_RATE)[None].astype(np.float32)
    for mixed in (None, str(sounds / "hiss.wav")):
        for volume in (0.05, 0.5):
            piece = NoiseAlone(3, 2.0, -30.0, mixed=mixed, mixed_db=mixed_db)(volume * tone, SAMPLE_RATE)[0]
            spectrum = np.square(np.abs(np.fft.rfft(piece)))
            of_tone = spectrum[2000]  # bins of half a hertz
            assert 10 * np.log10((spectrum.sum() - of_tone) / of_tone) == pytest.approx(mixed_db, abs=1.0)


def test_quiet_stretches_stay_quiet_and_loud_never_clip() -> None:
    recording = np.random.default_rng(0).standard_normal((1, 160000)).astype(np.float32)
    recording[:, :140000] *= 0.001
    levels = [10 * np.log10(power(NoiseAlone(seed, 1.0, -30.0)(recording, SAMPLE_RATE))) for seed in range(20)]
    assert min(levels) < -70 and max(levels) > -31
    bursts = np.zeros((1, 160000), np.float32)
    bursts[:, ::1000] = 1.0
    assert np.abs(NoiseAlone(1, 2.0, -10.0)(bursts, SAMPLE_RATE)).max() <= 0.9901


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--hours", "0"], "0.0 hours of noise; expected above 0"),
        (["--lengths", "5,2"], "pieces of 5.0 to 2.0 s; expected a range within 0.1 to 40 s"),
        (["--lengths", "5"], "--lengths is '5'; expected two numbers such as 2,12"),
    ],
)
def test_what_makes_no_pieces_is_one_clear_line(
    sounds: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], options: list[str], message: str
) -> None:
    assert main(["prepare", "noise", str(sounds), "--out", str(tmp_path), *options]) == 1
    error = capsys.readouterr().err
    assert message in error and error.count("\n") == 1


def test_only_marked_empty_texts_are_used_in_training(noise: Path, tmp_path: Path) -> None:
    with gzip.open(noise, "rt") as file:
        rows = [json.loads(line) for line in file]
    del rows[0]["custom"]
    rows[1]["custom"] = {"no_speech": False}
    rows[2]["supervisions"][0]["text"] = "WORDS"
    del rows[3]["supervisions"][0]["text"]
    changed = tmp_path / "changed.jsonl.gz"
    with gzip.open(changed, "wt") as file:
        file.writelines(json.dumps(row) + "\n" for row in rows)
    kept, refused = usable_cuts(str(changed), 0.1, 40)
    reasons = [refusal.reason for refusal in refused]
    assert reasons == ["empty text", "empty text", "text without speech", "text without speech"]
    assert [cut.id for cut in kept] == [row["id"] for row in rows[4:]]


def test_noise_and_augmentation_wait_until_the_model_writes(noise: Path, tones: tuple[Path, Path]) -> None:
    config = DataConfig(
        train=(str(tones[0]), str(noise)), max_batch_s=20, min_utterance_s=0.1, curriculum_epochs=1, curriculum_s=4
    )
    parts, _ = load_training_cuts(config)
    seen, augmented = [], []
    for epoch in (0, 1):
        plans = list(BatchSampler(parts, config, 1, Position(epoch)))
        seen.append(sum("no_speech" in (cut.custom or {}) for plan in plans for cut in plan.cuts))
        augmented.append({plan.augment for plan in plans})
    assert seen == [0, len(list(iterate_cuts(noise)))]
    assert augmented == [{False}, {True}]


def test_a_piece_counts_as_one_token(noise: Path) -> None:
    dataset = SpeechDataset(Tokenizer("char", ("<blk>", "<unk>", "<sos/eos>", "A")))
    batch = dataset[BatchPlan(list(iterate_cuts(noise))[:3], 1, False, 2000)]
    assert batch.target_lengths.tolist() == [0, 0, 0] and batch.num_tokens == 3


def test_noise_without_speech_beside_it_trains_nothing(noise: Path) -> None:
    with pytest.raises(ValueError, match="holds no utterance with words of"):
        load_training_cuts(DataConfig(train=(str(noise),)))


def test_shards_keep_the_mark(noise: Path, tones: tuple[Path, Path], tmp_path: Path) -> None:
    assert main(["shard", str(noise), "--out", str(tmp_path / "shards"), "--size", "10"]) == 0
    assert plans((tones[0], tmp_path / "shards")) == plans((tones[0], noise))


@pytest.mark.parametrize(("units", "with_words"), [("char", True), ("bpe", False)])
def test_training_and_validation_take_noise_beside_speech(
    arguments: list[str], tones: tuple[Path, Path], noise: Path, tmp_path: Path, units: str, with_words: bool
) -> None:
    """Letters or pieces, with concatenation, consistency and validation."""
    valid = [tones[1], noise] if with_words else [noise]
    data = [f"data.train=[{tones[0]},{noise}]", f"data.valid=[{','.join(map(str, valid))}]"]
    more = ["augment.concat_probability=0.5", "augment.silence_probability=0.5", "loss.cr_ctc_weight=0.2"]
    steps = ["train.max_steps=6", "train.valid_every=6", "tokenizer.vocab_size=12"]
    assert main([*arguments, *data, *more, *steps, f"tokenizer.kind={units}"]) == 0
    checkpoint = Checkpoint.load(checkpoint_path(tmp_path / "run", 6))
    assert all(value.isfinite().all() for value in checkpoint.weights.values())
    rates = checkpoint.training["history"][0]["wer"].values()
    assert len(rates) == 3 and all(0 <= rate < 100 for rate in rates)
