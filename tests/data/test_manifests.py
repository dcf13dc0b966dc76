"""Tables of recordings and the LibriSpeech tree: every row is an utterance or is rejected with a reason."""

import json
from pathlib import Path

import pytest
from support.corpora import reasons, utterances, write_librispeech

from asr.data.manifests import Utterance, find_librispeech_parts, read_librispeech, read_table
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
        ("t.xlsx", b"PK", "none of .tsv, .csv, .jsonl"),
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
    with pytest.raises(ValueError, match=r"no part dev-other in .*; there: dev-clean, train-clean-100$"):
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
