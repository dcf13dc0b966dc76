"""The server's scheduler and sessions: many streams on few threads, each with the results that it has alone."""

from __future__ import annotations

import asyncio
import copy
import dataclasses
import itertools
import threading
from collections.abc import Iterator

import numpy as np
import pytest
from support.recognition import finals, recognize

from asr import Recognizer
from asr.runtime.onnx_model import bundled_model
from asr.streaming import Event, Final, Gap, Partial, Stream
from asr.streaming.resampler import SAMPLE_RATE
from asr.streaming.server import scheduler as scheduler_module
from asr.streaming.server.scheduler import Job, Report, Scheduler
from asr.streaming.server.security.limits import Limits
from asr.streaming.server.server import Refused, Server
from asr.streaming.server.session import MAX_HELD, MAX_QUEUED, Session, SessionFailed
from asr.streaming.work import Work

WAIT_S = 60.0


@pytest.fixture(scope="module")
def recognizer() -> Recognizer:
    return Recognizer(bundled_model("float32"), search="greedy", chunk_ms=320, text="plain")


@pytest.fixture
def scheduler() -> Iterator[Scheduler]:
    scheduler = Scheduler(num_threads=2, max_batch=8)
    yield scheduler
    scheduler.close()


class Client:
    """Collects the reports of a job."""

    def __init__(self, recognizer: Recognizer) -> None:
        self.events: list[Event] = []
        self.num_done = 0
        self.done_s = 0.0
        self.failed = False
        self.changed = threading.Condition()
        self.job = Job(recognizer, self.report)

    def report(self, report: Report) -> None:
        with self.changed:
            self.events += report.events
            self.num_done += report.num_done
            self.done_s += report.done_s
            self.failed |= report.failed
            self.changed.notify_all()

    def wait(self, num_done: int) -> None:
        with self.changed:
            assert self.changed.wait_for(lambda: self.num_done >= num_done or self.failed, WAIT_S)


class Gate:
    """Blocks a thread of the scheduler until it is opened."""

    def __init__(self, scheduler: Scheduler, recognizer: Recognizer) -> None:
        self._open = threading.Event()
        self._reached = threading.Event()
        self._client = Client(recognizer)
        scheduler.submit(self._client.job, self._hold)
        assert self._reached.wait(WAIT_S)

    def _hold(self, stream: object) -> None:
        self._reached.set()
        self._open.wait(WAIT_S)

    def open(self) -> None:
        self._open.set()


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


def test_streams_run_alone_if_batches_change_results(recognizer: Recognizer, sample: np.ndarray) -> None:
    model = copy.copy(recognizer.onnx)
    model.metadata = dataclasses.replace(model.metadata, batch_invariant=False)
    other = recognizer.with_options(model=model)
    scheduler = Scheduler(num_threads=1, max_batch=8)
    submit_together(scheduler, [other] * 3, sample[:20000])
    scheduler.close()
    assert scheduler.num_runs == scheduler.num_served > 3


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
        batches.append([segment.work.num_frames for segment in segments])
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


def test_a_session_gives_the_events_of_a_stream(recognizer: Recognizer, conversation: np.ndarray) -> None:
    async def run() -> list[Event]:
        async with Server(recognizer) as server, server.open("test") as session:
            for piece in np.array_split(conversation, 50):
                await session.accept_waveform(piece)
            await session.finish()
            events = [event async for event in session.events()]
            assert session.audio_s == pytest.approx(len(conversation) / SAMPLE_RATE)
        return events

    alone = [event for event in recognize(recognizer, conversation) if not isinstance(event, Partial)]
    assert [e.text for e in asyncio.run(run()) if not isinstance(e, Partial)] == [e.text for e in alone] != []


def test_partials_are_coalesced_and_finals_never(recognizer: Recognizer, conversation: np.ndarray) -> None:
    async def run() -> tuple[list[Event], list[Event]]:
        async with Server(recognizer) as server, server.open("test") as session:
            await session.accept_waveform(conversation[:24000])
            first = await session.settle()
            await session.accept_waveform(conversation[24000:])
            await session.finish()
            rest = await session.settle()
        return first, rest

    first, rest = asyncio.run(run())
    alone = recognize(recognizer, conversation)
    assert [event.type for event in first] == ["partial"]
    assert [e.text for e in rest if e.type == "final"] == [e.text for e in alone if e.type == "final"]
    assert len(rest) < len(alone) - 5
    assert all(b.type not in ("partial", "final") for a, b in itertools.pairwise(rest) if a.type == "partial")


def test_error_does_not_take_back_a_partial(recognizer: Recognizer, sample: np.ndarray) -> None:
    audio = sample[:24000].astype(np.float32) / 32768
    audio[19000] = np.nan

    async def run() -> list[str]:
        async with Server(recognizer) as server, server.open("test") as session:
            await session.accept_waveform(audio)
            return [event.type for event in await session.settle()]

    assert asyncio.run(run()) == ["partial", "error"]


