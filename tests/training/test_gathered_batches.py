"""Batches made from plans: samples and transcripts in place, the same batch each time, read ahead in a thread."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import torch
from support.clips import LETTERS, equal, one_row, speech_of
from support.synth import hum

from asr.config import AugmentConfig, Config, DataConfig, LossConfig
from asr.features import fbank
from asr.lexicon import Lexicon
from asr.lexicon.phones import PhoneTokenizer
from asr.model.decoder import IGNORE_ID
from asr.training.batches import Batches, ahead
from asr.training.plans import ALONE, Planner, Row
from asr.training.sounds import Noise, read_rooms

CPU = torch.device("cpu")
TEXTS = ("AB", "BACK", "A", "CAB")
SPEECH = speech_of(*(hum(1.0 + 0.33 * seed, seed=seed) for seed in range(4)), texts=TEXTS)
NOISE = Noise(None, 1)
CONFIG = Config()
ROOMS = read_rooms("", 2, num_jobs=1, seed=1)
PHONES = PhoneTokenizer(Lexicon({"A": (("AH",),), "CAB": (("K", "AE", "B"),)}))


def batches_of(config: Config = CONFIG, phones: PhoneTokenizer | None = None) -> Batches:
    return Batches(SPEECH, NOISE, ROOMS, config, LETTERS, phones, CPU)


def three_rows() -> Any:
    """Two utterances with a pause, noise alone, and one utterance."""
    plan = one_row(SPEECH)
    rows = [Row([3, 2], [0.25, 0.5], 0.0), Row([], [], 2.0), Row([2], [0.0], 0.0)]
    repeated = {name: x.repeat(3) for name, x in plan._asdict().items() if isinstance(x, torch.Tensor)}
    repeated |= {"num_frames": torch.tensor([440, 200, 166]), "kind": torch.tensor([0, ALONE, 0])}
    return plan._replace(rows=rows, frames=448, noises=np.array([[0, 0], [3, 100], [0, 0]]), **repeated)


def test_words_and_noise_are_where_the_plan_says() -> None:
    gathered = batches_of(phones=PHONES).gather(three_rows())
    joined, silent, alone = gathered.spoken.numpy()
    first, second = SPEECH.samples(3), SPEECH.samples(2)
    expected = np.concatenate((np.zeros(4000), first, np.zeros(8000), second))
    assert np.array_equal(joined[: len(expected)], expected) and not joined[len(expected) :].any()
    assert not silent.any() and np.array_equal(alone[: len(second)], second)
    assert np.array_equal(gathered.noise[1], NOISE.part(3, 100, 448 * 160))
    assert gathered.noise_power.tolist() == [0.0, pytest.approx(NOISE.power(3)), 0.0]
    targets, lengths, phones, phone_lengths = gathered.tokens
    assert lengths.tolist() == [5, 0, 1] and LETTERS.decode(targets[0].tolist()) == "CAB A"
    assert (targets[1] == IGNORE_ID).all() and LETTERS.decode(targets[2, :1].tolist()) == "A"
    assert phones[0].tolist() == PHONES.encode("CAB A") and phone_lengths.tolist() == [4, 0, 1]


def test_noise_alone_counts_as_one_token() -> None:
    batches = batches_of()
    batch = batches(batches.gather(three_rows()))
    assert batch.target_lengths.tolist() == [5, 0, 1] and batch.divisor == 7
    assert batch.phones.shape == (3, 0) and batch.phone_lengths.tolist() == [0, 0, 0]
    assert batch.seconds == pytest.approx(8.06) and batch.features.shape == (3, 448, 80)


def test_unaugmented_features_are_those_of_the_recording() -> None:
    batches = batches_of()
    batch = batches(batches.gather(three_rows()))
    expected = fbank(SPEECH[2].waveform())
    torch.testing.assert_close(batch.features[2, : len(expected) - 1], expected[:-1], atol=2e-3, rtol=0)


def test_a_plan_makes_the_same_batch_each_time() -> None:
    config = Config(
        data=DataConfig(max_batch_s=20, curriculum_epochs=1),
        augment=AugmentConfig(mask_probability=1.0, room_probability=0.5),
        loss=LossConfig(cr_ctc_weight=0.2),
    )
    planner = Planner(SPEECH, np.ones(4), NOISE, len(ROOMS), config)
    batches, again = batches_of(config), batches_of(config)
    for epoch in (0, 1):
        (members,) = planner.epoch(epoch)
        plan = planner.plan(epoch, 0, members)
        batch = batches(batches.gather(plan))
        torch.manual_seed(epoch)
        assert equal(again(again.gather(plan)), batch)
        views = batch.features.chunk(2)
        assert torch.equal(*views) == (epoch == 0), "two views differ, except without masks and voices"
        assert all(torch.equal(*each.chunk(2)) for each in (batch.targets, batch.num_frames, batch.target_lengths))
        other = batches(batches.gather(plan._replace(seed=plan.seed + 1)))
        assert torch.equal(other.features, batch.features) == (epoch == 0)


def test_masks_and_voices_wait_for_the_end_of_the_curriculum() -> None:
    config = Config(data=DataConfig(max_batch_s=20, curriculum_epochs=1))
    planner, batches = Planner(SPEECH, np.ones(4), NOISE, len(ROOMS), config), batches_of(config)
    (members,) = planner.epoch(0)
    plan = planner.plan(0, 0, members)
    found = batches(batches.gather(plan)).features
    for row, features in zip(plan.rows, found, strict=True):
        expected = fbank(SPEECH[row.utterances[0]].waveform())[:-1]
        torch.testing.assert_close(features[: len(expected)], expected, atol=2e-3, rtol=0)
    masked = batches(batches.gather(plan._replace(masked=True))).features
    assert ((masked - found).abs().mean((1, 2)) > 0.05).all()


def test_items_are_computed_ahead_in_a_thread() -> None:
    begun, threads = [], []

    def items() -> Iterator[int]:
        for number in range(4):
            begun.append(number)
            threads.append(threading.current_thread())
            yield number

    waiting = threading.Event()
    found = []
    for number in ahead(items()):
        found.append(number)
        if number == 0:
            while len(begun) < 2:  # the next one begins while this one is used
                waiting.wait(0.01)
        assert max(begun) <= number + 1
    assert found == [0, 1, 2, 3] and threading.main_thread() not in threads


def test_an_error_while_reading_reaches_the_user() -> None:
    def items() -> Iterator[int]:
        yield 1
        raise ValueError("samples-1.s16 is gone")

    found = ahead(items())
    assert next(found) == 1
    with pytest.raises(ValueError, match=r"samples-1\.s16 is gone"):
        next(found)


def test_reading_ends_with_its_user() -> None:
    before = threading.active_count()
    found = ahead(iter(range(10)))
    assert next(found) == 0
    found.close()  # type: ignore[attr-defined]
    assert threading.active_count() == before
