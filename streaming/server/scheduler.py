"""Runs many streams on few threads. Streams that need the same network are computed in one batch.

- A `Job` is a stream and its queued calls. It is in the ready queue at most once, and belongs to one thread at a time.
- A thread takes the first job of the ready queue, together with all jobs that need the same network on the same shapes.
  No job waits for a batch to fill: batches form from the jobs that arrived while the threads were busy. So a single
  stream has no added delay, and many streams cost less together than one by one.
- After one chunk a job goes to the end of the ready queue, so an hour of audio sent at once delays no other stream.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Hashable
from contextlib import suppress
from dataclasses import dataclass

import numpy as np

from asr.streaming.events import Event
from asr.streaming.recognizer import Recognizer
from asr.streaming.resampler import SAMPLE_RATE
from asr.streaming.stream import Stream
from asr.streaming.work import Work, compute

logger = logging.getLogger("asr_stream.server")

USUAL_COST = 0.03
"""Initial estimate of the thread seconds per second of audio."""
COST_WINDOW_S = 60.0
"""Minimum seconds of audio, over all streams, for a measurement of their cost."""
MAX_RUN_S = 2.0
"""Maximum seconds of a run. A longer one means that the process or machine was suspended, so it does not count."""


@dataclass(frozen=True)
class Report:
    """Result of one scheduling turn: new events, and the completed part of the queue (calls, seconds of audio).

    wanted_s: seconds of audio missing for the next chunk; 0 while there is more to do.
    """

    events: list[Event]
    num_done: int
    done_s: float
    failed: bool
    wanted_s: float


class Job:
    """A stream in the scheduler."""

    def __init__(self, recognizer: Recognizer, report: Callable[[Report], None]) -> None:
        """report: called from the scheduler's threads, one at a time and in order."""
        self.stream = Stream(recognizer, deferred=True)
        self.report = report
        self.queued: deque[tuple[Callable[[Stream], None], float]] = deque()
        self.current_s: float | None = None
        """Seconds of audio of the current call; None if there is none."""
        self.waiting: Work | None = None
        self.kind: Hashable = None
        self.is_ready = False
        self.failed = False
        self.skips_audio = False
        """Whether calls with audio are skipped from now on."""


class Scheduler:
    """Threads that process jobs. Its methods may be called from any thread."""

    def __init__(self, num_threads: int = 2, max_batch: int = 32) -> None:
        """num_threads: each computes one batch at a time; max_batch: maximum jobs in a batch."""
        if num_threads < 1 or max_batch < 1:
            raise ValueError(f"num_threads {num_threads} and max_batch {max_batch} must be at least 1")
        self._max_batch = max_batch
        self._ready: deque[Job] = deque()
        self._changed = threading.Condition()
        self._closed = False
        self.num_runs = 0
        """Number of batches so far, and of jobs in them."""
        self.num_served = 0
        self._busy_s, self._audio_s = USUAL_COST * COST_WINDOW_S / 4, COST_WINDOW_S / 4
        self._threads = [
            threading.Thread(target=self._work, name=f"recognize-{i}", daemon=True) for i in range(num_threads)
        ]
        for thread in self._threads:
            thread.start()

    def measure(self, recognizer: Recognizer, samples: np.ndarray) -> None:
        """Sets `cost` from `samples` of speech at 16 kHz. The first run is excluded because it allocates memory."""
        for _ in range(2):
            begun = time.monotonic()
            stream = recognizer.stream()
            stream.accept_waveform(samples)
            stream.finish()
        self._busy_s = (time.monotonic() - begun) * self._audio_s * SAMPLE_RATE / len(samples)

    def submit(self, job: Job, call: Callable[[Stream], None], audio_s: float = 0.0) -> None:
        """Queues `call`, which gets the job's stream, after all earlier calls. `audio_s`: seconds of audio in it."""
        with self._changed:
            job.queued.append((call, audio_s))
            if not job.is_ready and not job.failed:
                self._enqueue(job)

    def drop(self, job: Job) -> None:
        """Discards the queue of a job; a running call is still completed."""
        with self._changed:
            job.failed = True
            job.queued.clear()

    def close(self) -> None:
        """Ends the threads after their current batches; queued calls are discarded."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()
        for thread in self._threads:
            thread.join()

    @property
    def cost(self) -> float:
        """Recent thread seconds per second of audio; higher while other programs slow it down."""
        return self._busy_s / self._audio_s

    @property
    def num_threads(self) -> int:
        return len(self._threads)

    @property
    def num_waiting(self) -> int:
        """Jobs in the ready queue."""
        return len(self._ready)

    def _enqueue(self, job: Job) -> None:
        job.is_ready = True
        self._ready.append(job)
        self._changed.notify()

    def _work(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._ready or self._closed)
                if self._closed:
                    return
                batch = self._take_batch()
            begun, audio_s = time.monotonic(), 0.0
            try:
                if batch[0].waiting is not None:
                    compute([job.waiting for job in batch if job.waiting is not None])
            except Exception:
                logger.exception("the network failed on a batch of %d", len(batch))
                for job in batch:
                    job.failed = True
            for job in batch:
                try:
                    audio_s += self._take_turn(job)
                except Exception:
                    logger.exception("a stream failed")
                    job.failed = True
                    events: list[Event] = []
                    with suppress(Exception):  # a broken stream may still have finals
                        events = job.stream.events()
                    job.report(Report(events, 0, 0.0, True, 0.0))
            with self._changed:
                self._busy_s += min(time.monotonic() - begun, MAX_RUN_S)
                self._audio_s += audio_s
                if self._audio_s > 2 * COST_WINDOW_S:
                    self._busy_s, self._audio_s = self._busy_s / 2, self._audio_s / 2

    def _take_batch(self) -> list[Job]:
        first = self._ready.popleft()
        if first.waiting is None:
            return [first]
        batch, rest = [first], deque[Job]()
        for job in self._ready:
            alike = job.waiting is not None and job.kind == first.kind and len(batch) < self._max_batch
            (batch if alike else rest).append(job)
        self._ready = rest
        self.num_runs += 1
        self.num_served += len(batch)
        return batch

    def _take_turn(self, job: Job) -> float:
        """Processes queued calls until the network is needed; returns the seconds of audio that are done."""
        num_done, done_s = 0, 0.0
        while not job.failed:
            job.waiting = job.stream.pending()
            if job.waiting is not None:
                job.kind = job.waiting.kind
                break
            if job.current_s is not None:
                num_done, done_s, job.current_s = num_done + 1, done_s + job.current_s, None
            if not job.queued:
                break
            call, job.current_s = job.queued.popleft()
            if not (job.skips_audio and job.current_s):
                call(job.stream)
        events = job.stream.events()
        if events or num_done or job.failed:
            wanted_s = job.stream.wanted_s if job.waiting is None else 0.0
            job.report(Report(events, num_done, done_s, job.failed, wanted_s))
        with self._changed:
            job.is_ready = False
            if not job.failed and (job.waiting is not None or job.queued):
                self._enqueue(job)
        return done_s