@pytest.mark.parametrize("sample_rate", [16000, 24000])
def test_short_pieces_take_few_turns_without_delay(
    recognizer: Recognizer, sample: np.ndarray, sample_rate: int
) -> None:
    pieces = np.array_split(sample[:48000], 300)

    def texts(events: list[Event]) -> list[str]:
        """Without a partial before a final: the session omits it if both are available."""
        following = [*(event.type for event in events[1:]), ""]
        return [e.text for e, after in zip(events, following, strict=False) if (e.type, after) != ("partial", "final")]

    async def run() -> tuple[list[list[str]], int]:
        num_turns = 0

        def submit(*args: object, original=Scheduler.submit) -> None:
            nonlocal num_turns
            num_turns += 1
            original(server.scheduler, *args)

        async with Server(recognizer) as server, server.open("test") as session:
            server.scheduler.submit = submit
            answers = []
            for index, piece in enumerate(pieces):
                await session.accept_waveform(piece, sample_rate)
                answers.append(texts(await session.settle()))
                if index == 100:
                    await session.end_utterance()
            return answers, num_turns

    stream, expected = recognizer.stream(), []
    for index, piece in enumerate(pieces):
        stream.accept_waveform(piece, sample_rate)
        expected.append(texts(stream.events()))
        if index == 100:
            stream.end_utterance()
    answers, num_turns = asyncio.run(run())
    assert answers == expected and sum(map(len, answers)) >= 5
    assert num_turns < 30


def test_pieces_are_held_only_when_nothing_else_waits(recognizer: Recognizer, sample: np.ndarray) -> None:
    """The reported number of missing samples is outdated if more audio has been queued since."""

    async def run() -> None:
        async with Server(recognizer, num_threads=1) as server, server.open("test") as session:
            jobs: list[Job] = []
            server.scheduler.submit = lambda job, *_: jobs.append(job)  # type: ignore[method-assign]
            for _ in range(2):
                await session.end_utterance()
            jobs[0].report(Report([], 1, 0.0, False, 5.0))
            await asyncio.sleep(0)
            await session.accept_waveform(sample[:160])
            assert len(jobs) == 3

    asyncio.run(run())


