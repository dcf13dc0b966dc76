"""File properties that libsndfile does not report: the format, truncation, wrong sizes, and concatenated recordings.

Ogg and MP3 files may be concatenated (RFC 3533, section 4; MP3 by `cat`); libsndfile reads only the first recording. It
also reads a truncated Ogg, WAV, AIFF, AU or W64 file without an error.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import IO, NamedTuple

UNKNOWN_SIZE = 0x7FFF0000
"""Lengths in a header from this value on mean that the file was written to a pipe, so its length was unknown."""
UNKNOWN_FRAMES = 1 << 62
"""libsndfile's number for a FLAC stream of unknown length."""
UNSIZED = b"\xff\xff\xff\xff"
"""The size in an AU header that means: up to the end of the file. In a WAV header, libsndfile reads 4 GiB at most."""
_UNBOUNDED = 1 << 59
"""Bytes of audio in the header of a stream of unknown length; libsndfile corrects them to those of the file."""
FFMPEG_KINDS = {"matroska": "WebM or Matroska", "mov": "MP4 or M4A", "aac": "AAC", "asf": "WMA", "amr": "AMR"}
"""Formats that libsndfile cannot read, and their usual names. ffmpeg reads them, and others that have no name here."""

_MP3_BITRATES = (  # kbit/s, layer III: MPEG 1, and MPEG 2 and 2.5
    (0, 32, 40, 48, 56, 64, 80, 96, 112, 128, 160, 192, 224, 256, 320),
    (0, 8, 16, 24, 32, 40, 48, 56, 64, 80, 96, 112, 128, 144, 160),
)
_MP3_RATES = {3: (44100, 48000, 32000), 2: (22050, 24000, 16000), 0: (11025, 12000, 8000)}
_MP3_SEARCHED = 1 << 14
_MP3_BEGIN = re.compile(rb"ID3|\xff[\xe2\xe3\xf2\xf3\xfa\xfb]")
_FIRST_BYTES = 4 + 32 + 16
"""Bytes at the beginning of an MP3 frame that include its Xing header."""
MAX_PARTS = 1000
"""Maximum number of recordings to find in a file, and of Ogg pages without data, because each takes time but few
bytes."""
_USUAL_CHUNKS = (b"fmt ", b"data", b"fact", b"LIST")
_MAX_FORMAT = 4096
_IN_RF64 = (1, 3, 6, 7, 0xFFFE)
"""The encodings, of samples of fixed size, that libsndfile reads from RF64."""
_BOXES = (b"ftyp", b"moov", b"mdat", b"wide", b"free", b"skip")


class AudioFileError(ValueError):
    """A file that is missing, is not audio, has no samples, or is damaged."""


def kind_of(head: bytes) -> str:
    """ "ogg", "mp3", a key of FFMPEG_KINDS, or "" for all other formats. head: at least 16 bytes."""
    if head.startswith(b"OggS"):
        return "ogg"
    if head.startswith(b"\x1aE\xdf\xa3"):
        return "matroska"
    if head[4:8] in _BOXES:
        return "mov"
    if head.startswith(b"0&\xb2u\x8ef\xcf\x11"):
        return "asf"
    if head.startswith(b"#!AMR"):
        return "amr"
    if head.startswith(b"ID3") or _mp3_frame_size(head[:4]):
        return "mp3"
    if len(head) > 2 and head[0] == 0xFF and head[1] & 0xF6 == 0xF0:
        return "aac"
    return ""


def parts(
    file: IO[bytes], kind: str, size: int, stopped: Callable[[], object] = lambda: False
) -> tuple[list[tuple[int, int]], bool]:
    """The recordings of a seekable file as (begin, end) in bytes, and whether the last one is complete.

    kind: see `kind_of`; a file of another kind is one recording. size: bytes of the file. stopped: if true, the search
    ends. It also ends after MAX_PARTS, and then the result has one part more.
    """
    if kind == "ogg":
        return _ogg_parts(file, size, stopped)
    if kind == "mp3":
        return _mp3_parts(file, size, stopped), True
    return [(0, size)], True


class Layout(NamedTuple):
    """Header and audio of a file whose header libsndfile misunderstands.

    header: a header that it understands, after which audio follows up to the end. ranges: (begin, end) of the audio in
    bytes, to be read as one. is_unsized: the header of the file says 0 bytes.
    """

    header: bytes
    ranges: list[tuple[int, int]]
    is_unsized: bool = False


class Chunk(NamedTuple):
    """A chunk of a WAV file. begin, end: of its content, in bytes. next: position of the chunk after it."""

    name: bytes
    begin: int
    end: int
    next: int


