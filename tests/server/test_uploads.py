"""Uploads whose file cannot be stored or decoded or has no text, and readers of files that nobody needs anymore."""

from __future__ import annotations

import asyncio
import errno
import io
import itertools
import json
import os
import re
import tempfile
import threading
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import nullcontext
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import starlette.formparsers
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.testclient import TestClient
from support.media import inflated, with_many_samples
from support.server import quick_recognizer
from test_transcriptions import audio_file

from asr.runtime.search import Word
from asr.streaming import Final
from asr.streaming.audio import audio_file as audio_file_module
from asr.streaming.server.app import create_app
from asr.streaming.server.protocols import transcriptions, uploads
from asr.streaming.server.protocols.common import ProtocolError
from asr.streaming.server.protocols.uploads import Upload, receive_form
from asr.streaming.server.security import limits as limits_module
from asr.streaming.server.security.access import Access
from asr.streaming.server.security.limits import Limits
from asr.streaming.server.server import Server

WAIT_S = 60.0


def test_a_closed_upload_stops_its_reader(monkeypatch: pytest.MonkeyPatch) -> None:
    ended = []

    def search(file: object, stopped: Any, **options: object) -> Iterator[None]:
        """Takes long, as a malicious file could."""
        for _ in range(20000):
            if stopped():
                ended.append(True)
                return
            time.sleep(0.001)
        yield from ()

    monkeypatch.setattr(uploads, "read_blocks", search)

    async def run() -> None:
        file = io.BytesIO()
        upload = Upload(file, 1.0)
        reading = asyncio.create_task(upload.next_block())
        await asyncio.sleep(0.01)
        upload.close()
        assert await asyncio.wait_for(reading, WAIT_S) is None and ended == [True]
        await asyncio.sleep(0)
        assert file.closed

    asyncio.run(run())


