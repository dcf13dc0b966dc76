"""Audio files of every sort: read to their end, every loss is reported, and no output on the terminal."""

from __future__ import annotations

import fcntl
import gzip
import io
import os
import resource
import subprocess
import sys
import tempfile
import threading
import zipfile
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pytest
import soundfile
from support.media import ffmpeg

from asr.containers import MAX_PARTS, kind_of, parts
from asr.streaming.audio import pipe
from asr.streaming.audio.audio_file import AudioFileError, duration_s, read_blocks

FORMATS: dict[str, dict[str, str]] = {
    "wav": {},
    "aiff": {},
    "au": {},
    "w64": {},
    "rf64": {"format": "RF64"},
    "flac": {},
    "ogg": {"subtype": "VORBIS"},
    "opus": {"format": "OGG", "subtype": "OPUS"},
    "mp3": {},
}


def read(source: Any, **options: Any) -> tuple[np.ndarray, str]:
    """The audio that is read, (num_samples,) float32, and the error at its end."""
    blocks, trouble = [np.zeros(0, np.float32)], ""
    try:
        for samples, _ in read_blocks(source, **options):
            blocks.append(samples)
    except AudioFileError as error:
        trouble = str(error)
    return np.concatenate(blocks), trouble


def encode(samples: np.ndarray, suffix: str) -> bytes:
    file = io.BytesIO()
    soundfile.write(file, samples, 16000, **({"format": suffix.upper()} | FORMATS[suffix]))
    return file.getvalue()


# ---- cut, and joined ----


def test_midi_sample_dump_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "a.sds"
    soundfile.write(path, np.zeros(2000), 16000, format="SDS", subtype="PCM_16")
    samples, trouble = read(path)
    assert not len(samples) and "a.sds is a MIDI sample dump, which is not supported; convert it to WAV" in trouble


@pytest.mark.parametrize("suffix", FORMATS)
def test_reports_only_a_cut_file(suffix: str, sample: np.ndarray, tmp_path: Path) -> None:
    path, content = tmp_path / f"a.{suffix}", encode(sample, suffix)
    for share in (0.3, 0.5, 0.9):
        path.write_bytes(content[: int(share * len(content))])
        samples, trouble = read(path)
        assert 0.1 * share * len(sample) < len(samples) < 0.95 * len(sample)
        assert f"a.{suffix} is cut short" in trouble or f"a.{suffix} after " in trouble
    path.write_bytes(content)
    samples, trouble = read(path)
    assert len(samples) == len(sample) and trouble == ""


def test_channels_are_averaged_unless_they_cancel(sample: np.ndarray, tmp_path: Path) -> None:
    path, left = tmp_path / "stereo.wav", sample / np.float32(32768)
    for right, expected in [(0.5 * left, 0.75 * left), (-left, left), (-0.9 * left, 0.05 * left)]:
        soundfile.write(path, np.stack([left, right], axis=1), 16000, subtype="FLOAT")
        warnings: list[str] = []
        np.testing.assert_allclose(read(path, warn=warnings.append)[0], expected, atol=1e-6)
        assert len(warnings) == (expected is left)
        assert all("its channels cancel each other, so only the first one is used" in warning for warning in warnings)


def test_one_channel_or_each(sample: np.ndarray, tmp_path: Path) -> None:
    path, left = tmp_path / "stereo.wav", sample[:20000] / np.float32(32768)
    both = np.stack([left, left[::-1]], axis=1)
    soundfile.write(path, both, 16000)
    for number in (1, 2):
        assert np.array_equal(read(path, channel=number)[0], both[:, number - 1])
    assert np.array_equal(np.concatenate([block for block, _ in read_blocks(path, channel="each")]), both)
    assert read(path, channel=3)[1] == f"{path} has no channel 3: choose from 1 to 2, mix or each"
    soundfile.write(path, np.zeros((1000, 9)), 16000)
    assert f"{path} has 9 channels; channel each takes up to 8" in read(path, channel="each")[1]


