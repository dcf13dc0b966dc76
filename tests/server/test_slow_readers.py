"""Clients that do not read their replies, and other causes that could block the events of a session."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import AsyncIterator
from types import SimpleNamespace
from typing import Any

import pytest
from starlette.websockets import WebSocketDisconnect
from support.connections import Client, with_server
from support.raw_sockets import BINARY, frame
from support.scheduling import running
from support.server import quick_recognizer

from asr import Recognizer
from asr.runtime.search import Word
from asr.streaming import Event, Final
from asr.streaming.server import session as session_module
from asr.streaming.server.protocols import realtime
from asr.streaming.server.protocols.realtime import Connection
from asr.streaming.server.protocols.realtime_items import LONG, Mark
from asr.streaming.server.scheduler import Job, Report
from asr.streaming.server.security.descriptors import OpenConnections
from asr.streaming.server.security.limits import Limits
from asr.streaming.server.session import MAX_QUEUED, SessionFailed

WAIT_S = 60.0
CLEAR = '{"type": "input_audio_buffer.clear"}'
DETAILS = json.dumps(
    {
        "type": "session.update",
        "session": {
            "include": ["item.input_audio_transcription.logprobs"],
            "audio": {"input": {"transcription": {"timestamp_granularities": ["word"]}}},
        },
    }
)
"""Asks for words and logprobs."""


@pytest.fixture(scope="module")
def recognizer() -> Recognizer:
    return quick_recognizer()


# ---- sessions ----


@pytest.fixture
def active_while_queued(monkeypatch: pytest.MonkeyPatch) -> None:
    """A session is active only while it has queued work."""
    monkeypatch.setattr(session_module, "ACTIVE_S", 0.0)


@pytest.mark.usefixtures("active_while_queued")
def test_unread_reports_wait_for_their_reader(recognizer: Recognizer) -> None:
    num_reports = 5 * MAX_QUEUED

    async def run() -> None:
        async with running(recognizer, num_threads=1) as server, server.open("test") as session:
            num_taken = 0

            async def flood() -> None:
                nonlocal num_taken
                for i in range(num_reports):
                    await session.report(Mark("clear", i, i))
                    num_taken += 1
                await session.finish()

            flooding = asyncio.create_task(flood())
            while num_taken < MAX_QUEUED or session.is_active:
                await asyncio.sleep(0.01)
            assert not flooding.done() and num_taken <= 2 * MAX_QUEUED
            events = session.events()
            for i in range(num_reports):
                assert (await asyncio.wait_for(anext(events), WAIT_S)).end == i
            await flooding

    asyncio.run(run())


def test_a_closed_session_keeps_its_reason(recognizer: Recognizer) -> None:
    async def run() -> None:
        async with running(recognizer, num_threads=1) as server, server.open("test") as session:
            jobs: list[Job] = []
            server.scheduler.submit = lambda job, *_: jobs.append(job)  # type: ignore[method-assign]
            await session.end_utterance()
            session.close("the server ends")
            jobs[0].report(Report([], 0, 0.0, True, 0.0))
            await asyncio.sleep(0)
            with pytest.raises(SessionFailed, match="the server ends"):
                await session.settle()

    asyncio.run(run())


# ---- the Realtime protocol ----


def words(count: int) -> tuple[Word, ...]:
    return tuple(Word("WORD", i, i + 1, 0.5) for i in range(count))


class Page:
    """A client that sends CLEAR forever and reads `num_read` messages, then is gone."""

    def __init__(self, num_read: int) -> None:
        self.num_read = num_read
        self.num_sent = 0
        self.gone = asyncio.Event()
        self.connected = True

    async def messages(self) -> AsyncIterator[str]:
        while True:
            self.num_sent += 1
            yield CLEAR

    async def send(self, text: str) -> None:
        self.num_read -= 1
        if self.num_read < 0:
            await self.gone.wait()
            self.connected = False
            raise WebSocketDisconnect


@pytest.mark.usefixtures("active_while_queued")
def test_departed_client_ends_a_waiting_session(recognizer: Recognizer) -> None:
    """The client has stopped reading, so the server has stopped reading from it."""

    async def run() -> None:
        async with running(recognizer, num_threads=1) as server, server.open("test") as session:
            page: Any = Page(num_read=10)
            serving = asyncio.create_task(Connection(page, session, "", old_form=False).run())
            while page.num_read >= 0 or session.is_active:
                await asyncio.sleep(0.01)
                assert page.num_sent < 2 * MAX_QUEUED and not serving.done()
            page.gone.set()
            await asyncio.wait_for(serving, WAIT_S)

    asyncio.run(run())


def test_a_long_item_ends_on_a_thread(recognizer: Recognizer, monkeypatch: pytest.MonkeyPatch) -> None:
    """It must also be encoded in pieces, so that the event loop can take the GIL in between."""
    num_words = 100 * LONG
    threads: list[int] = []
    longest = 0

    def dumps(value: Any, original: Any = json.dumps) -> str:
        nonlocal longest
        text: str = original(value)
        threads.append(threading.get_ident())
        longest = max(longest, len(text))
        return text

    monkeypatch.setattr(realtime.json, "dumps", dumps)
    sent: list[dict[str, Any]] = []

    async def send(text: str) -> None:
        sent.append(json.loads(text))

    configured = asyncio.Event()

    async def messages() -> AsyncIterator[str]:
        yield DETAILS
        configured.set()

    async def events() -> AsyncIterator[Event]:
        await configured.wait()
        yield Final("", 0.0, 1.0, words(LONG - 1))
        assert set(threads) == {threading.get_ident()}, "short ones are not worth a thread"
        yield Final("", 0.0, 1.0, words(num_words - LONG + 1))
        threads.clear()
        yield Mark("commit", 1.0, 1.0)
        assert threads and threading.get_ident() not in threads

    async def run() -> None:
        async def done(*_: object, **changes: object) -> None: ...

        session: Any = SimpleNamespace(id="1", recognizer=recognizer, events=events, audio_s=1.0, close=lambda: None)
        session.change = session.report = session.finish = done
        client: Any = SimpleNamespace(
            send=send, messages=messages, connected=True, close=done, close_code=1000, why_ended=""
        )
        await Connection(client, session, "gpt-realtime-whisper", old_form=False).run()

    asyncio.run(run())
    last = sent[-1]
    assert len(last["words"]) == len(last["logprobs"]) == num_words and last["type"].endswith("completed")
    assert longest < 10 * num_words


# ---- connections ----


def test_what_follows_a_close_frame_is_discarded() -> None:
    """It must not count as unread, because that would stop reading from all other clients."""
    connections = OpenConnections(Limits(), lambda: None)
    num_received = 0
    num_unread = set()

    async def close(scope: dict[str, Any], receive: Any, send: Any) -> None:
        await receive()
        await send({"type": "websocket.accept"})
        await send({"type": "websocket.close", "code": 1000})

    def adapt(config: Any) -> None:
        config.app = close
        config.load()
        protocol = config.ws_protocol_class

        def data_received(self: Any, data: bytes, original: Any = protocol.data_received) -> None:
            nonlocal num_received
            original(self, data)
            num_received += len(data)
            num_unread.add(connections.unread.num_bytes)

        protocol.data_received = data_received

    async def talk(client: Client) -> None:
        assert (await client.frames())[0][0] == 8
        client.writer.write(10 * frame(BINARY, bytes(60000)))
        while num_received < 600000:
            await asyncio.sleep(0.001)

    with_server(talk, adapt=adapt, connections=connections)
    assert num_unread == {0}
