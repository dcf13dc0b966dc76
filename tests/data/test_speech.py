"""Data sets on disk: utterances are read as they were written, and damage is one clear line."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from support.corpora import utterances, write_data_set
from support.synth import SAMPLE_RATE

from asr.cli import main
from asr.data.prepare import prepare
from asr.data.speech import (
    MARK,
    Clip,
    Speech,
    batches_by_length,
    evenly_spread,
    write_subset,
)
from asr.features import fbank
from asr.tables import UTTERANCES, Refusal, read_recordings


def write_set(folder: Path, lengths: list[int], texts: list[str] | None = None, first: int = 0) -> Path:
    """A data set of utterances of these numbers of samples, which count up from `first`."""
    samples = np.split(first + np.arange(sum(lengths), dtype=np.int16), np.cumsum(lengths)[:-1])
    return write_data_set(folder, list(zip(texts or ["A"] * len(lengths), samples, strict=True)))


def test_a_folder_and_its_table_are_the_data_set(tmp_path: Path) -> None:
    folder = write_set(tmp_path / "set", [400, 800], ["ONE TWO", ""])
    for path in (folder, folder / UTTERANCES, str(folder)):
        speech = Speech.load(path)
        assert [(clip.id, clip.text, clip.speaker) for clip in speech] == [
            ("u0", "ONE TWO", "speaker 0"),
            ("u1", "", "speaker 1"),
        ]
        assert [clip.samples.tolist() for clip in speech] == [[*range(400)], [*range(400, 1200)]]
        assert len(speech) == 2 and speech.seconds == 1200 / SAMPLE_RATE


def test_a_clip_gives_sound_and_features() -> None:
    samples = np.array([-32768, 16384] * 800, np.int16)
    clip = Clip("u", "A", None, samples)
    assert clip.seconds == 0.1
    assert clip.waveform().dtype == np.float32 and clip.waveform()[:2].tolist() == [-1.0, 0.5]
    assert clip.features().equal(fbank(clip.waveform())) and clip.features().shape == (10, 80)


def test_samples_are_mapped_and_not_read(tmp_path: Path) -> None:
    speech = Speech.load(write_set(tmp_path / "set", [400, 800]))
    assert all(isinstance(clip.samples, np.memmap) for clip in speech.only([1]))


def test_a_data_set_can_be_moved(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    folder = prepare(utterances(tmp_path / "audio"), "data", "set").folder
    before = [clip.samples.copy() for clip in Speech.load(folder)]
    shutil.move(tmp_path / "data", tmp_path / "elsewhere")
    shutil.rmtree(tmp_path / "audio")
    monkeypatch.chdir("/")
    after = Speech.load(tmp_path / "elsewhere" / "set")
    assert len(after) == 3
    assert all(np.array_equal(a, b.samples) for a, b in zip(before, after, strict=True))


def test_rows_may_be_removed_and_reordered(tmp_path: Path) -> None:
    folder = write_set(tmp_path / "set", [400, 800, 100])
    head, columns, *rows = (folder / UTTERANCES).read_text().splitlines()
    (folder / UTTERANCES).write_text("\r\n".join((head, columns, rows[2], "", rows[0], "")))  # as from another editor
    speech = Speech.load(folder)
    assert speech.ids == ["u2", "u0"] and speech.samples(0).tolist() == [*range(1200, 1300)]


def test_a_subset_is_a_table_of_the_same_samples(tmp_path: Path) -> None:
    folder = write_set(tmp_path / "set", [400, 800, 100])
    write_subset(folder / UTTERANCES, [2, 0], folder / "few.tsv")
    few = Speech.load(folder / "few.tsv")
    assert few.ids == ["u2", "u0"] and few.samples(0).tolist() == [*range(1200, 1300)]
    assert Speech.load(folder).ids == ["u0", "u1", "u2"]
    write_subset(folder / UTTERANCES, [], folder / "none.tsv")
    assert len(Speech.load(folder / "none.tsv")) == 0


def test_other_commands_read_the_table_as_recordings(tmp_path: Path) -> None:
    folder = write_set(tmp_path / "set", [400])
    ((recording, row),) = read_recordings(folder / UTTERANCES)  # type: ignore[misc]
    assert recording.audio == Path("/audio/u0.wav") and recording.speaker == "speaker 0" and row["text"] == "A"


def test_joined_data_sets_keep_their_order_and_samples(tmp_path: Path) -> None:
    one = Speech.load(write_set(tmp_path / "one", [300, 200]))
    two = Speech.load(write_set(tmp_path / "two", [100], first=5000))
    joined = Speech.joined([one, Speech.joined([]), two, one.only([1])])
    assert joined.ids == ["u0", "u1", "u0", "u1"]
    samples = [[*range(300)], [*range(300, 500)], [*range(5000, 5100)], [*range(300, 500)]]
    assert [clip.samples.tolist() for clip in joined] == samples
    assert joined.seconds == 800 / SAMPLE_RATE
    chosen = joined.only([3, 2])
    assert [(clip.id, clip.text, clip.speaker, clip.samples.tolist()) for clip in chosen] == [
        ("u1", "A", "speaker 1", samples[3]),
        ("u0", "A", "speaker 0", samples[2]),
    ]


def test_utterances_without_text_or_of_other_lengths_are_no_use(tmp_path: Path) -> None:
    lengths = [8000, 7999, 16000, 16001, 12000]
    speech = Speech.load(write_set(tmp_path / "set", lengths, ["A", "B", "C", "D", ""]))
    kept, refused = speech.usable(0.5, 1.0)
    assert kept.ids == ["u0", "u2"] and kept.lengths.tolist() == [8000, 16000]
    assert refused == [
        Refusal("u1", "", "too short", "0.50 s, expected 0.5 to 1 s"),
        Refusal("u3", "", "too long", "1.00 s, expected 0.5 to 1 s"),
        Refusal("u4", "", "empty text"),
    ]


def clips(*seconds: float) -> list[Clip]:
    return [Clip(f"u{i}", "A", None, np.zeros(round(each * SAMPLE_RATE), np.int16)) for i, each in enumerate(seconds)]


def test_some_utterances_are_spread_over_all() -> None:
    ten = clips(*range(1, 11))
    assert [clip.id for clip in evenly_spread(ten, 3)] == ["u0", "u3", "u6"]
    assert evenly_spread(ten, 1) == ten[:1]
    for number in (10, 11, None):
        assert evenly_spread(ten, number) == ten


def test_batches_hold_similar_lengths_within_their_limit() -> None:
    batches = batches_by_length(clips(3, 1, 1, 4, 1, 9), 8.0)
    assert [[clip.id for clip in batch] for batch in batches] == [["u1", "u2", "u4"], ["u0", "u3"], ["u5"]]
    assert [len(batch) for batch in batches_by_length(clips(2, 2, 2, 2, 2), 8.0)] == [4, 1]
    assert [len(batch) for batch in batches_by_length(clips(1, 1), 0.0)] == [1, 1]


def edited(old: str, new: str) -> Callable[[Path], object]:
    def edit(folder: Path) -> None:
        table = folder / UTTERANCES
        text = table.read_text()
        assert old in text
        table.write_text(text.replace(old, new))

    return edit


DAMAGE: list[tuple[Callable[[Path], object], str]] = [
    (
        lambda folder: (folder / UTTERANCES).unlink(),
        "is not a data set: {table} does not exist; write one with `asr prep",
    ),
    (edited(MARK, ""), "{table} is not a table of `asr prepare`: it does not begin with '# asr-stream samples:'"),
    (edited("speaker\taudio", "audio\tspeaker"), "{table} is not a table of `asr prepare`"),
    (lambda folder: (folder / UTTERANCES).write_text(""), "{table} is not a table of `asr prepare`"),
    (lambda folder: (folder / UTTERANCES).write_bytes(b"\xff\0" * 999), "{table} is not a table of `asr prepare`"),
    (edited("u1\t", ""), "{table}, line 4 is damaged: "),
    (edited("u1\t400", "u1\tfour"), "{table}, line 4 is damaged: invalid literal"),
    (edited("u1\t400", "u1\t-400"), "{table}, line 4: 800 samples from sample -400 on are not in its file of 1200"),
    (edited("u1\t400\t800", "u1\t400\t0"), "{table}, line 4: 0 samples from sample 400 on are not in its file"),
    (edited("u1\t400\t800", "u1\t400\t801"), "{table}, line 4: 801 samples from sample 400 on are not in its file"),
    (
        edited("samples-1", "../samples-1"),
        "{table} names '../samples-1.s16' as its file of samples; expected a file nex",
    ),
    (edited("samples-1.s16", ""), "{table} names '' as its file of samples"),
    (lambda folder: (folder / "samples-1.s16").unlink(), "samples-1.s16 cannot be read: [Errno 2] No such file or dir"),
    (
        lambda folder: (folder / "samples-1.s16").write_bytes(b""),
        "400 samples from sample 0 on are not in its file of 0",
    ),
    (lambda folder: (folder / "samples-1.s16").write_bytes(b"123"), "samples-1.s16 cannot be read: "),
    (
        lambda folder: (folder / "samples-1.s16").write_bytes(bytes(2398)),
        "line 4: 800 samples from sample 400 on are not in its file of 1199 samples; run `asr prepare` again",
    ),
]


@pytest.mark.parametrize(("damage", "message"), DAMAGE)
def test_damage_is_one_clear_line(
    damage: Callable[[Path], object], message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = write_set(tmp_path / "set", [400, 800])
    damage(folder)
    training = ["train", "tiny", f"data.train={folder}", f"train.output={tmp_path / 'run'}"]
    for command in (["evaluate", "some.onnx", "--data", str(folder)], training):
        assert main(command) == 1
        error = capsys.readouterr().err
        assert message.format(table=folder / UTTERANCES) in error
        assert error.startswith(f"asr {command[0]}: ") and error.count("\n") == 1


def test_a_folder_that_is_none_names_those_beside_it(tmp_path: Path) -> None:
    for name in ("train", "dev"):
        write_set(tmp_path / name, [400])
    with pytest.raises(ValueError, match=rf"tets is not a data set: .*; {tmp_path} has dev, train$"):
        Speech.load(tmp_path / "tets")


def test_data_sets_that_users_have_stay_readable(tmp_path: Path) -> None:
    (tmp_path / "samples-0.s16").write_bytes(b"\1\0\2\0\3\0")
    columns, row = "id\tfirst\tsamples\tspeaker\taudio\tstart\ttext", "u\t1\t2\t\ta.wav\t0\tÄ B"
    (tmp_path / UTTERANCES).write_text(f"# asr-stream samples: samples-0.s16\n{columns}\n{row}\n", encoding="utf-8")
    (clip,) = Speech.load(tmp_path)
    assert (clip.id, clip.text, clip.speaker, clip.samples.tolist()) == ("u", "Ä B", None, [2, 3])
