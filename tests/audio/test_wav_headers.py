"""WAV files whose headers say too little, too much or nothing about their audio; in files and in pipes."""

from __future__ import annotations

import io
import os
import threading
from pathlib import Path

import numpy as np
import pytest
import soundfile
from test_audio_file import encode, read

from asr.streaming.audio.audio_file import read_blocks
from asr.streaming.audio.open_file import open_recordings


def test_a_wav_whose_header_lies_about_its_length(sample: np.ndarray, tmp_path: Path) -> None:
    """Of a program that did not know it."""
    path, wav, whole = tmp_path / "a.wav", encode(sample, "wav"), (len(sample), "")
    at = wav.index(b"data") + 4
    expected = dict.fromkeys((0xFFFFFFFF, 0x7FFFFFFF, 0x7FFFFFD3, 0x80000000), whole)
    for size, found in (expected | {10: (5, "")}).items():
        path.write_bytes(wav[:at] + size.to_bytes(4, "little") + wav[at + 4 :])
        samples, trouble = read(path)
        assert (len(samples), trouble) == found


def without_size(content: bytes, at: int) -> bytes:
    return content[:at] + bytes(4) + content[at + 4 :]


@pytest.mark.parametrize("suffix", ["wav", "au"])
def test_a_header_of_0_bytes_of_a_recorder_that_crashed(suffix: str, sample: np.ndarray, tmp_path: Path) -> None:
    path, fifo, content = tmp_path / f"a.{suffix}", tmp_path / "fifo", encode(sample, suffix)
    content = without_size(content, content.index(b"data") + 4 if suffix == "wav" else 8)
    path.write_bytes(content)
    os.mkfifo(fifo)
    threading.Timer(0.1, fifo.write_bytes, [content]).start()
    for source in (path, fifo):
        warnings: list[str] = []
        samples, trouble = read(source, warn=warnings.append)
        assert np.array_equal(samples, sample / np.float32(32768)) and trouble == ""
        assert warnings == [
            f"{source}: its header says 0 bytes of audio, as after a crash of the recorder; it is read to its end"
        ]


def wav_of_unknown_size(subtype: str, format: str, claim: int, begin: int) -> bytes:
    """The header of a WAV file of 16 kHz mono. claim: the bytes of its audio that it says. begin: of its audio."""
    file = io.BytesIO()
    soundfile.write(file, np.zeros(1, np.int16), 16000, format=format, subtype=subtype)
    content = file.getvalue()
    at = content.index(b"data")
    padding = begin - at - 16
    filled = content[:at] + b"junk" + padding.to_bytes(4, "little") + bytes(padding)
    return filled + b"data" + claim.to_bytes(4, "little")


@pytest.mark.parametrize(
    ("subtype", "format"), [("PCM_16", "WAV"), ("PCM_24", "WAVEX"), ("FLOAT", "WAV"), ("ULAW", "WAV")]
)
@pytest.mark.parametrize("claim", [0xFFFFFFFF, 0x7FFFFFFF, 0])
def test_a_wav_of_unknown_size_may_exceed_its_header(
    claim: int, subtype: str, format: str, sample: np.ndarray, tmp_path: Path
) -> None:
    """A radio program of a day through a pipe, and the same in a file."""
    path, fifo, begin = tmp_path / "a.wav", tmp_path / "fifo", 4096
    header = wav_of_unknown_size(subtype, format, claim, begin)
    sound = encode_raw(sample, subtype)
    width = len(sound) // len(sample)
    silence = (5 << 30) // width
    with path.open("wb") as file:  # sparse
        file.write(header)
        file.seek(begin + silence * width)
        file.write(sound)
    samples, trouble = read(path, start_s=silence / 16000)
    assert np.abs(samples - sample / np.float32(32768)).max() < 0.02 and trouble == ""
    os.mkfifo(fifo)
    threading.Timer(0.1, fifo.write_bytes, [header + sound[:9000]]).start()
    with open_recordings(fifo, None, lambda: False, lambda warning: None) as opened:
        ((recording, is_sized),) = opened.recordings
        assert recording.frames > silence and not is_sized


