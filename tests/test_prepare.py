"""Preparing data: what comes out is what was said, and what is broken is refused with its reason."""

import argparse
import gzip
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import soundfile
import torch
from rich.console import Console
from synth import SAMPLE_RATE, hum, speech, write_audio
from torchaudio.compliance import kaldi

from asr import prepare as prepare_module
from asr.cuts import LogMelExtractor, load_cuts, summarise
from asr.features import NUM_MEL_BINS, fbank, num_frames
from asr.manifests import Refusal, Utterance, find_librispeech_parts, read_librispeech, read_table
from asr.prepare import add_arguments, prepare, print_report, run
from asr.text import TextNormalizer
from asr.utterance import PrepareOptions, TooLongError, num_ctc_frames, read_audio

# Half precision, and 10 ms log-mel of the same sound read twice.
FLOAT16_ERROR = 0.008


def utterances(folder, count=3, duration_s=1.0):
    return [
        Utterance(
            f"u{i}",
            write_audio(folder / f"u{i}.wav", hum(duration_s + 0.1 * i, seed=i)),
            f"WORD {chr(65 + i)}",
        )
        for i in range(count)
    ]


def reasons(result):
    return {refusal.id: refusal.reason for refusal in result.refusals}


# ---------------------------------------------------------------------------------------- features


def test_features_are_kaldis():
    samples = speech("the quick brown fox")
    expected = kaldi.fbank(
        torch.from_numpy(samples)[None],
        num_mel_bins=80,
        low_freq=20.0,
        high_freq=7600.0,
        snip_edges=False,
        dither=0.0,
        window_type="povey",
    )
    features = fbank(samples)
    assert features.dtype == torch.float32
    assert features.shape == (num_frames(len(samples)), NUM_MEL_BINS)
    assert torch.equal(features, expected)


def test_one_frame_every_ten_milliseconds():
    assert [num_frames(n) for n in (0, 79, 80, 239, 240, 16000)] == [0, 0, 1, 1, 2, 100]


@pytest.mark.parametrize("num_samples", [0, 1, 79, 80, 100, 120, 240, 399])
def test_less_than_a_window_is_mirrored_until_it_is_full(num_samples):
    samples = torch.randn(num_samples, generator=torch.Generator().manual_seed(1)) * 0.1
    features = fbank(samples)
    assert features.shape == (num_frames(num_samples), NUM_MEL_BINS)
    if len(features):
        edge = (400 - 160) // 2
        padded = np.pad(samples.numpy(), (edge, 800), mode="symmetric")[: 400 + 160 * (len(features) - 1)]
        expected = kaldi.fbank(
            torch.from_numpy(padded)[None], num_mel_bins=80, low_freq=20.0, high_freq=7600.0, dither=0.0
        )
        assert torch.equal(features, expected)


@pytest.mark.parametrize(
    ("samples", "message"),
    [
        (np.zeros((2, 400), np.float32), r"shape \(2, 400\)"),
        (np.zeros(400, np.int16), "dtype torch.int16; expected float32"),
        (np.full(400, np.nan, np.float32), "NaN"),
        (np.full(400, np.inf, np.float32), "infinite"),
    ],
)
def test_features_of_strange_samples_are_refused(samples, message):
    with pytest.raises(ValueError, match=message):
        fbank(samples)


def test_lhotse_extracts_the_same_features():
    samples = hum(0.5)
    extractor = LogMelExtractor()
    assert np.array_equal(extractor.extract(samples[None], 16000), fbank(samples).numpy())
    assert type(LogMelExtractor.from_dict(extractor.to_dict())) is LogMelExtractor
    with pytest.raises(ValueError, match="8000 Hz; resample"):
        extractor.extract(samples, 8000)


# ---------------------------------------------------------------------------------------- the data set


