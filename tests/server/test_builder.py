"""Recognizers with a client's options: unusable hotwords, and clients that change options repeatedly."""

from __future__ import annotations

import asyncio
import threading

import pytest
from support.scheduling import WAIT_S, running

from asr import Recognizer
from asr.streaming.server.builder import Builder, BuilderClosed, Spent
from asr.streaming.server.protocols.common import (
    MAX_KEYWORD_LENGTH,
    MAX_KEYWORD_LETTERS,
    MAX_KEYWORDS,
    keywords_within_limits,
    warnings_about,
)
from asr.streaming.server.security.limits import Limits
from asr.streaming.server.server import Refused, Server
from asr.streaming.server.session import SessionFailed

BAD = ("Bertie:0", ":2", "C3PO", "Straße", "Bertie:21")
GOOD = ("walked", "O'Brien", "O’Brien", "Leighton:2", "Abbey Road", "Leighton")


def build(recognizer: Recognizer, **changes: object) -> Recognizer:
    async def run() -> Recognizer:
        builder = Builder()
        try:
            return await builder.build(recognizer, Spent(), **changes)
        finally:
            builder.close()

    return asyncio.run(run())


@pytest.mark.parametrize("bad", BAD)
def test_one_bad_hotword_costs_no_other(recognizer: Recognizer, bad: str) -> None:
    words = (*GOOD[:3], bad, *GOOD[3:])
    used = build(recognizer, hotwords=words).hotwords
    assert used == GOOD
    assert warnings_about(words, used) == [
        f"keywords that this model or its search cannot use are left out: {bad!r}",
    ]
    assert warnings_about(GOOD, used) == []


def test_all_hotwords_are_used_or_none(recognizer: Recognizer) -> None:
    assert build(recognizer, hotwords=GOOD).hotwords == GOOD
    assert build(recognizer, hotwords=BAD).hotwords == ()
    for search in ("greedy", "joint"):
        without = recognizer.with_options(search=search)
        assert build(without, hotwords=GOOD).hotwords == ()
        assert build(without, hotwords=GOOD, search="beam").hotwords == GOOD
    assert build(recognizer, hotwords=GOOD, phrases=["go"], search="beam").hotwords == ()


def test_unpronounceable_hotword_costs_no_other() -> None:
    """With the bundled model, which finds words by their phones."""
    unspeakable = "AHTVZSZLSAHDIRDHAJNDNXZNAJJTADQLQRXXOOONARISDQHOVKLRKVSNSLQQNOEIAEDNJSDSTTERERSLSLAEJVKJVQIU"
    assert build(Recognizer(), hotwords=("Phronsie", unspeakable, "O’Brien")).hotwords == ("Phronsie", "O’Brien")


def test_equal_options_build_nothing_and_errors_are_raised(recognizer: Recognizer) -> None:
    assert build(recognizer, text=recognizer.text, search=recognizer.search) is recognizer
    for changes in ({"silence_after_speech_s": -1.0}, {"chunk_ms": 7, "hotwords": GOOD}):
        with pytest.raises(ValueError, match=r"silence_after_speech_s|chunk_ms"):
            build(recognizer, **changes)


def test_a_server_ends_before_queued_changes(recognizer: Recognizer, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its clients are told, in half of the time that sessions have to end."""
    begun, free = threading.Event(), threading.Event()

    def with_options(self: Recognizer, **changes: object) -> Recognizer:
        begun.set()
        free.wait(WAIT_S)
        return recognizer

    monkeypatch.setattr(Recognizer, "with_options", with_options)

    async def change(server: Server) -> None:
        async with server.open("test") as session:
            await session.change(hotwords=GOOD)

    async def run() -> None:
        server = Server(recognizer, num_threads=1, limits=Limits(shutdown_s=0.2))
        changing = [asyncio.create_task(change(server)) for _ in range(3)]
        opening = asyncio.create_task(change_at_once(server))
        await asyncio.to_thread(begun.wait, WAIT_S)
        stopping = asyncio.create_task(server.stop())
        found = await asyncio.wait_for(asyncio.gather(*changing[1:], opening, return_exceptions=True), WAIT_S)
        assert [type(error) for error in found] == [SessionFailed, SessionFailed, Refused]
        assert {str(error) for error in found} == {"the server is shutting down; connect again later"}
        free.set()
        await asyncio.wait_for(asyncio.gather(stopping, changing[0], return_exceptions=True), WAIT_S)
        with pytest.raises(BuilderClosed):
            await server.builder.build(recognizer, Spent(), hotwords=GOOD)

    async def change_at_once(server: Server) -> None:
        async with server.open("test", hotwords=GOOD):
            pass

    asyncio.run(run())


def test_long_lists_do_not_delay_short_ones(recognizer: Recognizer, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nor does a client that keeps sending lists. All have their turn."""
    begun, free = threading.Event(), threading.Event()
    order: list[str] = []

    def with_options(self: Recognizer, hotwords: tuple[str, ...] = (), phrases: tuple[str, ...] = ()) -> Recognizer:
        begun.set()
        free.wait(WAIT_S)
        order.append((hotwords or phrases)[0])
        return recognizer

    monkeypatch.setattr(Recognizer, "with_options", with_options)

    async def run() -> None:
        builder, busy = Builder(), Spent(60.0)
        requests = [asyncio.create_task(builder.build(recognizer, Spent(), hotwords=("first",)))]
        await asyncio.to_thread(begun.wait, WAIT_S)
        for spent, changes in (
            (busy, {"hotwords": ("of a busy client",)}),
            (Spent(), {"phrases": ("long", *1000 * ["music"])}),
            (Spent(), {"hotwords": ("short",)}),
            (Spent(), {"phrases": ("short, too",)}),
        ):
            requests.append(asyncio.create_task(builder.build(recognizer, spent, **changes)))
        await asyncio.sleep(0)
        free.set()
        await asyncio.wait_for(asyncio.gather(*requests), WAIT_S)
        builder.close()

    asyncio.run(run())
    assert order == ["first", "short", "short, too", "long", "of a busy client"]


def test_work_is_counted(recognizer: Recognizer) -> None:
    async def run() -> float:
        async with running(recognizer, num_threads=1) as server, server.open("test") as session:
            await session.change(hotwords=GOOD)
            first = session._spent.seconds
            await session.change(hotwords=GOOD[:2])
            assert session._spent.seconds > first
        return first

    assert asyncio.run(run()) > 0


def test_hotwords_without_reply_are_cut_to_the_limits() -> None:
    """For an assistant that sends the names of all devices in the house."""
    assert keywords_within_limits(["a", "b\nc", "d" * (MAX_KEYWORD_LENGTH + 1), "e"]) == ("a", "e")
    assert len(keywords_within_limits(1000 * ["a"])) == MAX_KEYWORDS
    assert sum(map(len, keywords_within_limits(300 * ["a" * 60]))) == MAX_KEYWORD_LETTERS // 60 * 60