def test_each_channel_needs_as_many_in_all_recordings(sample: np.ndarray, tmp_path: Path) -> None:
    path, content = tmp_path / "a.ogg", b""
    for num_channels in (2, 1):
        file = io.BytesIO()
        soundfile.write(file, np.stack([sample[:16000]] * num_channels, axis=1), 16000, format="OGG")
        content += file.getvalue()
    path.write_bytes(content)
    with pytest.raises(AudioFileError, match="goes on with 1 channels after 2, which channel each does not take"):
        list(read_blocks(path, channel="each"))
    assert read(path)[1] == ""


@pytest.mark.filterwarnings("error")
def test_huge_samples_make_no_noise(tmp_path: Path) -> None:
    path = tmp_path / "a.wav"
    soundfile.write(path, np.full((4000, 2), 3e38, np.float32), 16000, subtype="FLOAT")
    assert read(path)[0].max() == np.float32(3e38)
    soundfile.write(path, np.array([[np.inf, -np.inf]] * 4000, np.float32), 16000, subtype="FLOAT")
    assert len(read(path)[0]) == 4000


@pytest.mark.parametrize("suffix", ["ogg", "opus", "mp3"])
def test_recordings_one_after_the_other_are_all_read(suffix: str, sample: np.ndarray, tmp_path: Path) -> None:
    path, one, two = tmp_path / f"a.{suffix}", encode(sample, suffix), encode(sample[:40000], suffix)
    expected = []
    for content in (one, two):
        path.write_bytes(content)
        expected.append(read(path)[0])
    path.write_bytes(one + two + one)
    samples, trouble = read(path)
    assert trouble == "" and np.array_equal(samples, np.concatenate([*expected, expected[0]]))
    with path.open("rb") as file:  # as in the server
        assert np.array_equal(read(file)[0], samples)
    path.write_bytes(one + two[: len(two) * 4 // 5])
    samples, trouble = read(path)
    assert len(sample) < len(samples) < len(sample) + 40000 and "is cut short" in trouble


@pytest.mark.parametrize("subtype", ["G721_32", "G723_24", "MS_ADPCM", "GSM610"])
def test_encodings_without_end_in_a_pipe(subtype: str, sample: np.ndarray, tmp_path: Path) -> None:
    path, fifo = tmp_path / ("a.au" if subtype.startswith("G7") else "a.wav"), tmp_path / "fifo"
    soundfile.write(path, sample, 16000, subtype=subtype)
    os.mkfifo(fifo)
    threading.Timer(0.1, fifo.write_bytes, [path.read_bytes()]).start()
    assert len(read(fifo, max_s=60.0)[0]) == len(read(path)[0]) >= len(sample)


def test_a_pipe_may_have_any_descriptor(request: pytest.FixtureRequest) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    request.addfinalizer(lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard)))
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, 2000), hard))
    reader, writer = os.pipe()
    high = fcntl.fcntl(reader, fcntl.F_DUPFD, 1100)  # select takes none above 1023
    os.close(reader)
    with open(high, "rb", buffering=0) as file:
        os.write(writer, b"abc")
        os.close(writer)
        assert pipe.Pipe(file, lambda: False).read(9) == b"abc"


def test_any_open_file_is_read(sample: np.ndarray, tmp_path: Path) -> None:
    path, packed, wav = tmp_path / "a.wav", tmp_path / "a.wav.gz", encode(sample, "wav")
    path.write_bytes(wav)
    packed.write_bytes(gzip.compress(wav))
    with (
        path.open("rb") as file,
        path.open("rb", buffering=0) as unbuffered,
        gzip.open(packed) as unpacked,
        tempfile.NamedTemporaryFile() as named,
        tempfile.SpooledTemporaryFile() as spooled,
        subprocess.Popen(["cat", path], stdout=subprocess.PIPE) as process,
        zipfile.ZipFile(tmp_path / "a.zip", "w") as archive,
    ):
        file.read(1000)  # files are read from their beginning
        named.write(wav)
        spooled.write(wav)
        archive.writestr("a.wav", wav)
        with archive.open("a.wav") as member:
            for source in (file, unbuffered, unpacked, named, spooled, process.stdout, member, io.BytesIO(wav)):
                samples, trouble = read(source)
                assert np.array_equal(samples, sample / np.float32(32768)) and trouble == ""
                assert not source.closed