def test_data_set_holds_features_text_and_speaker_in_order(tmp_path):
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
    summary = summarise(cuts)
    assert summary == result.summary
    assert (summary.num_utterances, summary.num_words, summary.speakers) == (2, 4, {"ann"})
    assert summary.num_without_speaker == 1
    assert summary.hours == pytest.approx(sum(cut.duration for cut in cuts) / 3600)
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
    # More batches than may be under way at a time.
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
    # All of it on the last channel: the first alone would be silence.
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
    # lhotse, reading the audio through the manifest, hears the same.
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


def test_manifest_without_its_features_says_so(tmp_path):
    result = prepare(utterances(tmp_path), tmp_path, "set")
    (features,) = (tmp_path / "set.features").iterdir()
    features.write_bytes(features.read_bytes()[:100])
    with pytest.raises(ValueError, match="end early"):
        next(iter(load_cuts(result.manifest))).load_features()
    features.unlink()
    with pytest.raises(ValueError, match="beside it"):
        next(iter(load_cuts(result.manifest))).load_features()


def test_load_cuts_names_what_is_there(tmp_path):
    prepare(utterances(tmp_path), tmp_path, "dev")
    with pytest.raises(ValueError, match=r"does not exist.*dev\.jsonl\.gz"):
        load_cuts(tmp_path / "train.jsonl.gz")
    with pytest.raises(ValueError, match="not a prepared data set"):
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
        prepare(
            utterances(tmp_path),
            tmp_path / "data",
            "set",
            PrepareOptions(num_jobs=num_jobs),
            interrupt_after(2),
        )
    assert list((tmp_path / "data").iterdir()) == []


def test_interrupted_rerun_keeps_the_former_data_set_and_the_next_replaces_it(tmp_path):
    first = prepare(utterances(tmp_path, 2), tmp_path / "data", "set")
    with pytest.raises(KeyboardInterrupt):
        prepare(utterances(tmp_path, 3), tmp_path / "data", "set", on_progress=interrupt_after(3))
    cuts = list(load_cuts(first.manifest))
    assert [len(cut.load_features()) for cut in cuts] == [100, 110]
    prepare(utterances(tmp_path, 3), tmp_path / "data", "set")
    assert [len(cut.load_features()) for cut in load_cuts(first.manifest)] == [100, 110, 120]
    assert len(list((tmp_path / "data" / "set.features").iterdir())) == 1, "the former features are removed"


def test_ctrl_c_in_a_terminal_ends_cleanly(tmp_path):
    items = utterances(tmp_path, 4)
    lines = [f"{item.audio}\t{item.text}\n" for item in items]
    (tmp_path / "set.tsv").write_text("path\ttext\n" + "".join(lines))
    code = (
        "import argparse, os, signal, sys\n"
        "from asr import prepare\n"
        "signal.signal(signal.SIGINT, signal.default_int_handler)\n"
        "write = prepare._normalized\n"
        "def interrupted(*arguments):\n"
        "    for item in write(*arguments):\n"
        "        yield item\n"
        "    os.killpg(0, signal.SIGINT)\n"
        "prepare._normalized = interrupted\n"
        "if __name__ == '__main__':\n"
        "    parser = argparse.ArgumentParser()\n"
        "    prepare.add_arguments(parser)\n"
        "    sys.exit(prepare.run(parser.parse_args()))\n"
    )
    command = [
        sys.executable,
        "-c",
        code,
        "manifest",
        str(tmp_path / "set.tsv"),
        "--out",
        str(tmp_path / "data"),
    ]
    done = subprocess.run([*command, "--jobs", "2"], capture_output=True, text=True, start_new_session=True)
    assert done.returncode == 130
    assert "Traceback" not in done.stderr + done.stdout
    assert list((tmp_path / "data").iterdir()) == []


# ---------------------------------------------------------------------------------------- refusals


