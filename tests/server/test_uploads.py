"""Uploads whose file cannot be stored or decoded or has no text, and readers of files that nobody needs anymore."""

from __future__ import annotations

import asyncio
import errno
import io
import itertools
import os
import re
import tempfile
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
from test_transcriptions import audio_file

from asr import Recognizer
from asr.runtime.onnx_model import bundled_model
from asr.runtime.search import Word
from asr.streaming import Final
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
    server = Server(Recognizer(bundled_model("int8"), search="greedy", second_pass=False), num_threads=1)
    with TestClient(create_app(server, Access()), base_url="http://localhost") as client:
        answer = client.post("/v1/audio/transcriptions", files={"file": ("a.wav", b"any")})
    error = answer.json()["error"]
    assert answer.status_code == 500 and error["type"] == "server_error"
    assert "the reason is in the server's log" in error["message"] and "IndexError" in caplog.text


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
        limits=Limits(), language="en", stopping=asyncio.Event(), open=lambda _: nullcontext(Spoken())
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
    server = Server(Recognizer(bundled_model("int8"), search="greedy", second_pass=False), num_threads=1)
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