def test_defect_of_a_decoder_ends_the_session(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """The client gets an error, and the log has the reason."""

    def read_blocks(file: object, **options: object) -> Iterator[None]:
        raise IndexError("index out of range")
        yield

    monkeypatch.setattr(uploads, "read_blocks", read_blocks)
    server = Server(quick_recognizer(), num_threads=1)
    with TestClient(create_app(server, Access()), base_url="http://localhost") as client:
        answer = client.post("/v1/audio/transcriptions", files={"file": ("a.wav", b"any")})
    error = answer.json()["error"]
    assert answer.status_code == 500 and error["type"] == "server_error"
    assert "the reason is in the server's log" in error["message"] and "IndexError" in caplog.text


def test_slow_files_delay_nobody_else(monkeypatch: pytest.MonkeyPatch, sample: np.ndarray) -> None:
    """More of them than the threads that asyncio shares, which other uploads, texts and Realtime need."""
    go_on = threading.Event()
    read = uploads.read_blocks

    def stuck(file: Any, **options: Any) -> Iterator[tuple[np.ndarray, int]]:
        if isinstance(file, io.BytesIO):
            assert go_on.wait(WAIT_S)
            return
        yield from read(file, **options)

    monkeypatch.setattr(uploads, "read_blocks", stuck)

    async def run() -> None:
        slow = [Upload(io.BytesIO(), 10.0) for _ in range(40)]
        reading = [asyncio.create_task(upload.next_block()) for upload in slow]
        await asyncio.sleep(0)
        with tempfile.TemporaryFile() as file:
            file.write(audio_file(sample[:16000], format="WAV"))
            file.flush()
            quick = Upload(file, 10.0)
            block = await asyncio.wait_for(quick.next_block(), WAIT_S)
            assert block is not None and len(block[0]) == 16000
            quick.close()
        await asyncio.wait_for(asyncio.to_thread(int), WAIT_S)
        assert not any(task.done() for task in reading)
        go_on.set()
        assert await asyncio.gather(*reading) == [None] * len(slow)
        for upload in slow:
            upload.close()

    asyncio.run(run())


@pytest.fixture(scope="module")
def client() -> Iterator[TestClient]:
    server = Server(
        quick_recognizer(lm=None),
        limits=Limits(max_uploads=2),
        num_threads=1,
    )
    with TestClient(create_app(server, Access()), base_url="http://localhost") as client:
        yield client


def post(client: TestClient, content: bytes, **fields: str) -> Any:
    return client.post("/v1/audio/transcriptions", files={"file": ("a.wav", content)}, data=fields)


@pytest.fixture(scope="module")
def call(conversation: np.ndarray, sample: np.ndarray) -> list[np.ndarray]:
    """What two speakers say at the same time: (num_samples,) int16 each."""
    first = (conversation * 32767).astype(np.int16)
    return [first, np.concatenate([np.zeros(16000, np.int16), sample, np.zeros(len(first), np.int16)])[: len(first)]]


def test_each_channel_is_recognized(client: TestClient, call: list[np.ndarray]) -> None:
    content = audio_file(np.stack(call, axis=1))
    alone = [post(client, audio_file(samples), response_format="verbose_json").json()["segments"] for samples in call]
    options = {"response_format": "verbose_json", "timestamp_granularities[]": "segment"}
    answer = post(client, content, channel="each", **options).json()
    for number, expected in enumerate(alone, 1):
        found = [segment for segment in answer["segments"] if segment["channel"] == number]
        assert [(each["start"], each["text"]) for each in found] == [(each["start"], each["text"]) for each in expected]
        one = post(client, content, channel=str(number), **options).json()["segments"]
        assert [each["text"] for each in one] == [each["text"] for each in expected] and "channel" not in one[0]
    starts = [segment["start"] for segment in answer["segments"]]
    assert starts == sorted(starts)
    lines = [f"channel {segment['channel']}: {segment['text']}" for segment in answer["segments"]]
    assert answer["text"] == "\n".join(lines)
    cues = post(client, content, channel="each", response_format="vtt").text
    assert "<v channel 1>" in cues and "<v channel 2>" in cues
    options["timestamp_granularities[]"] = "word"
    assert {word["channel"] for word in post(client, content, channel="each", **options).json()["words"]} == {1, 2}


def test_events_of_each_channel(client: TestClient, call: list[np.ndarray]) -> None:
    answer = post(client, audio_file(np.stack(call, axis=1)), channel="each", stream="true")
    events = [json.loads(line[6:]) for line in answer.text.splitlines() if line.startswith("data: {")]
    deltas = [event for event in events if event["type"] == "transcript.text.delta"]
    assert {event["channel"] for event in deltas} == {1, 2}
    assert "".join(event["delta"] for event in deltas) == events[-1]["text"]
    assert all(line.startswith("channel ") for line in events[-1]["text"].split("\n"))


def test_channels_that_there_are_not(client: TestClient, call: list[np.ndarray]) -> None:
    content = audio_file(np.stack(call, axis=1)[:16000])
    for fields, message in (
        ({"channel": "left"}, "channel is 'left'; it must be mix, each or a number from 1 to 1024"),
        ({"channel": "3"}, "the file has no channel 3: choose from 1 to 2, mix or each"),
        ({"channel": "each", "include[]": "logprobs"}, "include goes with one channel"),
    ):
        answer = post(client, content, **fields)
        assert answer.status_code == 400 and message in answer.json()["error"]["message"]
    answer = post(client, audio_file(np.zeros((16000, 3), np.int16)), channel="each")
    error = answer.json()["error"]
    assert answer.status_code == 503 and error["code"] == "overloaded"
    assert error["message"].startswith("channel each needs a stream for each channel: all 2 uploads are taken")


def test_warnings_about_the_file(client: TestClient, call: list[np.ndarray]) -> None:
    content = audio_file(np.stack([call[0], -call[0]], axis=1))
    (warning,) = post(client, content).json()["warnings"]
    assert warning.startswith("the file: its channels cancel each other")


@pytest.mark.parametrize(
    "content", [with_many_samples(40_000_000, 1), with_many_samples(30_000_000, 4), inflated()], ids=["1", "4", "cmov"]
)
def test_a_header_that_asks_for_gigabytes_is_refused(content: bytes, client: TestClient) -> None:
    answer = post(client, content)
    assert answer.status_code == 400 and answer.json()["error"]["message"].startswith("the file is damaged")


@pytest.mark.parametrize(
    ("failure", "status", "message"),
    [
        (MemoryError("there is not enough memory to read the file"), 503, "not enough memory to read the file; try"),
        (OSError(errno.ENOMEM, "Cannot allocate memory"), 503, "not enough memory to read the file; try again later"),
        (OSError(errno.ENOSPC, "No space left on device"), 500, "No space left on device; try again later"),
    ],
)
def test_what_the_machine_lacks_is_no_fault_of_the_file(
    failure: Exception, status: int, message: str, client: TestClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    def read(*_: object) -> None:
        raise failure

    monkeypatch.setattr(audio_file_module, "_read", read)
    answer = post(client, audio_file(np.zeros(16000, np.int16)))
    assert answer.status_code == status and message in answer.json()["error"]["message"]


def test_usage_and_any_language(client: TestClient) -> None:
    content = audio_file(np.zeros(60 * 44100 + 10, np.int16), 44100)  # 60.0002 s, which is 60.0 for its users
    answer = post(client, content, language="auto")
    assert answer.status_code == 200 and answer.json()["usage"]["seconds"] == 60


def test_an_utterance_without_text_is_left_out() -> None:
    """For example, utterances with only spoken commands."""

    class Spoken:
        """A session with this text."""

        recognizer, audio_s = SimpleNamespace(hotwords=None), 1.0

        async def change(self) -> None: ...
        async def accept_waveform(self, samples: np.ndarray, sample_rate: int) -> None: ...
        async def finish(self) -> None: ...

        async def events(self) -> AsyncIterator[Final]:
            for text in ("One", "", "\nTwo"):
                yield Final(text, 0, 1, tuple(Word(word, 0, 1, 0.5) for word in text.split()))

    app = Starlette(routes=transcriptions.routes)
    app.state.server = SimpleNamespace(
        limits=Limits(), language="en", stopping=asyncio.Event(), open=lambda *_, **__: nullcontext(Spoken())
    )
    file = ("a.wav", audio_file(np.zeros(16000, np.int16), format="WAV"))
    form = {"response_format": "verbose_json"}
    answer = TestClient(app).post("/v1/audio/transcriptions", files={"file": file}, data=form).json()
    assert answer["text"] == "One\nTwo" and len(answer["segments"]) == 2


def test_a_full_disk_is_status_507(monkeypatch: pytest.MonkeyPatch) -> None:
    class Full(tempfile.SpooledTemporaryFile):  # type: ignore[type-arg]
        def write(self, data: Any) -> int:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(starlette.formparsers, "SpooledTemporaryFile", Full)
    error = refusal_of_upload(HEAD + bytes(1000) + b"\r\n--x--\r\n")
    assert error.status == 507 and error.to_dict()["type"] == "server_error"
    assert "cannot be stored: No space left on device" in str(error)


def test_full_disk_is_no_fault_of_the_file(monkeypatch: pytest.MonkeyPatch) -> None:
    """A small upload is in memory until a decoder needs it on the disk."""

    def rollover(file: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(tempfile.SpooledTemporaryFile, "rollover", rollover)
    server = Server(quick_recognizer(), num_threads=1)
    with TestClient(create_app(server, Access()), base_url="http://localhost") as client:
        answer = client.post("/v1/audio/transcriptions", files={"file": ("a.wav", b"any")})
    assert answer.status_code == 507 and "No space left on device" in answer.json()["error"]["message"]


def test_server_that_ends_takes_no_upload() -> None:
    error = refusal_of_upload(HEAD, stopping=True)
    assert error.status == 503 and error.to_dict()["code"] == "stopping"


def test_an_endless_upload_is_ended() -> None:
    """Although its parts come without a pause; it would be too large later."""
    error = refusal_of_upload(HEAD, max_session_s=0.05, max_upload_bytes=100_000)
    assert error.status == 408 and "takes longer than 0.05 s" in str(error)


def test_a_slow_upload_is_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    """It would hold its place for hours."""
    monkeypatch.setattr(limits_module, "MIN_BYTES_PER_S", 1e9)
    error = refusal_of_upload(HEAD, timeout_s=0.05, max_upload_bytes=100_000)
    assert error.status == 408 and re.search(r"^\d+ bytes of the upload came in 0\.\d s; send at least", str(error))


HEAD = b'--x\r\nContent-Disposition: form-data; name="file"; filename="a.wav"\r\n\r\n'


def refusal_of_upload(body: bytes, stopping: bool = False, **limits: float) -> ProtocolError:
    """What `receive_form` raises for an upload that begins with `body`, after which it sends zeros without end."""
    parts = itertools.chain([body], itertools.repeat(bytes(8)))

    async def receive() -> dict[str, Any]:
        await asyncio.sleep(0)
        return {"type": "http.request", "body": next(parts), "more_body": True}

    async def run() -> ProtocolError:
        server: Any = SimpleNamespace(limits=Limits(**limits), stopping=asyncio.Event())
        if stopping:
            server.stopping.set()
        scope = {"type": "http", "headers": [(b"content-type", b"multipart/form-data; boundary=x")]}
        with pytest.raises(ProtocolError) as raised:
            await receive_form(Request(scope, receive), server)
        return raised.value

    return asyncio.run(run())