def broken_files(folder):
    """Utterance ids with the reason each must be refused for."""
    good = hum(1.0)
    wav = write_audio(folder / "good.wav", good).read_bytes()
    flac = write_audio(folder / "good.flac", good).read_bytes()
    mp3 = write_audio(folder / "good.mp3", hum(3.0)).read_bytes()
    files = {
        "zero_bytes.wav": (b"", "unreadable audio"),
        "truncated.wav": (wav[: len(wav) // 2], "unreadable audio"),
        "truncated.flac": (flac[: len(flac) // 2], "unreadable audio"),
        "truncated.mp3": (mp3[: len(mp3) // 2], "unreadable audio"),
        "header_only.wav": (wav[:44], "unreadable audio"),
        "text.wav": (b"this is not audio " * 50, "unreadable audio"),
        "noise.flac": (b"fLaC" + bytes(range(256)) * 8, "unreadable audio"),
        "headerless.raw": (wav[44:], "unreadable audio"),
    }
    expected = {}
    for name, (content, reason) in files.items():
        (folder / name).write_bytes(content)
        expected[name] = reason
    bad = good.copy()
    bad[8000] = np.nan
    soundfile.write(folder / "nan.wav", bad, SAMPLE_RATE, subtype="FLOAT")
    soundfile.write(folder / "loud.wav", good * 32768, SAMPLE_RATE, subtype="FLOAT")
    soundfile.write(folder / "slow.wav", good, 500)
    write_audio(folder / "empty.wav", good[:0])
    write_audio(folder / "short.wav", good[:1500])
    write_audio(folder / "long.wav", hum(6.0))
    write_audio(folder / "very_long.wav", hum(60.0, sample_rate=1000), 1000)
    write_audio(folder / "silent.wav", 0 * good)
    (folder / "folder.wav").mkdir()
    return expected | {
        "nan.wav": "unreadable audio",
        "loud.wav": "unreadable audio",
        "slow.wav": "unreadable audio",
        "empty.wav": "too short",
        "short.wav": "too short",
        "long.wav": "too long",
        "very_long.wav": "too long",
        "silent.wav": "digital silence",
        "folder.wav": "missing file",
        "missing.wav": "missing file",
        "n" * 300 + ".wav": "missing file",
    }


def test_every_broken_file_is_refused_with_its_reason(tmp_path):
    expected = broken_files(tmp_path)
    items = [Utterance(name, tmp_path / name, "A") for name in [*expected, "good.wav"]]
    options = PrepareOptions(max_duration_s=5.0)
    result = prepare(items, tmp_path / "data", "set", options)
    assert reasons(result) == expected
    assert [cut.id for cut in load_cuts(result.manifest)] == ["good.wav"]
    listed = (tmp_path / "data" / "set.refused.tsv").read_text().splitlines()
    assert len(listed) == 1 + len(expected)
    assert listed[0].split("\t") == ["id", "audio", "reason", "detail"]


def test_a_wav_written_into_a_pipe_is_whole(tmp_path):
    wav = bytearray(write_audio(tmp_path / "pipe.wav", hum(1.0)).read_bytes())
    size = wav.find(b"data") + 4
    wav[4:8] = wav[size : size + 4] = b"\xff\xff\xff\xff"  # the length was not known when it began
    (tmp_path / "pipe.wav").write_bytes(wav)
    assert read_audio(tmp_path / "pipe.wav").num_file_samples == 16000


def test_too_long_a_recording_is_not_decoded(tmp_path):
    path = write_audio(tmp_path / "a.wav", hum(2.0))
    with pytest.raises(TooLongError, match="2"):
        read_audio(path, max_duration_s=1.0)


def test_transcripts_that_cannot_be_are_refused(tmp_path):
    audio = write_audio(tmp_path / "a.wav", hum(1.0))
    items: list[Utterance | Refusal] = [
        Utterance("empty", audio, "  "),
        Utterance("marks", audio, "?!"),
        Utterance("digits", audio, "ROUTE 66"),
        Utterance("much", audio, "AB" * 13),
        Utterance("repeats", audio, "A" * 14),
        Utterance("fits", audio, "AB" * 12 + "A"),
        Utterance("fits", audio, "B"),
        Utterance("stated", audio, "A", duration_s=3.0),
        Refusal("row", "", "malformed row"),
    ]
    result = prepare(items, tmp_path, "set")
    assert [(r.id, r.reason) for r in result.refusals] == [
        ("empty", "empty text"),
        ("marks", "empty text"),
        ("digits", "outside the alphabet"),
        ("much", "more tokens than frames"),
        ("repeats", "more tokens than frames"),
        ("fits", "duplicate id"),
        ("stated", "duration differs"),
        ("row", "malformed row"),
    ]
    assert result.outside == {"?": 1, "!": 1, "6": 2}
    assert result.summary.num_utterances == 1


def test_ctc_needs_a_frame_for_every_character_and_between_equal_ones():
    assert [num_ctc_frames(text) for text in ("", "A", "AB", "AA", "AAB B")] == [0, 1, 2, 3, 6]


def test_a_copy_too_fast_for_its_text_is_refused_alone(tmp_path):
    audio = write_audio(tmp_path / "a.wav", hum(1.0))
    options = PrepareOptions(speeds=(1.0, 1.1))
    result = prepare([Utterance("u", audio, "AB" * 12)], tmp_path, "set", options)
    assert reasons(result) == {"u_sp1.1": "more tokens than frames"}
    assert [cut.id for cut in load_cuts(result.manifest)] == ["u"]


def test_nothing_usable_is_an_error_and_no_data_set(tmp_path):
    with pytest.raises(ValueError, match="no usable utterance for set: 1 x missing file"):
        prepare([Utterance("u", tmp_path / "gone.wav", "A")], tmp_path / "data", "set")
    assert [p.name for p in (tmp_path / "data").iterdir()] == ["set.refused.tsv"]


@pytest.mark.parametrize("name", ["", ".", "..", "a/b", ".hidden"])
def test_names_that_are_no_file_names_are_refused(tmp_path, name):
    with pytest.raises(ValueError, match="expected a plain file name"):
        prepare(utterances(tmp_path), tmp_path / "data", name)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"speeds": (1.0, 3.0)}, "0.5 to 2.0"),
        ({"speeds": ()}, "0.5 to 2.0"),
        ({"speeds": (1.0, 1.0)}, "different"),
        ({"speeds": (float("nan"),)}, "0.5 to 2.0"),
        ({"min_duration_s": 0.0}, "at least 0.1 s"),
        ({"min_duration_s": 5.0, "max_duration_s": 4.0}, "5.0 to 4.0 s"),
        ({"max_duration_s": float("nan")}, "nan"),
        ({"num_jobs": 0}, "1 to 1024"),
    ],
)
def test_strange_options_are_refused(arguments, message):
    with pytest.raises(ValueError, match=message):
        PrepareOptions(**arguments)


# ---------------------------------------------------------------------------------------- tables


def test_tsv_takes_quotes_as_they_are(tmp_path):
    table = tmp_path / "t.tsv"
    table.write_bytes(b'\xef\xbb\xbfPath\tSentence\tclient_id\r\na/b.mp3\t"Oh\tann\r\n\r\nc.wav\tit"s "so"\t\r\n')
    assert list(read_table(table)) == [
        Utterance("a/b", tmp_path / "a/b.mp3", '"Oh', "ann"),
        Utterance("c", tmp_path / "c.wav", 'it"s "so"', None),
    ]


def test_csv_takes_quoted_fields(tmp_path):
    table = tmp_path / "t.csv"
    table.write_text('transcript,file,duration\n"yes, ""two"" words",x.flac,1.5\n')
    (row,) = read_table(table, audio_root="/")
    assert row == Utterance("x", Path("/x.flac"), 'yes, "two" words', duration_s=1.5)


def test_jsonl(tmp_path):
    table = tmp_path / "t.jsonl"
    rows = [
        {"audio_filepath": "x.wav", "text": "one", "speaker_id": 7, "duration": 2, "offset": 0},
        {"audio_filepath": "/y.wav", "text": "two", "offset": 1.5},
        {"audio_filepath": "z.wav", "text": None},
        {"audio_filepath": ["z.wav"], "text": "three"},
        {"text": "four"},
        {"audio_filepath": "v.wav", "text": "\ud800"},
        {"audio_filepath": "w.wav", "text": "five", "duration": "long"},
        {"audio_filepath": "w\0.wav", "text": "six"},
    ]
    table.write_text("\n".join([*map(json.dumps, rows), "{broken", "[1]", ""]))
    read = list(read_table(table))
    assert read[0] == Utterance("x", tmp_path / "x.wav", "one", "7", 2.0)
    assert [getattr(r, "reason", None) for r in read[1:7]] == [
        "segment of a longer recording",
        "empty text",
        "malformed row",
        "malformed row",
        "text is not UTF-8",
        "malformed row",
    ]
    assert [getattr(r, "reason", None) for r in read[8:]] == ["malformed row"] * 2
    result = prepare([read[7], *utterances(tmp_path, 1)], tmp_path, "set")
    assert list(reasons(result).values()) == ["missing file"]


def test_a_table_with_odd_bytes_loses_only_those_rows(tmp_path):
    table = tmp_path / "t.tsv"
    table.write_bytes(b"path\ttext\na.wav\tcaf\xe9\nb.wav\tna\xc3\xafve\n\xff.wav\tx\nc.wav\t\0\nd.wav\td\te\nf.wav\n")
    read = list(read_table(table))
    assert [(r.id, getattr(r, "reason", r)) for r in read if isinstance(r, Refusal)] == [
        ("a", "text is not UTF-8"),
        ("\ufffd.wav", "malformed row"),
        ("c", "text is not UTF-8"),
        ("t.tsv:6", "malformed row"),
        ("t.tsv:7", "malformed row"),
    ]
    assert read[1] == Utterance("b", tmp_path / "b.wav", "naïve")


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        (
            "t.tsv",
            b"path\twords\na\tb\n",
            "no column for the text: expected one of text, .*it has path, words",
        ),
        ("t.csv", b"sound,text\na,b\n", "no column for the audio path: .*it has sound, text"),
        ("t.tsv", b"", "it has none"),
        ("t.jsonl", b'{"path": "a"}\n', "no column for the text: .*it has path"),
        ("t.jsonl", b"nothing\n", "holds no JSON object"),
        ("t.csv", b'path,text\n"' + b"a" * 200000, "field larger than field limit"),
        ("t.xlsx", b"PK", "none of .tsv, .csv, .jsonl"),
    ],
)
def test_tables_that_are_wrong_as_a_whole(tmp_path, name, content, message):
    (tmp_path / name).write_bytes(content)
    with pytest.raises(ValueError, match=message):
        list(read_table(tmp_path / name))


