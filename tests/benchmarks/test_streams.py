"""benchmarks/streams.py: it waits for the reply that covers a chunk, and finds the number that it looks for."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.benchmark_module import load_benchmark

from asr import Recognizer
from asr.runtime.onnx_model import OnnxModel

streams = load_benchmark("streams")


@pytest.mark.parametrize("chunk_ms", [640, 320])
def test_chunk_is_decoded_with_the_message_completing_it(
    tiny_onnx: Path, chunk_ms: int, conversation: np.ndarray
) -> None:
    model = OnnxModel(tiny_onnx)
    stream = Recognizer(model, chunk_ms=chunk_ms, second_pass=False).stream()
    run, num_steps, decoded_with = model.encoder.run, 0, []

    def counted(*arguments: Any) -> Any:
        nonlocal num_steps
        num_steps += 1
        return run(*arguments)

    model.encoder.run = counted  # type: ignore[method-assign]
    for begin in range(0, len(conversation), streams.MESSAGE):
        before = num_steps
        stream.accept_waveform(conversation[begin : begin + streams.MESSAGE])
        decoded_with += [begin // streams.MESSAGE + 1] * (num_steps - before)
    assert len(decoded_with) > 20
    assert decoded_with == [streams.messages_of_chunk(n, chunk_ms, 0) for n in range(len(decoded_with))]


@pytest.mark.parametrize(("held", "first"), [(0, 32), (1, 32), (31, 32), (32, 32), (100, 1), (100, 100), (500, 32)])
def test_the_largest_number_is_found(held: int, first: int) -> None:
    tried = []

    def is_held(number: int) -> bool:
        tried.append(number)
        return number <= held

    assert streams.largest(is_held, first, 0.0, 300) == min(held, 300)
    assert len(set(tried)) == len(tried) < 20 and max(tried) <= 300
    assert 0.8 * min(held, 300) <= streams.largest(is_held, first, 0.2, 300) <= held


def test_chunk_without_reply_counts_as_its_waiting_time() -> None:
    server = streams.Server([], "", answers_all=True, chunk_ms=640)
    client = streams.Client(None, [], server)
    client._began, client._ended = 100.0, 106.0
    client._replied = [100.0 + 0.1 * message + 0.05 for message in range(1, 25)]  # of 24 messages, each after 50 ms
    assert [streams.messages_of_chunk(chunk, 640, 0) for chunk in range(8)] == [7, 14, 20, 26, 33, 39, 46, 52]
    assert list(client.delays(1.0)) == pytest.approx([0.05, 0.05, 6.0 - 2.6, 6.0 - 3.3, 6.0 - 3.9, 6.0 - 4.6])


class Answering:
    """A fake client socket: a reply for each message, or for each chunk."""

    def __init__(self, messages_of_a_reply: float) -> None:
        self.each, self.num_sent, self.num_replied, self.most_ahead = messages_of_a_reply, 0, 0, 0.0

    async def send(self, message: bytes) -> None:
        self.num_sent += 1
        self.most_ahead = max(self.most_ahead, self.num_sent - self.each * self.num_replied)

    async def recv(self) -> None:
        assert self.each * (self.num_replied + 1) <= self.num_sent, "nobody would answer"
        self.num_replied += 1
        await asyncio.sleep(0)


@pytest.mark.parametrize(("answers_all", "each"), [(True, 1.0), (False, 6.4)])
def test_at_full_load_clients_are_a_chunk_ahead(
    monkeypatch: pytest.MonkeyPatch, answers_all: bool, each: float
) -> None:
    server = streams.Server([], "", answers_all, chunk_ms=640)
    sockets = [Answering(each), Answering(each)]

    async def join(*_: Any) -> list[Any]:
        return [streams.Client(socket, [b""], server) for socket in sockets]

    monkeypatch.setattr(streams, "join", join)
    answered: list[float] = []

    def cpu_s(pid: int) -> float:  # 5 ms per second
        answered.append(sum(0.1 * each * socket.num_replied for socket in sockets))
        return 0.005 * answered[-1]

    monkeypatch.setattr(streams, "cpu_s", cpu_s)
    assert asyncio.run(streams.saturated(server, 1, np.zeros(1), 2, 10.0)) == pytest.approx(5.0)
    assert answered[0] >= 2 * streams.SKIPPED_S and answered[1] >= answered[0] + 2 * 10.0
    assert all(7.0 <= socket.most_ahead <= 15.0 for socket in sockets)
