"""Worker processes that recognize one recording at a time. If a worker dies, only its recording fails."""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import signal
from collections import deque
from collections.abc import Generator, Iterable
from multiprocessing.connection import Connection, wait
from typing import NamedTuple

from asr._core import StreamFailed
from asr.command import explained, interrupts_ignored, silence_libraries
from asr.runtime.onnx_session import ModelError
from asr.streaming.corpus.texts import Done, Stopped, Task
from asr.tables import Recording

_STARTED = "started"


class Outcome(NamedTuple):
    """The result of one recording. error: "" if there is none."""

    recording: Recording
    done: Done = Done(0.0)
    error: str = ""


def run_workers(task: Task, recordings: Iterable[Recording], num_workers: int) -> Generator[Outcome, None, None]:
    """Yields outcomes as they complete. Closing the generator ends the workers immediately, without partial files.

    Raises ValueError for invalid options, ChildProcessError if no worker can be started.
    """
    waiting = deque(recordings)
    workers: list[_Worker] = []
    warns = True
    try:
        while True:
            while waiting and len(workers) < num_workers:
                workers.append(_Worker(task, warns))
                warns = False
            if not workers:
                return
            ready = wait([worker.connection for worker in workers])
            for worker in [worker for worker in workers if worker.connection in ready]:
                outcome = worker.receive()
                if outcome is not None:
                    yield outcome
                if worker.ended is not None:
                    workers.remove(worker)
                    if not worker.started and not any(other.started for other in workers):
                        raise ChildProcessError(f"a worker {worker.ended} before it began; use fewer --jobs")
                elif waiting:
                    worker.send(waiting.popleft())
                else:
                    worker.close()
                    workers.remove(worker)
    finally:
        for worker in workers:
            worker.close()


class _Worker:
    """The parent's view of a worker. warns: whether it prints the warnings of its recognizer. started: whether it has
    one. ended: how it ended, if it did."""

    def __init__(self, task: Task, warns: bool) -> None:
        self.started = False
        self.ended: str | None = None
        self._task = task
        self._recording: Recording | None = None
        context = multiprocessing.get_context("spawn")  # a fork would copy locks that other threads hold
        self.connection, theirs = context.Pipe()
        self._process = context.Process(target=_work, args=(theirs, task, os.getpid(), warns), daemon=True)
        with interrupts_ignored():
            self._process.start()
        theirs.close()

    def send(self, recording: Recording) -> None:
        self._recording = recording
        with contextlib.suppress(OSError):  # the worker has died; the next `receive` reports it
            self.connection.send(recording)

    def receive(self) -> Outcome | None:
        """Waits for the next message: None when the worker has started, else the outcome of its recording."""
        recording, self._recording = self._recording, None
        try:
            message = self.connection.recv()
        except (EOFError, OSError):
            self._process.join()
            self.ended = _describe_exit(self._process.exitcode or 0)
            if recording is None:
                return None
            self._task.discard_parts(recording)
            return Outcome(recording, error=f"its worker {self.ended}")
        if message == _STARTED:
            self.started = True
            return None
        if recording is None:
            raise ValueError(message)
        return Outcome(recording, *message)

    def close(self) -> None:
        """Ends the worker immediately."""
        self._process.terminate()
        self._process.join()
        self.connection.close()
        if self._recording is not None:
            self._task.discard_parts(self._recording)


def _describe_exit(exit_code: int) -> str:
    if exit_code >= 0:
        return f"ended with status {exit_code}"
    with contextlib.suppress(ValueError):
        name = signal.Signals(-exit_code).name
        return f"was killed by {name}" + (", perhaps out of memory" if name == "SIGKILL" else "")
    return f"was killed by signal {-exit_code}"


def _work(connection: Connection, task: Task, parent: int, warns: bool) -> None:
    """The worker's main function; returns when its parent has ended."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # for systems where the setting is not inherited
    if not warns:
        silence_libraries()
    try:
        recognizer = task.recognizer()
    except Exception as error:
        is_known = isinstance(error, (ValueError, MemoryError))
        connection.send(explained(error) if is_known else f"{type(error).__name__}: {error}")
        return
    silence_libraries()
    with contextlib.suppress(EOFError, OSError, Stopped):
        connection.send(_STARTED)
        while True:
            recording = connection.recv()
            done, message = Done(0.0), ""
            try:
                done = task.do(recognizer, recording, lambda: os.getppid() != parent)
            except Stopped:
                raise
            except Exception as error:
                message = error_line(error)
            connection.send((done, message))


def error_line(error: Exception) -> str:
    """The message of an exception, on one line."""
    if isinstance(error, StreamFailed) and isinstance(error.__cause__, (ModelError, MemoryError)):
        error = error.__cause__
    if isinstance(error, OSError) and error.strerror:
        return f"cannot write {error.filename or 'its text'}: {error.strerror}"
    if isinstance(error, (ValueError, MemoryError)):
        return " ".join(explained(error).split())
    return f"{type(error).__name__}: {error}"
