"""Augmentation in training: no speech is lost, batches stay within their memory, and seeds determine everything."""

from __future__ import annotations

import random
from dataclasses import replace

import numpy as np
import pytest
import torch
from support.corpora import utterances

from asr.config import AugmentConfig, ConfigError, DataConfig
from asr.data.augment import LOG_FLOOR, Augmenter, Example, noise_floor
from asr.data.batches import BatchSampler, Position, SpeechDataset, load_training_cuts
from asr.data.prepare import prepare
from asr.tokenizer import Tokenizer

OFF = AugmentConfig(
    probability=0, max_gain_db=0, offset_probability=0, concat_probability=0, silence_probability=0, time_warp=0
)
FLOOR = -12.0


def seed_all(seed: int) -> None:
    random.seed(seed)
    np.random.seed(seed)
    torch.manual_seed(seed)


def spoken(word: str, num_frames: int = 200, lead: int = 40, gap: int = 30) -> Example:
    """Two sounds with a pause between them; the first bin of every sound frame has its number, from 0."""
    generator = torch.Generator().manual_seed(len(word) + num_frames)
    features = FLOOR + 0.3 * torch.randn(num_frames, 80, generator=generator)
    sound = torch.ones(num_frames, dtype=torch.bool)
    sound[:lead] = sound[-lead:] = False
    sound[num_frames // 2 - gap // 2 : num_frames // 2 + gap // 2] = False
    features[sound] = -3.0 + 0.3 * torch.randn(int(sound.sum()), 80, generator=generator)
    features[sound, 0] = torch.arange(int(sound.sum())).float()
    return Example(features, word)


def sounds(features: torch.Tensor) -> list[float]:
    return features[features[:, 1:].mean(1) > -6.0][:, 0].tolist()


def test_nothing_changes_when_all_is_off() -> None:
    rows = [spoken("ONE"), spoken("TWO", 260)]
    out = Augmenter(OFF).arrange(rows, 10_000)
    assert [row.text for row in out] == ["ONE", "TWO"]
    for before, after in zip(rows, out, strict=True):
        assert torch.equal(before.features, after.features)
        assert torch.equal(Augmenter(OFF).view(after.features), before.features)


def test_offsets_move_beginnings_and_keep_every_sound() -> None:
    augmenter = Augmenter(replace(OFF, offset_probability=1.0, max_offset_frames=64))
    row = spoken("ONE", lead=40)
    starts = []
    for seed in range(80):
        seed_all(seed)
        (out,) = augmenter.arrange([row], 1000)
        assert sounds(out.features) == sounds(row.features)
        first = int((out.features[:, 1:].mean(1) > -6).int().argmax())
        starts.append(first - 40)
        assert len(out.features) - 200 == first - 40, "only the beginning moves"
        if first > 40:
            assert out.features[: first - 40].mean() == pytest.approx(FLOOR, abs=0.3), "its own noise floor"
    assert min(starts) == -30, "a margin of 10 frames stays before the first sound"
    assert max(starts) > 55 and len(set(starts)) > 30
    assert len({start % 4 for start in starts}) == 4, "off the encoder's grid too"


def test_a_beginning_without_quiet_is_not_cut() -> None:
    augmenter = Augmenter(replace(OFF, offset_probability=1.0))
    row = spoken("ONE", lead=1)
    for seed in range(20):
        seed_all(seed)
        assert sounds(augmenter.arrange([row], 1000)[0].features) == sounds(row.features)


def test_joined_rows_say_what_they_hold() -> None:
    augmenter = Augmenter(replace(OFF, concat_probability=1.0, max_pause_s=0.5))
    rows = [spoken(f"W{i}", 150 + i) for i in range(12)]
    length = {row.text: len(row.features) for row in rows}
    sizes, pauses = set(), []
    for seed in range(30):
        seed_all(seed)
        out = augmenter.arrange(rows, 12 * 200)
        words = [word for row in out for word in row.text.split()]
        assert len(words) == len(set(words)) >= 8, "nothing twice, little left out"
        for row in out:
            parts = row.text.split()
            assert sounds(row.features) == [s for p in parts for s in sounds(rows[int(p[1:])].features)]
            if len(parts) > 1:
                pauses.append((len(row.features) - sum(length[p] for p in parts)) / (len(parts) - 1))
                sizes.add(len(parts))
    assert sizes == {2, 3}
    assert 10 <= min(pauses) < 20 and 40 < max(pauses) <= 50


@pytest.mark.parametrize("digital", [0.0, 1.0])
def test_silence_goes_between_words_never_into_one(digital: float) -> None:
    config = replace(OFF, silence_probability=1.0, max_silence_s=3.0, digital_silence_probability=digital)
    rows = [spoken("ONE"), spoken("TWO", 210)]
    places, added = set(), []
    for seed in range(60):
        seed_all(seed)
        for row in Augmenter(config).arrange(rows, 2000):
            original = rows[["ONE", "TWO"].index(row.text)]
            assert sounds(row.features) == sounds(original.features)
            is_sound = row.features[:, 1:].mean(1) > -6
            where = torch.nonzero(is_sound)[:, 0]
            silence = len(row.features) - len(original.features)
            added.append(silence)
            if silence < 20:
                continue
            widest = int((where[1:] - where[:-1]).max()) - 1
            start, end = int(where[0]), len(row.features) - 1 - int(where[-1])
            places.add({start: "start", widest: "middle", end: "end"}[max(start, widest, end)])
            floor = row.features[~is_sound]
            is_digital = (floor == LOG_FLOOR).all(1)
            assert int(is_digital.sum()) == (silence if digital else 0)
            assert floor[~is_digital].mean() == pytest.approx(FLOOR, abs=0.3)
    assert places == {"start", "middle", "end"}
    assert max(added) > 200 and max(added) <= 300


def test_full_batch_drops_rows_to_fit_the_silence() -> None:
    config = replace(OFF, silence_probability=1.0, max_silence_s=3.0)
    rows = [spoken(f"W{i}") for i in range(8)]
    lengths, counts = set(), set()
    for seed in range(20):
        seed_all(seed)
        out = Augmenter(config).arrange(rows, 8 * 200)
        counts.add(len(out))
        lengths |= {len(row.features) for row in out}
    assert min(counts) < 8 and max(lengths) > 300


def test_speech_without_pauses_gets_silence_at_ends_only() -> None:
    config = replace(OFF, silence_probability=1.0)
    row = spoken("ONE", lead=12, gap=0)  # shorter than the minimum pause
    for seed in range(30):
        seed_all(seed)
        (out,) = Augmenter(config).arrange([row], 2000)
        where = torch.nonzero(out.features[:, 1:].mean(1) > -6)[:, 0]
        assert int(where[-1] - where[0]) + 1 == len(where)


def test_memory_never_grows() -> None:
    config = AugmentConfig(offset_probability=1, concat_probability=0.5, silence_probability=0.5)
    generator = random.Random(0)
    longer = 0
    for seed in range(300):
        seed_all(seed)
        length = generator.randint(30, 1500)
        rows = [spoken(f"W{i}", length + generator.randint(0, 60), lead=5) for i in range(max(1, 2000 // length))]
        budget = max(generator.choice([1000, 2000, 2500]), len(rows) * max(len(r.features) for r in rows))
        out = Augmenter(config).arrange(rows, budget)
        longest = max(len(row.features) for row in out)
        assert out and len(out) * longest <= budget
        longer += longest > max(len(row.features) for row in rows) + 64
    assert longer > 100, "the test sees joined rows and silences"


def test_noise_floor_is_made_of_the_quietest_frames() -> None:
    features = spoken("ONE").features
    np.random.seed(1)
    floor = noise_floor(features, 500)
    assert floor.shape == (500, 80)
    assert floor.mean(1).max() < features.mean(1).quantile(0.2)
    assert len(torch.unique(floor, dim=0)) == 10
    assert noise_floor(features[:3], 5).shape == (5, 80)
    assert noise_floor(features, 0).shape == (0, 80)


def test_gain_leaves_digital_silence_alone() -> None:
    features = torch.full((50, 80), -5.0)
    features[20:30] = float(np.float16(LOG_FLOOR))  # as it is stored
    gains = []
    for seed in range(40):
        seed_all(seed)
        out = Augmenter(replace(OFF, max_gain_db=12.0)).view(features)
        assert torch.equal(out[20:30], features[20:30])
        gains.append(float(out[0, 0] + 5.0) * 10 / np.log(10))
    assert -12 <= min(gains) < -9 and 9 < max(gains) <= 12
    quiet = Augmenter(replace(OFF, max_gain_db=100.0)).view(features)
    assert quiet.min() >= LOG_FLOOR - 0.01


def test_masks_stay_within_their_limits() -> None:
    config = replace(OFF, probability=1.0, num_time_masks=4, max_time_frames=30, max_time_fraction=0.1)
    features = torch.randn(400, 80)
    num_masked = []
    for seed in range(40):
        seed_all(seed)
        masked = Augmenter(replace(config, num_freq_masks=0)).view(features) != features
        assert (masked.any(1) == masked.all(1)).all(), "whole frames"
        num_masked.append(int(masked.any(1).sum()))
    assert 20 < max(num_masked) <= 40
    seed_all(2)
    out = Augmenter(replace(config, num_freq_masks=0)).view(features)
    assert out[out != features].tolist() == pytest.approx([float(features.mean())] * (80 * num_masked[2])), "the mean"
    seed_all(3)
    masked = Augmenter(replace(config, num_time_masks=0, max_freq_bins=20)).view(features) != features
    assert 0 < int(masked.any(0).sum()) <= 40 and (masked.any(0) == masked.all(0)).all()


def test_time_warp_has_its_size_and_stays_monotonic() -> None:
    ramp = torch.arange(300.0)[:, None].expand(300, 80)
    shifts = []
    for seed in range(20):
        seed_all(seed)
        ((warped, _),) = Augmenter(replace(OFF, probability=1.0, time_warp=30)).arrange([Example(ramp, "A")], 1000)
        assert warped.shape == ramp.shape and bool((warped.diff(dim=0) > -1e-3).all())
        assert warped[0, 0] < 3 and warped[-1, 0] > 296, "the ends stay"
        shifts.append(float((warped - ramp).abs().max()))
    assert 20 < max(shifts) <= 31


def test_noise_is_as_loud_as_configured(monkeypatch: pytest.MonkeyPatch) -> None:
    ratios: list[float] = []
    monkeypatch.setattr("asr.data.augment.add_noise", lambda features, snr_db: ratios.append(snr_db) or features)
    augmenter = Augmenter(replace(OFF, noise_probability=1.0, min_snr_db=12.0))
    seed_all(0)
    for _ in range(200):
        augmenter.view(torch.randn(5, 80))
    assert 12 <= min(ratios) < 13 and 41 < max(ratios) <= 42


@pytest.mark.parametrize(("num_frames", "most"), [(4000, 4), (100, 1)])
def test_short_utterances_have_fewer_masks_than_long_ones(num_frames: int, most: int) -> None:
    config = replace(
        OFF, probability=1.0, num_freq_masks=0, num_time_masks=4, max_time_frames=30, max_time_fraction=0.1
    )
    features, stretches = torch.randn(num_frames, 80), []
    for seed in range(40):
        seed_all(seed)
        masked = (Augmenter(config).view(features) != features).any(1).int()
        stretches.append(int((masked.diff(prepend=torch.zeros(1)) == 1).sum()))
    assert max(stretches) == most


@pytest.mark.parametrize(
    "setting", [{"max_time_frames": 0}, {"max_time_fraction": 0.0}, {"max_freq_bins": 0}, {"num_time_masks": 0}]
)
def test_every_part_can_be_turned_off_alone(setting: dict[str, float]) -> None:
    assert Augmenter(AugmentConfig(**setting)).view(torch.randn(100, 80)).shape == (100, 80)  # type: ignore[arg-type]
    assert Augmenter(AugmentConfig()).view(torch.randn(3, 80)).shape == (3, 80)


@pytest.mark.parametrize(
    "setting", [{"concat_probability": 1.5}, {"silence_probability": -0.1}, {"max_pause_s": 0.0}, {"max_silence_s": 99}]
)
def test_strange_settings_are_refused(setting: dict[str, float]) -> None:
    with pytest.raises(ConfigError, match=rf"augment\.{next(iter(setting))} = .* must be in \["):
        AugmentConfig(**setting)  # type: ignore[arg-type]


def test_views_of_a_batch_share_the_planned_layout(tmp_path) -> None:  # type: ignore[no-untyped-def]
    manifest = prepare(utterances(tmp_path, 12), tmp_path / "data", "set").manifest
    data = DataConfig(train=(str(manifest),), max_batch_s=8, max_utterance_s=4, min_utterance_s=0.1, num_workers=0)
    sampler = BatchSampler(load_training_cuts(data)[0], data, 1, Position())
    tokenizer = Tokenizer("char", ("<blk>", "<unk>", "<sos/eos>", "▁", *"ABCDEFGHIJKLMNOPQRSTUVWXYZ'"))
    config = AugmentConfig(silence_probability=1.0, concat_probability=0.5, offset_probability=1.0)
    dataset = SpeechDataset(tokenizer, config, num_views=2)
    for plan in sampler:
        batch = dataset[plan]
        seed_all(0)
        again = dataset[plan]
        assert all(torch.equal(a, b) for a, b in zip(batch[:4], again[:4], strict=True))
        rows = len(batch.features) // 2
        assert torch.equal(batch.num_frames[:rows], batch.num_frames[rows:])
        assert torch.equal(batch.targets[:rows], batch.targets[rows:])
        assert not torch.equal(batch.features[:rows], batch.features[rows:]), "each view has masks of its own"
        assert batch.features[:rows, :, 0].numel() <= 800
        assert batch.seconds == pytest.approx(float(batch.num_frames[:rows].sum()) / 100)
        plain = dataset[plan._replace(augment=False)]
        assert plain.num_frames[: len(plan.cuts)].tolist() == [cut.num_frames for cut in plan.cuts]
