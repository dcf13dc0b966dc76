"""The server on Ray Serve: one cluster with several replicas, WebSockets that survive starts and stops of them."""

from __future__ import annotations

import asyncio
import json
import os
import signal
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock

import numpy as np
import pytest
import websockets
import yaml
from ray.serve.schema import ServeDeploySchema
from support.ray_cluster import CONFIG, WAIT_S, cluster, until
from support.recognition import finals, recognize
from websockets.asyncio.client import ClientConnection, connect

from asr import Recognizer
from asr.streaming.server.ray import DEPLOYMENT, parse, ray_mark

MESSAGE = 4000
NUM_CLIENTS = 18
PAUSE_S = 1.0
"""Pause of a client between a reply and its next message, because Ray's proxy takes a millisecond for each message."""


@dataclass
class Client:
    """Sends audio continuously; reconnects when the server asks for it. Each message waits for the previous reply."""

    url: str
    audio: np.ndarray
    stopping: asyncio.Event
    codes: list[int] = field(default_factory=list)
    """Close codes of the sessions that the server ended."""
    reasons: list[str] = field(default_factory=list)
    drained: list[tuple[int, str]] = field(default_factory=list)
    """For sessions closed with 1001: the number of samples with a reply, and the text of all finals."""
    num_replies: int = 0

    async def run(self) -> None:
        while not self.stopping.is_set():
            try:
                async with connect(self.url, compression=None, ping_interval=None) as websocket:
                    await self._talk(websocket)
            except websockets.InvalidStatus as refused:
                assert refused.response.status_code == 503, refused
                await asyncio.sleep(0.1)

    async def _talk(self, websocket: ClientConnection) -> None:
        texts, answered = [], 0
        try:
            await websocket.send(json.dumps({"config": {"sample_rate": 16000}}))
            while not self.stopping.is_set():
                begin = answered % len(self.audio)
                await websocket.send(self.audio[begin : begin + MESSAGE].tobytes())
                reply = json.loads(await websocket.recv())
                texts += [reply["text"]] if reply.get("text") else []
                answered += MESSAGE
                self.num_replies += 1
                await asyncio.sleep(PAUSE_S)
            await websocket.send('{"eof": 1}')
            assert "text" in json.loads(await websocket.recv())
        except websockets.ConnectionClosed as closed:
            assert closed.rcvd is not None, "the connection was dropped without a close frame"
            self.codes.append(closed.rcvd.code)
            self.reasons.append(closed.rcvd.reason)
            if closed.rcvd.code == 1001:
                last = [json.loads(reply) async for reply in websocket]
                texts += [reply["text"] for reply in last if reply.get("text")]
                # The final is the last reply; each earlier reply belongs to a message.
                self.drained.append((answered if last else answered - MESSAGE, " ".join(texts)))