def test_missing_tables_and_folders(tmp_path):
    with pytest.raises(ValueError, match="does not exist"):
        read_table(tmp_path / "t.tsv")
    (tmp_path / "t.tsv").write_text("path\ttext\n")
    with pytest.raises(ValueError, match="is not a folder"):
        read_table(tmp_path / "t.tsv", tmp_path / "gone")


# ---------------------------------------------------------------------------------------- commands


@pytest.fixture(scope="module")
def librispeech(tmp_path_factory):
    """A corpus in LibriSpeech's tree: two parts, one broken line, one missing file."""
    root = tmp_path_factory.mktemp("corpus") / "LibriSpeech"
    for part, speaker, words in (("train-clean-100", "19", ["ONE", "TWO"]), ("dev-clean", "84", ["THREE"])):
        chapter = root / part / speaker / "198"
        lines = [f"{speaker}-198-{i:04d} {word} MORE\n" for i, word in enumerate(words)]
        for i, word in enumerate(words):
            write_audio(chapter / f"{speaker}-198-{i:04d}.flac", speech(f"{word} more"))
        lines += [f"{speaker}-198-0008\n", f"{speaker}-198-0009 NOT THERE\n"]
        (chapter / f"{speaker}-198.trans.txt").write_text("".join(lines))
    return root


