"""Live captions, step by step, from the audio sources to the output."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from asr.streaming.events import Partial
from asr.streaming.resampler import SAMPLE_RATE
from asr.streaming.terminal.stats import Stats

if TYPE_CHECKING:
    from rich.text import Text

    from asr.streaming.audio.microphone import Block, Microphone
    from asr.streaming.events import Event
    from asr.streaming.stream import Stream
    from asr.streaming.terminal.captions import Captions
    from asr.streaming.terminal.echo import Echoes
    from asr.streaming.terminal.output import Output

WAIT_S = 0.1
ECHO = (
    "the microphone hears the loudspeaker: words that were played are left out (--keep-echo shows them; headphones "
    "avoid this)"
)


DRIFT_WINDOW_S = 10.0
"""Audio of one median of delays."""


class Drift:
    """How far the clock of a device has moved from the computer's, which the times of several devices must share.

    Two devices may differ by 0.2 s in an hour. The delay of single blocks varies more, so medians are compared.
    """

    def __init__(self) -> None:
        self.seconds = 0.0
        self._first: float | None = None
        self._delays_s: list[float] = []
        self._until_s = DRIFT_WINDOW_S

    def add(self, clock_s: float, position_s: float) -> None:
        """Takes the end of a block: the time when it came, and its position in the audio."""
        self._delays_s.append(clock_s - position_s)
        if position_s >= self._until_s:
            median = float(np.median(self._delays_s))
            self._first = median if self._first is None else self._first
            self.seconds = median - self._first
            self._delays_s.clear()
            self._until_s = position_s + DRIFT_WINDOW_S


@dataclass
class Source:
    """A microphone or system audio, and its label, which is empty if it is the only source."""

    microphone: Microphone | None
    stream: Stream
    label: str = ""
    may_be_silent: bool = False
    begun: bool = False
    drift: Drift = field(default_factory=Drift)


class Live:
    """Live captions: call `step` repeatedly, then `finish`."""

    def __init__(
        self,
        sources: Sequence[Source],
        output: Output,
        with_stats: bool,
        begun_ns: int = 0,
        echoes: Echoes | None = None,
    ) -> None:
        """begun_ns: a time on the clock of `time.monotonic_ns` before any source was opened. With several sources,
        times count from it; with a single source, from its first sample.
        echoes: removes what the second source plays from what the first one hears."""
        self.stats = Stats()
        self._sources = sources
        self._output = output
        self._with_stats = with_stats
        self._begun_ns = begun_ns
        self._echoes = echoes
        self._status_view = _StatusView(output.captions, sources[0].may_be_silent) if output.captions else None
        output.begin("microphone", several=False)

    def step(self) -> bool:
        """Recognizes the next audio, or waits briefly. False if there was none."""
        return any([self._read(source) for source in self._sources])

    def finish(self) -> None:
        """Closes the microphones and recognizes the rest of their audio."""
        for source in self._sources:
            if source.microphone:
                source.microphone.close()
        while self.step():
            pass
        for source in self._sources:
            self._recognize(source, source.stream.finish)

    def _read(self, source: Source) -> bool:
        assert source.microphone is not None
        block = source.microphone.read(WAIT_S / len(self._sources))
        if block is not None:
            self._recognize(source, partial(self._take, source, block), len(block.samples) / block.sample_rate)
        if self._status_view and source is self._sources[0]:
            self._status_view.draw(block, source.stream, self.stats.now() if self._with_stats else [])
        return block is not None

    def _take(self, source: Source, block: Block) -> None:
        """Inserts silence before the first sample, because sources start at different times."""
        assert source.microphone is not None
        if len(self._sources) > 1 and not source.begun and len(block.samples):
            source.begun = True
            late_ns = source.microphone.first_sample_ns - self._begun_ns
            source.stream.accept_waveform(np.zeros(max(0, late_ns) * SAMPLE_RATE // 10**9, np.float32))
        clock_ns = source.microphone.last_sample_ns - self._begun_ns  # before the block is recognized
        block.put_into(source.stream)
        if len(self._sources) > 1:
            source.drift.add(clock_ns / 1e9, source.stream.sample_offset / SAMPLE_RATE)

    def _recognize(self, source: Source, call: Callable[[], None], audio_s: float = 0.0) -> None:
        """Shows the events of `call`, which passes `audio_s` of audio to the stream."""
        begun = time.monotonic()
        call()
        events = [event.shifted(source.drift.seconds) for event in source.stream.events()]
        self.stats.add(audio_s, time.monotonic() - begun, events, waited_s=audio_s)
        for event in events:
            self._show_event(event, source.label)

    def _show_event(self, event: Event, label: str) -> None:
        if self._echoes and label != self._sources[0].label:
            self._echoes.played(event)
        elif self._echoes:
            is_first = not self._echoes.num_removed
            heard = self._echoes.without_echo(event)
            if is_first and self._echoes.num_removed:
                self._output.warn(ECHO)
            # A partial without words takes back what was shown of the utterance.
            event = heard or Partial("", event.start, event.end)
        self._output.show(event, label)
        if self._status_view and event.type == "partial" and label == self._sources[0].label:
            self._status_view.meter.has_words |= bool(event.text)


class _StatusView:
    """The status line: level, time, and other parts."""

    def __init__(self, captions: Captions, may_be_silent: bool) -> None:
        from asr.streaming.terminal.status import LevelMeter, StatusLine

        self._line = StatusLine(captions)
        self.meter = LevelMeter(may_be_silent)

    def draw(self, block: Block | None, stream: Stream, more: list[Text]) -> None:
        from rich.text import Text

        from asr.streaming.terminal.status import clock

        if block is not None:
            self.meter.accept(block.samples, block.sample_rate)
        if elapsed_s := self._line.due():
            self.meter.update(elapsed_s)
            now = Text(clock(stream.sample_offset / SAMPLE_RATE), "dim")
            self._line.draw([*self.meter.parts(self._line), now, *more])

    def draw_paused(self) -> None:
        from rich.text import Text

        if self._line.due():
            self._line.draw([Text("paused, the microphone is closed: asr-stream toggle", "yellow")])
