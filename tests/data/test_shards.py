"""Shards: the same data in different files, for lhotse and for training, read in any order."""

from __future__ import annotations

import gzip
import shutil
from pathlib import Path

import numpy as np
import pytest
import torch
from lhotse import CutSet
from test_data import plans

from asr.cli import main
from asr.data.batches import Position
from asr.data.cuts import load_cuts
from asr.data.shards import write_shards
from asr.training.checkpoint import Checkpoint, checkpoint_path


@pytest.fixture(scope="module")
def shards(tones: tuple[Path, Path], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The 120 training utterances in shards of 25."""
    out = tmp_path_factory.mktemp("shards") / "train"
    assert main(["shard", str(tones[0]), "--out", str(out), "--size", "25"]) == 0
    return out


def test_shards_hold_what_the_data_set_holds(tones: tuple[Path, Path], shards: Path) -> None:
    names = [pattern % n for pattern in ("cuts.%06d.jsonl.gz", "features.%06d.tar") for n in range(5)]
    assert sorted(path.name for path in shards.iterdir()) == names
    for original, cut in zip(load_cuts(tones[0]), load_cuts(shards), strict=True):
        assert cut.id == original.id and cut.supervisions == original.supervisions
        assert np.array_equal(cut.load_features(), original.load_features())


def test_lhotse_streams_them(tones: tuple[Path, Path], shards: Path) -> None:
    for original, cut in zip(load_cuts(tones[0]), CutSet.from_shar(in_dir=shards), strict=True):
        assert cut.features.storage_type.startswith("memory")  # from the tar file, not by our reader
        assert cut.id == original.id and cut.supervisions[0].text == original.supervisions[0].text
        assert np.array_equal(cut.load_features(), original.load_features())


def test_training_resumes_the_same_batches_within_an_epoch(
    arguments: list[str], tones: tuple[Path, Path], shards: Path, tmp_path: Path
) -> None:
    everything = plans((tones[0],))
    assert plans((shards,)) == everything
    assert plans((shards,), Position(0, 5), (2, 1, 2)) == everything[5:][1::2][: (len(everything) - 5) // 2]

    straight = tmp_path / "straight"
    assert main([*arguments, "train.max_steps=6", "optim.schedule=noam", f"train.output={straight}"]) == 0
    from_shards = [*arguments, f"data.train={shards}", "optim.schedule=noam", "data.num_workers=1"]
    for steps in (4, 6):
        assert main([*from_shards, f"train.max_steps={steps}", "--resume"]) == 0
    one, other = (Checkpoint.load(checkpoint_path(run, 6)) for run in (straight, tmp_path / "run"))
    assert one.training["epoch"] == 0
    assert all(torch.equal(value, other.weights[name]) for name, value in one.weights.items())


def test_a_shard_may_lie_elsewhere(shards: Path, tmp_path: Path) -> None:
    here, there = tmp_path / "here", tmp_path / "there"
    shutil.copytree(shards, here)
    there.mkdir()
    shutil.move(here / "features.000002.tar", there)
    (here / "features.000002.tar").symlink_to(there / "features.000002.tar")
    originals = {cut.id: cut for cut in load_cuts(shards)}
    assert all(np.array_equal(cut.load_features(), originals[cut.id].load_features()) for cut in load_cuts(here))


def test_names_long_and_odd(tones: tuple[Path, Path], tmp_path: Path) -> None:
    cuts = [cut.with_id(id) for cut, id in zip(load_cuts(tones[0]), ("ä" * 90, "a/b.c/d", "x" * 200), strict=False)]
    assert write_shards(cuts, tmp_path / "out", 2).num_shards == 2
    for reader in (load_cuts(tmp_path / "out"), CutSet.from_shar(in_dir=tmp_path / "out")):
        for original, cut in zip(cuts, reader, strict=True):
            assert cut.id == original.id and np.array_equal(cut.load_features(), original.load_features())


def test_the_command_joins_sets_and_names_damage(
    tones: tuple[Path, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    copied = tmp_path / "copied"
    shutil.copytree(tones[1].parent, copied)
    (features,) = (copied / "valid.features").iterdir()
    features.write_bytes(features.read_bytes()[:-2])
    out, part = tmp_path / "out", tmp_path / "out.part"  # the latter from a run that was killed
    part.mkdir()
    (part / "features.000009.tar").touch()
    assert main(["shard", str(tones[1]), str(copied / tones[1].name), "--out", str(out), "--size", "25"]) == 0
    (last,) = [cut.id for cut in load_cuts(tones[1])][-1:]
    printed = capsys.readouterr().out
    assert f"left out, unreadable features: {last} (" in printed
    assert f"{out}: 39 utterances in 2 shards" in " ".join(printed.split())
    assert [path.name for path in sorted(out.glob("features.*"))] == ["features.000000.tar", "features.000001.tar"]
    assert len(list(load_cuts(out))) == 39


def test_an_interrupted_run_leaves_no_shards(tones: tuple[Path, Path], tmp_path: Path) -> None:
    def interrupted() -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        write_shards(load_cuts(tones[0]), tmp_path / "out", 5, interrupted)
    assert list(tmp_path.iterdir()) == []


def test_what_cannot_be_sharded(
    tones: tuple[Path, Path], shards: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    cuts = list(load_cuts(tones[0]))[:3]
    cuts[1].features.storage_path = "nowhere"
    result = write_shards(cuts, tmp_path / "two", 2000)
    assert (result.num_utterances, [r.id for r in result.refusals]) == (2, [cuts[1].id])
    with pytest.raises(ValueError, match=r"none of .* is readable"):
        write_shards(cuts[1:2], tmp_path / "none", 2000)
    for extra, message in (
        (["--out", str(shards)], "exists"),
        (["--out", str(tmp_path / "new"), "--size", "0"], "at least 1"),
    ):
        assert main(["shard", str(tones[0]), *extra]) == 1
        assert message in capsys.readouterr().err
    with pytest.raises(ValueError, match="holds no shards"):
        load_cuts(tmp_path)
    with gzip.open(shards / "cuts.000000.jsonl.gz", "rt") as file:
        assert str(shards) not in file.readline()  # the directory can be moved
