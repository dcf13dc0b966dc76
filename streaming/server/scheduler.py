"""Runs many streams on few threads. Streams that need the same network are computed in one batch.

- A `Job` is a stream and its queued calls. It is in a ready queue at most once, and belongs to one thread at a time.
- A thread takes the first job of a ready queue, together with all jobs of that queue that need the same network on the
  same shapes. No job waits for a batch to fill: batches form from the jobs that arrived while the threads were busy. So
  a single stream has no added delay, and many streams cost less together than one by one.
- After one run of a network a job goes to the end of its ready queue, so an hour of audio sent at once delays no other
  stream.
- Live streams and uploads have a queue each. Uploads get the turns that no live stream waits for, and one a second.
  A turn of uploads is short, because a live stream may have to wait for its end.
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
from asr.streaming.server.cost import Cost
from asr.streaming.stream import Stream
from asr.streaming.work import Work, compute

logger = logging.getLogger("asr_stream.server")

UPLOAD_TURN_S = 0.02
"""Seconds of a turn of uploads: a batch has as many of them as fit, and at least one."""
UPLOAD_WAIT_S = 1.0
"""An upload that waits this long gets a turn before live streams, if no upload had one for as long."""


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

    def __init__(self, recognizer: Recognizer, report: Callable[[Report], None], is_upload: bool = False) -> None:
        """report: called from the scheduler's threads, one at a time and in order. is_upload: nobody waits for its
        next words."""
        self.stream = Stream(recognizer, deferred=True)
        self.is_upload = is_upload
        self.report = report
        self.queued: deque[tuple[Callable[[Stream], None], float]] = deque()
        self.current_s: float | None = None
        """Seconds of audio of the current call; None if there is none."""
        self.waiting: Work | None = None
        self.kind: Hashable = None
        self.is_ready = False
        self.ready_since = 0.0
        self.failed = False
        self.skips_audio = False
        """Whether calls with audio are skipped from now on."""


class Scheduler:
    """Threads that process jobs. Its methods may be called from any thread."""

    def __init__(self, num_threads: int = 2, max_batch: int = 32, clock: Callable[[], float] = time.monotonic) -> None:
        """num_threads: each computes one batch at a time; max_batch: maximum jobs in a batch. clock: in seconds."""
        if num_threads < 1 or max_batch < 1:
            raise ValueError(f"num_threads {num_threads} and max_batch {max_batch} must be at least 1")
        self._max_batch = max_batch
        self._clock = clock
        self._live: deque[Job] = deque()
        self._uploads: deque[Job] = deque()
        self._upload_turn_at = -UPLOAD_WAIT_S
        self._upload_s: dict[Hashable, float] = {}
        """Recent seconds of an upload in a turn, by the kind of its work."""
        self._changed = threading.Condition()
        self._closed = False
        self.num_runs = 0
        """Number of batches so far, and of jobs in them."""
        self.num_served = 0
        self._cost = Cost(clock)
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
        self._cost.set((time.monotonic() - begun) * SAMPLE_RATE / len(samples))

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
        """Recent thread seconds per second of live audio, see `Cost`."""
        return self._cost.value

    @property
    def num_threads(self) -> int:
        return len(self._threads)

    @property
    def num_waiting(self) -> int:
        """Jobs that wait for a thread."""
        return len(self._live) + len(self._uploads)

    def _enqueue(self, job: Job) -> None:
        job.is_ready = True
        job.ready_since = self._clock()
        (self._uploads if job.is_upload else self._live).append(job)
        self._changed.notify()

    def _work(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._live or self._uploads or self._closed)
                if self._closed:
                    return
                batch = self._take_batch()
            begun = self._clock()
            kind = _batch_kind(batch[0])
            _compute(batch)
            audio_s = self._go_on(batch)
            with self._changed:
                self._count(batch, kind, self._clock() - begun, audio_s)

    def _go_on(self, batch: list[Job]) -> float:
        """Takes the answers of the network; returns the seconds of audio that are done."""
        audio_s = 0.0
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
        return audio_s

    def _count(self, batch: list[Job], kind: Hashable, took_s: float, audio_s: float) -> None:
        """kind: of the work that was done, see `_batch_kind`."""
        if not batch[0].is_upload:
            self._cost.add(took_s, audio_s)
        elif kind is not None:
            each_s = max(took_s / len(batch), 1e-6)
            self._upload_s[kind] = (self._upload_s.get(kind, each_s) + each_s) / 2

    def _take_batch(self) -> list[Job]:
        ready = self._uploads if self._is_turn_of_uploads() else self._live
        first = ready.popleft()
        if first.waiting is None:
            return [first]
        most = self._max_batch
        if first.is_upload:
            self._upload_turn_at = self._clock()
            known_s = self._upload_s.get(_batch_kind(first), UPLOAD_TURN_S)
            most = max(1, min(most, int(UPLOAD_TURN_S / known_s)))
        batch, rest = [first], deque[Job]()
        for job in ready:
            alike = job.waiting is not None and job.kind == first.kind and len(batch) < most
            (batch if alike else rest).append(job)
        ready.clear()
        ready.extend(rest)
        self.num_runs += 1
        self.num_served += len(batch)
        return batch

    def _is_turn_of_uploads(self) -> bool:
        if not self._live or not self._uploads:
            return not self._live
        return self._clock() - max(self._uploads[0].ready_since, self._upload_turn_at) >= UPLOAD_WAIT_S

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


def _batch_kind(job: Job) -> Hashable:
    """The kind of work that other jobs may share; None if there is none."""
    return job.kind if job.waiting is not None and job.waiting.work.has_batch else None


def _compute(batch: list[Job]) -> None:
    """Does the work that the jobs wait for, if any."""
    try:
        if batch[0].waiting is not None:
            compute([job.waiting for job in batch if job.waiting is not None])
    except Exception:
        logger.exception("the network failed on a batch of %d", len(batch))
        for job in batch:
            job.failed = True
