"""A prepared data set: it has the speech of the recordings, and is either complete or absent."""

import argparse
import csv
import errno
import os
import shutil
import signal
import subprocess
import sys

import numpy as np
import pytest
import soundfile
from rich.console import Console
from support.corpora import content, reasons, utterances, write_librispeech
from support.synth import SAMPLE_RATE, hum, speech, write_audio

from asr.cli import main
from asr.data import prepare as prepare_module
from asr.data.audio import MAX_NOISE_S
from asr.data.manifests import HAS_NOISE, Utterance
from asr.data.prepare import REFUSED, add_arguments, noises, prepare, run
from asr.data.report import PrepareResult, Summary, print_report
from asr.data.speech import Speech, write_subset
from asr.data.utterance import PrepareOptions, prepare_utterance
from asr.features import fbank
from asr.tables import UTTERANCES
from asr.text import TextNormalizer


def test_data_set_holds_samples_text_and_speaker(tmp_path):
    items = [
        Utterance("b", write_audio(tmp_path / "b.wav", speech("hello world")), "Hello, world!", "ann"),
        Utterance("a", write_audio(tmp_path / "a.flac", hum(1.2)), "it’s a", None),
    ]
    result = prepare(items, tmp_path / "data", "set")
    found = Speech.load(tmp_path / "data" / "set")
    assert (found.ids, found.texts, found.speakers) == (["b", "a"], ["HELLO WORLD", "IT'S A"], ["ann", None])
    for clip, item in zip(found, items, strict=True):
        samples, rate = soundfile.read(item.audio, dtype="int16")
        assert rate == SAMPLE_RATE and np.array_equal(clip.samples, samples)
    summary = Summary()
    for clip in found:
        summary.add(clip.seconds, clip.text, clip.speaker)
    assert summary == result.summary
    assert (summary.num_utterances, summary.num_words, summary.speakers) == (2, 4, {"ann"})
    assert summary.num_without_speaker == 1
    assert summary.duration_s == pytest.approx(found.seconds)
    assert summary.length_histogram.total() == 2 and summary.length_histogram[1] >= 1


