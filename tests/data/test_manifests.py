"""Tables of recordings, the LibriSpeech tree, Kaldi's and lhotse's: every row is an utterance or is refused with a
reason."""

import gzip
import json
from pathlib import Path

import pytest
from support.corpora import reasons, utterances, write_librispeech

from asr.data.manifests import (
    Utterance,
    find_librispeech_parts,
    read_kaldi,
    read_lhotse,
    read_librispeech,
    read_table,
)
from asr.data.prepare import prepare
from asr.tables import Refusal


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
        {"audio_filepath": "x.wav", "text": "one", "speaker_id": 7, "duration": 2},
        {"audio_filepath": "/y.wav", "text": "two", "offset": -1.5},
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
        "malformed row",
        "empty text",
        "malformed row",
        "malformed row",
        "text is not UTF-8",
        "malformed row",
    ]
    assert [getattr(r, "reason", None) for r in read[8:]] == ["malformed row"] * 2
    result = prepare([read[7], *utterances(tmp_path, 1)], tmp_path, "set")
    assert list(reasons(result).values()) == ["missing file"]


def test_rows_with_an_offset_are_segments(tmp_path):
    table = tmp_path / "t.tsv"
    rows = ["path\ttext\toffset\tduration", "a.wav\tone\t0\t2", "a.wav\ttwo\t2.5\t1.25", "a.wav\tthree\t5\t"]
    rows += ["b.wav\tfour\t\t3", "b.wav\tfive\tsoon\t3", "b.wav\tsix\tnan\t3", "b.wav\tseven\t1\t-3"]
    table.write_text("\n".join(rows))
    *read, soon, nan, negative = read_table(table)
    a, b = tmp_path / "a.wav", tmp_path / "b.wav"
    assert read == [
        Utterance("a", a, "one", None, 2.0, 0.0, 2.0),
        Utterance("a@2.5", a, "two", None, 1.25, 2.5, 1.25),
        Utterance("a@5", a, "three", None, None, 5.0, None),
        Utterance("b", b, "four", None, 3.0),
    ]
    for refused, detail in ((soon, "start is 'soon'"), (nan, "start is 'nan'"), (negative, "duration is '-3'")):
        assert refused == Refusal("b", str(b), "malformed row", f"{detail}, expected seconds")


def test_table_loses_only_rows_with_odd_bytes(tmp_path):
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


def test_rows_that_csv_cannot_parse_are_refused(tmp_path):
    long = b"a" * 200000
    for name, content, expected in (
        ("t.tsv", b"path\ttext\na.wav\tone\rtwo\n\nb.wav\t" + long + b"\n", ["one\rtwo", long.decode()]),
        ("t.csv", b"path,text\na.wav," + long + b"\n\nb.wav,two\n", ["malformed row", "two"]),
    ):
        (tmp_path / name).write_bytes(content)
        read = list(read_table(tmp_path / name))
        assert [r.reason if isinstance(r, Refusal) else r.text for r in read] == expected


def test_a_stray_quotation_mark_hides_no_rows(tmp_path):
    """The reader of CSV joins all lines up to the next mark to one row."""
    table, rows = (
        tmp_path / "t.csv",
        ["path,text", 'a.wav,"Hello there', "b.wav,two", 'c.wav,"quoted" text', "d.wav,four"],
    )
    table.write_text("\n".join(rows))
    refused, last = read_table(table)
    assert isinstance(refused, Refusal) and (refused.id, refused.reason) == ("t.csv:2", "malformed row")
    assert "lines 2 to 4 " in refused.detail and "quotation mark is not closed" in refused.detail
    assert last == Utterance("d", tmp_path / "d.wav", "four")
    table.write_text('path,text\na.wav,one\nb.wav,"two\nc.wav,three\n')
    first, refused = read_table(table)
    assert isinstance(refused, Refusal) and first.text == "one" and "lines 3 to 4 " in refused.detail
    table.write_text('path,"text\na.wav,one\nb.wav,two\n')
    with pytest.raises(ValueError, match=r"t.csv, line 1: lines 1 to 3 .* a quotation mark is not closed"):
        list(read_table(table))
    table.write_text("path,text\n" + 'a.wav,"one\n' + "b.wav,two\n" * 20000)
    (refused, *_) = read_table(table)
    assert isinstance(refused, Refusal) and refused.detail.startswith("lines 2 to 1"), "also beyond the longest field"