def test_empty_pieces_are_not_held_without_end(
    recognizer: Recognizer, sample: np.ndarray, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They never complete a chunk."""
    submitted = []

    async def run() -> None:
        async with Server(recognizer, num_threads=1) as server, server.open("test") as session:
            await session.accept_waveform(sample[:160])
            await session.settle()
            monkeypatch.setattr(server.scheduler, "submit", lambda *call: submitted.append(call))
            for _ in range(MAX_HELD):
                await session.accept_waveform(np.zeros(0, np.int16))

    asyncio.run(run())
    assert len(submitted) == 1


async def iterations() -> None:
    """Enough of the loop's iterations for everything that needs no recognition."""
    for _ in range(10 * MAX_QUEUED):
        await asyncio.sleep(0)


def test_audio_waits_while_too_much_is_queued(recognizer: Recognizer, sample: np.ndarray) -> None:
    async def run() -> None:
        limits = Limits(max_queued_s=1.0)
        async with Server(recognizer, limits, num_threads=1) as server, server.open("test") as session:
            gate = await asyncio.to_thread(Gate, server.scheduler, recognizer)
            await session.accept_waveform(sample[:17000])
            pushing = asyncio.create_task(session.accept_waveform(sample[:1000]))
            await iterations()
            assert not pushing.done()
            gate.open()
            await asyncio.wait_for(pushing, WAIT_S)

    asyncio.run(run())


def test_options_change_when_earlier_audio_is_recognized(recognizer: Recognizer, sample: np.ndarray) -> None:
    """A client that keeps changing them has few recognizers."""

    async def run() -> None:
        async with Server(recognizer, num_threads=1) as server, server.open("test") as session:
            gate = await asyncio.to_thread(Gate, server.scheduler, recognizer)
            await session.accept_waveform(sample[:1000])
            changing = asyncio.create_task(session.change(text="formatted"))
            await iterations()
            assert session.recognizer is recognizer
            gate.open()
            await asyncio.wait_for(changing, WAIT_S)
            assert session.recognizer.text == "formatted"

    asyncio.run(run())


def test_pieces_wait_while_too_many_are_queued(recognizer: Recognizer) -> None:
    """However short the pieces are, because each message takes more memory than its samples."""

    async def run() -> None:
        async with Server(recognizer, num_threads=1) as server, server.open("test") as session:
            gate = await asyncio.to_thread(Gate, server.scheduler, recognizer)

            async def flood() -> None:
                for _ in range(MAX_QUEUED):
                    await session.accept_waveform(np.zeros(1, np.int16))
                await session.end_utterance()

            flooding = asyncio.create_task(flood())
            await iterations()
            assert not flooding.done() and session.audio_s == pytest.approx(MAX_QUEUED / SAMPLE_RATE)
            gate.open()
            await asyncio.wait_for(flooding, WAIT_S)

    asyncio.run(run())


def test_sessions_are_counted_and_refused(recognizer: Recognizer) -> None:
    async def run() -> None:
        server = Server(recognizer, Limits(max_sessions=1), num_threads=1)
        async with server.open("one"):
            with pytest.raises(Refused, match="all 1 streams are taken"):
                async with server.open("two"):
                    pass
        async with server.open("three"):
            metrics = server.metrics.text().decode()
        assert 'asr_stream_refused_total{reason="full"} 1.0' in metrics and "asr_stream_sessions 1.0" in metrics
        with pytest.raises(ValueError, match="chunk_ms"):
            async with server.open("four", chunk_ms=7):
                pass
        assert not server.sessions
        await server.stop()
        with pytest.raises(Refused, match="about to end"):
            async with server.open("five"):
                pass

    asyncio.run(run())


def test_a_session_refuses_what_a_stream_refuses(recognizer: Recognizer) -> None:
    async def run() -> None:
        async with Server(recognizer) as server, server.open("test") as session:
            with pytest.raises(ValueError, match="expected float32"):
                await session.accept_waveform(np.zeros(10))
            with pytest.raises(ValueError, match="sample_rate"):
                await session.accept_waveform(np.zeros(10, np.int16), 5)
            await session.finish()
            await session.finish()
            with pytest.raises(ValueError, match="finished"):
                await session.accept_waveform(np.zeros(10, np.int16))
            assert [event async for event in session.events()] == []

    asyncio.run(run())


def test_waiting_client_gets_an_error_at_shutdown(recognizer: Recognizer, sample: np.ndarray) -> None:
    async def run() -> None:
        server = Server(recognizer, Limits(shutdown_s=0.05), num_threads=1)
        async with server.open("test") as session:
            gate = await asyncio.to_thread(Gate, server.scheduler, recognizer)
            await session.accept_waveform(sample)
            settling, stopping = asyncio.create_task(session.settle()), asyncio.create_task(server.stop())
            with pytest.raises(SessionFailed, match="the server ends before"):
                await asyncio.wait_for(settling, WAIT_S)
            gate.open()
            await stopping

    asyncio.run(run())


def test_late_client_gets_recognized_text_at_shutdown(recognizer: Recognizer, conversation: np.ndarray) -> None:
    """Its queue would take more than half a minute to recognize."""

    async def run() -> list[Event]:
        server = Server(recognizer, Limits(shutdown_s=8.0), num_threads=1)
        async with server.open("test") as session:
            await session.accept_waveform(conversation[:60000])
            await session.settle()
            never = threading.Event()

            def submit(job: Job, call, audio_s: float, original=server.scheduler.submit) -> None:
                original(job, (lambda stream: never.wait(1.0)) if audio_s else call, audio_s)

            server.scheduler.submit = submit  # type: ignore[method-assign]
            for _ in range(40):
                await session.accept_waveform(conversation[:6400])
            await session.finish()
            stopping = asyncio.create_task(server.stop())
            events = [event async for event in session.events()]
        await stopping
        return events

    (final,) = [event for event in asyncio.run(run()) if isinstance(event, Final)]
    assert final.raw == finals(recognize(recognizer, conversation[:60000]))


def test_a_session_that_failed_reports_it(recognizer: Recognizer, sample: np.ndarray, monkeypatch) -> None:
    def fail(segments: object) -> None:
        raise RuntimeError("out of memory")

    monkeypatch.setattr(scheduler_module, "compute", fail)

    async def run(session: Session) -> None:
        await session.accept_waveform(sample)
        with pytest.raises(SessionFailed):
            await asyncio.wait_for(session.settle(), WAIT_S)
        with pytest.raises(SessionFailed):
            await session.accept_waveform(sample)

    async def serve() -> None:
        async with Server(recognizer) as server, server.open("test") as session:
            await run(session)

    asyncio.run(serve())


def test_events_before_a_failure_are_given(recognizer: Recognizer) -> None:
    def break_down(stream: Stream) -> None:
        stream.gap(SAMPLE_RATE)
        stream.fail(OSError("broken"))

    async def run() -> list[Event]:
        events = []
        async with Server(recognizer) as server, server.open("test") as session:
            submit = server.scheduler.submit
            server.scheduler.submit = lambda job, *_: submit(job, break_down)  # type: ignore[method-assign]
            await session.end_utterance()
            with pytest.raises(SessionFailed):
                async for event in session.events():
                    events.append(event)
        return events

    assert [type(event) for event in asyncio.run(run())] == [Gap]


@pytest.mark.parametrize(("name", "value"), [("max_sessions", 0), ("idle_s", float("inf")), ("max_batch", True)])
def test_limits_have_limits(name: str, value: float) -> None:
    with pytest.raises(ValueError, match=f"{name} is {value}"):
        Limits(**{name: value})
