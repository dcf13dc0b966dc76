"""Progress through a corpus: a bar in a terminal, otherwise a line per minute."""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from typing import Any

from asr.command import counted
from asr.streaming.terminal.status import clock
from asr.tables import Recording

LINE_EVERY_S = 60.0


class Progress:
    """Progress by duration if all durations are known, otherwise by number of recordings. A context manager."""

    def __init__(self, recordings: Sequence[Recording]) -> None:
        """recordings: the recordings to be transcribed."""
        self._num_files = len(recordings)
        lengths_s = [each.duration_s or 0.0 for each in recordings]
        self._total = sum(lengths_s) if all(lengths_s) else 0.0
        self._started = self._shown = time.monotonic()
        self._num_done = self._num_failed = 0
        self._audio_s = 0.0
        self._bar: Any = None

    def __enter__(self) -> Progress:
        if sys.stderr.isatty() and self._num_files:
            from rich.console import Console
            from rich.progress import BarColumn, TextColumn, TimeRemainingColumn
            from rich.progress import Progress as Bar

            columns = (BarColumn(), TextColumn("{task.percentage:3.0f} %"), TextColumn("{task.fields[text]}"))
            self._bar = Bar(*columns, TimeRemainingColumn(), console=Console(stderr=True), transient=True)
            self._task = self._bar.add_task("", total=self._total or self._num_files, text=self.text())
            self._bar.start()
        return self

    def __exit__(self, *exc: object) -> None:
        if self._bar:
            self._bar.stop()

    def add(self, audio_s: float, failed: bool) -> None:
        """Counts a recording that is done, with its duration, or has failed."""
        self._num_done += 1
        self._num_failed += failed
        self._audio_s += audio_s
        now = time.monotonic()
        if self._bar:
            self._bar.update(self._task, completed=self._audio_s if self._total else self._num_done, text=self.text())
        elif now - self._shown >= LINE_EVERY_S:
            self._shown = now
            print(self.text(), file=sys.stderr, flush=True)

    def text(self) -> str:
        """The progress on one line."""
        return f"{self._num_done}/{counted(self._num_files, 'recording')}{self._audio()}"

    def summary(self) -> str:
        """A summary for the end of the run."""
        num_written = self._num_done - self._num_failed
        if not num_written:
            return "no new transcripts"
        return f"{counted(num_written, 'recording')} in {clock(time.monotonic() - self._started)}{self._audio()}"

    def _audio(self) -> str:
        if not self._audio_s:  # no recording is done yet, or only subtitles were missing
            return ""
        speed = self._audio_s / max(time.monotonic() - self._started, 1e-3)
        return f", {clock(self._audio_s)} of audio, {speed:.1f} times real time"
