"""A part of a recording: the same samples at the same times as in the whole, without decoding what is skipped."""

from __future__ import annotations

import contextlib
import io
import os
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import soundfile
from support.media import VIDEO, ffmpeg

from asr.streaming.audio.audio_file import PREROLL_S, AudioFileError, read_blocks
from asr.streaming.audio.sequential_file import SequentialFile

FORMATS: dict[str, dict[str, Any]] = {
    "wav": {},
    "aiff": {},
    "au": {},
    "w64": {},
    "flac": {},
    "ogg": {"format": "OGG", "subtype": "VORBIS"},
    "opus": {"format": "OGG", "subtype": "OPUS"},
    "mp3": {"format": "MP3"},
    "gsm": {"format": "WAV", "subtype": "GSM610"},
    "g721": {"format": "AU", "subtype": "G721_32"},
}
"""gsm and g721 cannot seek."""
RATES = {"mp3": (16000, 44100)}
"""At 16 kHz, an MP3 does not seek."""


@pytest.fixture(scope="module")
def speech(sample: np.ndarray) -> np.ndarray:
    """(num_samples,) int16 at 16 kHz: 23 s, in which no second resembles another."""
    rng = np.random.default_rng(0)
    return np.concatenate([(sample * gain).astype(np.int16) for gain in rng.uniform(0.3, 1.0, 4)])


def read(source: Any, **options: Any) -> tuple[np.ndarray, int, str]:
    """The audio, its rate, and the error at its end."""
    blocks, rate, trouble = [], 0, ""
    try:
        for samples, rate in read_blocks(source, **options):  # noqa: B007
            blocks.append(samples)
    except AudioFileError as error:
        trouble = str(error)
    return np.concatenate(blocks) if blocks else np.zeros(0, np.float32), rate, trouble


def expect(found: np.ndarray, whole: np.ndarray, rate: int, start_s: float, duration_s: float, atol: float) -> None:
    first = round(start_s * rate)
    expected = whole[first : first + round(duration_s * rate)]
    assert len(found) == len(expected) > 0
    np.testing.assert_allclose(found, expected, atol=atol)


PARTS = [(0.0, 2.0), (0.2, 0.05), (7.1234, 3.0), (9.7, 1.0), (15.55, 99.0)]
"""Without audio that is decoded before them, the last two would differ in MP3 and Opus."""


@pytest.mark.parametrize(("kind", "rate"), [(kind, rate) for kind in FORMATS for rate in RATES.get(kind, (16000,))])
def test_every_format(
    kind: str, rate: int, speech: np.ndarray, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: Any
) -> None:
    path = tmp_path / f"a.{kind}"
    soundfile.write(path, speech.repeat(3) if rate > 16000 else speech, rate, **FORMATS[kind])
    whole, _, _ = read(path)
    decoded = 0
    original = SequentialFile.read

    def counted(self: SequentialFile, frames: int, **options: Any) -> np.ndarray:
        nonlocal decoded
        block: np.ndarray = original(self, frames, **options)
        decoded += len(block)
        return block

    monkeypatch.setattr(SequentialFile, "read", counted)
    for start_s, duration_s in PARTS:
        for source in (path, io.BytesIO(path.read_bytes())):
            decoded = 0
            samples, _, trouble = read(source, start_s=start_s, duration_s=duration_s)
            expect(samples, whole, rate, start_s, duration_s, 1e-4)
            most = len(samples) + (PREROLL_S + 0.2) * rate
            can_seek = kind not in ("gsm", "g721") and (kind, rate) != ("mp3", 16000)
            assert trouble == "" and (decoded <= most if can_seek or start_s < 1 else decoded >= start_s * rate)
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize("channel", ["mix", "each", 2])
def test_channels(channel: Any, speech: np.ndarray, tmp_path: Path) -> None:
    path = tmp_path / "a.wav"
    soundfile.write(path, np.stack([speech, speech[::-1]], axis=1), 16000)
    whole, _, _ = read(path, channel=channel)
    expect(read(path, channel=channel, start_s=3.3, duration_s=2.0)[0], whole, 16000, 3.3, 2.0, 0)


def test_raw_samples(speech: np.ndarray, tmp_path: Path) -> None:
    path = tmp_path / "a.raw"
    path.write_bytes(speech.tobytes() + b"x")
    samples, rate, trouble = read(path, raw_rate=8000, start_s=10.0, duration_s=1.5)
    assert (rate, trouble) == (8000, "")
    assert np.array_equal(samples, speech[80000:92000] / np.float32(32768))


@pytest.mark.parametrize("kind", ["wav", "flac", "raw", "opus"])
def test_a_pipe_is_read_and_dropped(kind: str, speech: np.ndarray, tmp_path: Path) -> None:
    path, fifo = tmp_path / f"a.{kind}", tmp_path / "fifo"
    if kind == "raw":
        path.write_bytes(speech.tobytes())
    else:
        soundfile.write(path, speech, 16000, **FORMATS[kind])
    raw_rate = 16000 if kind == "raw" else None
    whole, _, _ = read(path, raw_rate=raw_rate)
    for start_s, duration_s in PARTS:
        fifo.unlink(missing_ok=True)
        os.mkfifo(fifo)
        writer = threading.Thread(target=send, args=(fifo, path.read_bytes()))
        writer.start()
        samples, _, trouble = read(fifo, raw_rate=raw_rate, start_s=start_s, duration_s=duration_s)
        expect(samples, whole, 16000, start_s, duration_s, 1e-4)
        assert trouble == ""
        writer.join(10)
        assert not writer.is_alive()


def send(fifo: Path, content: bytes) -> None:
    with contextlib.suppress(BrokenPipeError):
        fifo.write_bytes(content)