def test_table_names_where_each_utterance_is(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (item,) = utterances(tmp_path, 1)
    items = [Utterance("u", item.audio.relative_to(tmp_path), "A", start_s=0.25, segment_s=0.5), item]
    prepare(items, tmp_path / "data", "set")
    with (tmp_path / "data" / "set" / UTTERANCES).open() as file:
        next(file)
        rows = list(csv.DictReader(file, delimiter="\t"))
    assert [[row[name] for name in ("id", "first", "samples", "audio", "start")] for row in rows] == [
        ["u", "0", "8000", str(item.audio), "0.25"],
        ["u0", "8000", "16000", str(item.audio), "0"],
    ]


def test_samples_beyond_full_scale_are_clipped(tmp_path):
    path = tmp_path / "loud.wav"
    soundfile.write(path, 3 * hum(1.0), SAMPLE_RATE, "FLOAT")
    prepare([Utterance("u", path, "A")], tmp_path, "set")
    (clip,) = Speech.load(tmp_path / "set")
    expected = np.clip(3 * hum(1.0), -1, 1)
    assert np.abs(clip.waveform() - expected).max() < 1e-4
    assert (clip.samples.min(), clip.samples.max()) == (-32768, 32767)


def test_jobs_do_not_change_the_result(tmp_path):
    audio = [write_audio(tmp_path / f"{i}.wav", hum(0.2, seed=i)) for i in range(4)]
    # More batches than are processed at the same time.
    items = [Utterance(f"u{i}", audio[i % 4], "A") for i in range(200)]
    items.insert(50, Utterance("gone", tmp_path / "gone.wav", "A"))
    alone = prepare(items, tmp_path / "one", "set")
    together = prepare(items, tmp_path / "two", "set", PrepareOptions(num_jobs=2))
    assert together.refusals == alone.refusals and len(alone.refusals) == 1
    assert together.summary == alone.summary
    assert content(together.folder) == content(alone.folder)


@pytest.mark.parametrize(
    ("suffix", "sample_rate", "num_channels"),
    [
        (".wav", 8000, 1),
        (".wav", 44100, 2),
        (".flac", 48000, 2),
        (".mp3", 8000, 2),
        (".mp3", 44100, 1),
        (".ogg", 22050, 2),
        (".opus", 48000, 2),
        (".opus", 16000, 1),
    ],
)
def test_every_format_rate_and_channel_count(tmp_path, suffix, sample_rate, num_channels):
    sound = hum(2.0, sample_rate=sample_rate)
    # Everything on the last channel: the first one is silence.
    channels = np.zeros((len(sound), num_channels), np.float32)
    channels[:, -1] = sound
    path = write_audio(tmp_path / f"sound{suffix}", channels, sample_rate)
    prepare([Utterance("u", path, "A WORD")], tmp_path / "data", "set")
    (clip,) = Speech.load(tmp_path / "data" / "set")
    assert clip.seconds == pytest.approx(2.0, abs=0.001)
    features, reference = clip.features().numpy(), fbank(hum(2.0) / num_channels).numpy()
    assert features.shape == reference.shape
    # Below 3 kHz (bin 57), which every rate and codec here keeps.
    difference = np.abs(features - reference)[10:-10, 2:55]
    assert np.median(difference) < 0.5


def interrupt_after(count):
    finished = []

    def on_progress(number):
        finished.append(number)
        if sum(finished) >= count:
            raise KeyboardInterrupt

    return on_progress


@pytest.fixture
def decoded(monkeypatch):
    """The ids of the utterances that are decoded in this process."""
    ids = []
    monkeypatch.setattr(
        prepare_module,
        "prepare_utterance",
        lambda utterance, options: ids.append(utterance.id) or prepare_utterance(utterance, options),
    )
    return ids


@pytest.mark.parametrize("num_jobs", [1, 2])
def test_an_interrupted_run_continues_with_the_rest(tmp_path, decoded, num_jobs):
    items = [*utterances(tmp_path, 4), Utterance("gone", tmp_path / "gone.wav", "A"), Utterance("x", tmp_path, "?")]
    items.insert(1, items.pop(4))
    whole = prepare(items, tmp_path / "data", "whole")
    decoded.clear()
    with pytest.raises(KeyboardInterrupt):
        prepare(items, tmp_path / "data", "set", PrepareOptions(num_jobs=num_jobs), interrupt_after(3))
    assert not (tmp_path / "data" / "set" / UTTERANCES).exists(), "nothing looks complete"
    decoded.clear()
    progress = []
    rest = prepare(items, tmp_path / "data", "set", on_progress=progress.append)
    assert decoded == ["u2", "u3"]
    assert progress == [3, 1, 1, 1]
    assert content(rest.folder) == content(whole.folder)
    assert (rest.summary, rest.refusals) == (whole.summary, whole.refusals)
    assert sorted(path.suffix for path in rest.folder.iterdir()) == [".s16", ".tsv", ".tsv"]


def test_a_killed_run_continues(tmp_path, decoded):
    table = tmp_path / "set.tsv"
    rows = [f"{item.audio}\t{item.text}\n" for item in utterances(tmp_path / "audio", 4)]
    table.write_text("path\ttext\n" + "".join(rows))
    program = (
        "import os, signal, sys\n"
        "from asr.data.manifests import read_table\n"
        "from asr.data.prepare import prepare\n"
        "finished = []\n"
        "def die(number):\n"
        "    finished.append(number)\n"
        "    if sum(finished) == 2: os.kill(os.getpid(), signal.SIGKILL)\n"
        "prepare(list(read_table(sys.argv[1])), sys.argv[2], 'set', on_progress=die)\n"
    )
    done = subprocess.run([sys.executable, "-c", program, table, tmp_path / "killed"])
    assert done.returncode == -signal.SIGKILL
    arguments = ("manifest", table, "--jobs", 1, "--out")
    assert asr_prepare(*arguments, tmp_path / "whole") == 0
    decoded.clear()
    assert asr_prepare(*arguments, tmp_path / "killed") == 0
    assert [id[-2:] for id in decoded] == ["u2", "u3"]
    assert content(tmp_path / "killed" / "set") == content(tmp_path / "whole" / "set")


def half_a_sample_more(samples, log):
    samples.write_bytes(samples.read_bytes() + b"\1\2\3")


def half_a_line_less(samples, log):
    log.write_bytes(log.read_bytes()[:-3])


def samples_missing(samples, log):
    samples.write_bytes(samples.read_bytes()[:-1000])


def no_samples(samples, log):
    samples.unlink()


def no_head(samples, log):
    log.write_text("")


def another_head(samples, log):
    log.write_text("7\n")


@pytest.mark.parametrize(
    ("damage", "rest"),
    [
        (half_a_sample_more, ["u2", "u3"]),
        (half_a_line_less, ["u1", "u2", "u3"]),
        (samples_missing, ["u1", "u2", "u3"]),
        (no_samples, ["u0", "u1", "u2", "u3"]),
        (no_head, ["u0", "u1", "u2", "u3"]),
        (another_head, ["u0", "u1", "u2", "u3"]),
    ],
)
def test_a_run_continues_from_whatever_was_written(tmp_path, decoded, damage, rest):
    """A process may end within a write, and after a loss of power either file may lack its end."""
    items = utterances(tmp_path, 4)
    whole = prepare(items, tmp_path, "whole")
    with pytest.raises(KeyboardInterrupt):
        prepare(items, tmp_path, "set", on_progress=interrupt_after(2))
    (samples,) = (tmp_path / "set").glob("samples-*.s16")
    damage(samples, tmp_path / "set" / "unfinished.jsonl")
    decoded.clear()
    with pytest.raises(KeyboardInterrupt):
        prepare(items, tmp_path, "set", on_progress=interrupt_after(3))
    result = prepare(items, tmp_path, "set")
    assert decoded == rest
    assert content(result.folder) == content(whole.folder)
    assert len(list(result.folder.glob("samples-*"))) == 1


@pytest.mark.parametrize("changed", ["text", "recording", "limit", "number"])
def test_other_work_starts_anew(tmp_path, decoded, changed):
    items, options = utterances(tmp_path, 3), PrepareOptions()
    with pytest.raises(KeyboardInterrupt):
        prepare(items, tmp_path, "set", on_progress=interrupt_after(2))
    if changed == "text":
        items[0] = Utterance("u0", items[0].audio, "OTHER WORDS")
    elif changed == "recording":
        items[0] = Utterance("u0", items[1].audio, items[0].text)
    elif changed == "limit":
        options = PrepareOptions(max_duration_s=1.15)
    else:
        del items[0]
    decoded.clear()
    result = prepare(items, tmp_path, "set", options)
    assert decoded == [item.id for item in items]
    assert content(result.folder) == content(prepare(items, tmp_path, "whole", options).folder)
    assert len(list(result.folder.glob("samples-*"))) == 1, "the abandoned samples are removed"


def test_a_former_data_set_stays_until_the_new_one_is_complete(tmp_path):
    folder = prepare(utterances(tmp_path, 2), tmp_path / "data", "set").folder
    before = content(folder)
    former = Speech.load(folder)
    with pytest.raises(KeyboardInterrupt):
        prepare(utterances(tmp_path, 3), tmp_path / "data", "set", on_progress=interrupt_after(3))
    assert content(folder) == before
    prepare(utterances(tmp_path, 3), tmp_path / "data", "set")
    assert Speech.load(folder).ids == ["u0", "u1", "u2"]
    assert len(list(folder.glob("samples-*"))) == 1, "the former samples are removed"
    assert [len(clip.samples) for clip in former] == [16000, 17600] and former[1].samples.any(), "a reader keeps them"


def test_tables_of_a_former_data_set_keep_its_samples(tmp_path, capsys):
    arguments = ["prepare", "manifest", str(tmp_path / "all.tsv"), "--out", str(tmp_path), "--name", "set"]
    rows = [f"{each.audio}\t{each.text}" for each in utterances(tmp_path, 3)]
    (tmp_path / "all.tsv").write_text("\n".join(["path\ttext", *rows[:2]]))
    assert main(arguments) == 0
    split = tmp_path / "set" / "split.tsv"
    write_subset(tmp_path / "set" / "utterances.tsv", [1], split)
    former = Speech.load(split)[0].samples.copy()
    (tmp_path / "all.tsv").write_text("\n".join(["path\ttext", *rows]))
    assert "of the former data set" not in capsys.readouterr().out
    for _ in range(2):
        assert main(arguments) == 0
        assert "of the former data set: split.tsv; make them again from utterances.tsv\n" in capsys.readouterr().out
    assert len(Speech.load(tmp_path / "set")) == 3 and np.array_equal(Speech.load(split)[0].samples, former)
    split.unlink()
    assert main(arguments) == 0
    assert len(list((tmp_path / "set").glob("samples-*"))) == 1


def test_a_former_data_set_survives_input_without_a_usable_utterance(tmp_path):
    folder = prepare(utterances(tmp_path, 2), tmp_path / "data", "set").folder
    with pytest.raises(ValueError, match="no usable utterance"):
        prepare([Utterance("u", tmp_path / "gone.wav", "A")], tmp_path / "data", "set")
    assert Speech.load(folder).ids == ["u0", "u1"]
    assert len(list(folder.glob("samples-*"))) == 1


def test_samples_are_on_the_disk_before_the_table(tmp_path, monkeypatch):
    """After a loss of power, there is no table without its samples."""
    flushed, fsync = [], os.fsync
    monkeypatch.setattr(os, "fsync", lambda file: flushed.append(os.readlink(f"/proc/self/fd/{file}")) or fsync(file))
    folder = prepare(utterances(tmp_path), tmp_path, "set").folder
    assert flushed == [str(next(folder.glob("samples-*"))), f"{folder / UTTERANCES}.part"]


def test_a_full_disk_is_named(tmp_path, monkeypatch):
    """And the work goes on when there is space again."""
    items = utterances(tmp_path)
    add = prepare_module._Work.add

    def full(work, item):
        if len(work.done) == 2:
            raise OSError(errno.ENOSPC, "No space left on device")
        add(work, item)

    with monkeypatch.context() as patch:
        patch.setattr(prepare_module._Work, "add", full)
        with pytest.raises(OSError, match="No space left") as caught:
            prepare(items, tmp_path / "data", "set")
    assert caught.value.filename == str(tmp_path / "data" / "set")
    progress = []
    result = prepare(items, tmp_path / "data", "set", on_progress=progress.append)
    assert progress == [2, 1]
    assert content(result.folder) == content(prepare(items, tmp_path / "data", "whole").folder)


def test_unusable_input_is_an_error_without_data_set(tmp_path):
    items = [Utterance(id, tmp_path / f"{id}.wav", text) for id, text in (("u", "A"), ("v", "?"), ("w", "B"))]
    with pytest.raises(ValueError, match="no usable utterance for set: 2 x missing file, 1 x empty text; see "):
        prepare(items, tmp_path / "data", "set")
    (refused,) = (tmp_path / "data" / "set").iterdir()
    assert refused.name == REFUSED
    rows = [line.split("\t")[:3] for line in refused.read_text().splitlines()]
    assert rows == [["id", "audio", "reason"]] + [
        [item.id, str(item.audio), reason]
        for item, reason in zip(items, ("missing file", "empty text", "missing file"), strict=True)
    ]


def test_refused_rows_have_four_columns(tmp_path):
    item = Utterance("a\tb\nc", tmp_path / 'a"\udcff.wav', '"?\t7')
    with pytest.raises(ValueError, match="no usable utterance"):
        prepare([item], tmp_path / "data", "set")
    (row,) = (tmp_path / "data" / "set" / REFUSED).read_text().splitlines()[1:]
    assert row.split("\t") == ["a b c", f'{tmp_path}/a"\\udcff.wav', "outside the alphabet", '7 in: "? 7']


def test_fields_with_line_breaks_keep_the_table_whole(tmp_path):
    odd = write_audio(tmp_path / "a\u2028b\n.wav", hum(1.0))
    prepare([Utterance("a\x85b\tc", odd, "A", "x\x1cy"), *utterances(tmp_path, 1)], tmp_path, "set")
    found = Speech.load(tmp_path / "set")
    assert (found.ids, found.speakers) == (["a b c", "u0"], ["x y", None])


@pytest.mark.parametrize("name", ["", ".", "..", "a/b", ".hidden"])
def test_names_that_are_no_file_names_are_refused(tmp_path, name):
    with pytest.raises(ValueError, match="expected a plain file name"):
        prepare(utterances(tmp_path), tmp_path / "data", name)


def test_ctrl_c_in_a_terminal_ends_cleanly(tmp_path):
    items = utterances(tmp_path, 4)
    lines = [f"{item.audio}\t{item.text}\n" for item in items]
    (tmp_path / "set.tsv").write_text("path\ttext\n" + "".join(lines))
    code = (
        "import argparse, os, signal, sys\n"
        "from asr.data import prepare\n"
        "signal.signal(signal.SIGINT, signal.default_int_handler)\n"
        "add = prepare._Work.add\n"
        "def interrupted(work, item):\n"
        "    add(work, item)\n"
        "    if len(work.done) == 2: os.killpg(0, signal.SIGINT)\n"
        "prepare._Work.add = interrupted\n"
        "if __name__ == '__main__':\n"
        "    parser = argparse.ArgumentParser()\n"
        "    prepare.add_arguments(parser)\n"
        "    sys.exit(prepare.run(parser.parse_args()))\n"
    )
    arguments = ("manifest", tmp_path / "set.tsv", "--out", tmp_path / "data", "--jobs", 2)
    command = [sys.executable, "-c", code, *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, start_new_session=True)
    assert done.returncode == 130 and "interrupted: the same command continues it" in done.stdout
    assert "Traceback" not in done.stderr + done.stdout
    assert not (tmp_path / "data" / "set" / UTTERANCES).exists()
    assert asr_prepare(*arguments) == 0
    assert Speech.load(tmp_path / "data" / "set").texts == [item.text for item in items]


def asr_prepare(*arguments):
    parser = argparse.ArgumentParser()
    add_arguments(parser)
    return run(parser.parse_args([str(argument) for argument in arguments]))


def test_asr_prepare_librispeech(tmp_path, capsys):
    librispeech = write_librispeech(tmp_path)
    assert asr_prepare("librispeech", librispeech, "--out", tmp_path, "--jobs", 1) == 0
    printed = capsys.readouterr().out
    assert "2 utterances" in printed and "1 utterance," in printed
    assert "missing file" in printed and "empty text" in printed
    assert Speech.load(tmp_path / "train-clean-100").texts == ["ONE MORE", "TWO MORE"]
    assert len(Speech.load(tmp_path / "dev-clean")) == 1
    asr_prepare("librispeech", librispeech, "--name", "all", "--lower", "--out", tmp_path, "--jobs", 1)
    assert Speech.load(tmp_path / "all").texts == ["three more", "one more", "two more"]


def test_asr_prepare_manifest(tmp_path, capsys):
    table = tmp_path / "mine.tsv"
    lines = [f"{item.audio.name}\t{item.text}, ok\n" for item in utterances(tmp_path, 2)]
    table.write_text("path\ttext\n" + "".join(lines))
    assert asr_prepare("manifest", table, "--out", tmp_path / "out", "--jobs", 1) == 0
    assert Speech.load(tmp_path / "out" / "mine").texts == ["WORD A OK", "WORD B OK"]
    printed = capsys.readouterr().out
    assert "2 utterances" in printed and "comma" in printed


def test_other_recordings_do_not_replace_a_data_set_by_their_name_alone(tmp_path):
    for folder in "ab":
        (tmp_path / folder).mkdir()
        lines = [f"{item.audio.name}\t{item.text}\n" for item in utterances(tmp_path / folder, 2)]
        (tmp_path / folder / "manifest.tsv").write_text("path\ttext\n" + "".join(lines))
    options = ("--out", tmp_path / "out", "--jobs", 1)
    for _ in range(2):  # the same recordings again
        assert asr_prepare("manifest", tmp_path / "a" / "manifest.tsv", *options) == 0
    first = Speech.load(tmp_path / "out" / "manifest")[0].waveform()
    with pytest.raises(ValueError, match="of other recordings, which would be replaced; choose another --name"):
        asr_prepare("manifest", tmp_path / "b" / "manifest.tsv", *options)
    assert np.array_equal(Speech.load(tmp_path / "out" / "manifest")[0].waveform(), first)
    assert asr_prepare("manifest", tmp_path / "b" / "manifest.tsv", *options, "--name", "other") == 0
    assert len(Speech.load(tmp_path / "out" / "other")) == 2


def test_asr_prepare_takes_every_option_of_a_table(tmp_path):
    table = tmp_path / "mine.tsv"
    lines = [f"{item.audio.name}\tStraße {i}\n" for i, item in enumerate(utterances(tmp_path / "audio", 3))]
    table.write_text("path\ttext\n" + "".join(lines))  # 1.0, 1.1 and 1.2 s
    text = ("--lower", "--alphabet", "a-zß", "--outside", "strip")
    length = ("--min-duration", 1.05, "--max-duration", 1.15)
    output = ("--name", "other", "--out", tmp_path / "out", "--jobs", 1)
    assert asr_prepare("manifest", table, "--audio-root", tmp_path / "audio", *text, *length, *output) == 0
    found = Speech.load(tmp_path / "out" / "other")
    assert (found.ids, found.texts) == (["u1"], ["straße"])
    with open(tmp_path / "out" / "other" / REFUSED, newline="") as file:
        rows = list(csv.DictReader(file, delimiter="\t"))
    assert [(row["id"], row["audio"], row["reason"]) for row in rows] == [
        ("u0", str(tmp_path / "audio" / "u0.wav"), "too short"),
        ("u2", str(tmp_path / "audio" / "u2.wav"), "too long"),
    ]


def test_asr_prepare_takes_the_parts_asked_for(tmp_path):
    arguments = (write_librispeech(tmp_path), "--parts", "dev-clean", "--out", tmp_path / "out", "--jobs", 1)
    assert asr_prepare("librispeech", *arguments) == 0
    assert [path.name for path in (tmp_path / "out").iterdir()] == ["dev-clean"]


def test_segments_of_a_long_recording(tmp_path):
    sound = hum(50.0)  # longer than an utterance may be
    write_audio(tmp_path / "long.flac", sound)
    table = tmp_path / "mine.jsonl"
    rows = [(0, 1.0), (20.5, 1.5), (48.5, 1.55), (48.5, 2.0), (60, 1.0)]
    table.write_text(
        "".join(f'{{"path": "long.flac", "text": "A", "offset": {start}, "duration": {s}}}\n' for start, s in rows)
        + '{"path": "long.flac", "text": "A", "offset": 49.0}\n'
    )
    assert asr_prepare("manifest", table, "--out", tmp_path / "out", "--jobs", 1) == 0
    found = Speech.load(tmp_path / "out" / "mine")
    assert found.ids == ["long", "long@20.5", "long@48.5", "long@49"]
    expected = (32768 * sound).round()
    for clip, start, end in zip(found, (0, 20.5, 48.5, 49), (1, 22, 50, 50), strict=True):
        # The last segment but one ends 0.05 s later than the recording, as rounded times do.
        assert len(clip.samples) == (end - start) * SAMPLE_RATE
        assert np.abs(clip.samples - expected[int(start * SAMPLE_RATE) : end * SAMPLE_RATE]).max() <= 1


def test_segments_outside_their_recording_are_refused(tmp_path):
    (item,) = utterances(tmp_path, 1)
    places = {"late": (2.0, None), "long": (0.5, 1.0), "backward": (0.5, -0.25)}
    items = [Utterance(id, item.audio, "A", None, None, start, s) for id, (start, s) in places.items()]
    result = prepare([*items, item], tmp_path, "set")
    assert reasons(result) == dict.fromkeys(places, "unreadable audio")
    assert [refusal.detail for refusal in result.refusals] == [
        "lasts 1.00 s; the segment is 2.00 to 1.00 s",
        "lasts 1.00 s; the segment is 0.50 to 1.50 s",
        "lasts 1.00 s; the segment is 0.50 to 0.25 s",
    ]


def test_asr_prepare_kaldi_and_lhotse(tmp_path):
    (item,) = utterances(tmp_path, 1)
    kaldi = tmp_path / "train"
    kaldi.mkdir()
    (kaldi / "wav.scp").write_text(f"r {item.audio}\n")
    (kaldi / "text").write_text("r-1 one, two\n")
    (kaldi / "segments").write_text("r-1 r 0.5 1\n")
    assert asr_prepare("kaldi", kaldi, "--lower", "--out", tmp_path / "out", "--jobs", 1) == 0
    cuts = tmp_path / "cuts_dev.jsonl"
    cuts.write_text(
        f'{{"id": "c", "start": 0.5, "duration": 0.5, "supervisions": [{{"text": "one, two"}}], "recording":'
        f' {{"duration": 1.0, "sources": [{{"type": "file", "source": "{item.audio}"}}]}}}}\n'
    )
    assert asr_prepare("lhotse", cuts, "--lower", "--out", tmp_path / "out", "--jobs", 1) == 0
    (a,), (b,) = (Speech.load(tmp_path / "out" / name) for name in ("train", "cuts_dev"))
    assert (a.id, b.id) == ("r-1", "c") and a.text == b.text == "one two"
    assert np.array_equal(a.samples, b.samples)
    assert np.array_equal(a.samples, soundfile.read(item.audio, dtype="int16")[0][8000:])


@pytest.fixture
def sounds(tmp_path):
    """A folder of two recordings of noise."""
    folder = tmp_path / "sounds"
    write_audio(folder / "street" / "cars.flac", hum(60.0, seed=1))
    write_audio(folder / "kitchen.wav", hum(1.0, seed=2))
    (folder / "readme.txt").write_text("no sound")
    return folder


def test_noise_becomes_a_data_set_without_words(sounds, tmp_path, capsys):
    assert asr_prepare("noise", sounds, "--out", tmp_path / "data", "--jobs", 1, "--name", "noise") == 0
    found = Speech.load(tmp_path / "data" / "noise")
    assert (found.ids, found.texts, found.speakers) == (["kitchen", "street/cars"], ["", ""], [None, None])
    assert found.lengths.tolist() == [16000, 960000], "noise may be longer than an utterance"
    assert np.array_equal(found.samples(0), soundfile.read(sounds / "kitchen.wav", dtype="int16")[0])
    assert "2 utterances" in (printed := capsys.readouterr().out) and "2 without words" in printed


def test_noise_that_cannot_be_used_is_named(sounds, tmp_path):
    bad = sounds / "street" / "trams.wav"
    bad.write_bytes(b"no sound")
    with pytest.raises(ValueError, match=rf"noise file {bad} cannot be read: .*; repair or remove it"):
        asr_prepare("noise", sounds, "--out", tmp_path / "data")
    long = (MAX_NOISE_S + 1) * 1000
    write_audio(bad, np.zeros(int(long), np.float32), 1000)
    with pytest.raises(ValueError, match=rf"noise file {bad} lasts 601.0 s; expected .* at most 600 s: cut or remove"):
        list(noises(sounds))
    shutil.rmtree(sounds / "street")
    (sounds / "kitchen.wav").unlink()
    with pytest.raises(ValueError, match=r"noise folder .*sounds holds no audio"):
        list(noises(sounds))
    with pytest.raises(ValueError, match="noise folder gone does not exist"):
        asr_prepare("noise", "gone", "--out", tmp_path / "data")


def test_jobs_of_the_command_are_those_used(tmp_path, monkeypatch):
    used = []

    def refuse_all(function, items, jobs):
        used.append(jobs)
        yield from (prepare_module.Refusal(item.id, "", "no reason") for item in items)

    monkeypatch.setattr(prepare_module, "in_processes", refuse_all)
    table = tmp_path / "mine.tsv"
    table.write_text(f"path\ttext\n{utterances(tmp_path / 'audio', 1)[0].audio}\tA\n")
    for kind, source in (("manifest", table), ("noise", tmp_path / "audio")):
        with pytest.raises(ValueError, match="no usable utterance"):
            asr_prepare(kind, source, "--out", tmp_path / "out", "--jobs", 3)
    assert used == [3, 3]


class DeadlyNormalizer(TextNormalizer):
    """Kills the worker that receives it, as the kernel does if memory runs out."""

    def __reduce__(self):
        return os._exit, (1,)


def test_workers_end_with_a_killed_parent():
    program = (
        "import os, time\n"
        "from asr.data.prepare import worker_pool\n"
        "print(worker_pool(1).submit(os.getpid).result(), flush=True)\n"
        "time.sleep(1000)\n"
    )
    with subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE) as parent:
        worker = int(parent.stdout.readline())
        parent.kill()
        try:
            parent.communicate(timeout=60)  # its output ends when all that inherited it have ended
        except subprocess.TimeoutExpired:
            os.kill(worker, signal.SIGKILL)
            raise


