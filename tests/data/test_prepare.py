"""A prepared data set: it has the speech of the recordings, and is either complete or absent."""

import argparse
import csv
import errno
import gzip
import json
import os
import shutil
import signal
import subprocess
import sys

import numpy as np
import pytest
import soundfile
from rich.console import Console
from support.corpora import utterances, write_librispeech
from support.synth import SAMPLE_RATE, hum, speech, write_audio

from asr.data import prepare as prepare_module
from asr.data.cuts import Float16Writer, load_cuts
from asr.data.manifests import HAS_NOISE, Utterance
from asr.data.prepare import add_arguments, prepare, run
from asr.data.report import PrepareResult, Summary, print_report
from asr.data.utterance import PrepareOptions
from asr.features import fbank
from asr.text import TextNormalizer

# Half precision, and 10 ms log-mel of the same sound read twice.
FLOAT16_ERROR = 0.008


def test_data_set_holds_features_text_and_speaker(tmp_path):
    items = [
        Utterance("b", write_audio(tmp_path / "b.wav", speech("hello world")), "Hello, world!", "ann"),
        Utterance("a", write_audio(tmp_path / "a.flac", hum(1.2)), "it’s a", None),
    ]
    result = prepare(items, tmp_path / "data", "set")
    cuts = list(load_cuts(result.manifest))
    assert [cut.id for cut in cuts] == ["b", "a"]
    assert [cut.supervisions[0].text for cut in cuts] == ["HELLO WORLD", "IT'S A"]
    assert [cut.supervisions[0].speaker for cut in cuts] == ["ann", None]
    for cut, item in zip(cuts, items, strict=True):
        samples, rate = soundfile.read(item.audio, dtype="float32")
        assert cut.duration == len(samples) / rate
        expected = fbank(samples).numpy()
        features = cut.load_features()
        assert features.dtype == np.float32
        assert np.abs(features - expected).max() < FLOAT16_ERROR
        part = cut.truncate(offset=0.2, duration=0.3).load_features()
        assert np.array_equal(part, features[20:50])
    summary = Summary()
    for cut in cuts:
        summary.add(cut.duration, cut.supervisions[0].text, cut.supervisions[0].speaker)
    assert summary == result.summary
    assert (summary.num_utterances, summary.num_words, summary.speakers) == (2, 4, {"ann"})
    assert summary.num_without_speaker == 1
    assert summary.duration_s == pytest.approx(sum(cut.duration for cut in cuts))
    assert summary.length_histogram.total() == 2 and summary.length_histogram[1] >= 1


def test_speeds_make_copies(tmp_path):
    options = PrepareOptions(speeds=(0.9, 1.0, 1.1))
    result = prepare(utterances(tmp_path, 1, duration_s=2.0), tmp_path, "set", options)
    cuts = {cut.id: cut for cut in load_cuts(result.manifest)}
    assert list(cuts) == ["u0_sp0.9", "u0", "u0_sp1.1"]
    for id, factor in {"u0_sp0.9": 0.9, "u0": 1.0, "u0_sp1.1": 1.1}.items():
        cut = cuts[id]
        assert cut.duration == pytest.approx(2.0 / factor, abs=1e-4)
        samples = cut.load_audio()[0]
        assert np.abs(cut.load_features() - fbank(samples).numpy()).max() < FLOAT16_ERROR
    voiced = {id: cut.load_features().mean(axis=0) for id, cut in cuts.items()}
    assert np.abs(voiced["u0_sp0.9"] - voiced["u0_sp1.1"]).max() > 0.5, "the pitch must move"


def test_jobs_do_not_change_the_result(tmp_path):
    audio = [write_audio(tmp_path / f"{i}.wav", hum(0.2, seed=i)) for i in range(4)]
    # More batches than are processed at the same time.
    items = [Utterance(f"u{i}", audio[i % 4], "A") for i in range(200)]
    items.insert(50, Utterance("gone", tmp_path / "gone.wav", "A"))
    alone = prepare(items, tmp_path / "one", "set")
    together = prepare(items, tmp_path / "two", "set", PrepareOptions(num_jobs=2))
    assert together.refusals == alone.refusals and len(alone.refusals) == 1
    assert together.summary == alone.summary
    for a, b in zip(load_cuts(alone.manifest), load_cuts(together.manifest), strict=True):
        assert a.id == b.id and a.supervisions == b.supervisions
        assert np.array_equal(a.load_features(), b.load_features())


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
    result = prepare([Utterance("u", path, "A WORD")], tmp_path / "data", "set")
    (cut,) = load_cuts(result.manifest)
    assert cut.sampling_rate == SAMPLE_RATE
    assert cut.duration == pytest.approx(2.0, abs=0.001)
    features = cut.load_features()
    reference = fbank(hum(2.0) / num_channels).numpy()
    assert features.shape == reference.shape
    # Below 3 kHz (bin 57), which every rate and codec here keeps.
    difference = np.abs(features - reference)[10:-10, 2:55]
    assert np.median(difference) < 0.5
    # lhotse reads the same audio through the manifest.
    audio = cut.load_audio()
    assert audio.shape == (1, cut.num_samples)
    assert np.median(np.abs(fbank(audio[0]).numpy() - features)[:, 2:55]) < 0.1


