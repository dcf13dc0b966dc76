"""Timeouts of a session: events that interrupt reading from a client, and events that do not."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest

from asr.streaming.server.security.limits import Limits
from asr.streaming.server.security.timeouts import MESSAGES_PER_TURN, SessionTimeouts


class Talk:
    """Reads a client of queued messages, each handled for `handling_s`."""

    def __init__(self, handling_s: float = 0.0, **limits: float) -> None:
        self.server: Any = SimpleNamespace(limits=Limits(**limits), stopping=asyncio.Event())
        self.queue: asyncio.Queue[int | None] = asyncio.Queue()
        self.timeouts = SessionTimeouts(self.server)
        self.handling_s = handling_s
        self.read: list[int] = []

    async def run(self) -> str:
        async for message in self.timeouts.messages(self.queue.get):
            self.read.append(message)
            await asyncio.sleep(self.handling_s)
        return self.timeouts.why_ended


def test_queued_messages_leave_others_their_turn() -> None:
    async def talk() -> None:
        client, turns = Talk(), 0
        for message in (*range(20 * MESSAGES_PER_TURN), None):
            client.queue.put_nowait(message)

        async def other() -> None:
            nonlocal turns
            while True:
                turns += 1
                await asyncio.sleep(0)

        running = asyncio.create_task(other())
        assert [message async for message in client.timeouts.messages(client.queue.get)][-1] == 319
        assert turns >= 20
        running.cancel()

    asyncio.run(talk())


def test_only_pausing_clients_reach_the_idle_limit() -> None:
    async def talk() -> Talk:
        client = Talk(handling_s=0.15, idle_s=0.1)  # each message takes longer than the client may pause
        for message in range(3):
            client.queue.put_nowait(message)
        assert await client.run() == "no data arrived for 0.1 s"
        return client

    assert asyncio.run(talk()).read == [0, 1, 2]


def test_client_without_pauses_ends_at_its_limit() -> None:
    async def talk() -> None:
        client = Talk(handling_s=0.01, max_session_s=0.1)
        for message in range(1000):  # reading never waits
            client.queue.put_nowait(message)
        assert await client.run() == "the session has lasted 0.1 s, the longest that is allowed"
        assert 0 < len(client.read) < 1000

    asyncio.run(talk())


def test_a_silent_client_ends_with_its_time() -> None:
    """The time limit may be shorter than the permitted pause."""

    async def talk() -> None:
        client = Talk(max_session_s=0.1, idle_s=3600.0)
        why = await asyncio.wait_for(client.run(), 60)
        assert why == "the session has lasted 0.1 s, the longest that is allowed"

    asyncio.run(talk())


@pytest.mark.parametrize("queued", [0, 3])
def test_stopping_server_interrupts_waiting_and_reads_no_more(queued: int) -> None:
    async def talk() -> None:
        client = Talk(handling_s=0.05)
        for message in range(queued):
            client.queue.put_nowait(message)
        asyncio.get_running_loop().call_later(0.01, client.server.stopping.set)
        assert await client.run() == "the server is shutting down; connect again"
        assert client.read == list(range(min(queued, 1)))
        await asyncio.sleep(0)  # the task continues: the interruption is cleared

    asyncio.run(talk())


def test_who_cancels_the_session_is_obeyed() -> None:
    async def talk() -> None:
        client = Talk()
        task = asyncio.create_task(client.run())
        await asyncio.sleep(0.01)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        await asyncio.sleep(0)
        assert len(asyncio.all_tasks()) == 1  # nothing is still waiting

    asyncio.run(talk())
