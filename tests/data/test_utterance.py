"""Damaged recordings are rejected with a reason; readable ones are accepted."""

import numpy as np
import pytest
import soundfile
from support.corpora import reasons
from support.synth import SAMPLE_RATE, hum, write_audio

from asr.data.audio import TooLongError, read_audio
from asr.data.manifests import Refusal, Utterance
from asr.data.prepare import REFUSED, prepare
from asr.data.speech import Speech
from asr.data.utterance import PrepareOptions, num_ctc_frames


def broken_files(folder):
    """Utterance IDs with the reason for which each must be rejected."""
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
    assert Speech.load(result.folder).ids == ["good.wav"]
    listed = (result.folder / REFUSED).read_text().splitlines()
    assert len(listed) == 1 + len(expected)
    assert listed[0].split("\t") == ["id", "audio", "reason", "detail"]


def test_channels_that_cancel_each_other_are_heard(tmp_path):
    tone, quiet = hum(1.0), np.zeros(SAMPLE_RATE, np.float32)
    for channels, expected in (((tone, -tone), tone), ((0.999 * tone, -tone), 0.999 * tone), ((tone, quiet), tone / 2)):
        soundfile.write(tmp_path / "a.wav", np.stack(channels, 1), SAMPLE_RATE, "FLOAT")
        np.testing.assert_allclose(read_audio(tmp_path / "a.wav").samples, expected, atol=1e-6)


@pytest.mark.parametrize("suffix", ["aiff", "au", "flac", "mp3", "ogg", "opus", "rf64", "w64", "wav"])
def test_cut_and_joined_recordings_are_refused(tmp_path, suffix):
    path = write_audio(tmp_path / f"whole.{suffix}", hum(3.0))
    content = path.read_bytes()
    assert read_audio(path).num_file_samples >= 3 * SAMPLE_RATE
    path.write_bytes(content[: len(content) * 6 // 10])
    with pytest.raises(ValueError, match=r"is cut off|cannot be read"):
        read_audio(path)
    if suffix in ("mp3", "ogg", "opus"):
        path.write_bytes(2 * content)
        with pytest.raises(ValueError, match="holds several recordings"):
            read_audio(path)


def test_a_wav_written_into_a_pipe_is_whole(tmp_path):
    wav = bytearray(write_audio(tmp_path / "pipe.wav", hum(1.0)).read_bytes())
    size = wav.find(b"data") + 4
    wav[4:8] = wav[size : size + 4] = b"\xff\xff\xff\xff"  # the length was unknown at the beginning
    (tmp_path / "pipe.wav").write_bytes(wav)
    assert read_audio(tmp_path / "pipe.wav").num_file_samples == 16000


def test_too_long_a_recording_is_not_decoded(tmp_path):
    path = write_audio(tmp_path / "a.wav", hum(2.0))
    with pytest.raises(TooLongError, match="2"):
        read_audio(path, max_duration_s=1.0)


@pytest.mark.parametrize("suffix", ["wav", "flac", "mp3", "opus"])
def test_a_part_of_a_recording_is_that_part(tmp_path, suffix):
    path = write_audio(tmp_path / f"a.{suffix}", hum(3.0), SAMPLE_RATE)
    whole = read_audio(path).samples
    part = read_audio(path, 1.5, 1.25, 1.5)
    assert (part.num_file_samples / part.file_rate, len(part.samples)) == (1.5, 24000)
    assert np.abs(part.samples - whole[20000:44000]).max() < 0.01
    rest = read_audio(path, start_s=2.5).samples
    assert len(rest) == len(whole) - 40000 and np.abs(rest - whole[40000:]).max() < 0.01


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


def test_ctc_needs_frames_for_characters_and_repeats():
    assert [num_ctc_frames(text) for text in ("", "A", "AB", "AA", "AAB B")] == [0, 1, 2, 3, 6]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"min_duration_s": 0.0}, "at least 0.1 s"),
        ({"min_duration_s": 5.0, "max_duration_s": 4.0}, "5.0 to 4.0 s"),
        ({"max_duration_s": float("nan")}, "nan"),
        ({"num_jobs": 0}, "1 to 1024"),
    ],
)
def test_strange_options_are_refused(arguments, message):
    with pytest.raises(ValueError, match=message):
        PrepareOptions(**arguments)
