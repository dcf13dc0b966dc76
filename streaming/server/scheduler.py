"""Many streams, few threads: whatever waits for the same network is computed in one run of it.

- A `Job` is a stream and what was said to it. It stands in line once, and belongs to one thread at a time.
- A thread takes the first job in line, and with it those that wait for work of the same kind. Nobody waits for a batch
  to fill: batches form of what came while the threads were busy, so that one stream alone is answered at once, and many
  cost less than each by itself.
- After one chunk a job goes to the end of the line: an hour of audio sent at once holds nobody up.
"""

from __future__ import annotations

import logging
import threading
from collections import deque
from collections.abc import Callable, Hashable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from asr.streaming.events import Event
from asr.streaming.stream import Stream
from asr.streaming.work import Work, compute

if TYPE_CHECKING:
    from asr.streaming.recognizer import Recognizer

logger = logging.getLogger("asr_stream.server")


@dataclass(frozen=True)
class Report:
    """What came of a job's turn: events, and what is done with of what was said: how often, and seconds of audio.

    wanted_s: audio without which there is nothing more to be heard; 0 while there is more to do.
    """

    events: list[Event]
    num_done: int
    done_s: float
    failed: bool
    wanted_s: float


class Job:
    """A stream on its way through the scheduler."""

    def __init__(self, recognizer: Recognizer, report: Callable[[Report], None]) -> None:
        """report: called from the scheduler's threads, one at a time and in order."""
        self.stream = Stream(recognizer, deferred=True)
        self.report = report
        self.said: deque[tuple[Callable[[Stream], None], float]] = deque()
        self.telling: float | None = None
        """Seconds of audio in what the stream is at; None: nothing."""
        self.waiting: Work | None = None
        self.kind: Hashable = None
        self.in_line = False
        self.failed = False


class Scheduler:
    """Threads that work on jobs. For use by any thread."""

    def __init__(self, num_threads: int = 2, max_batch: int = 32) -> None:
        """num_threads: at once at work, each on a batch; max_batch: jobs in one run of the network."""
        if num_threads < 1 or max_batch < 1:
            raise ValueError(f"num_threads {num_threads} and max_batch {max_batch} must be at least 1")
        self._max_batch = max_batch
        self._line: deque[Job] = deque()
        self._changed = threading.Condition()
        self._closed = False
        self.num_runs = 0
        """Runs of the network so far, and how many jobs they served."""
        self.num_served = 0
        self._threads = [
            threading.Thread(target=self._work, name=f"recognise-{i}", daemon=True) for i in range(num_threads)
        ]
        for thread in self._threads:
            thread.start()

    def say(self, job: Job, what: Callable[[Stream], None], audio_s: float = 0.0) -> None:
        """Has `what` told to the job's stream when all that was said before is done. `audio_s`: the audio in it."""
        with self._changed:
            job.said.append((what, audio_s))
            if not job.in_line and not job.failed:
                self._stand_in_line(job)

    def drop(self, job: Job) -> None:
        """Nothing more is done for this job, but for what is under way."""
        with self._changed:
            job.failed = True
            job.said.clear()

    def close(self) -> None:
        """Ends the threads when they have done what they are at; what waits is left."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()
        for thread in self._threads:
            thread.join()

    @property
    def num_waiting(self) -> int:
        """Jobs in line."""
        return len(self._line)

    def _stand_in_line(self, job: Job) -> None:
        job.in_line = True
        self._line.append(job)
        self._changed.notify()

    def _work(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._line or self._closed)
                if self._closed:
                    return
                batch = self._take_batch()
            try:
                if batch[0].waiting is not None:
                    compute([job.waiting for job in batch if job.waiting is not None])
            except Exception:
                logger.exception("the network failed on a batch of %d", len(batch))
                for job in batch:
                    job.failed = True
            for job in batch:
                self._take_turn(job)

    def _take_batch(self) -> list[Job]:
        first = self._line.popleft()
        if first.waiting is None:
            return [first]
        batch, rest = [first], deque[Job]()
        for job in self._line:
            alike = job.waiting is not None and job.kind == first.kind and len(batch) < self._max_batch
            (batch if alike else rest).append(job)
        self._line = rest
        self.num_runs += 1
        self.num_served += len(batch)
        return batch

    def _take_turn(self, job: Job) -> None:
        """Goes on with what was said, to where the network is needed next."""
        num_done, done_s = 0, 0.0
        while not job.failed:
            try:
                job.waiting = job.stream.pending()
                if job.waiting is not None:
                    job.kind = job.waiting.kind
                    break
                if job.telling is not None:
                    num_done, done_s, job.telling = num_done + 1, done_s + job.telling, None
                if not job.said:
                    break
                what, job.telling = job.said.popleft()
                what(job.stream)
            except Exception:
                logger.exception("a stream failed")
                job.failed = True
        events = job.stream.events()
        if events or num_done or job.failed:
            wanted_s = job.stream.wanted_s if job.waiting is None else 0.0
            job.report(Report(events, num_done, done_s, job.failed, wanted_s))
        with self._changed:
            job.in_line = False
            if not job.failed and (job.waiting is not None or job.said):
                self._stand_in_line(job)
