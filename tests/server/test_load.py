"""Overload: the cost of a stream is measured, and streams beyond the capacity are rejected."""

from __future__ import annotations

import asyncio
import re
import time
import urllib.request
from contextlib import AsyncExitStack

import numpy as np
import pytest
from starlette.testclient import TestClient, WebSocketDenialResponse
from support.scheduling import Gate, running
from support.server import serving
from websockets.sync.client import connect

from asr import Recognizer
from asr.streaming.server import session as session_module
from asr.streaming.server.app import create_app
from asr.streaming.server.cost import LEAST_AUDIO_S, USUAL_COST
from asr.streaming.server.scheduler import Job
from asr.streaming.server.security.access import Access
from asr.streaming.server.security.limits import Limits
from asr.streaming.server.server import Refused, Server
from asr.streaming.server.session import Session

HEADERS = {"host": "localhost"}


async def be_busy(server: Server, busy_s: float, audio_s: float) -> None:
    """A recognition that takes `busy_s`. Returns when its cost is counted."""
    scheduler, before = server.scheduler, server.scheduler.cost
    scheduler.submit(Job(server.recognizer, lambda report: None), lambda stream: time.sleep(busy_s), audio_s)

    async def counted() -> None:
        while scheduler.cost == before:
            await asyncio.sleep(0.001)

    await asyncio.wait_for(counted(), 10)


def test_the_cost_of_live_audio_is_measured(recognizer: Recognizer) -> None:
    async def run() -> None:
        async with running(recognizer, num_threads=2) as server, server.open("test"):
            assert server.scheduler.cost == pytest.approx(USUAL_COST)
            assert server.load == pytest.approx(100 * USUAL_COST / 2)
            await be_busy(server, 0.5, 0.5)
            assert 0.5 / (LEAST_AUDIO_S + 0.5) < server.scheduler.cost < 1.0

    asyncio.run(run())


def test_uploads_do_not_keep_live_clients_out(recognizer: Recognizer, sample: np.ndarray) -> None:
    """However many there are; they have a limit of their own."""

    async def run() -> None:
        limits = Limits(max_sessions=1, max_uploads=3, max_load=2 * 100 * USUAL_COST)
        async with running(recognizer, limits, num_threads=1) as server, AsyncExitStack() as stack:
            uploads = [await stack.enter_async_context(server.open("test", is_upload=True)) for _ in range(3)]
            gate = await asyncio.to_thread(Gate, server.scheduler, recognizer)
            for upload in uploads:
                await upload.accept_waveform(sample)
            assert all(upload.is_active for upload in uploads) and server.load == 0.0 and not server.overloaded
            with pytest.raises(Refused, match="all 3 uploads are taken"):
                async with server.open("test", is_upload=True):
                    pass
            assert server.refusal() is None
            async with server.open("test"):
                assert server.load > 0
                with pytest.raises(Refused, match="all 1 streams are taken"):
                    async with server.open("test"):
                        pass
            metrics = server.metrics.text().decode()
            assert "asr_stream_uploads 3.0" in metrics and "asr_stream_sessions 0.0" in metrics
            gate.open()

    asyncio.run(run())


def test_uploads_are_not_in_the_load_or_the_delays(recognizer: Recognizer, sample: np.ndarray) -> None:
    async def run() -> None:
        async with running(recognizer, num_threads=1) as server:
            for is_upload, number in ((True, 0), (False, 1)):
                async with server.open("test", is_upload=is_upload) as session:
                    await session.accept_waveform(sample[:16000])
                    await session.settle()
                assert (server.scheduler.cost == pytest.approx(USUAL_COST)) == is_upload
                assert f"asr_stream_recognition_seconds_count {number}.0" in server.metrics.text().decode()

    asyncio.run(run())


def test_a_new_server_knows_its_cost() -> None:
    with serving() as server, connect(f"{server.ws_url}/vosk"):
        metrics = urllib.request.urlopen(f"{server.url}/metrics", timeout=60).read().decode()
    (load,) = re.findall(r"^asr_stream_load (.+)$", metrics, re.MULTILINE)
    assert 0.01 < float(load) < 100 and float(load) != pytest.approx(100 * USUAL_COST)


