"""Files for libsndfile that are no files of their own: ranges of a file, and a pipe."""

from __future__ import annotations

import os
import select
from collections.abc import Callable
from io import FileIO
from typing import IO

from asr.containers import AudioFileError

MAX_PIPED = 1 << 29
"""Maximum bytes from a pipe in a format that cannot be decoded as it arrives; they are kept until the pipe ends."""
WAIT_S = 0.1


class Section:
    """Ranges of a file as one file, with the interface of a file."""

    def __init__(self, file: IO[bytes], ranges: list[tuple[int, int]], header: bytes = b"") -> None:
        """ranges: (begin, end) in bytes. header: what is read before them."""
        self._file, self._ranges, self._header = file, ranges, header
        self._position = 0

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        length = len(self._header) + sum(end - begin for begin, end in self._ranges)
        self._position = offset + {os.SEEK_SET: 0, os.SEEK_CUR: self._position, os.SEEK_END: length}[whence]
        return self._position

    def tell(self) -> int:
        return self._position

    def read(self, size: int) -> bytes:
        data, before = self._header[self._position : self._position + size], len(self._header)
        for begin, end in self._ranges:
            at = self._position + len(data) - before
            if len(data) < size and 0 <= at < end - begin:
                self._file.seek(begin + at)
                data += self._file.read(min(size - len(data), end - begin - at))
            before += end - begin
        self._position += len(data)
        return data


class Pipe:
    """A pipe that looks like a very long file to libsndfile, which wants to seek but reads in order.

    The last bytes read are kept, so that it can read a header twice.
    """

    LENGTH = 1 << 60
    KEPT = 1 << 20
    PIECE = 1 << 16
    AUDIO = (b"data", b"SSND")
    """Names of the chunks with the audio in WAV and AIFF."""

    def __init__(self, file: FileIO, stopped: Callable[[], object], max_wait_s: float = float("inf")) -> None:
        """max_wait_s: time to wait for the writer, in all; then the input ends and `is_late` is set."""
        self._file = file
        self._stopped = stopped
        self._wait_left_s = max_wait_s
        self.is_late = False
        self._content = bytearray()
        self._begin = 0  # position of the content in the file
        self._position = 0
        self._end = self.LENGTH  # of the file
        self._ended = False

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        self._position = offset + {os.SEEK_SET: 0, os.SEEK_CUR: self._position, os.SEEK_END: self.LENGTH}[whence]
        return self._position

    def tell(self) -> int:
        return self._position

    def read(self, size: int) -> bytes:
        at = self._position - self._begin
        # Before the audio libsndfile skips chunks. After it, it looks for more of them, which would wait for the end.
        if at < 0 or (at > len(self._content) and (at > MAX_PIPED or any(x in self._content for x in self.AUDIO))):
            return b""
        size = max(0, min(size, self._end - self._position))
        while len(self._content) < at + size and self._receive():
            pass
        data = bytes(self._content[at : at + size])
        self._position += len(data)
        if (excess := at - 2 * self.KEPT) > 0:
            del self._content[: excess + self.KEPT]
            self._begin += excess + self.KEPT
        return data

    def peek(self, size: int) -> bytes:
        data = self.read(size)
        self._position -= len(data)
        return data

    @property
    def kept(self) -> bytes:
        """The bytes that were read last; all of them while a header is read."""
        return bytes(self._content)

    def begin_again(self, header: bytes, at: int, size: int = LENGTH) -> None:
        """Begins a new file: `header`, then `size` bytes from this position of the former one, which must be kept."""
        self._content[: at - self._begin] = header
        self._begin = self._position = 0
        self._end = len(header) + size

    def read_at(self, position: int, size: int) -> bytes:
        """Bytes at this position, which may be far beyond those that were read and beyond the end of the file."""
        while self._begin + len(self._content) < position:
            self._begin += len(self._content)
            self._content.clear()
            if not self._receive():
                return b""
        self._position, self._end = position, self.LENGTH
        return self.read(size)

    def read_all(self) -> bytes:
        """All of the input. Raises AudioFileError if it exceeds MAX_PIPED."""
        while self._receive():
            if len(self._content) > MAX_PIPED:
                raise AudioFileError(
                    f"more than {MAX_PIPED >> 20} MB came through a pipe in a format that cannot be read before the "
                    "pipe ends; write it to a file"
                )
        return bytes(self._content)

    def _receive(self) -> bool:
        """Waits for more bytes; false at the end."""
        if os.name == "posix":  # other systems cannot wait for a pipe
            ready = select.poll()  # `select` takes no descriptor above 1023
            ready.register(self._file, select.POLLIN)
            while not self._ended and not ready.poll(1000 * WAIT_S):
                self._wait_left_s -= WAIT_S
                self.is_late = self._wait_left_s < 0
                self._ended = self.is_late or bool(self._stopped())
        piece = b"" if self._ended or self._stopped() else self._file.read(self.PIECE) or b""
        self._ended = not piece
        self._content += piece
        return bool(piece)