def test_no_final_is_lost_as_replicas_change(
    conversation: np.ndarray, tiny_onnx: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    audio = (32767 * conversation).astype(np.int16)
    audio = audio[: len(audio) // MESSAGE * MESSAGE]

    async def serve() -> list[Client]:
        clients, tasks = [], []

        async def join(number: int) -> None:
            for _ in range(number):
                clients.append(Client(ray.url, audio, stopping))
                tasks.append(asyncio.create_task(clients[-1].run()))
                while not clients[-1].num_replies:  # Ray may assign sockets that open together to one replica
                    await asyncio.sleep(0.02)

        async def until_served() -> dict[str, int]:
            while True:
                sessions = await asyncio.to_thread(ray.sessions)
                if sum(sessions.values()) == NUM_CLIENTS:
                    return sessions
                await asyncio.sleep(0.2)

        stopping = asyncio.Event()
        await asyncio.to_thread(ray.scale, 1)
        await join(NUM_CLIENTS // 3)
        await asyncio.to_thread(ray.scale, 3)
        await join(NUM_CLIENTS - len(clients))
        before = await until_served()
        assert len(before) == 3 and min(before.values()) > 0, before  # new sockets went to new replicas

        victim, num_hit = max(before.items(), key=lambda each: each[1])
        pids = {each["replica_id"]: each["pid"] for each in await asyncio.to_thread(ray.replicas)}
        os.kill(pids[victim], signal.SIGKILL)
        while sum(len(client.codes) for client in clients) < num_hit:
            await asyncio.sleep(0.1)
        assert {code for client in clients for code in client.codes} == {1012}
        assert all("connect again" in reason for client in clients for reason in client.reasons)
        await asyncio.to_thread(until, lambda: victim not in {each["replica_id"] for each in ray.replicas()})

        await asyncio.to_thread(ray.scale, 1)
        assert len(await until_served()) == 1
        assert {code for client in clients for code in client.codes} == {1001, 1012}
        with pytest.raises(websockets.InvalidStatus) as refused:  # by the replica, before Ray's own limit
            await connect(ray.url)
        assert refused.value.response.status_code == 503
        assert f"all {NUM_CLIENTS} streams are taken".encode() in refused.value.response.body
        stopping.set()
        await asyncio.gather(*tasks)
        return clients

    options = {"model": str(tiny_onnx), "search": "greedy", "no_second_pass": True, "max_sessions": NUM_CLIENTS}
    options["max_load"] = 1e9  # the clients pause, and the machine may be busy
    with cluster(monkeypatch, **options) as ray:
        clients = asyncio.run(asyncio.wait_for(serve(), WAIT_S))
    recognizer = Recognizer(tiny_onnx, search="greedy", second_pass=False, text="plain")
    drained = [each for client in clients for each in client.drained]
    assert drained
    for samples, text in drained:
        said = np.tile(audio, samples // len(audio) + 1)[:samples]
        assert text == finals(recognize(recognizer, said)).lower()


def test_options_are_those_of_the_command_line() -> None:
    origins = ["https://a.example", "https://b.example"]
    args = parse({"chunk_ms": "320", "no_second_pass": "true", "max_sessions": 9, "allow_origin": origins})
    assert (args.chunk_ms, args.second_pass, args.max_sessions, args.allow_origin) == (320, False, 9, origins)


@pytest.mark.parametrize("off", [False, "false"])
def test_false_turns_a_flag_off(off: object) -> None:
    assert parse({"second_pass": off}).second_pass is False
    assert parse({"no_second_pass": off}).second_pass is None


def test_other_release_of_ray_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    """Otherwise its replicas would not drain."""
    worker = Mock(actors={"id": SimpleNamespace(_replica_impl=SimpleNamespace())})
    worker.core_worker.get_actor_id.return_value = "id"
    monkeypatch.setattr("asr.streaming.server.ray.global_worker", worker)
    with pytest.raises(AttributeError, match="_shutting_down"):
        ray_mark()


@pytest.mark.parametrize("name", ["serve.yaml", "kuberay.yaml"])
def test_the_examples_are_what_ray_reads(name: str) -> None:
    config = yaml.safe_load((CONFIG.parent / name).read_text())
    if name == "kuberay.yaml":
        config = yaml.safe_load(config["spec"]["serveConfigV2"])
    (application,) = ServeDeploySchema(**config).applications
    (deployment,) = application.deployments
    assert (application.import_path, deployment.name) == ("asr.streaming.server.ray:app", DEPLOYMENT)
    assert parse(application.args).host == config["http_options"]["host"]
    # Replicas are added before the existing ones reject clients.
    assert deployment.autoscaling_config["target_ongoing_requests"] < parse(application.args).max_sessions


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"chunkms": 320}, "unrecognized arguments: --chunkms=320"),
        ({"port": 80}, "port: Ray's proxy listens, not this server; see http_options of Ray Serve"),
        ({"no_second_pass": 2}, "argument --second-pass/--no-second-pass: ignored explicit argument '2'"),
        ({"chunk_ms": "x"}, "--chunk-ms is 'x'; it must be a multiple of 40 in [40, 5120]"),
    ],
)
def test_what_is_no_option_is_named(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError) as error:
        parse(arguments)
    assert str(error.value) == message
