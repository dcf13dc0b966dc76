"""Cost of recognition: delay of the text, and the share of time that the processor was busy."""

from __future__ import annotations

import math
import statistics
import time
from array import array
from collections.abc import Iterable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.text import Text

    from asr.streaming.events import Event


class Stats:
    """Totals over one or more streams."""

    def __init__(self) -> None:
        self._started = time.monotonic()
        self.audio_s = 0.0
        self._busy_s = 0.0
        self._delays_s = {"partial": array("f"), "final": array("f")}

    def add(self, audio_s: float, busy_s: float, events: Iterable[Event], waited_s: float = 0.0) -> None:
        """Counts audio, the time spent on it, and its `events`.

        waited_s: how long its oldest sample may have waited. The delay of an event is the sum of both times.
        """
        self.audio_s += audio_s
        self._busy_s += busy_s
        for kind in {event.type for event in events} & self._delays_s.keys():
            self._delays_s[kind].append(waited_s + busy_s)

    def merge(self, other: Stats) -> None:
        """Adds the measurements of `other`."""
        self.audio_s += other.audio_s
        self._busy_s += other._busy_s
        for kind, delays in self._delays_s.items():
            delays.extend(other._delays_s[kind])

    @property
    def real_time_factor(self) -> float:
        """Seconds of work per second of audio, on one core."""
        return self._busy_s / self.audio_s if self.audio_s else 0.0

    def now(self) -> list[Text]:
        """Parts of the status line."""
        from rich.text import Text

        delays_s = self._delays_s["partial"]
        delay = [f"delay {1000 * delays_s[-1]:.0f} ms"] if delays_s else []
        return [Text(part, "dim") for part in (*delay, f"RTF {self.real_time_factor:.3f}")]

    def summary(self) -> str:
        """Some lines for the end."""
        elapsed_s = time.monotonic() - self._started
        lines = [f"{self.audio_s:.1f} s of audio in {elapsed_s:.2f} s; real-time factor {self.real_time_factor:.4f}"]
        for kind, delays in self._delays_s.items():
            if delays:
                p95 = sorted(delays)[math.ceil(0.95 * len(delays)) - 1]
                lines.append(
                    f"{kind}s: {len(delays)}; delay: median {1000 * statistics.median(delays):.0f} ms, "
                    f"95th percentile {1000 * p95:.0f} ms"
                )
        return "\n".join(lines)
