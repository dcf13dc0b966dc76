"""Batches of training data: unusable utterances are skipped and listed; batches do not depend on the process."""

from __future__ import annotations

import gzip
import json
import re
import shutil
from collections.abc import Callable
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from lhotse import CutSet, MonoCut

from asr.cli import main
from asr.config import AugmentConfig, DataConfig
from asr.data.batches import Batch, BatchPlan, BatchSampler, Position, SpeechDataset, load_training_cuts
from asr.data.cuts import load_cuts
from asr.tokenizer import Tokenizer
from asr.training.checkpoint import Checkpoint, checkpoint_path


@pytest.fixture
def damaged(tones: tuple[Path, Path], tmp_path: Path) -> Callable[..., Path]:
    """Makes a copy of the training set with utterances changed by `damage`, which gets their rows sorted by
    duration."""

    def copy(damage: Callable[[list[dict[str, Any]], np.ndarray], None]) -> Path:
        folder = tmp_path / "damaged"
        shutil.copytree(tones[0].parent, folder)
        manifest = folder / tones[0].name
        with gzip.open(manifest, "rt") as file:
            rows = [json.loads(line) for line in file]
        (features,) = (folder / "train.features").iterdir()
        values = np.fromfile(features, "<f2")
        damage(sorted(rows, key=lambda row: row["duration"]), values)
        values.tofile(features)
        with gzip.open(manifest, "wt") as file:
            file.writelines(json.dumps(row) + "\n" for row in rows)
        return manifest

    return copy


def some_of_everything(rows: list[dict[str, Any]], values: np.ndarray) -> None:
    rows = [row for row in rows if row["duration"] <= 2]
    first_value = int(rows[-1]["features"]["storage_key"].split(":")[0])
    values[first_value + 5] = np.nan
    key = rows[-2]["features"]["storage_key"].split(":")
    rows[-2]["features"]["storage_key"] = f"{len(values)}:{key[1]}:{key[2]}"
    rows[10]["supervisions"][0]["text"] = " "
    rows[20]["duration"] = rows[20]["supervisions"][0]["duration"] = rows[20]["features"]["duration"] = 600.0
    rows[20]["features"]["num_frames"] = 60000
    for row, name in ((-1, "nan"), (-2, "cut-off"), (10, "no-words"), (20, "ten-minutes")):
        rows[row]["id"] = name


