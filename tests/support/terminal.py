"""For tests of the command: a terminal that shows the output as a person would see it, and a microphone."""

from __future__ import annotations

import io
import re

import numpy as np

from asr.streaming.audio.microphone import Block


class Terminal(io.StringIO):
    """A terminal without colors: keeps the lines of the screen, and the screen after each write."""

    encoding = "utf-8"

    def __init__(self, width: int) -> None:
        super().__init__()
        self.width = width
        self.lines = [""]
        self.row = self.column = 0
        self.screens: list[list[str]] = []
        self.raw = ""
        self._waiting = ""

    def resize(self, width: int) -> None:
        """Wraps the lines at the new width, as most terminals do. The cursor stays at the end of the last line."""
        self.width = width
        rows = [[line[i : i + width] for i in range(0, len(line) or 1, width)] for line in self.lines]
        self.lines = [row for wrapped in rows for row in wrapped]
        self.row = sum(map(len, rows[: self.row + 1])) - 1
        self.column = len(self.lines[self.row])

    def isatty(self) -> bool:
        return True

    def write(self, text: str) -> int:
        self._waiting += text
        return len(text)

    def flush(self) -> None:
        if not self._waiting:
            return
        self.raw += self._waiting
        for code, char in re.findall(r"(\x1b\[[?0-9;]*[A-Za-z])|(.|\n)", self._waiting, re.DOTALL):
            self._command(code) if code else self._put(char)
        self._waiting = ""
        self.screens.append(list(self.lines))

    def _command(self, code: str) -> None:
        number = int(code[2:-1]) if code[2:-1].isdigit() else 1
        if code[-1] == "A":
            self.row -= number
        elif code[-1] == "K":
            assert code == "\x1b[2K"
            self.lines[self.row] = ""
        else:
            assert code[-1] in "mhl", f"unknown control sequence {code!r}"

    def _put(self, char: str) -> None:
        if char == "\r":
            self.column = 0
        elif char == "\n":
            self.row, self.column = self.row + 1, 0
            if self.row == len(self.lines):
                self.lines.append("")
        else:
            assert self.column < self.width, f"wraps at column {self.column}: {self.lines[self.row]!r}"
            line = self.lines[self.row].ljust(self.column)
            self.lines[self.row] = line[: self.column] + char + line[self.column + 1 :]
            self.column += 1

    @property
    def text(self) -> list[str]:
        return [line.rstrip() for line in self.lines if line.strip()]


class Recording:
    """A fake microphone with blocks of 0.1 s. The last `num_left` are in its ring buffer when it is closed. drift: how
    much longer a second of its audio takes."""

    def __init__(self, samples: np.ndarray, num_left: int = 0, late_s: float = 0.0, drift: float = 0.0) -> None:
        self.first_sample_ns = self.last_sample_ns = 5_000_000_000 + round(late_s * 1e9)
        self._block_ns = round(1e8 * (1 + drift))
        self._blocks = [Block(block, 16000) for block in np.split(samples, range(1600, len(samples), 1600))]
        self._num_left = num_left

    def read(self, timeout_s: float = 0.1) -> Block | None:
        if len(self._blocks) <= self._num_left:
            return None
        self.last_sample_ns += self._block_ns
        return self._blocks.pop(0)

    def close(self) -> None:
        self._blocks, self._num_left = self._blocks[: self._num_left], 0