def test_a_data_set_can_be_moved(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    prepare(utterances(tmp_path / "audio"), "data", "set")
    before = [cut.load_features() for cut in load_cuts("data/set.jsonl.gz")]
    (tmp_path / "elsewhere").mkdir()
    shutil.move(tmp_path / "data", tmp_path / "elsewhere" / "moved")
    shutil.rmtree(tmp_path / "audio")
    monkeypatch.chdir("/")
    after = [cut.load_features() for cut in load_cuts(tmp_path / "elsewhere" / "moved" / "set.jsonl.gz")]
    assert len(after) == 3
    assert all(np.array_equal(a, b) for a, b in zip(before, after, strict=True))


def test_manifest_without_its_features_is_an_error(tmp_path):
    result = prepare(utterances(tmp_path), tmp_path, "set")
    (features,) = (tmp_path / "set.features").iterdir()
    features.write_bytes(features.read_bytes()[:100])
    with pytest.raises(ValueError, match="end early"):
        next(iter(load_cuts(result.manifest))).load_features()
    features.unlink()
    with pytest.raises(ValueError, match="next to it"):
        next(iter(load_cuts(result.manifest))).load_features()


def test_load_cuts_names_what_is_there(tmp_path):
    prepare(utterances(tmp_path), tmp_path, "dev")
    with pytest.raises(ValueError, match=r"does not exist; run `asr prepare` first; .* has dev\.jsonl\.gz"):
        load_cuts(tmp_path / "train.jsonl.gz")
    with pytest.raises(ValueError, match="holds no shards"):
        load_cuts(tmp_path / "dev.features")


def interrupt_after(count):
    calls = []

    def on_progress():
        calls.append(1)
        if len(calls) == count:
            raise KeyboardInterrupt

    return on_progress


@pytest.mark.parametrize("num_jobs", [1, 2])
def test_interrupted_leaves_nothing_that_looks_complete(tmp_path, num_jobs):
    with pytest.raises(KeyboardInterrupt):
        prepare(utterances(tmp_path), tmp_path / "data", "set", PrepareOptions(num_jobs=num_jobs), interrupt_after(2))
    assert list((tmp_path / "data").iterdir()) == []


def test_interrupted_rerun_keeps_the_former_data_set(tmp_path):
    first = prepare(utterances(tmp_path, 2), tmp_path / "data", "set")
    with pytest.raises(KeyboardInterrupt):
        prepare(utterances(tmp_path, 3), tmp_path / "data", "set", on_progress=interrupt_after(3))
    cuts = list(load_cuts(first.manifest))
    assert [len(cut.load_features()) for cut in cuts] == [100, 110]
    prepare(utterances(tmp_path, 3), tmp_path / "data", "set")
    assert [len(cut.load_features()) for cut in load_cuts(first.manifest)] == [100, 110, 120]
    assert len(list((tmp_path / "data" / "set.features").iterdir())) == 1, "the former features are removed"


def test_a_full_disk_is_named(tmp_path, monkeypatch):
    def full(*_):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(Float16Writer, "write", full)
    with pytest.raises(OSError, match="No space left") as caught:
        prepare(utterances(tmp_path), tmp_path / "data", "set")
    assert caught.value.filename == str(tmp_path / "data" / "set.features")
    assert list((tmp_path / "data").iterdir()) == []


def test_unusable_input_is_an_error_without_data_set(tmp_path):
    items = [Utterance(id, tmp_path / f"{id}.wav", text) for id, text in (("u", "A"), ("v", "?"), ("w", "B"))]
    with pytest.raises(ValueError, match="no usable utterance for set: 2 x missing file, 1 x empty text; see "):
        prepare(items, tmp_path / "data", "set")
    (refused,) = (tmp_path / "data").iterdir()
    assert refused.name == "set.refused.tsv"
    rows = [line.split("\t")[:3] for line in refused.read_text().splitlines()]
    assert sorted(rows[1:]) == [
        [item.id, str(item.audio), reason]
        for item, reason in zip(items, ("missing file", "empty text", "missing file"), strict=True)
    ]


def test_refused_rows_have_four_columns(tmp_path):
    item = Utterance("a\tb\nc", tmp_path / 'a"\udcff.wav', '"?\t7')
    with pytest.raises(ValueError, match="no usable utterance"):
        prepare([item], tmp_path / "data", "set")
    (row,) = (tmp_path / "data" / "set.refused.tsv").read_text().splitlines()[1:]
    assert row.split("\t") == ["a b c", f'{tmp_path}/a"\\udcff.wav', "outside the alphabet", '7 in: "? 7']


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
        "write = prepare.normalized\n"
        "def interrupted(*arguments):\n"
        "    for item in write(*arguments):\n"
        "        yield item\n"
        "    os.killpg(0, signal.SIGINT)\n"
        "prepare.normalized = interrupted\n"
        "if __name__ == '__main__':\n"
        "    parser = argparse.ArgumentParser()\n"
        "    prepare.add_arguments(parser)\n"
        "    sys.exit(prepare.run(parser.parse_args()))\n"
    )
    arguments = ["manifest", str(tmp_path / "set.tsv"), "--out", str(tmp_path / "data"), "--jobs", "2"]
    command = [sys.executable, "-c", code, *arguments]
    done = subprocess.run(command, capture_output=True, text=True, start_new_session=True)
    assert done.returncode == 130 and "interrupted" in done.stdout
    assert "Traceback" not in done.stderr + done.stdout
    assert list((tmp_path / "data").iterdir()) == []


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
    assert [cut.supervisions[0].text for cut in load_cuts(tmp_path / "train-clean-100.jsonl.gz")] == [
        "ONE MORE",
        "TWO MORE",
    ]
    assert len(list(load_cuts(tmp_path / "dev-clean.jsonl.gz"))) == 1
    asr_prepare("librispeech", librispeech, "--name", "all", "--lower", "--out", tmp_path, "--jobs", 1)
    texts = [cut.supervisions[0].text for cut in load_cuts(tmp_path / "all.jsonl.gz")]
    assert texts == ["three more", "one more", "two more"]