def test_dead_worker_is_an_error_with_advice(tmp_path):
    options = PrepareOptions(DeadlyNormalizer(), num_jobs=2)
    with pytest.raises(ChildProcessError, match="use fewer --jobs"):
        prepare(utterances(tmp_path), tmp_path / "data", "set", options)
    assert not (tmp_path / "data" / "set" / UTTERANCES).exists()


def test_a_missing_extra_is_named(tmp_path, monkeypatch):
    monkeypatch.setattr(prepare_module.importlib.util, "find_spec", lambda name: None)
    with pytest.raises(ValueError, match=r"torchaudio is not installed; .*pip install"):
        asr_prepare("manifest", tmp_path / "t.tsv", "--out", tmp_path)


def test_report_shows_lengths_characters_and_reasons(tmp_path):
    items = [
        *utterances(tmp_path, 3),
        Utterance("[red]x", tmp_path / "gone.wav", "A"),
        Utterance("another", tmp_path / "gone.wav", "A"),
        Utterance("y", tmp_path, "7 7"),
        Utterance("z", tmp_path, "SCHÖNE GRÜSSE"),
    ]
    result = prepare(items, tmp_path, "set")
    console = Console(record=True, width=100, file=open(os.devnull, "w"))  # noqa: SIM115
    print_report(result, console, TextNormalizer())
    text = console.export_text()
    assert f"{tmp_path / 'set'}: 3 utterances" in text and "3 without speaker" in text
    assert "0-2         3 ████" in text
    assert "digit seven" in text and "outside the alphabet" in text
    assert "[red]x" in text and "another" in text and "missing file" in text
    hint = "to keep the letters of your language, give --alphabet \"A-Z'"
    assert text.endswith(f'{hint}ÖÜ"\n')
    for duration_s, length in ((2.75, "2.8 seconds"), (90.0, "1.50 minutes"), (5400.0, "1.50 hours")):
        summary = Summary()
        summary.add(duration_s, "A WORD", None)
        assert summary.length_histogram == {int(duration_s): 1}
        with console.capture() as capture:
            print_report(PrepareResult(tmp_path / "one", summary), console, TextNormalizer())
        assert f"one: 1 utterance, {length}, 0 speakers, 2 words; 1 without speaker\n" in capture.get()
    with pytest.raises(ValueError, match=f'refused.tsv; {hint}Ö"'):
        prepare([Utterance("z", tmp_path, "SCHÖN")], tmp_path, "none")


