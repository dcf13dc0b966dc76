"""Recognizes files, one per core at a time: one thread per file, output in the order of the files.

Threads are sufficient: features, searches and the network are C++ code that releases the GIL. A file uses one core,
because a stream is sequential.
"""

from __future__ import annotations

import contextlib
import itertools
import math
import queue
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from asr.channels import Channel, label_of
from asr.command import explained
from asr.streaming.audio.audio_file import read_blocks
from asr.streaming.audio.open_file import name_of
from asr.streaming.terminal.stats import Stats

if TYPE_CHECKING:
    from asr.streaming.events import Event
    from asr.streaming.recognizer import Recognizer
    from asr.streaming.stream import Stream
    from asr.streaming.terminal.captions import Captions
    from asr.streaming.terminal.output import Output

WAIT_S = 0.1
CLOSE_TIMEOUT_S = 2.0


@dataclass(frozen=True)
class Reading:
    """How files are read. raw_rate, channel, start_s, duration_s: see `read_blocks`. realtime: at the speed of
    playback."""

    raw_rate: int | None = None
    channel: Channel = "mix"
    realtime: bool = False
    start_s: float = 0.0
    duration_s: float = math.inf

    def read_s(self, length_s: float) -> float:
        """Seconds that are read of a recording of this length."""
        return min(max(0.0, length_s - self.start_s), self.duration_s)


class Transcription:
    """One file. `events`: "begin" when a thread has started it, its events with the labels of their channels, which
    are empty unless each channel is recognized, and "end"."""

    def __init__(self, path: str) -> None:
        self.path = path
        self.events: queue.SimpleQueue[tuple[Event, str] | Literal["begin", "end"]] = queue.SimpleQueue()
        self.error = ""
        """Reason why the file could not be read to its end."""
        self.warnings: list[str] = []
        """Trouble that did not end the file."""
        self.num_finals = 0
        self.complete = False
        """Whether the file was read to its end."""
        self.crash: BaseException | None = None
        """An unexpected exception, for the thread that shows the events."""
        self.stats = Stats()

    def run(self, recognizer: Recognizer, reading: Reading, wants_partials: bool, stopped: Callable[[], bool]) -> None:
        """Reads the file to its end, or until `stopped`; all audio that was read is recognized. Times are those of the
        whole file."""
        self.events.put("begin")
        streams: list[tuple[Stream, str]] = []
        start_s = reading.start_s
        started = time.monotonic()

        def take(audio_s: float, begun_s: float) -> None:
            events = [(event.shifted(start_s), label) for stream, label in streams for event in stream.events()]
            self.stats.add(audio_s, time.monotonic() - begun_s, [event for event, _ in events])
            for event, label in events:
                self.num_finals += event.type == "final"
                if wants_partials or event.type != "partial":
                    self.events.put((event, label))

        def warn(warning: str) -> None:
            self.warnings.append(warning)
            self._report(warning, start_s)

        try:
            blocks = read_blocks(
                self.path,
                reading.raw_rate,
                stopped,
                channel=reading.channel,
                warn=warn,
                start_s=start_s,
                duration_s=reading.duration_s,
            )
            for samples, sample_rate in blocks:
                begun_s = time.monotonic()
                channels = samples.T if samples.ndim == 2 else [samples]
                if not streams:
                    labels = [""] if samples.ndim == 1 else [label_of(i + 1) for i in range(len(channels))]
                    streams += [(recognizer.stream(), label) for label in labels]
                for (stream, _), channel in zip(streams, channels, strict=True):
                    stream.accept_waveform(channel, sample_rate)
                take(len(samples) / sample_rate, begun_s)
                if reading.realtime:
                    time.sleep(max(0.0, started + self.stats.audio_s - time.monotonic()))
                if stopped():
                    break
            self.complete = not stopped()
        except (ValueError, MemoryError) as error:  # from the file, or a sample rate out of range
            self.error = explained(error)
        begun_s = time.monotonic()
        for stream, _ in streams:
            stream.finish()
        take(0.0, begun_s)
        if self.error:
            self._report(self.error, start_s)

    def _report(self, text: str, start_s: float) -> None:
        from asr.streaming.events import Error

        now = start_s + self.stats.audio_s
        self.events.put((Error(text, now, now), ""))


class Transcriber:
    """Threads that work through the files. A context manager; on exit they have ended."""

    def __init__(
        self,
        recognizer: Recognizer,
        paths: Sequence[str],
        num_jobs: int,
        interrupted: Callable[[], bool],
        *,
        reading: Reading = Reading(),
        wants_partials: bool = True,
    ) -> None:
        """num_jobs: files at a time. interrupted: if true, no further file is started, and those started end."""
        self.transcriptions = [Transcription(path) for path in paths]
        self._closed = False
        self._next = itertools.count()

        def stopped() -> bool:
            return self._closed or interrupted()

        def work() -> None:
            while (number := next(self._next)) < len(paths):
                transcription = self.transcriptions[number]
                try:
                    if not stopped():
                        transcription.run(recognizer, reading, wants_partials, stopped)
                except BaseException as error:
                    transcription.crash = error
                finally:
                    transcription.events.put("end")

        self._threads = [
            threading.Thread(target=work, name=f"transcribe-{number}", daemon=True)
            for number in range(min(num_jobs, len(paths)))
        ]

    @property
    def audio_s(self) -> float:
        """Seconds of audio recognized in all files."""
        return sum(transcription.stats.audio_s for transcription in self.transcriptions)

    def __enter__(self) -> Transcriber:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *exc: object) -> None:
        self._closed = True
        for thread in self._threads:
            thread.join(CLOSE_TIMEOUT_S)


def show_files(transcriber: Transcriber, output: Output, total_s: float | None, with_stats: bool) -> Stats:
    """Shows the text of each file as soon as those before it have ended; returns the cost of all.

    total_s: seconds of audio in all files, 0 if unknown; None shows no progress.
    """
    transcriptions = transcriber.transcriptions
    progress = _Progress(transcriber, output.captions, total_s, with_stats) if output.captions else None
    stats = Stats()
    for number, transcription in enumerate(transcriptions):
        item: tuple[Event, str] | str = ""
        while item != "end":
            if progress:
                progress.draw(number)
            with contextlib.suppress(queue.Empty):
                item = transcription.events.get(timeout=WAIT_S)
                if item == "begin":
                    output.begin(transcription.path, len(transcriptions) > 1)
                elif not isinstance(item, str):
                    output.show(*item)
        if transcription.crash:
            raise transcription.crash
        if transcription.complete and not transcription.num_finals:
            output.warn(f"{name_of(transcription.path)}: no speech was recognized")
        stats.merge(transcription.stats)
    return stats


class _Progress:
    """The status line while files are read."""

    def __init__(self, transcriber: Transcriber, captions: Captions, total_s: float | None, with_stats: bool) -> None:
        from asr.streaming.terminal.status import FileProgress, StatusLine

        self._transcriber = transcriber
        self._line = StatusLine(captions)
        self._files = None if total_s is None else FileProgress(len(transcriber.transcriptions), total_s)
        self._with_stats = with_stats

    def draw(self, num_done: int) -> None:
        if not self._line.due():
            return
        parts = []
        if self._files:
            parts += self._files.parts(self._line, num_done, self._transcriber.audio_s)
        if self._with_stats:
            parts += self._transcriber.transcriptions[num_done].stats.now()
        self._line.draw(parts)