def test_librispeech_tree(librispeech):
    parts = find_librispeech_parts(librispeech.parent)
    assert [p.name for p in parts] == ["dev-clean", "train-clean-100"]
    assert find_librispeech_parts(librispeech, ["dev-clean"]) == parts[:1]
    with pytest.raises(ValueError, match=r"no part dev-other in .*; there: \['dev-clean', 'train-clean-100'\]"):
        find_librispeech_parts(librispeech, ["dev-other"])
    with pytest.raises(ValueError, match="is not a folder"):
        find_librispeech_parts(librispeech / "gone")
    with pytest.raises(ValueError, match="no part at all"):
        find_librispeech_parts(librispeech / "dev-clean" / "84" / "198")
    read = list(read_librispeech(parts[0]))
    audio = parts[0] / "84" / "198" / "84-198-0000.flac"
    assert read[0] == Utterance("84-198-0000", audio, "THREE MORE", "84")
    with pytest.raises(ValueError, match=r"holds no \*\.trans\.txt"):
        read_librispeech(librispeech.parent / "nothing")


def asr_prepare(*arguments):
    parser = argparse.ArgumentParser()
    add_arguments(parser)
    return run(parser.parse_args([str(argument) for argument in arguments]))


def test_asr_prepare_librispeech(librispeech, tmp_path, capsys):
    assert asr_prepare("librispeech", librispeech, "--out", tmp_path, "--jobs", 1) == 0
    printed = capsys.readouterr().out
    assert "2 utterances" in printed and "1 utterances" in printed
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