@pytest.mark.parametrize(
    ("policy", "texts", "title"),
    [
        ("drop", ["WORD"], "left out"),
        ("strip", ["WORD", "WORD WORD"], "removed from the text"),
        ("keep", ["WORD", "WORD NOISE W WORD", "LAUGHTER"], "kept as text"),
    ],
)
def test_noise_tags_are_named(tmp_path, capsys, policy, texts, title):
    table = tmp_path / "table.tsv"
    rows = ["path\ttext"]
    for number, text in enumerate(("word", "word [noise] w- word", "(laughter)")):
        write_audio(tmp_path / f"{number}.wav", np.random.default_rng(number).normal(0, 0.1, 32000).astype(np.float32))
        rows.append(f"{number}.wav\t{text}")
    table.write_text("\n".join(rows) + "\n")
    options = [] if policy == "drop" else ["--noise-tags", policy]
    assert asr_prepare("manifest", table, "--out", tmp_path / "data", "--jobs", 1, *options) == 0
    out = " ".join(capsys.readouterr().out.split())
    assert f"noise tags and cut-off words, {title}" in out and "[NOISE]" in out and "W-" in out and "(LAUGHTER)" in out
    refused = (tmp_path / "data" / "table" / REFUSED).read_text()
    assert (f"{HAS_NOISE}\t[NOISE] W- in: word [noise] w- word" in refused) == (policy == "drop")
    assert Speech.load(tmp_path / "data" / "table").texts == texts
