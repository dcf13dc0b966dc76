"""The server's scheduler: many streams on few threads, each with the results that it has alone."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import numpy as np
import pytest
from support.recognition import finals, recognize
from support.scheduling import WAIT_S, Client, Gate

from asr import Recognizer
from asr.options import flag
from asr.runtime.onnx_model import bundled_model
from asr.streaming.server import scheduler as scheduler_module
from asr.streaming.server.scheduler import Job, Report, Scheduler
from asr.streaming.server.security.limits import Limits
from asr.streaming.work import Work


@pytest.fixture(scope="module")
def recognizer() -> Recognizer:
    return Recognizer(bundled_model("float32"), search="greedy", chunk_ms=320, text="plain")


@pytest.fixture
def scheduler() -> Iterator[Scheduler]:
    scheduler = Scheduler(num_threads=2, max_batch=8)
    yield scheduler
    scheduler.close()


def submit_together(scheduler: Scheduler, recognizers: list[Recognizer], audio: np.ndarray) -> None:
    """Starts a stream of each recognizer, with all of them waiting before the first one runs. Returns when all are
    done."""
    gate = Gate(scheduler, recognizers[0])
    clients = [Client(recognizer) for recognizer in recognizers]
    for client in clients:
        scheduler.submit(client.job, lambda stream: stream.accept_waveform(audio))
    gate.open()
    for client in clients:
        client.wait(1)


def test_streams_that_came_together_are_run_together(recognizer: Recognizer, sample: np.ndarray) -> None:
    scheduler = Scheduler(num_threads=1, max_batch=8)
    gate = Gate(scheduler, recognizer)
    clients = [Client(recognizer) for _ in range(12)]
    for index, client in enumerate(clients):
        for piece in np.array_split(sample[1000 * index :], 5):
            scheduler.submit(client.job, lambda stream, piece=piece: stream.accept_waveform(piece), len(piece) / 16000)
        scheduler.submit(client.job, lambda stream: stream.finish())
    gate.open()
    for client in clients:
        client.wait(6)
    scheduler.close()
    assert scheduler.num_runs < scheduler.num_served / 3
    for index, client in enumerate(clients):
        audio = sample[1000 * index :]
        assert finals(client.events) == finals(recognize(recognizer, audio)) != ""
        assert client.done_s == pytest.approx(len(audio) / 16000)


def test_streams_take_turns_in_order_of_arrival(
    recognizer: Recognizer, sample: np.ndarray, monkeypatch: pytest.MonkeyPatch
) -> None:
    scheduler, turns = Scheduler(num_threads=1, max_batch=1), []
    clients = [Client(recognizer) for _ in range(4)]
    streams = [client.job.stream for client in clients]

    def compute(batch: list[Work], original=scheduler_module.compute) -> None:
        turns.append(streams.index(batch[0].stream))
        original(batch)

    monkeypatch.setattr(scheduler_module, "compute", compute)
    gate = Gate(scheduler, recognizer)
    for client in clients:
        scheduler.submit(client.job, lambda stream: stream.accept_waveform(sample[:32000]))
    gate.open()
    for client in clients:
        client.wait(1)
    scheduler.close()
    assert len(turns) > 16 and turns == [0, 1, 2, 3] * (len(turns) // 4)


def test_audio_is_wanted_only_after_recognition_of_earlier(
    scheduler: Scheduler, recognizer: Recognizer, sample: np.ndarray
) -> None:
    reports: list[Report] = []
    done = threading.Event()

    def report(report: Report) -> None:
        reports.append(report)
        if report.num_done:
            done.set()

    scheduler.submit(Job(recognizer, report), lambda stream: stream.accept_waveform(sample[:50000]))
    assert done.wait(WAIT_S)
    assert len(reports) > 2 and reports[-1].wanted_s > 0
    assert {report.wanted_s for report in reports[:-1]} == {0.0}


def test_streams_of_two_left_contexts_are_run_apart(recognizer: Recognizer, sample: np.ndarray) -> None:
    scheduler = Scheduler(num_threads=1, max_batch=8)
    other = recognizer.with_options(left_context_ms=640)
    gate = Gate(scheduler, recognizer)
    clients = {options: Client(options) for options in (recognizer, other)}
    for client in clients.values():
        scheduler.submit(client.job, lambda stream: stream.accept_waveform(sample))
        scheduler.submit(client.job, lambda stream: stream.finish())
    gate.open()
    for options, client in clients.items():
        client.wait(2)
        assert not client.failed and finals(client.events) == finals(recognize(options, sample))
    scheduler.close()


def test_batches_have_a_limit_and_one_kind(recognizer: Recognizer, sample: np.ndarray, monkeypatch) -> None:
    batches: list[list[int]] = []

    def compute(segments, original=scheduler_module.compute):
        batches.append([segment.inputs["x"].shape[1] for segment in segments])
        original(segments)

    monkeypatch.setattr(scheduler_module, "compute", compute)
    scheduler = Scheduler(num_threads=1, max_batch=2)
    submit_together(scheduler, [*[recognizer] * 3, recognizer.with_options(chunk_ms=160)], sample[:16000])
    scheduler.close()
    assert {len(batch) for batch in batches} == {1, 2} and all(len(set(batch)) == 1 for batch in batches)


@pytest.mark.parametrize("where", ["in a call", "in its events"])
def test_a_stream_that_breaks_takes_no_other_along(recognizer: Recognizer, sample: np.ndarray, where: str) -> None:
    """The only thread must also survive."""
    scheduler = Scheduler(num_threads=1)
    broken, sound = Client(recognizer), Client(recognizer)

    def fail(stream: object = None) -> None:
        raise OSError("broken")

    if where == "in its events":
        broken.job.stream.events = fail  # type: ignore[method-assign]
    scheduler.submit(broken.job, fail if where == "in a call" else lambda stream: stream.end_utterance())
    scheduler.submit(sound.job, lambda stream: stream.accept_waveform(sample))
    scheduler.submit(sound.job, lambda stream: stream.finish())
    broken.wait(1)
    sound.wait(2)
    scheduler.close()
    assert broken.failed and not sound.failed and finals(sound.events) == finals(recognize(recognizer, sample))


def test_a_dropped_stream_is_done_with(scheduler: Scheduler, recognizer: Recognizer, sample: np.ndarray) -> None:
    gates = [Gate(scheduler, recognizer), Gate(scheduler, recognizer)]
    dropped, other = Client(recognizer), Client(recognizer)
    for client in (dropped, other):
        scheduler.submit(client.job, lambda stream: stream.accept_waveform(sample))
    scheduler.drop(dropped.job)
    assert not dropped.job.queued, "its audio is not kept"
    for gate in gates:
        gate.open()
    other.wait(1)
    assert dropped.num_done == 0 and dropped.events == []


@pytest.mark.parametrize(("name", "value"), [("max_sessions", 0), ("idle_s", float("inf")), ("max_batch", True)])
def test_limits_have_limits(name: str, value: float) -> None:
    with pytest.raises(ValueError, match=f"{flag(name)} is {value}"):
        Limits(**{name: value})