@pytest.mark.parametrize("name", ["t.csv", "t.tsv"])
def test_a_refused_row_has_its_line_number(tmp_path, name):
    rows = ["path,text", "a.wav,a", "b.wav,b,more", "", "c.wav"]
    separator = "," if name == "t.csv" else "\t"
    (tmp_path / name).write_text("\n".join(rows).replace(",", separator))
    assert [r.id for r in read_table(tmp_path / name) if isinstance(r, Refusal)] == [f"{name}:3", f"{name}:5"]


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
        ("t.jsonl", b"nothing\n", "has no JSON object"),
        ("t.csv", b'"' + b"a" * 200000, "t.csv, line 1: field larger than field limit"),
        ("t.xlsx", b"PK", "must end in one of .tsv, .csv, .jsonl"),
    ],
)
def test_tables_that_are_wrong_as_a_whole(tmp_path, name, content, message):
    (tmp_path / name).write_bytes(content)
    with pytest.raises(ValueError, match=message):
        list(read_table(tmp_path / name))


def test_missing_tables_and_folders(tmp_path):
    for name in ("t.tsv", "recordings"):
        with pytest.raises(ValueError, match=f"{name} does not exist"):
            read_table(tmp_path / name)
    (tmp_path / "t.tsv").write_text("path\ttext\n")
    with pytest.raises(ValueError, match="is not a folder"):
        read_table(tmp_path / "t.tsv", tmp_path / "gone")


def test_librispeech_tree(tmp_path):
    librispeech = write_librispeech(tmp_path)
    parts = find_librispeech_parts(librispeech.parent)
    assert [p.name for p in parts] == ["dev-clean", "train-clean-100"]
    assert find_librispeech_parts(librispeech, ["dev-clean"]) == parts[:1]
    with pytest.raises(ValueError, match=r"has no part dev-other; it has dev-clean, train-clean-100$"):
        find_librispeech_parts(librispeech, ["dev-other"])
    with pytest.raises(ValueError, match="is not a folder"):
        find_librispeech_parts(librispeech / "gone")
    with pytest.raises(ValueError, match="no part with a"):
        find_librispeech_parts(librispeech / "dev-clean" / "84" / "198")
    read = list(read_librispeech(parts[0]))
    audio = parts[0] / "84" / "198" / "84-198-0000.flac"
    assert read[0] == Utterance("84-198-0000", audio, "THREE MORE", "84")
    with pytest.raises(ValueError, match=r"holds no \*\.trans\.txt"):
        read_librispeech(librispeech.parent / "nothing")


def write_kaldi(folder, **files):
    for name, lines in files.items():
        (folder / name.replace("_", ".")).write_bytes("\n".join(lines).encode("latin-1") + b"\n")
    return folder


def test_a_kaldi_directory_of_recordings(tmp_path):
    write_kaldi(
        tmp_path,
        wav_scp=["u1 /audio/with space.wav", "u2\taudio/b.flac", "u3 sph2pipe -f wav c.sph |", "u4 d.wav", "u5 e.wav"],
        text=["u1 ONE  MORE", "u2\tTWO", "u3 THREE", "u4", "u5 CAF\xe9", "u6 NO RECORDING"],
        utt2spk=["u1 ann", "u2\tbob"],
    )
    assert list(read_kaldi(tmp_path)) == [
        Utterance("u1", Path("/audio/with space.wav"), "ONE  MORE", "ann"),
        Utterance("u2", Path("audio/b.flac"), "TWO", "bob"),
        Refusal(
            "u3",
            "sph2pipe -f wav c.sph |",
            "command in wav.scp",
            "write its output into files, and name these in wav.scp",
        ),
        Utterance("u4", Path("d.wav"), ""),
        Refusal("u5", "e.wav", "text is not UTF-8", "CAF\ufffd"),
    ]


def test_a_kaldi_directory_of_segments(tmp_path):
    write_kaldi(
        tmp_path,
        wav_scp=["r1 /r1.wav"],
        text=["s1 ONE", "s2 TWO", "s3 THREE", "s4 FOUR"],
        segments=["s1 r1 1.5 2.25", "s2 r1 4 -1", "s3 gone 0 1", "s4 r1 -0.01 1"],
    )
    assert list(read_kaldi(tmp_path)) == [
        Utterance("s1", Path("/r1.wav"), "ONE", None, None, 1.5, 0.75),
        Utterance("s2", Path("/r1.wav"), "TWO", None, None, 4.0, None),
        Refusal("s3", "", "missing file", "wav.scp has no recording 'gone'"),
        Utterance("s4", Path("/r1.wav"), "FOUR", None, None, 0.0, 1.0),
    ]