class DeadlyNormalizer(TextNormalizer):
    """Ends the worker that receives it, as the kernel does when memory is short."""

    def __reduce__(self):
        return os._exit, (1,)


def test_a_worker_that_dies_is_an_error_with_a_way_out(tmp_path):
    options = PrepareOptions(DeadlyNormalizer(), num_jobs=2)
    with pytest.raises(ChildProcessError, match="use fewer --jobs"):
        prepare(utterances(tmp_path), tmp_path / "data", "set", options)
    assert list((tmp_path / "data").iterdir()) == []


def test_a_missing_extra_is_named(tmp_path, monkeypatch):
    monkeypatch.setattr(prepare_module.importlib.util, "find_spec", lambda name: None)
    with pytest.raises(ValueError, match=r"lhotse and torchaudio not installed: pip install"):
        asr_prepare("manifest", tmp_path / "t.tsv", "--out", tmp_path)


def test_ctrl_c_is_told_by_the_exit_status(tmp_path, monkeypatch, capsys):
    def interrupted(*arguments):
        raise KeyboardInterrupt

    monkeypatch.setattr(prepare_module, "prepare_utterance", interrupted)
    table = tmp_path / "mine.csv"
    table.write_text("path,text\na.wav,A\n")
    assert asr_prepare("manifest", table, "--out", tmp_path / "out", "--jobs", 1) == 130
    assert "interrupted" in capsys.readouterr().out


def test_report_shows_lengths_characters_and_reasons(tmp_path):
    items = [
        *utterances(tmp_path, 3),
        Utterance("[red]x", tmp_path / "gone.wav", "A"),
        Utterance("y", tmp_path, "7 7"),
    ]
    result = prepare(items, tmp_path, "set")
    console = Console(record=True, width=100, file=open(os.devnull, "w"))  # noqa: SIM115
    print_report(result, console)
    text = console.export_text()
    assert "3 utterances" in text and "3 without speaker" in text
    assert "0-2         3 ████" in text
    assert "digit seven" in text and "outside the alphabet" in text
    assert "[red]x" in text and "missing file" in text


def test_manifest_is_a_plain_lhotse_file(tmp_path):
    result = prepare(utterances(tmp_path, 1), tmp_path, "set", PrepareOptions(TextNormalizer("lower")))
    with gzip.open(result.manifest, "rt") as file:
        (row,) = map(json.loads, file)
    assert row["type"] == "MonoCut"
    assert row["features"]["storage_path"].startswith("set.features" + os.sep)
    assert row["supervisions"][0]["text"] == "word a"
