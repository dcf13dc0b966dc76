"""The status line below the captions: the level of the microphone, or the progress through files."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from rich.cells import cell_len
from rich.text import Text

if TYPE_CHECKING:
    from asr.streaming.terminal.captions import Captions

REDRAW_S = 0.1
FLOOR_DB = -60.0
LOUD_DB = -3.0
FALL_DB_PER_S = 20.0
"""Speed at which the peak mark falls."""
MUTED_S = 3.0
"""A microphone that delivers only zeros for this long is considered switched off."""
MUTED_AFTER_WORDS_S = 10.0
"""The same limit after it has delivered words, because people switch it off while they listen."""


class StatusLine:
    """Draws the line. Parts that do not fit are omitted, starting with the last."""

    def __init__(self, captions: Captions) -> None:
        self.unicode = captions.unicode
        self._captions = captions
        self._drawn = time.monotonic() - REDRAW_S

    def due(self) -> float:
        """Seconds since the line was drawn, if it is time to redraw it; else 0."""
        elapsed_s = time.monotonic() - self._drawn
        return elapsed_s if elapsed_s >= REDRAW_S else 0.0

    def draw(self, parts: Sequence[Text]) -> None:
        """Shows `parts` side by side."""
        self._drawn = time.monotonic()
        line = Text()
        for part in parts:
            gap = "  " if line else ""
            if cell_len(line.plain + gap + part.plain) > self._captions.width - 1:  # leave room for "^C"
                break
            line = Text.assemble(line, gap, part)
        self._captions.status(line if line else None)

    def bar(self, share: float, color: str, mark: float | None = None) -> Text:
        """A bar filled to `share`, with an optional mark at another share. Readable without colors."""
        width = max(4, min(self._captions.width // 4, 30))
        full, empty, tick = ("━", "─", "┃") if self.unicode else ("=", "-", "|")
        num_full = round(share * width)
        cells = [(full, color)] * num_full + [(empty, "dim")] * (width - num_full)
        if mark is not None and (at := round(mark * width)) > num_full:
            cells[at - 1] = (tick, color)
        return Text.assemble(*cells)


class LevelMeter:
    """Level of the audio in dB below full scale (dBFS): its RMS as a bar, its peak as a mark."""

    def __init__(self, may_be_silent: bool = False) -> None:
        """may_be_silent: zeros do not mean that the microphone is switched off."""
        self._may_be_silent = may_be_silent
        self.has_words = False
        """Whether words were recognized."""
        self.peak_db = self._mark_db = FLOOR_DB
        self.rms_db = FLOOR_DB
        self._squares, self._num_samples, self._peak = 0.0, 0, 0.0
        self._silent_s = 0.0

    def accept(self, samples: np.ndarray, sample_rate: int) -> None:
        """Continue with `samples`, (num_samples,) float32 in ±1. Values that are not finite are not counted."""
        samples = samples[np.isfinite(samples)]
        if len(samples):
            peak = float(np.abs(samples).max())
            self._peak = max(self._peak, peak)
            self._squares += float(np.square(samples, dtype=np.float64).sum())
            self._num_samples += len(samples)
            self._silent_s = 0.0 if peak else self._silent_s + len(samples) / sample_rate

    def update(self, elapsed_s: float) -> None:
        """Shows the audio since the last update, `elapsed_s` ago."""
        self.peak_db = _decibels(self._peak)
        self.rms_db = _decibels((self._squares / max(self._num_samples, 1)) ** 0.5)
        self._mark_db = max(self.peak_db, self._mark_db - FALL_DB_PER_S * elapsed_s)
        self._squares, self._num_samples, self._peak = 0.0, 0, 0.0

    def parts(self, line: StatusLine) -> list[Text]:
        """Parts of `line`."""
        muted_s = MUTED_AFTER_WORDS_S if self.has_words else MUTED_S
        if self._silent_s >= muted_s and not self._may_be_silent:
            return [Text("no sound from the microphone: is it muted?", "yellow")]
        color = "red" if self._mark_db >= -0.1 else "yellow" if self._mark_db >= LOUD_DB else "green"
        level, mark = (min(1 - db / FLOOR_DB, 1.0) for db in (self.rms_db, self._mark_db))
        label = f"{self._mark_db:4.0f} dB" if self._mark_db < -0.1 else "too loud"
        return [line.bar(level, color, mark), Text(label, color if color != "green" else "dim")]


class FileProgress:
    """Progress through files: by duration if it is known, else by number."""

    def __init__(self, num_files: int, total_s: float) -> None:
        self._num_files = num_files
        self._total_s = total_s
        self._started = time.monotonic()

    def parts(self, line: StatusLine, num_done: int, done_s: float) -> list[Text]:
        """Parts of `line`. num_done: files; done_s: seconds of audio."""
        share = min(done_s / self._total_s, 1.0) if self._total_s else num_done / self._num_files
        elapsed_s = time.monotonic() - self._started
        parts = [line.bar(share, "green"), Text(f"{100 * share:3.0f} %")]
        if 0 < share < 1 and elapsed_s > 1:
            parts.append(Text(f"{clock(elapsed_s * (1 / share - 1))} left", "dim"))
        if self._num_files > 1:
            parts.append(Text(f"{num_done}/{self._num_files} files", "dim"))
        if elapsed_s > 1:
            parts.append(Text(f"{done_s / elapsed_s:.0f}{'×' if line.unicode else 'x'} as fast as spoken", "dim"))
        return parts


def clock(seconds: float) -> str:
    """Formats seconds: 3:05, 1:02:03."""
    minutes, rest = divmod(int(seconds), 60)
    return f"{minutes // 60}:{minutes % 60:02}:{rest:02}" if minutes >= 60 else f"{minutes}:{rest:02}"


def _decibels(amplitude: float) -> float:
    return max(20 * float(np.log10(amplitude)), FLOOR_DB) if amplitude > 0 else FLOOR_DB