def test_utterances_of_a_kaldi_directory_without_a_text_are_refused(tmp_path):
    (item,) = utterances(tmp_path, 1)
    write_kaldi(tmp_path, wav_scp=[f"{id} {item.audio}" for id in "abc"], text=["a WORD", "b"])
    assert reasons(prepare(list(read_kaldi(tmp_path)), tmp_path, "set")) == {"b": "empty text", "c": "empty text"}


def test_kaldi_directories_that_are_wrong_as_a_whole(tmp_path):
    with pytest.raises(ValueError, match=r"wav\.scp does not exist; a Kaldi data directory has wav\.scp and text"):
        read_kaldi(tmp_path)
    write_kaldi(tmp_path, wav_scp=["r r.wav"])
    with pytest.raises(ValueError, match="text does not exist"):
        read_kaldi(tmp_path)
    for segment in ("s r 1", "s r one 2", "s"):
        write_kaldi(tmp_path, text=["s WORD"], segments=[segment])
        with pytest.raises(ValueError, match=f"segments: {segment} ?: expected a recording, its start and its end"):
            read_kaldi(tmp_path)


def cut(id, start=0.0, duration=2.0, texts=("ONE",), source=None, **recording):
    """A row of lhotse's manifests of cuts, of a recording of 2 s."""
    source = {"type": "file", "channels": [0], "source": f"/audio/{id}.opus"} | (source or {})
    return {
        "id": id,
        "start": start,
        "duration": duration,
        "channel": 0,
        "supervisions": [{"id": id, "start": 0.0, "text": text, "speaker": "ann"} for text in texts],
        "recording": {"id": "r", "sources": [source], "sampling_rate": 48000, "duration": 2.0} | recording,
        "type": "MonoCut",
    }


@pytest.mark.parametrize("suffix", [".jsonl", ".jsonl.gz"])
def test_cuts_of_lhotse(tmp_path, suffix):
    path = tmp_path / f"cuts{suffix}"
    cuts = [
        cut("whole", transforms=[{"name": "Resample"}]),
        cut("part", start=0.5, duration=1.25),
        cut("begin", duration=1.0),
        cut("silent", texts=()),
        cut("two", texts=("ONE", "TWO")),
        cut("fast", transforms=[{"name": "Speed", "kwargs": {"factor": 1.1}}, {"name": "Resample"}]),
        cut("piped", source={"type": "command", "source": "sph2pipe a.sph"}),
        cut("stereo", channel_ids=[0, 1]),
        cut("no text", texts=(None,)),
    ]
    content = "".join(json.dumps(each) + "\n" for each in cuts).encode()
    path.write_bytes(gzip.compress(content) if suffix.endswith("gz") else content)
    read = list(read_lhotse(path))
    assert [each for each in read if isinstance(each, Utterance)] == [
        Utterance("whole", Path("/audio/whole.opus"), "ONE", "ann"),
        Utterance("part", Path("/audio/part.opus"), "ONE", "ann", None, 0.5, 1.25),
        Utterance("begin", Path("/audio/begin.opus"), "ONE", "ann", None, 0.0, 1.0),
        Utterance("no text", Path("/audio/no text.opus"), "", "ann"),
    ]
    assert [(each.id, each.reason, each.detail) for each in read if isinstance(each, Refusal)] == [
        ("silent", "not one text", "0 texts; cut it with trim_to_supervisions"),
        ("two", "not one text", "2 texts; cut it with trim_to_supervisions"),
        ("fast", "changed recording", "Speed: prepare the original"),
        ("piped", "not a file", "its recording is of type 'command'"),
        ("stereo", "one of several channels", "write it into a file of its own"),
    ]


@pytest.mark.parametrize(
    "content",
    [
        gzip.compress(json.dumps(cut("a")).encode())[:-9],
        b"no gzip",
        gzip.compress(b"no JSON"),
        gzip.compress(b"[1]"),
        gzip.compress(json.dumps({"id": "a", "type": "MixedCut", "tracks": []}).encode()),
        gzip.compress(b"\xff"),
    ],
    ids=("cut off", "no gzip", "no JSON", "a list", "tracks", "no UTF-8"),
)
def test_files_that_are_no_cuts_of_lhotse(tmp_path, content):
    path = tmp_path / "cuts.jsonl.gz"
    path.write_bytes(content)
    with pytest.raises(
        ValueError, match=r"cuts\.jsonl\.gz cannot be read: .*; expected lhotse's cuts, one JSON object a"
    ):
        list(read_lhotse(path))
