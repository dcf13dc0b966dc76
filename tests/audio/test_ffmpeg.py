"""What ffmpeg reads: every format, times of the container, its words about trouble, and its limits."""

from __future__ import annotations

import os
import shutil
import struct
import subprocess
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import soundfile
from support.media import VIDEO, ffmpeg, inflated, with_many_samples

from asr.containers import AudioFileError
from asr.streaming.audio import ffmpeg as runner
from asr.streaming.audio.audio_file import read_blocks
from asr.streaming.audio.open_file import INTO_A_PIPE


def read(source: Any, **options: Any) -> tuple[np.ndarray, int, str]:
    """The audio, (num_samples,) float32, its rate, and the error at its end."""
    blocks, rate, trouble = [np.zeros(0, np.float32)], 0, ""
    try:
        for samples, found in read_blocks(source, **options):
            blocks.append(samples)
            rate = found
    except AudioFileError as error:
        trouble = str(error)
    return np.concatenate(blocks), rate, trouble


def sound_between(samples: np.ndarray, rate: int) -> tuple[float, float]:
    """The seconds of the first and the last loud sample."""
    (loud,) = np.nonzero(np.abs(samples) > 0.1)
    return loud[0] / rate, loud[-1] / rate


# ---- formats ----


def in_wav(tag: int, data: bytes) -> bytes:
    """A WAV file of 16 kHz mono with this number of its codec."""
    chunks = b"WAVEfmt " + struct.pack("<IHHIIHH", 16, tag, 1, 16000, 4000, 1, 16)
    chunks += b"data" + struct.pack("<I", len(data)) + data
    return b"RIFF" + struct.pack("<I", len(chunks)) + chunks


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("a.webm", ("-ar", "48000")),
        *[(f"a.{suffix}", ()) for suffix in "mka m4a mp4 aac wma ts ac3 wv tta avi mpg".split()],
        ("a.flv", ("-ar", "22050")),
        ("aac.wav", ("-f", "adts")),
        ("mp3.wav", ("-c:a", "libmp3lame")),
        ("bw64.wav", ("-rf64", "always")),
    ],
)
def test_every_format_is_read(name: str, options: tuple[str, ...], sample: np.ndarray, tmp_path: Path) -> None:
    path = ffmpeg(tmp_path, sample, name, *options)
    if name == "bw64.wav":
        path.write_bytes(b"BW64" + path.read_bytes()[4:])
    if name == "aac.wav":
        path.write_bytes(in_wav(0x1600, path.read_bytes()))
    warnings: list[str] = []
    samples, rate, trouble = read(path, warn=warnings.append)
    assert trouble == "" and not warnings
    assert -0.01 < len(samples) / rate - len(sample) / 16000 < 0.2
    np.testing.assert_allclose(sound_between(samples, rate), sound_between(sample / 32768, 16000), atol=0.1)
    with path.open("rb") as file:
        assert np.array_equal(read(file)[0], samples)


@pytest.mark.parametrize("name", ["a.ts", "a.aac", "aac.wav"])
def test_every_format_is_read_from_a_pipe(name: str, sample: np.ndarray, tmp_path: Path) -> None:
    path = ffmpeg(tmp_path, sample, name, "-c:a", "aac", "-f", "mpegts" if name == "a.ts" else "adts")
    if name == "aac.wav":
        path.write_bytes(in_wav(0x1600, path.read_bytes()))
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    threading.Timer(0.1, fifo.write_bytes, [path.read_bytes()]).start()
    samples, _, trouble = read(fifo)
    assert trouble == "" and np.array_equal(samples, read(path)[0])


