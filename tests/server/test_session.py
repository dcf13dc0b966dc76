"""The server's sessions: coalesced events, audio that waits, changed options, failures and the server's end."""

from __future__ import annotations

import asyncio
import itertools
import threading

import numpy as np
import pytest
from support.recognition import finals, recognize
from support.scheduling import WAIT_S, Gate, running

from asr import Recognizer
from asr.runtime.onnx_model import bundled_model
from asr.streaming import Event, Final, Gap, Stream
from asr.streaming.resampler import SAMPLE_RATE
from asr.streaming.server import scheduler as scheduler_module
from asr.streaming.server.scheduler import Job, Report, Scheduler
from asr.streaming.server.security.limits import Limits
from asr.streaming.server.server import Refused, Server
from asr.streaming.server.session import MAX_HELD, MAX_QUEUED, Session, SessionFailed


@pytest.fixture(scope="module")
def recognizer() -> Recognizer:
    return Recognizer(bundled_model("float32"), search="greedy", chunk_ms=320, text="plain")


def test_partials_are_coalesced_and_finals_never(recognizer: Recognizer, conversation: np.ndarray) -> None:
    async def run() -> tuple[list[Event], list[Event]]:
        async with running(recognizer) as server, server.open("test") as session:
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
        async with running(recognizer) as server, server.open("test") as session:
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

        async with running(recognizer) as server, server.open("test") as session:
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
        async with running(recognizer, num_threads=1) as server, server.open("test") as session:
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
        async with running(recognizer, num_threads=1) as server, server.open("test") as session:
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
        async with running(recognizer, limits, num_threads=1) as server, server.open("test") as session:
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
        async with running(recognizer, num_threads=1) as server, server.open("test") as session:
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
        async with running(recognizer, num_threads=1) as server, server.open("test") as session:
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
        with pytest.raises(Refused, match="shutting down"):
            async with server.open("five"):
                pass

    asyncio.run(run())


def test_a_session_refuses_what_a_stream_refuses(recognizer: Recognizer) -> None:
    async def run() -> None:
        async with running(recognizer) as server, server.open("test") as session:
            with pytest.raises(ValueError, match="expected float32"):
                await session.accept_waveform(np.zeros(10, np.complex64))
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
        async with running(recognizer) as server, server.open("test") as session:
            await run(session)

    asyncio.run(serve())


def test_events_before_a_failure_are_given(recognizer: Recognizer) -> None:
    def break_down(stream: Stream) -> None:
        stream.gap(SAMPLE_RATE)
        stream.not_answered(OSError("broken"))  # nothing is waited for, so the stream fails

    async def run() -> list[Event]:
        events = []
        async with running(recognizer) as server, server.open("test") as session:
            submit = server.scheduler.submit
            server.scheduler.submit = lambda job, *_: submit(job, break_down)  # type: ignore[method-assign]
            await session.end_utterance()
            with pytest.raises(SessionFailed):
                async for event in session.events():
                    events.append(event)
        return events

    assert [type(event) for event in asyncio.run(run())] == [Gap]