def test_bad_utterances_are_named_and_training_goes_on(
    arguments: list[str],
    damaged: Callable[..., Path],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    manifest = damaged(some_of_everything)
    # The unreadable utterances, which are the longest ones of at most two seconds, are alone in their batches.
    sizes = ["data.max_batch_s=3", "data.max_utterance_s=2", "data.valid_utterances=1000"]
    steps = ["train.max_steps=100", "train.valid_every=100", "train.log_every=10"]
    assert main([*arguments, f"data.train={manifest}", f"data.valid={manifest}", *sizes, *steps]) == 0
    checkpoint = Checkpoint.load(checkpoint_path(tmp_path / "run", 100))
    assert checkpoint.training["epoch"] >= 1  # all batches have been read
    assert all(value.isfinite().all() for value in checkpoint.weights.values())
    output = capsys.readouterr().out
    for line in (
        "left out, empty text: no-words (text is [' '])",
        "left out, too long: ten-minutes (600.00 s, expected 0.1 to 2 s)",
        "left out of validation, too long: ten-minutes (600.00 s, expected 0 to 3 s)",
        "left out of validation, unreadable features: ",
    ):
        assert line in output
    while_training = output[output.index("M parameters") :]
    assert while_training.count("left out, unreadable features: nan (features hold NaN or infinite values)") == 1
    assert len(re.findall(r"^left out, unreadable features: cut-off \(features .+\)$", while_training, re.M)) == 1
    assert "MonoCut" not in output


def test_a_broken_data_set_ends_training(
    arguments: list[str], damaged: Callable[..., Path], capsys: pytest.CaptureFixture[str]
) -> None:
    def half(rows: list[dict[str, Any]], values: np.ndarray) -> None:
        values[len(values) // 2 :] = np.nan

    assert main([*arguments, f"data.train={damaged(half)}", "train.max_steps=100"]) == 1
    assert "could not be read; run `asr prepare` again" in capsys.readouterr().err


def test_a_damaged_manifest_is_one_clear_line(
    arguments: list[str], damaged: Callable[..., Path], capsys: pytest.CaptureFixture[str]
) -> None:
    manifest = damaged(lambda rows, values: None)
    manifest.write_bytes(manifest.read_bytes()[:-200])
    assert main([*arguments, f"data.train={manifest}"]) == 1
    error = capsys.readouterr().err
    assert "train.jsonl.gz is damaged after" in error and error.count("\n") == 1


def test_silence_replaces_a_batch_without_readable_utterances(tones: tuple[Path, Path]) -> None:
    cut = next(iter(load_cuts(tones[0])))
    cut.features.storage_path = "nowhere"
    dataset = SpeechDataset(Tokenizer("char", ("<blk>", "<unk>", "<sos/eos>", "A")), None, 2)
    batch = dataset[BatchPlan([cut], 1, True, 2000)]
    assert batch.seconds == 0 and batch.unreadable[0].id == cut.id and "nowhere" in batch.unreadable[0].detail
    assert batch.features.shape == (2, 40, 80) and batch.target_lengths.tolist() == [0, 0]
    assert batch.num_tokens == 0, "it has no part in what the losses are divided by"


def test_manifests_have_shares_and_report_unused_data(tones: tuple[Path, Path]) -> None:
    lengths = [{cut.id: cut.duration for cut in load_cuts(path)} for path in tones]
    longest = sorted(lengths[1].values())[-3]
    config = DataConfig(train=(str(tones[0]), f"{tones[1]}*0.25"), max_utterance_s=longest, min_utterance_s=1.0)
    parts, left_out = load_training_cuts(config)
    assert [share for _, share in parts] == [1.0, 0.25]
    usable = [[id for id, duration in each.items() if 1.0 <= duration <= longest] for each in lengths]
    assert [[cut.id for cut in cuts] for cuts, _ in parts] == usable
    expected = [id for each, kept in zip(lengths, usable, strict=True) for id in each if id not in kept]
    assert [refusal.id for refusal in left_out] == expected
    assert {id in lengths[0] for id in expected} == {True, False}, "both leave some out"


START = Position()


def plans(manifests: tuple[Path, ...], position: Position = START, steps: tuple[int, int, int] = (1, 0, 1)) -> Any:
    """IDs and seed of every batch from `position` on; steps: batches per step, rank, world size."""
    config = DataConfig(train=tuple(map(str, manifests)), max_batch_s=8, max_utterance_s=8, min_utterance_s=0.1)
    sampler = BatchSampler(load_training_cuts(config)[0], config, 1, position, *steps)
    return [([cut.id for cut in plan.cuts], plan.seed) for plan in sampler]


def test_batches_do_not_depend_on_reader_or_start(tones: tuple[Path, Path]) -> None:
    everything = plans(tones)
    assert len(everything) > 20 and len({id for ids, _ in everything for id in ids}) == 140
    assert plans(tones, Position(0, 7)) == everything[7:]
    whole_steps = everything[: len(everything) // 4 * 4]
    assert plans(tones, steps=(4, 0, 1)) == whole_steps
    shares = [plans(tones, steps=(4, rank, 2)) for rank in range(2)]
    assert [plan for pair in zip(*shares, strict=True) for plan in pair] == whole_steps
    assert plans(tones, Position(1, 0))[0][1] != everything[0][1]  # a different augmentation seed


def silent_cuts(count: int) -> CutSet:
    """Utterances of 1 to 5 s with names of equal length and without audio."""
    ids = (f"{1000 + i // 60}-{100000 + i // 20}-{i % 20:04d}" for i in range(count))
    return CutSet.from_cuts(MonoCut(id, 0, 1 + i % 5, 0) for i, id in enumerate(ids))


def ids_of_epoch(cuts: CutSet, share: float, epoch: int, seed: int = 1) -> list[str]:
    sampler = BatchSampler([(cuts, share)], DataConfig(), seed, Position(epoch))
    return [cut.id for plan in sampler for cut in plan.cuts]


@pytest.mark.parametrize("share", [0.3, 0.5])
def test_a_share_is_drawn_anew_in_each_epoch(share: float) -> None:
    """Overlaps between epochs and between seeds must be those of independent draws."""
    count, num_epochs = 3600, 6
    cuts = silent_cuts(count)
    epochs = [set(ids_of_epoch(cuts, share, epoch)) for epoch in range(num_epochs)]
    epochs.append(set(ids_of_epoch(cuts, share, 0, seed=2)))
    for drawn in epochs:
        assert len(drawn) / count == pytest.approx(share, abs=0.03)
    for one, other in combinations(epochs, 2):
        assert len(one & other) / count == pytest.approx(share**2, abs=0.03)
    assert len(set.union(*epochs)) / count == pytest.approx(1 - (1 - share) ** len(epochs), abs=0.03)


def test_order_differs_by_epoch_and_by_seed() -> None:
    cuts = silent_cuts(200)
    orders = {(seed, epoch): ids_of_epoch(cuts, 1.0, epoch, seed) for seed in (1, 2) for epoch in range(3)}
    everything = sorted(cut.id for cut in cuts)
    assert all(sorted(order) == everything for order in orders.values())
    assert len({tuple(order) for order in orders.values()}) == len(orders)
    assert ids_of_epoch(cuts, 1.0, 2, 1) == orders[1, 2]


def test_a_large_set_is_mixed_before_sorting(monkeypatch: pytest.MonkeyPatch) -> None:
    """A manifest may be sorted by kind of speech; each utterance must be read once."""
    monkeypatch.setattr("asr.data.batches.MAX_SORTED", 100)
    cuts = silent_cuts(1000)
    place = {cut.id: index for index, cut in enumerate(cuts)}
    order = [place[id] for id in ids_of_epoch(cuts, 1.0, 0)]
    assert sorted(order) == list(range(1000))
    assert np.mean(order[:200]) == pytest.approx(500, abs=100)
    assert ids_of_epoch(cuts, 1.0, 0) == [list(place)[index] for index in order]
    assert ids_of_epoch(cuts, 1.0, 1) != [list(place)[index] for index in order]


def test_the_first_epochs_have_short_utterances_only() -> None:
    config = DataConfig(curriculum_epochs=1, curriculum_s=3)
    for epoch, longest in ((0, 3), (1, 5)):
        plans = BatchSampler([(silent_cuts(400), 1.0)], config, 1, Position(epoch))
        assert max(cut.duration for plan in plans for cut in plan.cuts) == longest


def test_no_batch_is_larger_than_its_limit() -> None:
    """Including padding, even if the longest utterance comes last."""
    cuts = CutSet.from_cuts(MonoCut(str(i), 0, duration, 0) for i, duration in enumerate(np.linspace(1, 5, 400)))
    sampler = BatchSampler([(cuts, 1.0)], DataConfig(max_batch_s=20, num_buckets=2), 1, START)
    sizes = [len(plan.cuts) * max(cut.duration for cut in plan.cuts) for plan in sampler]
    assert max(sizes) <= 20 and np.mean(sizes) > 12


def test_a_plan_makes_the_same_batch_each_time(tones: tuple[Path, Path]) -> None:
    dataset = SpeechDataset(Tokenizer("char", ("<blk>", "<unk>", "<sos/eos>", *"ABCDEF")), AugmentConfig(), 2)
    cuts = list(load_cuts(tones[0]))[:3]
    one, again, other = (dataset[BatchPlan(cuts, seed, True, 2000)] for seed in (1, 1, 2))
    assert isinstance(one, Batch) and torch.equal(one.features, again.features)
    assert not torch.equal(one.features, other.features)
    assert not torch.equal(*one.features.chunk(2))  # two views
