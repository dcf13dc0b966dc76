"""The server's scheduler: many streams on few threads, each with the results that it has alone."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

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


class FakeClock:
    """Advances only when a test says so."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


@dataclass
class Turns:
    """Runs clients on one thread of a scheduler; records in `runs` which of them each run of a network was for."""

    scheduler: Scheduler
    clients: dict[str, Client]
    runs: list[list[str]] = field(default_factory=list)

    def start(self, monkeypatch: pytest.MonkeyPatch, on_run: Callable[[list[str]], None] = lambda names: None) -> None:
        names = {id(client.job.stream): name for name, client in self.clients.items()}

        def compute(batch: list[Work], original=scheduler_module.compute) -> None:
            self.runs.append([names[id(work.stream)] for work in batch])
            on_run(self.runs[-1])
            original(batch)

        monkeypatch.setattr(scheduler_module, "compute", compute)

    def submit(self, name: str, audio: np.ndarray) -> None:
        self.scheduler.submit(self.clients[name].job, lambda stream: stream.accept_waveform(audio), len(audio) / 16000)

    def wait(self) -> None:
        for client in self.clients.values():
            client.wait(1)
        self.scheduler.close()


def test_a_live_turn_overtakes_uploads(
    recognizer: Recognizer, sample: np.ndarray, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also one that comes while uploads are computed."""
    scheduler = Scheduler(num_threads=1, clock=FakeClock())
    uploads = [f"upload {i}" for i in range(4)]
    clients = {name: Client(recognizer, is_upload=True) for name in uploads}
    turns = Turns(scheduler, clients | {"live": Client(recognizer), "late": Client(recognizer)})

    def come(names: list[str]) -> None:
        if len(turns.runs) == 6:
            turns.submit("late", sample[:32000])

    turns.start(monkeypatch, come)
    gate = Gate(scheduler, recognizer)
    for name in [*uploads, "live"]:
        turns.submit(name, sample[:32000])
    gate.open()
    turns.wait()
    order = ["/".join(names) for names in turns.runs]
    assert order[:5].count("live") == 5, "six chunks of 320 ms need a run each"
    late = order.index("late")
    assert late == 6 and set(order[late : late + 5]) == {"late"}
    assert all(any(name in run for run in order[late + 5 :]) for name in uploads)


def test_a_turn_of_uploads_is_short(
    recognizer: Recognizer, sample: np.ndarray, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As many are computed together as fit into the time of a turn; live streams have no such limit."""
    clock = FakeClock()
    scheduler = Scheduler(num_threads=1, max_batch=32, clock=clock)
    uploads = [f"upload {i}" for i in range(9)]
    clients = {name: Client(recognizer, is_upload=True) for name in uploads}
    lives = [f"live {i}" for i in range(9)]
    turns = Turns(scheduler, clients | {name: Client(recognizer) for name in lives})
    each_s = scheduler_module.UPLOAD_TURN_S / 3.5
    turns.start(monkeypatch, lambda names: setattr(clock, "now", clock.now + each_s * len(names)))
    gate = Gate(scheduler, recognizer)
    for name in [*uploads, *lives]:
        turns.submit(name, sample[:32000])
    gate.open()
    turns.wait()
    of_uploads = [len(names) for names in turns.runs if names[0] in uploads]
    of_lives = [len(names) for names in turns.runs if names[0] in lives]
    assert of_uploads[0] == 1 and max(of_uploads) == 3, "the first one is measured"
    assert of_lives[0] == 9


def test_uploads_do_not_starve(recognizer: Recognizer, sample: np.ndarray, monkeypatch: pytest.MonkeyPatch) -> None:
    """Live streams that need all of the time leave them a turn a second."""
    clock = FakeClock()
    scheduler = Scheduler(num_threads=1, max_batch=1, clock=clock)
    clients = {name: Client(recognizer, is_upload=True) for name in ("upload 0", "upload 1")}
    turns = Turns(scheduler, clients | {"live 0": Client(recognizer), "live 1": Client(recognizer)})
    turn_s = scheduler_module.UPLOAD_WAIT_S / 4
    turns.start(monkeypatch, lambda names: setattr(clock, "now", clock.now + turn_s))
    gate = Gate(scheduler, recognizer)
    for name in turns.clients:
        turns.submit(name, sample[:64000])
    gate.open()
    turns.wait()
    order = [names[0][:-2] for names in turns.runs]
    last_live = len(order) - order[::-1].index("live")
    assert order[:9] == ["live"] * 8 + ["upload"], "their first turn takes the audio"
    while_live = [place for place, name in enumerate(order[:last_live]) if name == "upload"]
    assert len(while_live) > 3 and set(np.diff(while_live)) == {4}
    assert {turns.runs[place][0] for place in while_live} == {"upload 0", "upload 1"}


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