def test_a_chunk_after_two_gigabytes_is_no_audio(tmp_path: Path) -> None:
    """With an odd size, and so a padding byte."""
    path, begin, claim = tmp_path / "a.wav", 4096, 0x7FFF0035
    with path.open("wb") as file:  # sparse
        file.write(wav_of_unknown_size("PCM_24", "WAV", claim, begin))
        file.seek(begin + claim + 1)
        file.write(chunk(b"LIST", b"INFO" + bytes(400)))
    assert "; the start is 44737.9 s: choose one before its end" in read(path, start_s=44737.9)[1]
    samples, trouble = read(path, start_s=44737.5)
    assert len(samples) == claim // 3 - 44737.5 * 16000 and trouble == ""


def encode_raw(samples: np.ndarray, subtype: str) -> bytes:
    file = io.BytesIO()
    soundfile.write(file, samples / 32768, 16000, format="RAW", subtype=subtype, endian="LITTLE")
    return file.getvalue()


def test_a_wav_without_audio_stays_one(sample: np.ndarray, tmp_path: Path) -> None:
    path, wav = tmp_path / "a.wav", encode(sample[:0], "wav")
    for end in (b"", b"LIST" + (4).to_bytes(4, "little") + b"INFO"):
        path.write_bytes(wav + end)
        warnings: list[str] = []
        assert read(path, warn=warnings.append)[1] == f"{path} holds no audio" and not warnings


def chunk(name: bytes, content: bytes) -> bytes:
    return name + len(content).to_bytes(4, "little") + content


def wav_of(*chunks: bytes) -> bytes:
    """A WAV file of int16 at 16 kHz."""
    format = chunk(b"fmt ", bytes.fromhex("0100 0100 803e0000 007d0000 0200 1000"))
    return chunk(b"RIFF", b"WAVE" + format + b"".join(chunks))


@pytest.mark.parametrize(
    "between", [b"", chunk(b"LIST", b"INFO"), chunk(b"data", b""), chunk(b"junk", bytes(3_000_000))]
)
@pytest.mark.parametrize("cut", [0, 50000])
def test_all_chunks_of_audio_are_read(cut: int, between: bytes, sample: np.ndarray, tmp_path: Path) -> None:
    path, fifo, audio = tmp_path / "a.wav", tmp_path / "fifo", sample.tobytes()
    content = wav_of(chunk(b"data", audio[:cut]), between, chunk(b"data", audio[cut:]), chunk(b"LIST", b"INFO"))
    path.write_bytes(content)
    os.mkfifo(fifo)
    threading.Timer(0.1, fifo.write_bytes, [content]).start()
    for source in (path, fifo):
        samples, trouble = read(source)
        assert np.array_equal(samples, sample / np.float32(32768)) and trouble == ""


def test_a_chunk_of_odd_size_without_padding(sample: np.ndarray, tmp_path: Path) -> None:
    path, content = tmp_path / "a.wav", wav_of(chunk(b"LIST", b"INFOabc"), chunk(b"data", sample.tobytes()))
    assert content.count(b"abcdata") == 1
    for written in (content, content.replace(b"abcdata", b"abc\0data")):
        path.write_bytes(written)
        samples, trouble = read(path)
        assert np.array_equal(samples, sample / np.float32(32768)) and trouble == ""


def test_a_wav_in_a_pipe_ends_where_its_header_says(sample: np.ndarray) -> None:
    """The writer may leave the pipe open, or send something else."""
    reader, writer = os.pipe()
    results: list[tuple[np.ndarray, str]] = []
    with open(reader, "rb", buffering=0) as pipe, open(writer, "wb", buffering=0) as end:
        thread = threading.Thread(target=lambda: results.append(read(pipe)), daemon=True)
        thread.start()
        end.write(wav_of(chunk(b"data", sample.tobytes())))
        thread.join(60)
        assert results and len(results[0][0]) == len(sample) and results[0][1] == ""


def test_a_wav_in_a_pipe_whose_writer_dies_is_cut_short(sample: np.ndarray, tmp_path: Path) -> None:
    fifo, wav = tmp_path / "fifo", wav_of(chunk(b"data", sample.tobytes()))
    os.mkfifo(fifo)
    threading.Timer(0.1, fifo.write_bytes, [wav[: 44 + 64000]]).start()
    samples, trouble = read(fifo)
    assert len(samples) == 32000 and trouble == f"{fifo} is cut short: it holds 2.0 s of the 5.7 s in its header"
    threading.Timer(0.1, fifo.write_bytes, [wav[: 44 + 64000]]).start()
    stop = threading.Event()
    for _ in read_blocks(fifo, stopped=stop.is_set):
        stop.set()  # nothing is missing if the reader gives up