def test_excess_stream_is_refused_and_others_go_on(
    recognizer: Recognizer, sample: np.ndarray, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(session_module, "ACTIVE_S", 0.3)

    async def run() -> None:
        limits = Limits(max_load=5.0)
        async with running(recognizer, limits, num_threads=1) as server, server.open("test") as first:
            async with server.open("test"):
                with pytest.raises(Refused, match="overloaded"):
                    async with server.open("test"):
                        pass
                assert server.overloaded and 'reason="overloaded"} 1.0' in server.metrics.text().decode()
                await first.accept_waveform(sample)
                await first.finish()
                assert any(event.text for event in await first.settle())
            while first.is_active:
                await asyncio.sleep(0.01)
            await be_busy(server, 0.0, LEAST_AUDIO_S * 8)
            async with server.open("test"):
                assert not server.overloaded

    asyncio.run(run())


def test_one_stream_is_always_taken(recognizer: Recognizer) -> None:
    """Otherwise nothing would be measured any more, and a server that was slow once would reject streams forever."""

    async def run() -> None:
        async with running(recognizer, Limits(max_load=0.05), num_threads=1) as server:
            async with server.open("test"):
                await be_busy(server, 0.2, 0.0)
            async with server.open("test"):
                pass

    asyncio.run(run())


def test_sessions_may_come_while_load_is_computed(recognizer: Recognizer) -> None:
    """/metrics runs on another thread."""
    server = Server(recognizer, num_threads=1)

    class Busy(Session):
        def __init__(self) -> None:
            self.is_upload = False

        @property
        def is_active(self) -> bool:
            server.sessions.add(Busy())
            return True

    server.sessions.add(Busy())
    assert server.load == pytest.approx(100 * USUAL_COST)


def test_clients_hear_of_it(recognizer: Recognizer) -> None:
    server = Server(recognizer, Limits(max_load=2.0), num_threads=1)
    with TestClient(create_app(server, Access())) as client:
        assert client.get("/healthz", headers=HEADERS).json() == {
            "status": "ok",
            "sessions": 0,
            "max_sessions": 256,
            "uploads": 0,
            "max_uploads": 64,
            "load": 0,
        }
        with client.websocket_connect("/vosk", headers=HEADERS):
            health = client.get("/healthz", headers=HEADERS)
            assert health.status_code == 503 and health.json()["status"] == "overloaded"
            assert health.json()["reason"] == "this server is overloaded; connect again later"
            with pytest.raises(WebSocketDenialResponse) as refused, client.websocket_connect("/vosk", headers=HEADERS):
                pass
            answer = refused.value
            assert answer.status_code == 503 and answer.headers["retry-after"] == "2"
            assert answer.json()["error"]["message"].startswith("this server is overloaded")
            form = {"file": ("a.wav", b"x")}
            answer = client.post("/v1/audio/transcriptions", headers=HEADERS, files=form)
            assert answer.status_code == 503 and answer.json()["error"]["code"] == "overloaded"
        server.stopping.set()  # a load balancer must send no more clients
        health = client.get("/healthz", headers=HEADERS)
        assert health.status_code == 503 and health.json()["status"] == "stopping"
        assert health.json()["reason"].startswith("the server is shutting down")


def test_a_full_server_is_not_healthy(recognizer: Recognizer) -> None:
    """Otherwise a load balancer would send it more clients."""
    server = Server(recognizer, Limits(max_sessions=1), num_threads=1)
    with TestClient(create_app(server, Access())) as client:
        with client.websocket_connect("/vosk", headers=HEADERS):
            health = client.get("/healthz", headers=HEADERS)
            assert health.status_code == 503 and health.json() == {
                "status": "full",
                "reason": "all 1 streams are taken; connect again later",
                "sessions": 1,
                "max_sessions": 1,
                "uploads": 0,
                "max_uploads": 64,
                "load": health.json()["load"],
            }
        assert client.get("/healthz", headers=HEADERS).json()["status"] == "ok"