def unusual_layout(file: IO[bytes], size: int) -> Layout | None:
    """The layout of a WAV or AU file whose header says 0 bytes of audio although more bytes follow, because its
    recorder crashed, or of a WAV file of unknown size that is longer than its header can say, or with several chunks of
    audio, or with a chunk of odd size before the audio that lacks its padding; None for other files. size: bytes of the
    file."""
    file.seek(0)
    head = file.read(24)
    if head.startswith(b".snd"):
        begin = int.from_bytes(head[4:8], "big")
        is_unsized = head[8:12] == bytes(4) and size > begin >= len(head)
        return (
            Layout(head[:4] + len(head).to_bytes(4, "big") + UNSIZED + head[12:], [(begin, size)], True)
            if is_unsized
            else None
        )
    found: list[Chunk] = []
    format = b""
    is_padded, is_long = True, False
    for chunk in wav_chunks(file, size):
        if chunk.name == b"data":
            next_name, next_bytes = _chunk(file, chunk.begin)
            is_empty = chunk.begin == chunk.end and not found and size > chunk.begin
            if is_empty and (not next_name or chunk.begin + next_bytes > size):
                return Layout(wav_header(format), [(chunk.begin, size)], True) if format else None
            next_name, next_bytes = _chunk(file, chunk.next)
            is_followed = next_name and chunk.next + 8 + next_bytes <= size
            is_long = chunk.end - chunk.begin >= UNKNOWN_SIZE and size > chunk.next and not is_followed
            found.append(chunk._replace(end=size) if is_long else chunk)
        elif not found:
            is_padded &= (chunk.next - chunk.begin) % 2 == 0
            if chunk.name == b"fmt ":
                format = wav_format(file, chunk)
    if not format or not found or (len(found) == 1 and is_padded and not is_long):
        return None
    return Layout(wav_header(format), [(chunk.begin, min(chunk.end, size)) for chunk in found])


def wav_chunks(file: IO[bytes], size: int) -> Iterator[Chunk]:
    """The chunks of a WAV file, up to MAX_PARTS; none of another file. size: bytes of the file."""
    file.seek(0)
    head = file.read(12)
    if head[:4] != b"RIFF" or head[8:] != b"WAVE":
        return
    position = len(head)
    for _ in range(MAX_PARTS):
        name, num_bytes = _chunk(file, position)
        if not name or position >= size:
            return
        begin = position + 8
        position = end = begin + num_bytes
        if num_bytes % 2 and _chunk(file, end)[0] not in _USUAL_CHUNKS:  # some programs write no padding
            position += 1
        yield Chunk(name, begin, end, position)


def wav_format(file: IO[bytes], chunk: Chunk) -> bytes:
    """The content of a "fmt " chunk; empty if it is too large."""
    file.seek(chunk.begin)
    return file.read(chunk.end - chunk.begin) if chunk.end - chunk.begin <= _MAX_FORMAT else b""


def wav_header(format: bytes, num_bytes: int = _UNBOUNDED) -> bytes:
    """The header of a WAV file with one chunk of audio. format: see `wav_format`. num_bytes: of the audio.

    With 2 GiB and more, it is an RF64 header (EBU Tech 3306) if libsndfile reads the encoding from it.
    """
    chunks = b"fmt " + len(format).to_bytes(4, "little") + format + bytes(len(format) % 2) + b"data"
    if num_bytes < UNKNOWN_SIZE or int.from_bytes(format[:2], "little") not in _IN_RF64:
        return b"RIFF" + UNSIZED + b"WAVE" + chunks + min(num_bytes, 0xFFFFFFFF).to_bytes(4, "little")
    num_chunk_bytes = 4 + 36 + len(chunks) + 4 + num_bytes  # "WAVE", "ds64", "fmt " and "data"
    sizes = num_chunk_bytes.to_bytes(8, "little") + num_bytes.to_bytes(8, "little") + bytes(12)
    return b"RF64" + UNSIZED + b"WAVEds64" + len(sizes).to_bytes(4, "little") + sizes + chunks + UNSIZED


def _chunk(file: IO[bytes], at: int) -> tuple[bytes, int]:
    """Name and bytes of the RIFF chunk at a position; the name is empty if there is none."""
    file.seek(at)
    return chunk_of(file.read(8))


def chunk_of(header: bytes) -> tuple[bytes, int]:
    """Name and bytes of a RIFF chunk; the name is empty if `header` is none."""
    is_chunk = len(header) == 8 and all(0x20 <= byte < 0x7F for byte in header[:4])
    return (header[:4] if is_chunk else b""), int.from_bytes(header[4:], "little")