def test_what_is_no_open_file(tmp_path: Path) -> None:
    assert "open it in binary mode: open(path, 'rb')" in read(io.StringIO("RIFF"))[1]
    assert "has the type bytes; it must be a path or a file opened in binary mode, such as io.B" in read(b"RIFF")[1]


def test_a_flac_of_unknown_length(sample: np.ndarray, tmp_path: Path) -> None:
    path = ffmpeg(tmp_path, sample, "a.flac", "-f", "flac")
    samples, trouble = read(path)
    assert np.array_equal(samples, sample / np.float32(32768)) and trouble == ""
    assert duration_s(path) == 0.0


@pytest.mark.parametrize("options", [("-f", "mp3"), ("-q:a", "4", "-write_xing", "0"), ("-q:a", "4"), ("-b:a", "64k")])
def test_mp3_with_and_without_a_header(options: tuple[str, ...], sample: np.ndarray, tmp_path: Path) -> None:
    samples, trouble = read(ffmpeg(tmp_path, sample, "a.mp3", *options))
    assert trouble == "" and len(sample) <= len(samples) <= len(sample) + 3 * 1152


def test_an_mp3_may_lack_its_last_padding(sample: np.ndarray, tmp_path: Path) -> None:
    path = ffmpeg(tmp_path, sample, "a.mp3", "-b:a", "64k")
    content = path.read_bytes()
    for num_frames, is_whole in ((1, True), (2, True), (6, False)):
        path.write_bytes(content[: -288 * num_frames])  # each of 576 samples
        assert (read(path)[1] == "") is is_whole


def test_an_mp3_is_decoded_without_noise(sample: np.ndarray, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "a.mp3"
    path.write_bytes(encode(sample, "mp3"))
    samples, _ = read(path)
    assert capfd.readouterr() == ("", "")
    whole = soundfile.read(path, dtype="float32")[0]
    assert np.abs(samples - whole).max() < 1e-4


# ---- bounds ----


def test_reads_at_most_max_s_whatever_the_header(sample: np.ndarray, tmp_path: Path) -> None:
    for path in (ffmpeg(tmp_path, sample, "a.flac", "-f", "flac"), ffmpeg(tmp_path, sample, "a.m4a")):
        samples, trouble = read(path, max_s=2.0)
        assert len(samples) <= 2.0 * 16000 and "the maximum is 2 s" in trouble


def test_recordings_one_after_the_other_are_bounded_together(sample: np.ndarray, tmp_path: Path) -> None:
    path, one = tmp_path / "a.ogg", encode(sample[:32000], "ogg")
    path.write_bytes(one + one)
    samples, trouble = read(path, max_s=3.0)  # the header of the second one exceeds the limit, so none of it is read
    assert len(samples) == 32000 and trouble == f"{path} lasts 4 s; the maximum is 3 s"
    samples, trouble = read(path, max_s=4.5)
    assert len(samples) == 64000 and trouble == ""


def test_a_pipe_without_end_is_not_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pipe, "MAX_PIPED", 1 << 20)
    reader, writer = os.pipe()
    process = subprocess.Popen(["sh", "-c", "printf OggS; cat /dev/zero"], stdout=writer)
    os.close(writer)
    try:
        monkeypatch.setattr("sys.stdin", os.fdopen(reader))
        assert "more than 1 MB came through a pipe" in read("-")[1]
    finally:
        process.kill()
        process.wait()
    with open("/dev/zero") as zeros:
        monkeypatch.setattr("sys.stdin", zeros)
        assert "cannot read standard input: " in read("-")[1]


ID3 = b"ID3\3" + bytes(6)
FRAME = b"\xff\xfb\x90\0" + bytes(32) + b"Xing"
MP3 = (ID3 + FRAME + (2).to_bytes(4, "big") + (60).to_bytes(4, "big")).ljust(70, b"\0")
"""An MP3 of 60 bytes after its tag, as its header says."""


def ogg_page(flags: int, data: bytes = b"") -> bytes:
    return b"OggS\0" + bytes([flags]) + bytes(20) + bytes([bool(data), *([len(data)] * bool(data))]) + data


