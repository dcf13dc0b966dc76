"""The recordings of a corpus, the names of their texts, and their shards."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.synth import write_audio

from asr.streaming.corpus.recordings import find_recordings, longest_first, parse_shard
from asr.tables import Recording, Refusal


def touch(path: Path) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.touch()
    return path


def test_recordings_of_a_folder_by_name(tmp_path: Path) -> None:
    for name in ("b/x.1.flac", "b/.x.wav", "b/notes.txt", "a.WAV", "b.wav/c.mp3"):
        touch(tmp_path / "talks" / name)
    found = find_recordings([f"{tmp_path}/talks/"])
    audio = [tmp_path / "talks" / name for name in ("a.WAV", "b/x.1.flac", "b.wav/c.mp3")]
    assert found == [
        Recording(id, path) for id, path in zip(["talks/a", "talks/b/x.1", "talks/b.wav/c"], audio, strict=True)
    ]


def test_folder_that_cannot_be_read_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    audio, closed = touch(tmp_path / "talks" / "a.wav"), tmp_path / "talks" / "closed"
    closed.mkdir()
    scandir = os.scandir

    def denied(path: str) -> Any:
        if path == str(closed):
            raise PermissionError(13, "Permission denied", path)
        return scandir(path)

    monkeypatch.setattr(os, "scandir", denied)
    refusal = Refusal(str(closed), str(closed), "folder cannot be read: Permission denied")
    assert find_recordings([str(tmp_path / "talks")]) == [Recording("talks/a", audio), refusal]


def test_two_recordings_never_become_one_text(tmp_path: Path) -> None:
    paths = [touch(tmp_path / "talks" / name) for name in ("a.mp3", "a.wav")]
    first, refused = find_recordings([str(tmp_path / "talks")] * 2)[:2]
    assert first == Recording("talks/a", paths[0])
    assert isinstance(refused, Refusal) and refused.audio == str(paths[1]) and str(paths[0]) in refused.reason
    assert len(find_recordings([str(tmp_path / "talks")] * 2)) == 3  # the second time, only the rejected ones


def test_recordings_of_a_table(tmp_path: Path) -> None:
    table = tmp_path / "list.csv"
    table.write_text("path,speaker,duration,offset\n../x/a.wav,ann,2.5,\n/y/b.wav,,,\nc.wav,,,3\n")
    found = find_recordings([str(table)], str(tmp_path))
    assert found[:2] == [
        Recording("list/x/a", tmp_path.parent / "x" / "a.wav", "ann", 2.5),
        Recording("list/y/b", Path("/y/b.wav")),
    ]
    assert isinstance(found[2], Refusal) and found[2].reason == "segment of a longer recording"


def write_data_set(folder: Path, *rows: str) -> Path:
    """A data set of `asr prepare`; rows: speaker, audio and start of each utterance."""
    head = "# asr-stream samples: samples-1.s16", "id\tfirst\tsamples\tspeaker\taudio\tstart\ttext"
    folder.mkdir()
    lines = [f"u{i}\t0\t16000\t" + "\t".join(row.split()).replace("-", "") + "\tA" for i, row in enumerate(rows)]
    (folder / "utterances.tsv").write_text("\n".join((*head, *lines)) + "\n")
    return folder


def test_recordings_of_a_data_set_without_its_segments(tmp_path: Path) -> None:
    data_set = write_data_set(tmp_path / "dev", "ann /audio/a.opus 0", "- /audio/b.flac 0", "bob /audio/b.flac 12.5")
    for path, name in ((data_set, "dev"), (data_set / "utterances.tsv", "utterances")):
        a, b, part = find_recordings([str(path)])
        assert a == Recording(f"{name}/u0", Path("/audio/a.opus"), "ann")
        assert b == Recording(f"{name}/u1", Path("/audio/b.flac"))
        assert isinstance(part, Refusal) and (part.audio, part.reason, part.detail) == (
            "/audio/b.flac",
            "segment of a longer recording",
            "transcribe the recording itself",
        )


def test_names_of_data_sets_may_have_dots(tmp_path: Path) -> None:
    folders = [write_data_set(tmp_path / name, f"ann /{name}.wav 0") for name in ("dev.clean", "dev.other")]
    found = find_recordings([str(folder) for folder in folders])
    assert [each.id for each in found] == ["dev.clean/u0", "dev.other/u0"]


def test_what_is_no_input(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"gone is not there: give a folder of recordings, or a table \(\.tsv"):
        find_recordings([str(tmp_path / "gone")])
    with pytest.raises(ValueError, match=r"a\.wav is neither a folder nor a table"):
        find_recordings([str(touch(tmp_path / "a.wav"))])
    (tmp_path / "empty").mkdir()
    with pytest.raises(ValueError, match=r"no recording in .*empty; recordings in folders have the suffixes \.3g2, "):
        find_recordings([str(tmp_path / "empty")])


def test_the_longest_come_first(tmp_path: Path) -> None:
    for name, length in (("a", 1000), ("b", 3000)):
        write_audio(tmp_path / f"{name}.wav", np.zeros(length, np.float32))
    recordings = [Recording(name, tmp_path / f"{name}.wav", None, length) for name, length in (("a", None), ("c", 0.1))]
    found = longest_first([*recordings, Recording("b", tmp_path / "b.wav"), Recording("d", tmp_path / "d.wav")])
    assert [(each.id, each.duration_s) for each in found] == [("b", 0.1875), ("c", 0.1), ("a", 0.0625), ("d", 0.0)]


@pytest.mark.parametrize("text", ["0/4", "5/4", "1", "1/0", "-1/4", "a/b", "1/4/2"])
def test_shards_that_there_are_not(text: str) -> None:
    assert parse_shard("4/4") == (4, 4)
    with pytest.raises(ValueError, match=r"--shard is .*; expected i/n with i in 1 to n, such as 3/16"):
        parse_shard(text)
