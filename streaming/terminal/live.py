"""Live captions, step by step: from the microphone to the output."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from asr.streaming.resampler import SAMPLE_RATE
from asr.streaming.terminal.stats import Stats

if TYPE_CHECKING:
    from rich.text import Text

    from asr.streaming.audio.microphone import Block, Microphone
    from asr.streaming.stream import Stream
    from asr.streaming.terminal.captions import Captions
    from asr.streaming.terminal.output import Output


class Live:
    """Live captions: call `step` until it is enough, then `finish`."""

    def __init__(self, microphone: Microphone, stream: Stream, output: Output, with_stats: bool) -> None:
        self.stats = Stats()
        self._microphone = microphone
        self._stream = stream
        self._output = output
        self._with_stats = with_stats
        self._view = _View(output.captions) if output.captions else None
        output.begin("microphone", several=False)

    def step(self) -> bool:
        """Recognizes the next audio, or waits for a moment. False when none came."""
        block = self._microphone.read()
        if block is not None:
            begun = time.monotonic()
            block.put_into(self._stream)
            audio_s = len(block.samples) / block.sample_rate
            self._show(audio_s, begun)
        if self._view:
            self._view.draw(block, self._stream, self.stats.now() if self._with_stats else [])
        return block is not None

    def finish(self) -> None:
        """Closes the microphone and recognizes the rest of its audio."""
        self._microphone.close()
        while self.step():
            pass
        begun = time.monotonic()
        self._stream.finish()
        self._show(0.0, begun)

    def _show(self, audio_s: float, begun: float) -> None:
        events = self._stream.events()
        self.stats.add(audio_s, time.monotonic() - begun, events, waited_s=audio_s)
        for event in events:
            self._output.show(event)


class _View:
    """The status line: level, time, and what else there is."""

    def __init__(self, captions: Captions) -> None:
        from asr.streaming.terminal.status import LevelMeter, StatusLine

        self._line = StatusLine(captions)
        self._meter = LevelMeter()

    def draw(self, block: Block | None, stream: Stream, more: list[Text]) -> None:
        from rich.text import Text

        from asr.streaming.terminal.status import clock

        if block is not None:
            self._meter.accept(block.samples, block.sample_rate)
        if elapsed_s := self._line.due():
            self._meter.update(elapsed_s)
            now = Text(clock(stream.sample_offset / SAMPLE_RATE), "dim")
            self._line.draw([*self._meter.parts(self._line), now, *more])