def share_present(log: str) -> float:
    """The share of its audio that a WAV, AIFF, AU or W64 file contains, in [0, 1].

    log: libsndfile's log, `SoundFile.extra_info`, which has the sizes of the header.
    """
    for line in log.splitlines():
        found = re.match(r"\s*(data|SSND|Data Size|riff|Riff size) *: *(\d+) \(should be (\d+)\)", line)
        if found:
            claimed, present = int(found[2]), int(found[3])
            if present < claimed < UNKNOWN_SIZE:
                return present / claimed
    return 1.0


def knows_length(file: IO[bytes], begin: int) -> bool:
    """Whether an MP3 header has the length; otherwise libsndfile estimates it from the size of the first frames."""
    return _xing(file, begin)[0] > 0


def _ogg_parts(file: IO[bytes], size: int, stopped: Callable[[], object]) -> tuple[list[tuple[int, int]], bool]:
    begins = [0]
    position = num_empty = 0
    unfinished: set[bytes] = set()  # serial numbers, because several streams may be interleaved
    while len(begins) <= MAX_PARTS and num_empty <= MAX_PARTS and not stopped():
        file.seek(position)
        header = file.read(27 + 255)
        if len(header) < 27 or not header.startswith(b"OggS"):
            break
        flags, serial, num_segments = header[5], header[14:18], header[26]
        if flags & 2 and position and not unfinished:
            begins.append(position)
        num_bytes = sum(header[27 : 27 + num_segments])
        num_empty += not num_bytes
        position += 27 + num_segments + num_bytes
        if flags & 2:
            unfinished.add(serial)
        if flags & 4 and position <= size:
            unfinished.discard(serial)
    return list(zip(begins, [*begins[1:], size], strict=True)), not unfinished and num_empty <= MAX_PARTS


def _mp3_parts(file: IO[bytes], size: int, stopped: Callable[[], object]) -> list[tuple[int, int]]:
    found: list[tuple[int, int]] = []
    begin = 0
    while len(found) < MAX_PARTS and not stopped():
        _, num_bytes = _xing(file, begin)
        end = begin + _id3_size(file, begin) + num_bytes
        following = _find_mp3(file, end) if num_bytes and end < size else None
        if following is None:
            break
        found.append((begin, end))
        begin = following
    return [*found, (begin, size)]


def _xing(file: IO[bytes], begin: int) -> tuple[int, int]:
    """Frames and bytes of the recording according to its first frame; 0 if it does not state them."""
    file.seek(begin + _id3_size(file, begin))
    frame = file.read(_FIRST_BYTES)
    if len(frame) < _FIRST_BYTES or not _mp3_frame_size(frame[:4]):
        return 0, 0
    mpeg1, mono = frame[1] >> 3 & 3 == 3, frame[3] >> 6 == 3
    at = 4 + ((17 if mono else 32) if mpeg1 else (9 if mono else 17))
    if frame[at : at + 4] not in (b"Xing", b"Info"):
        return 0, 0
    flags = frame[at + 7]
    numbers = [int.from_bytes(frame[at + 8 + 4 * i : at + 12 + 4 * i], "big") for i in range(2)]
    num_frames = numbers.pop(0) if flags & 1 else 0
    return num_frames, numbers[0] if flags & 2 else 0


def _id3_size(file: IO[bytes], begin: int) -> int:
    file.seek(begin)
    head = file.read(10)
    if len(head) < 10 or not head.startswith(b"ID3"):
        return 0
    size = 0
    for byte in head[6:10]:
        size = size << 7 | byte & 0x7F
    return 10 + size + (10 if head[5] & 0x10 else 0)


def _find_mp3(file: IO[bytes], begin: int) -> int | None:
    """Offset of the next recording, at `begin` or soon after; None if there is none."""
    file.seek(begin)
    data = file.read(_MP3_SEARCHED)
    for beginning in _MP3_BEGIN.finditer(data):
        at = beginning.start()
        if data.startswith(b"ID3", at):
            return begin + at
        size = _mp3_frame_size(data[at : at + 4])
        if size and _mp3_frame_size(data[at + size : at + size + 4]):  # a single header may be a coincidence
            return begin + at
    return None


def _mp3_frame_size(header: bytes) -> int:
    """Bytes of the layer III frame that begins with these four bytes; 0 if none does."""
    if len(header) < 4 or header[0] != 0xFF or header[1] & 0xE6 != 0xE2:
        return 0
    version, bitrate, rate = header[1] >> 3 & 3, header[2] >> 4, header[2] >> 2 & 3
    if version == 1 or bitrate in (0, 15) or rate == 3:
        return 0
    kbps = _MP3_BITRATES[version != 3][bitrate]
    return (144 if version == 3 else 72) * 1000 * kbps // _MP3_RATES[version][rate] + (header[2] >> 1 & 1)