def test_an_mp3_that_ends_in_its_header(tmp_path: Path) -> None:
    path = tmp_path / "a.mp3"
    for content in (FRAME, FRAME + bytes(4), MP3[10:57]):
        path.write_bytes(content)
        assert f"cannot read {path}: " in read(path)[1]


@pytest.mark.parametrize("recording", [MP3, ogg_page(6, b"x")], ids=["mp3", "ogg"])
def test_a_file_has_only_so_many_recordings(recording: bytes, tmp_path: Path) -> None:
    path = tmp_path / "a"
    path.write_bytes(2 * MAX_PARTS * recording)
    assert read(path)[1] == f"{path} has more than 1000 recordings; split it"
    assert "recordings" not in read(path, stopped=lambda: True)[1]
    with path.open("rb") as file:
        assert len(parts(file, kind_of(recording), path.stat().st_size)[0]) == MAX_PARTS + 1
    path.write_bytes(MAX_PARTS * recording)
    assert "recordings" not in read(path)[1]


def test_search_for_the_next_mp3_skips_bytes() -> None:
    recording = MP3 + bytes(16000)
    content = 10 * recording
    expected = [(i * len(recording), i * len(recording) + 70) for i in range(9)]
    num_calls = 0

    def count(*_: object) -> None:
        nonlocal num_calls
        num_calls += 1

    sys.setprofile(count)
    try:
        found = parts(io.BytesIO(content), "mp3", len(content))
    finally:
        sys.setprofile(None)
    assert found == ([*expected, (9 * len(recording), len(content))], True)
    assert num_calls < 1000  # of 144,000 bytes between the recordings


def test_empty_ogg_pages_end_the_search() -> None:
    class Counted(io.BytesIO):
        num_reads = 0

        def read(self, size: int | None = -1) -> bytes:
            self.num_reads += 1
            return super().read(size)

    content = ogg_page(6, b"x") + 5 * MAX_PARTS * ogg_page(0)
    file = Counted(content)
    assert parts(file, "ogg", len(content)) == ([(0, len(content))], False)
    assert file.num_reads < MAX_PARTS + 10


# ---- messages ----


@pytest.mark.parametrize(
    ("name", "content"), [("a\x1b[31m\x07.wav", b"RIFF"), (os.fsdecode(b"\xff.wav"), b"x"), ("new\nline.mp3", b"ID3\3")]
)
def test_messages_are_one_line_whatever_the_name(name: str, content: bytes, tmp_path: Path) -> None:
    (tmp_path / name).write_bytes(content)
    for path in (tmp_path / name, tmp_path / f"missing {name}"):
        trouble = read(path)[1]
        assert trouble and trouble.isprintable() and "does not exist" not in trouble


def test_a_closed_standard_input(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", None)
    assert read("-")[1].startswith("standard input is closed; send audio into it")


def test_named_pipe_without_a_writer_can_be_stopped(sample: np.ndarray, tmp_path: Path) -> None:
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    stop = threading.Event()
    results: list[tuple[np.ndarray, str]] = []
    reader = threading.Thread(target=lambda: results.append(read(fifo, stopped=stop.is_set)), daemon=True)
    reader.start()
    stop.set()
    reader.join(60)
    assert len(results) == 1 and len(results[0][0]) == 0


def test_a_named_pipe_whose_writer_comes_later(sample: np.ndarray, tmp_path: Path) -> None:
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    threading.Timer(0.3, fifo.write_bytes, [encode(sample, "wav")]).start()
    samples, trouble = read(fifo)
    assert len(samples) == len(sample) and trouble == ""


@pytest.mark.parametrize(("suffix", "order"), [("wav", "little"), ("aiff", "big")])
def test_a_pipe_with_a_picture_before_the_audio(
    suffix: str, order: Literal["little", "big"], sample: np.ndarray, tmp_path: Path
) -> None:
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    content = encode(sample, suffix)
    picture = b"APPL" + (200_000).to_bytes(4, order) + bytes(200_000)
    threading.Timer(0.1, fifo.write_bytes, [content[:12] + picture + content[12:]]).start()
    samples, trouble = read(fifo)
    assert len(samples) == len(sample) and trouble == ""
