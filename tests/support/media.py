"""Recordings that ffmpeg writes, and MP4 files that ask a reader for gigabytes."""

from __future__ import annotations

import struct
import subprocess
import zlib
from pathlib import Path

import numpy as np
import soundfile

VIDEO = ("-f", "lavfi", "-i", "color=c=black:s=64x64:r=5:d=8")


def ffmpeg(folder: Path, sample: np.ndarray, name: str, *options: str, before: tuple[str, ...] = ()) -> Path:
    """The recording as written by ffmpeg to a pipe or, if a format requires it, to a file. before: options of the
    input, or other inputs."""
    soundfile.write(folder / "source.wav", sample, 16000)
    command = ["ffmpeg", "-y", "-v", "error", *before, "-i", str(folder / "source.wav"), *options]
    if options and options[-2] == "-f":
        (folder / name).write_bytes(subprocess.run([*command, "-"], check=True, capture_output=True).stdout)
    else:
        subprocess.run([*command, str(folder / name)], check=True)
    return folder / name


def with_many_samples(num_samples: int, num_tracks: int) -> bytes:
    """An MP4 whose tracks declare this many samples, in some 400 bytes each."""
    return _box(b"ftyp", b"isom\0\0\0\0isom") + _box(b"moov", *[_track(num_samples)] * num_tracks) + _MEDIA


def inflated() -> bytes:
    """A QuickTime file with a compressed header that declares 4 GB."""
    compressed = struct.pack(">I", 0xF0000000) + zlib.compress(bytes(1000))
    header = _box(b"moov", _box(b"cmov", _box(b"dcom", b"zlib"), _box(b"cmvd", compressed)))
    return _box(b"ftyp", b"qt  \0\0\0\0qt  ") + header + _MEDIA


def _box(name: bytes, *parts: bytes) -> bytes:
    body = b"".join(parts)
    return struct.pack(">I4s", 8 + len(body), name) + body


def _numbers(name: bytes, *numbers: int) -> bytes:
    """A box of 32-bit numbers after its version."""
    return _box(name, struct.pack(f">{1 + len(numbers)}I", 0, *numbers))


def _track(num_samples: int) -> bytes:
    rate = 16000
    entry = _box(b"mp4a", bytes(6), struct.pack(">H8xHHHHI", 1, 1, 16, 0, 0, rate << 16))
    table = _box(
        b"stbl",
        _box(b"stsd", struct.pack(">II", 0, 1), entry),
        _numbers(b"stts", 1, num_samples, 1024),
        _numbers(b"stsc", 1, 1, num_samples, 1),
        _numbers(b"stsz", 1, num_samples),
        _numbers(b"stco", 1, 40),
    )
    handler = _box(b"hdlr", bytes(8), b"soun", bytes(13))
    media = _box(b"mdia", _numbers(b"mdhd", 0, 0, rate, 1000, 0), handler, _box(b"minf", table))
    return _box(b"trak", _numbers(b"tkhd", 0, 0, 1, 0, 1000, *[0] * 15), media)


_MEDIA = _box(b"mdat", bytes(100))
