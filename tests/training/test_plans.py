"""Plans of batches: what is in each row, how large batches are, and that they depend on nothing but their number."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from itertools import combinations

import numpy as np
import pytest
import torch
from support.clips import equal, silent_speech, speech_of

from asr.config import AugmentConfig, Config, DataConfig, TrainConfig
from asr.features import SAMPLE_RATE
from asr.training.plans import ALONE, MAX_ROWS, NOTHING, PLAIN, WITH_SPEECH, Plan, Planner, Row, segments
from asr.training.sounds import Noise

NOISE = Noise(None, 1)
RNG = np.random.default_rng(0)
MANY = RNG.integers(SAMPLE_RATE // 2, 16 * SAMPLE_RATE, 600)
CONFIG = Config(data=DataConfig(max_batch_s=60, max_utterance_s=16))


def planner(
    lengths: Sequence[int] | np.ndarray = MANY,
    config: Config = CONFIG,
    shares: np.ndarray | None = None,
    noise: Noise = NOISE,
) -> Planner:
    shares = np.ones(len(lengths)) if shares is None else shares
    return Planner(silent_speech(lengths), shares, noise, 3, config)


def plans(planner: Planner, epoch: int = 0) -> list[Plan]:
    return [planner.plan(epoch, number, members) for number, members in enumerate(planner.epoch(epoch))]


def used(planner: Planner, epoch: int = 0) -> list[int]:
    """The utterances of an epoch, in order."""
    return [utterance for plan in plans(planner, epoch) for row in plan.rows for utterance in row.utterances]


def with_seed(seed: int) -> Config:
    return replace(CONFIG, train=TrainConfig(seed=seed))


def test_a_plan_depends_only_on_seed_epoch_and_number() -> None:
    straight = plans(planner(), 1)
    resumed, members = planner(), planner().epoch(1)
    for number in reversed(range(len(members))):
        assert equal(resumed.plan(1, number, members[number]), straight[number])
    for others in (plans(planner(), 2), plans(planner(config=with_seed(2)), 1)):
        assert not any(equal(one, other) for one, other in zip(straight, others, strict=False))
    seeds = [plan.seed for epoch in range(3) for plan in plans(planner(), epoch)]
    assert len(set(seeds)) == len(seeds) > 300, "each batch draws its own masks"


def test_an_epoch_has_every_utterance_once_in_an_order_of_its_own() -> None:
    orders = [used(planner(config=with_seed(seed)), epoch) for seed in (1, 2) for epoch in range(3)]
    assert all(sorted(order) == list(range(len(MANY))) for order in orders)
    assert len(set(map(tuple, orders))) == len(orders)
    pairs = [
        Counter(tuple(row.utterances) for plan in plans(planner(), epoch) for row in plan.rows) for epoch in (0, 1)
    ]
    joined = [{utterances for utterances in each if len(utterances) > 1} for each in pairs]
    assert min(map(len, joined)) > 5 and not joined[0] & joined[1]


@pytest.mark.parametrize("share", [0.3, 0.5])
def test_a_share_is_drawn_anew_in_each_epoch(share: float) -> None:
    """Overlaps between epochs and between seeds must be those of independent draws."""
    count = 3000
    lengths = np.full(2 * count, SAMPLE_RATE)
    shares = np.repeat([1.0, share], count)
    draws = [(with_seed(seed), epoch) for seed, epoch in ((1, 0), (1, 1), (1, 2), (2, 0))]
    epochs = [set(used(planner(lengths, config, shares), epoch)) for config, epoch in draws]
    assert all(set(range(count)) <= each for each in epochs)
    epochs = [{utterance for utterance in each if utterance >= count} for each in epochs]
    assert all(len(each) / count == pytest.approx(share, abs=0.03) for each in epochs)
    assert all(len(a & b) / count == pytest.approx(share**2, abs=0.03) for a, b in combinations(epochs, 2))


def test_the_first_epochs_have_short_clean_utterances_only() -> None:
    config = replace(CONFIG, data=replace(CONFIG.data, curriculum_epochs=1, curriculum_s=4))
    first, second = (plans(planner(config=config), epoch) for epoch in (0, 1))
    assert sorted(u for plan in first for row in plan.rows for u in row.utterances) == [
        index for index, length in enumerate(MANY) if length <= 4 * SAMPLE_RATE
    ]
    for plan in first:
        assert not plan.masked and plan.speed == 1.0 and plan.num_rooms == plan.num_lines == 0
        assert not plan.kind.any()
        assert all(len(row.utterances) == 1 and row.pauses == [0.0] and row.after == 0.0 for row in plan.rows)
    assert all(plan.masked for plan in second) and max(plan.num_rooms for plan in second) > 0
    assert {kind for plan in second for kind in plan.kind.tolist()} == {NOTHING, WITH_SPEECH, ALONE}
    assert sum(len(row.utterances) for plan in second for row in plan.rows) == len(MANY)


@pytest.mark.parametrize(
    ("data", "share", "advice"),
    [
        (DataConfig(curriculum_epochs=1, curriculum_s=0.2), 1.0, "short enough: raise data.curriculum_s"),
        (DataConfig(), 1e-9, r"raise the shares after \* in data.train"),
    ],
)
def test_an_epoch_without_an_utterance_is_refused(data: DataConfig, share: float, advice: str) -> None:
    empty = planner(config=Config(data=data), shares=np.full(len(MANY), share))
    with pytest.raises(ValueError, match=f"an epoch has no utterance.*{advice}"):
        empty.epoch(0)


@pytest.mark.parametrize("max_batch_s", [16.0, 45.0, 600.0])
def test_no_batch_is_larger_than_its_limit(max_batch_s: float) -> None:
    """Including padding; only an utterance that fills a batch alone may exceed it, by its padding and a low speed."""
    config = replace(CONFIG, data=replace(CONFIG.data, max_batch_s=max_batch_s))
    every = [plan for epoch in (0, 1) for plan in plans(planner(config=config), epoch)]
    for plan in every:
        assert plan.num_frames.min() >= 1 and plan.num_frames.max() <= plan.frames
        assert len(plan.rows) * plan.frames <= 100 * max_batch_s or len(plan.rows) == 1
    padding = 1 - sum(plan.num_frames.sum() for plan in every) / sum(len(plan.rows) * plan.frames for plan in every)
    assert padding < 0.15, "rows of a batch have similar lengths"
    if max_batch_s == 600:
        assert sum(plan.seconds for plan in every) / len(every) > 0.7 * max_batch_s, "batches are full"
    assert len({plan.frames for plan in every}) < 60, "few shapes"


def test_silence_and_joining_never_exceed_the_longest_utterance() -> None:
    rows = [(row, plan) for epoch in range(4) for plan in plans(planner(), epoch) for row in plan.rows]
    lengths = [
        MANY[row.utterances].sum() / plan.speed / SAMPLE_RATE + sum(row.pauses) + row.after for row, plan in rows
    ]
    lone = [len(row.utterances) == 1 and sum(row.pauses) + row.after == 0 for row, _ in rows]
    assert max(seconds for seconds, alone in zip(lengths, lone, strict=True) if not alone) <= 16.0
    assert max(lengths) <= 16.0 / 0.9, "an utterance that is played slowly"
    frames = [int(frames) for epoch in range(4) for plan in plans(planner(), epoch) for frames in plan.num_frames]
    assert frames == pytest.approx([100 * seconds for seconds in lengths], abs=1)


def test_the_longest_utterances_allowed_have_a_batch() -> None:
    config = Config(data=DataConfig(max_batch_s=600, max_utterance_s=600), augment=replace(PLAIN, speeds=(0.5,)))
    (plan,) = plans(planner([600 * SAMPLE_RATE], config))
    assert plan.num_frames.tolist() == [120_000] and plan.frames >= 120_000


def test_no_batch_has_too_many_rows() -> None:
    config = replace(CONFIG, data=replace(CONFIG.data, max_batch_s=2000.0))
    sizes = [len(plan.rows) for plan in plans(planner(np.full(1000, SAMPLE_RATE), config))]
    assert max(sizes) == MAX_ROWS


@pytest.mark.parametrize("max_batch_s", [16.0, 45.0, 300.0])
def test_what_is_drawn_has_its_probability(max_batch_s: float) -> None:
    """In small batches and in large ones."""
    data = replace(CONFIG.data, max_batch_s=max_batch_s)
    augment = AugmentConfig(silence_probability=0.0, margin_probability=0.0, offset_probability=0.0)
    maker = planner(np.tile(MANY, 3) // 3, Config(data=data, augment=augment))
    every = [plan for epoch in range(2) for plan in plans(maker, epoch)]
    rows = [row for plan in every for row in plan.rows]
    spoken = [row for row in rows if row.utterances]
    assert sum(len(row.utterances) > 1 for row in spoken) / len(spoken) == pytest.approx(0.07, abs=0.03)
    assert (len(rows) - len(spoken)) / len(spoken) == pytest.approx(0.03, abs=0.002)
    assert sum(plan.num_rooms for plan in every) / len(spoken) == pytest.approx(0.42, abs=0.04)
    assert sum(plan.num_lines for plan in every) / len(spoken) == pytest.approx(0.07, abs=0.02)
    plain = [
        kind == WITH_SPEECH
        for plan in every
        for place, (row, kind) in enumerate(zip(plan.rows, plan.kind.tolist(), strict=True))
        if plan.num_rooms <= place < len(plan.rows) - plan.num_lines and len(row.utterances) == 1
    ]
    assert np.mean(plain) == pytest.approx(0.3, abs=0.05)
    speeds = Counter(plan.speed for plan in every)
    assert set(speeds) == set(augment.speeds) and max(speeds.values()) < 0.4 * len(every)


def test_every_row_may_be_in_a_room() -> None:
    augment = AugmentConfig(room_probability=1.0, telephone_probability=0.0, noise_alone=0.0)
    for plan in plans(planner(config=replace(CONFIG, augment=augment))):
        assert plan.num_rooms == len(plan.rows) and (plan.kind == WITH_SPEECH).all()
        assert plan.noise_db.min() >= 4 and plan.noise_db.max() <= 25


def test_rooms_come_first_and_lines_last_and_noise_alone_has_neither() -> None:
    augment = AugmentConfig(room_probability=0.5, telephone_probability=0.4, noise_alone=0.5)
    config = replace(CONFIG, data=replace(CONFIG.data, max_batch_s=300), augment=augment)
    every = plans(planner(config=config))
    assert sum(plan.num_lines for plan in every) > 50
    for plan in every:
        on_line = len(plan.rows) - plan.num_lines
        assert plan.num_rooms <= on_line and all(row.utterances for row in plan.rows[: plan.num_rooms])
        assert all(row.utterances for row in plan.rows[on_line:])
        alone = torch.tensor([not row.utterances for row in plan.rows])
        assert torch.equal(plan.kind == ALONE, alone)
        assert (plan.noise_db[alone] < 0).all() and (plan.noise_db[~alone] > 0).all()
        assert not plan.num_spoken[alone].any()
        assert (plan.kind[: plan.num_rooms] == WITH_SPEECH).all(), "a room is never silent"


def test_words_begin_anywhere_and_silence_is_beside_them() -> None:
    every = [row for epoch in range(2) for plan in plans(planner(MANY // 3), epoch) for row in plan.rows]
    single = [row for row in every if len(row.utterances) == 1]
    before, after = (np.array(each) for each in zip(*((row.pauses[0], row.after) for row in single), strict=True))
    assert np.mean(before == 0) == pytest.approx(0.5 * 0.45 * 0.975, abs=0.05)
    assert np.mean(after == 0) == pytest.approx(0.45 * 0.975, abs=0.05)
    assert max(before.max(), after.max()) > 3 and max(before.max(), after.max()) < 1.5 + 5.0
    pauses = [pause for row in every for pause in row.pauses[1:]]
    assert len(pauses) > 20 and min(pauses) >= 0.1 and max(pauses) <= 1.0


def test_silence_gets_noise_more_often() -> None:
    augment = AugmentConfig(room_probability=0.0, telephone_probability=0.0, margin_probability=0.5, noise_alone=0.0)
    found: dict[bool, list[bool]] = {True: [], False: []}
    for plan in plans(planner(np.tile(MANY, 3) // 3, replace(CONFIG, augment=augment))):
        for row, kind in zip(plan.rows, plan.kind.tolist(), strict=True):
            found[len(row.utterances) > 1 or sum(row.pauses) + row.after > 0].append(kind == WITH_SPEECH)
    assert np.mean(found[True]) == pytest.approx(0.9, abs=0.04) and np.mean(found[False]) == pytest.approx(
        0.3, abs=0.06
    )


def test_noise_alone_is_no_longer_than_an_utterance() -> None:
    """And a quarter of it and of other noise is synthesized if there are recordings."""
    noise = Noise(speech_of(np.ones(SAMPLE_RATE), np.ones(3 * SAMPLE_RATE)), 1)
    data = DataConfig(max_batch_s=60, max_utterance_s=1.0)
    config = Config(data=data, augment=AugmentConfig(noise_alone=1.0))
    every = plans(planner(np.full(1000, SAMPLE_RATE // 2), config, noise=noise))
    alone = torch.cat([plan.num_frames[plan.kind == ALONE] for plan in every])
    assert len(alone) > 900 and alone.max() <= 100
    which, starts = np.concatenate([plan.noises for plan in every]).T
    assert np.mean(which >= 2) == pytest.approx(0.25, abs=0.04) and set(which) == set(range(26))
    assert (starts < noise.lengths[which]).all() and np.ptp(starts[which == 1]) > 2 * SAMPLE_RATE
    without = np.concatenate([plan.noises for plan in plans(planner())])[:, 0]
    assert set(without) == set(range(24))


@pytest.mark.parametrize("speed", [0.9, 1.0, 1.1])
def test_pauses_have_their_length_at_any_speed(speed: float) -> None:
    lengths = [16000, 8000, 4000]
    places = segments(Row([5, 6, 7], [0.5, 0.25, 1.0], 2.0), lengths, speed)
    ends = [0, *(place + length for place, length in zip(places, lengths, strict=True))]
    pauses = [(place - end) / speed / SAMPLE_RATE for place, end in zip(places, ends, strict=False)]
    assert pauses == pytest.approx([0.5, 0.25, 1.0], abs=1e-3)