@pytest.mark.parametrize("kind", ["ogg", "mp3"])
def test_joined_recordings_are_one(kind: str, speech: np.ndarray, tmp_path: Path) -> None:
    path, content = tmp_path / "a", b""
    for samples in (speech[:160000], speech[160000:240000], speech[240000:]):
        file = io.BytesIO()
        soundfile.write(file, samples, 16000, **FORMATS[kind])
        content += file.getvalue()
    path.write_bytes(content)
    whole, _, _ = read(path)
    for start_s, duration_s in ((8.0, 4.0), (9.9, 7.0), (15.0, 1.0), (16.5, 99.0)):
        samples, _, trouble = read(path, start_s=start_s, duration_s=duration_s)
        expect(samples, whole, 16000, start_s, duration_s, 1e-3)
        assert trouble == ""


# ---- the end ----


def test_a_start_after_the_end(speech: np.ndarray, tmp_path: Path) -> None:
    path, length_s = tmp_path / "a.wav", len(speech) / 16000
    soundfile.write(path, speech, 16000)
    for source in (path, io.BytesIO(path.read_bytes())):
        name = path if source == path else "the file"
        for start_s in (length_s, 100.0, 1e9):
            samples, _, trouble = read(source, start_s=start_s)
            expected = f"{name} lasts {length_s:.1f} s; the start is {start_s:g} s: choose one before its end"
            assert (len(samples), trouble) == (0, expected)
    assert read(path, start_s=length_s - 0.001)[2] == ""


def test_a_cut_file_is_reported_only_if_its_end_is_wanted(speech: np.ndarray, tmp_path: Path) -> None:
    path = tmp_path / "a"
    for kind in ("wav", "flac", "ogg", "mp3"):
        soundfile.write(path, speech, 44100 if kind == "mp3" else 16000, **({"format": kind.upper()} | FORMATS[kind]))
        path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])
        length_s = len(speech) / (44100 if kind == "mp3" else 16000)
        assert read(path, start_s=0.2 * length_s, duration_s=1.0)[2] == ""
        assert read(path, start_s=0.2 * length_s)[2]
        for start_s in (0.8 * length_s, 2 * length_s):
            samples, _, trouble = read(path, start_s=start_s, duration_s=1.0)
            assert len(samples) == 0 and ("cut short" in trouble or f"lasts {length_s:.1f} s" in trouble)


@pytest.mark.parametrize(
    ("option", "message"),
    [
        ({"start_s": -1.0}, "start_s is -1.0; it must be at least 0"),
        ({"start_s": float("nan")}, "start_s is nan"),
        ({"duration_s": 0.0}, "duration_s is 0.0; it must be greater than 0"),
    ],
)
def test_times_out_of_range(option: dict[str, float], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        next(read_blocks("missing.wav", **option))


def test_the_maximum_is_of_the_part(speech: np.ndarray, tmp_path: Path) -> None:
    path = tmp_path / "a.wav"
    soundfile.write(path, speech, 16000)
    assert len(read(path, max_s=5.0, start_s=10.0, duration_s=5.0)[0]) == 80000
    samples, _, trouble = read(path, max_s=5.0, start_s=10.0)
    assert len(samples) == 0 and trouble == f"{path} lasts 13 s; the maximum is 5 s"


# ---- ffmpeg ----


AAC = ("-c:v", "mpeg2video", "-c:a", "aac", "-ar", "16000")
LATE = ("-map", "0:v", "-map", "1:a", *AAC)


@pytest.mark.parametrize(
    ("name", "options", "before"),
    [
        *[(f"a.{suffix}", (), ()) for suffix in ("mka", "m4a", "aac", "wma", "ts", "mpg", "wv")],
        ("a.webm", ("-c:a", "libopus"), ()),
        ("live.webm", ("-c:a", "libopus", "-f", "webm"), ()),
        ("late.mp4", LATE, (*VIDEO, "-itsoffset", "4")),
        ("late.ts", LATE, (*VIDEO, "-itsoffset", "4")),
        ("gap.mp4", ("-af", "aselect='not(between(t,9,11))'", "-c:a", "aac"), ()),
    ],
)
def test_ffmpeg_has_the_same_times(
    name: str,
    options: tuple[str, ...],
    before: tuple[str, ...],
    speech: np.ndarray,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Within the millisecond of a container's time stamps. MPEG-TS and the like are decoded from their beginning."""
    path = ffmpeg(tmp_path, speech, name, *options, before=before)
    whole, rate, _ = read(path)
    program = tmp_path / "bin" / "ffmpeg"
    program.parent.mkdir()
    program.write_text(f'#!/bin/sh\necho "$@" > {tmp_path}/arguments\nPATH={os.environ["PATH"]} exec ffmpeg "$@"\n')
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{program.parent}:{os.environ['PATH']}")
    for start_s in (0.3, 5.0, 12.34, 17.0):
        samples, _, trouble = read(path, start_s=start_s, duration_s=3.0)
        assert trouble == "" and len(samples) == 3 * rate
        first, most = round(start_s * rate), round(0.002 * rate)
        shifted = [whole[first + lag :][: 3 * rate] for lag in range(-most, most + 1)]
        errors = [np.square(each[::9] - samples[::9]).mean() for each in shifted]
        assert min(errors) <= 0.01 * np.square(samples).mean() + 1e-9
        seeks = start_s > 0.5 and Path(name).suffix not in (".ts", ".mpg", ".wv")
        assert ("-ss" in (tmp_path / "arguments").read_text().split()) is seeks
    assert "; the start is 99 s: choose one before its end" in read(path, start_s=99.0)[2]