@pytest.mark.parametrize(
    ("name", "trouble"),
    [
        ("a.m4a", "{} is MP4 or M4A, which needs ffmpeg"),
        ("a.wv", "cannot read {}: Format not recognised. ffmpeg"),
    ],
)
def test_ffmpeg_is_named_where_it_is_missing(
    name: str, trouble: str, sample: np.ndarray, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = ffmpeg(tmp_path, sample, name)
    monkeypatch.setenv("PATH", str(tmp_path))
    found = read(path)[2]
    assert found.startswith(trouble.format(path))
    assert "not installed: sudo apt-get install ffmpeg" in found


def test_a_playlist_in_disguise_opens_no_other_file(sample: np.ndarray, tmp_path: Path) -> None:
    secret = tmp_path / "secret.wav"
    soundfile.write(secret, sample, 16000)
    for number, content in enumerate((f"#EXTM3U\n#EXTINF:5,\n{secret}\n", f"ffconcat version 1.0\nfile {secret}\n")):
        path = tmp_path / f"{number}.webm"
        path.write_text(content)
        samples, _, trouble = read(path)
        assert len(samples) == 0 and f"cannot read {path}: Format not recognised. ffmpeg says: " in trouble


# ---- times ----


@pytest.mark.parametrize("suffix", ["mp4", "webm", "mkv", "ts"])
def test_audio_that_begins_late_has_its_time(suffix: str, sample: np.ndarray, tmp_path: Path) -> None:
    codecs = ("-c:v", "vp8", "-c:a", "libopus") if suffix == "webm" else ("-c:v", "mpeg2video", "-c:a", "aac")
    path = ffmpeg(
        tmp_path, sample, f"a.{suffix}", "-map", "0:v", "-map", "1:a", *codecs, before=(*VIDEO, "-itsoffset", "4")
    )
    samples, rate, trouble = read(path)
    begin_s, end_s = sound_between(sample / 32768, 16000)
    assert trouble == ""
    np.testing.assert_allclose(sound_between(samples, rate), (begin_s + 4, end_s + 4), atol=0.1)


@pytest.mark.parametrize(("suffix", "codec"), [("mp4", "aac"), ("webm", "libopus"), ("mkv", "pcm_s16le")])
def test_a_gap_keeps_its_time(suffix: str, codec: str, sample: np.ndarray, tmp_path: Path) -> None:
    """Of 2 s, as in recordings of calls."""
    path = ffmpeg(tmp_path, sample, f"a.{suffix}", "-af", "aselect='not(between(t,2,4))'", "-c:a", codec)
    samples, rate, trouble = read(path)
    assert trouble == "" and abs(len(samples) / rate - len(sample) / 16000) < 0.1
    assert not np.abs(samples[int(2.2 * rate) : int(3.8 * rate)]).max() > 0.01
    np.testing.assert_allclose(sound_between(samples, rate), sound_between(sample / 32768, 16000), atol=0.1)


def test_the_pipe_in_messages_keeps_times(sample: np.ndarray, tmp_path: Path) -> None:
    path = ffmpeg(tmp_path, sample, "a.mp4", "-map", "0:v", "-map", "1:a", before=(*VIDEO, "-itsoffset", "4"))
    command = INTO_A_PIPE.replace("FILE", str(path)).rstrip("|").split()
    (tmp_path / "piped.wav").write_bytes(subprocess.run(command, check=True, capture_output=True).stdout)
    assert np.array_equal(read(tmp_path / "piped.wav")[0], read(path)[0])


# ---- its words about trouble ----


@pytest.mark.parametrize("name", ["a.webm", "a.m4a"])
def test_what_ffmpeg_finds_cut_is_reported(name: str, sample: np.ndarray, tmp_path: Path) -> None:
    path = ffmpeg(tmp_path, sample, name, *(("-movflags", "faststart") if name == "a.m4a" else ()))
    path.write_bytes(path.read_bytes()[: path.stat().st_size * 2 // 3])
    samples, _, trouble = read(path)
    assert len(samples) and trouble.startswith(f"{path} is damaged or cut short: ffmpeg says: ")


@pytest.mark.parametrize("suffix", ["webm", "mka", "m4a", "ts"])
def test_lost_audio_is_reported(suffix: str, sample: np.ndarray, tmp_path: Path) -> None:
    path = ffmpeg(tmp_path, sample, f"a.{suffix}")
    content = path.read_bytes()
    third = len(content) // 3
    path.write_bytes(content[:third] + bytes(third // 2) + content[third + third // 2 :])
    samples, _, trouble = read(path)
    assert len(samples) and trouble.startswith(f"{path} is damaged or cut short: ffmpeg says: ")


def test_a_video_without_sound(sample: np.ndarray, tmp_path: Path) -> None:
    path = ffmpeg(tmp_path, sample, "a.mp4", "-map", "0:v", before=VIDEO)
    assert read(path)[2] == f"{path} has no sound: ffmpeg finds no audio track in it"


def test_an_unfinished_recording(sample: np.ndarray, tmp_path: Path) -> None:
    path = ffmpeg(tmp_path, sample, "a.m4a")
    path.write_bytes(path.read_bytes()[:30000])
    assert read(path)[2] == f"{path} is damaged or cut short: ffmpeg says: moov atom not found"


def speaking(folder: Path, monkeypatch: pytest.MonkeyPatch, script: str) -> None:
    """Makes a shell script the ffmpeg that is found; it may call the true one as "$FFMPEG"."""
    monkeypatch.setenv("FFMPEG", shutil.which("ffmpeg") or "")
    program = folder / "bin" / "ffmpeg"
    program.parent.mkdir()
    program.write_text(f"#!/bin/sh\n{script}\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{program.parent}:{os.environ['PATH']}")


def test_harmless_words_are_a_warning(sample: np.ndarray, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = ffmpeg(tmp_path, sample, "a.mka")
    speaking(tmp_path, monkeypatch, 'echo "[mka @ 0x5f] no time stamps" >&2; exec "$FFMPEG" "$@"')
    warnings: list[str] = []
    samples, _, trouble = read(path, warn=warnings.append)
    assert len(samples) and trouble == "" and warnings == [f"{path}: ffmpeg says: no time stamps"]


# ---- limits ----


@pytest.mark.parametrize(
    "content", [with_many_samples(40_000_000, 1), with_many_samples(30_000_000, 4), inflated()], ids=["1", "4", "cmov"]
)
def test_a_header_that_asks_for_gigabytes(content: bytes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "a.mp4"
    path.write_bytes(content)
    limit = tmp_path / "limit"
    speaking(tmp_path, monkeypatch, f'ulimit -v > {limit}; exec "$FFMPEG" "$@"')
    samples, _, trouble = read(path)
    assert len(content) < 2000 and len(samples) == 0
    assert trouble.startswith(f"{path} is damaged")
    assert int(limit.read_text()) * 1024 <= runner.MAX_MEMORY


def test_endless_work_is_stopped(sample: np.ndarray, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = ffmpeg(tmp_path, sample, "a.mka")
    speaking(tmp_path, monkeypatch, "while :; do :; done")
    monkeypatch.setattr(runner, "MAX_CPU_S", 0.6)
    assert "ffmpeg may take 1 s of processor time for its size, then it is stopped" in read(path)[2]


def test_endless_waiting_is_stopped(sample: np.ndarray, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = ffmpeg(tmp_path, sample, "a.mka")
    speaking(tmp_path, monkeypatch, "exec sleep 600")
    monkeypatch.setattr(runner, "MAX_WAIT_S", -1.0)
    assert "s of waiting for its size, then it is stopped" in read(path)[2]


def test_output_after_the_end_is_not_waited_for(
    sample: np.ndarray, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = ffmpeg(tmp_path, sample, "a.mka")
    head = b".snd" + b"".join(number.to_bytes(4, "big") for number in (24, 4000, 3, 16000, 1))
    (tmp_path / "head").write_bytes(head)
    speaking(tmp_path, monkeypatch, f"cat {tmp_path}/head; exec head -c 10000000 /dev/zero")
    found: list[tuple[np.ndarray, int, str]] = []
    thread = threading.Thread(target=lambda: found.append(read(path)), daemon=True)
    thread.start()
    thread.join(30)
    assert len(found[0][0]) == 2000 and "is damaged or cut short" in found[0][2]


def children() -> set[str]:
    """The processes that this thread has started, which may be those of other tests."""
    return set(Path(f"/proc/{os.getpid()}/task/{threading.get_native_id()}/children").read_text().split())


def test_ffmpeg_ends_with_its_reader(sample: np.ndarray, tmp_path: Path) -> None:
    blocks = read_blocks(ffmpeg(tmp_path, np.tile(sample, 20), "a.mka"))
    before = children()
    next(blocks)
    assert len(children() - before) == 1
    blocks.close()
    assert children() == before


def test_a_stopped_reader_ends_ffmpeg(sample: np.ndarray, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = ffmpeg(tmp_path, sample, "a.mka")
    speaking(tmp_path, monkeypatch, "exec sleep 600")
    before = children()
    assert read(path, stopped=lambda: True) == (pytest.approx(np.zeros(0)), 0, "")
    assert children() == before