def test_asr_prepare_manifest(tmp_path, capsys):
    table = tmp_path / "mine.tsv"
    lines = [f"{item.audio.name}\t{item.text}, ok\n" for item in utterances(tmp_path, 2)]
    table.write_text("path\ttext\n" + "".join(lines))
    arguments = ("manifest", table, "--out", tmp_path / "out", "--jobs", 1, "--speeds", "0.9,1.0")
    assert asr_prepare(*arguments) == 0
    assert len(list(load_cuts(tmp_path / "out" / "mine.jsonl.gz"))) == 4
    printed = capsys.readouterr().out
    assert "4 utterances" in printed and "comma" in printed
    with pytest.raises(ValueError, match="--speeds is 'fast'"):
        asr_prepare(*arguments[:-1], "fast")


def test_asr_prepare_takes_every_option_of_a_table(tmp_path):
    table = tmp_path / "mine.tsv"
    lines = [f"{item.audio.name}\tStraße {i}\n" for i, item in enumerate(utterances(tmp_path / "audio", 3))]
    table.write_text("path\ttext\n" + "".join(lines))  # 1.0, 1.1 and 1.2 s
    text = ("--lower", "--alphabet", "a-zß", "--outside", "strip")
    length = ("--min-duration", 1.05, "--max-duration", 1.15)
    output = ("--name", "other", "--out", tmp_path / "out", "--jobs", 1)
    assert asr_prepare("manifest", table, "--audio-root", tmp_path / "audio", *text, *length, *output) == 0
    assert [(cut.id, cut.supervisions[0].text) for cut in load_cuts(tmp_path / "out" / "other.jsonl.gz")] == [
        ("u1", "straße")
    ]
    with open(tmp_path / "out" / "other.refused.tsv", newline="") as file:
        rows = list(csv.DictReader(file, delimiter="\t"))
    assert [(row["id"], row["audio"], row["reason"]) for row in rows] == [
        ("u0", str(tmp_path / "audio" / "u0.wav"), "too short"),
        ("u2", str(tmp_path / "audio" / "u2.wav"), "too long"),
    ]


def test_asr_prepare_takes_the_parts_asked_for(tmp_path):
    arguments = (write_librispeech(tmp_path), "--parts", "dev-clean", "--out", tmp_path / "out", "--jobs", 1)
    assert asr_prepare("librispeech", *arguments) == 0
    assert {path.name for path in (tmp_path / "out").glob("*.jsonl.gz")} == {"dev-clean.jsonl.gz"}


def test_jobs_of_the_command_are_those_used(tmp_path, monkeypatch):
    used = []
    monkeypatch.setattr(
        prepare_module, "in_processes", lambda _, items, jobs: used.append(jobs) or (each for each in ())
    )
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
    assert list((tmp_path / "data").iterdir()) == []


def test_a_missing_extra_is_named(tmp_path, monkeypatch):
    monkeypatch.setattr(prepare_module.importlib.util, "find_spec", lambda name: None)
    with pytest.raises(ValueError, match=r"lhotse and torchaudio not installed; .*pip install"):
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
    assert "3 utterances" in text and "3 without speaker" in text
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
    refused = (tmp_path / "data" / "table.refused.tsv").read_text()
    assert (f"{HAS_NOISE}\t[NOISE] W- in: word [noise] w- word" in refused) == (policy == "drop")
    assert [cut.supervisions[0].text for cut in load_cuts(tmp_path / "data" / "table.jsonl.gz")] == texts


def test_manifest_is_a_plain_lhotse_file(tmp_path):
    result = prepare(utterances(tmp_path, 1), tmp_path, "set", PrepareOptions(TextNormalizer("lower")))
    with gzip.open(result.manifest, "rt") as file:
        (row,) = map(json.loads, file)
    assert row["type"] == "MonoCut"
    assert row["features"]["storage_path"].startswith("set.features" + os.sep)
    assert row["supervisions"][0]["text"] == "word a"
