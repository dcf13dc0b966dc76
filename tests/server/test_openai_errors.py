"""Errors of OpenAI's HTTP paths: the paths and formats that exist, and the log."""

from __future__ import annotations

import io
import json
import re
import shutil
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import soundfile
from starlette.testclient import TestClient
from support import wait_until
from support.server import RunningServer, quick_recognizer, serving
from test_transcriptions import BOUNDARY, form
from websockets.exceptions import InvalidStatus
from websockets.sync.client import connect

from asr import Recognizer
from asr.runtime.onnx_model import bundled_model
from asr.streaming.server.app import PATHS, WEBSOCKET_PATHS, create_app
from asr.streaming.server.builder import ENDING
from asr.streaming.server.protocols import realtime, transcriptions, vosk
from asr.streaming.server.security.access import Access
from asr.streaming.server.server import Server


@pytest.fixture(scope="module")
def server() -> Iterator[RunningServer]:
    with serving() as running:
        yield running


def send(server: RunningServer, method: str, path: str, body: bytes = b"") -> tuple[int, str]:
    """Status and body of the response."""
    headers = {"Content-Type": f"multipart/form-data; boundary={BOUNDARY}"}
    request = urllib.request.Request(server.url + path, body, headers, method=method)
    try:
        with urllib.request.urlopen(request, timeout=30) as response:
            return response.status, response.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()


def upload(server: RunningServer, file: bytes, **fields: str) -> str:
    """Body of the response to an upload."""
    return send(server, "POST", "/v1/audio/transcriptions", form(*fields.items(), file=file))[1]


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("POST", "/v1/audio/translations", 404),
        ("GET", "/v1", 404),
        ("POST", "/audio/transcriptions", 404),
        ("POST", "/v1/realtime", 404),
        ("GET", "/v1/audio/transcriptions", 405),
        ("POST", "/v1/models", 405),
    ],
)
def test_wrong_paths_get_openai_errors(server: RunningServer, method: str, path: str, status: int) -> None:
    found, answer = send(server, method, path)
    message = f"there is no '{method} {path}'; this server has {PATHS}"
    expected = {"message": message, "type": "invalid_request_error", "param": None, "code": None}
    assert found == status and json.loads(answer) == {"error": expected}


def test_message_names_every_path() -> None:
    routes = [*transcriptions.routes, *realtime.routes, *vosk.routes]
    paths = {getattr(route, "path", "") for route in routes} | {"/healthz", "/metrics"}
    assert set(re.findall(r"/[^, ]*", PATHS)) == paths


@pytest.mark.parametrize("path", WEBSOCKET_PATHS)
def test_a_websocket_behind_a_proxy_without_upgrade(server: RunningServer, path: str) -> None:
    status, answer = send(server, "GET", path)
    assert status == 426 and f"{path} is for a WebSocket: a proxy in between must pass on the headers" in answer


@pytest.mark.parametrize("path", ["/foo", "/v1/realtime/calls"])
def test_a_websocket_at_a_wrong_path(server: RunningServer, path: str) -> None:
    with pytest.raises(InvalidStatus) as refused, connect(server.ws_url + path):
        pass
    response = refused.value.response
    assert response.status_code == 404 and f"there is no 'WebSocket {path}'; this server has" in response.body.decode()


def test_paths_with_more_slashes(server: RunningServer, sample: np.ndarray) -> None:
    for path in ("/v1/models/", "//v1//models"):
        assert send(server, "GET", path)[0] == 200
    message = json.dumps({"type": "input_audio_buffer.append", "audio": "A" * 2_000_000})  # only there, so long
    with connect(f"{server.ws_url}//v1/realtime/") as socket:
        socket.send(message)
        socket.send('{"type": "input_audio_buffer.commit"}')
        assert [json.loads(socket.recv())["type"] for _ in range(2)][1] == "input_audio_buffer.committed"
    with soundfile.SoundFile(file := io.BytesIO(), "w", 16000, 1, format="WAV") as wav:
        wav.write(sample)
    for path in ("/v1/audio/transcriptions/", "/v1//audio/transcriptions"):
        status, answer = send(server, "POST", path, form(file=file.getvalue()))
        assert status == 200 and "old man" in answer.lower()


def test_a_form_whose_audio_is_no_file(server: RunningServer, sample: np.ndarray) -> None:
    _, answer = send(server, "POST", "/v1/audio/transcriptions", form(("file", "x" * 70000)))
    assert "64KB. If this is the audio, send it as field 'file', with a file name" in answer


def refusal_of(file: bytes) -> str:
    """The error message for an upload to a server in this process."""
    server = Server(quick_recognizer(), num_threads=1)
    with TestClient(create_app(server, Access()), base_url="http://localhost") as client:
        answer = client.post("/v1/audio/transcriptions", files={"file": ("a", file)})
    message: str = answer.json()["error"]["message"]
    return message


def test_upload_that_waits_at_shutdown_gets_503() -> None:
    server = Server(Recognizer(bundled_model("int8"), search="beam", lm=None), num_threads=1)
    with TestClient(create_app(server, Access()), base_url="http://localhost") as client:
        server.builder.close()
        file = {"file": ("a.wav", b"RIFF" + bytes(60))}
        answer = client.post("/v1/audio/transcriptions", files=file, data={"keywords": "Phronsie"})
    error = {"message": ENDING, "type": "server_error", "param": None, "code": "stopping"}
    assert (answer.status_code, answer.json()) == (503, {"error": error})


@pytest.mark.parametrize("ffmpeg", [None, "/usr/bin/ffmpeg"])
def test_formats_depend_on_ffmpeg(monkeypatch: pytest.MonkeyPatch, ffmpeg: str | None) -> None:
    monkeypatch.setattr(shutil, "which", lambda _: ffmpeg)
    assert ("MP4" in refusal_of(b"not audio, but long enough")) == bool(ffmpeg)


def test_log_has_reasons_without_client_values(server: RunningServer) -> None:
    message = json.loads(upload(server, b"not audio, but long enough"))["error"]["message"]
    assert "; send WAV, FLAC, MP3, Ogg or another format" in message
    reason = message.partition(" ffmpeg says: ")[0]
    wait_until(lambda: any(f" transcriptions: error: {reason} (" in line for line in server.log))
    secret = "x" * 65
    assert secret[:60] in upload(server, b"", keywords=secret)
    complaint = " transcriptions: error: keywords has an unusable value ("
    wait_until(lambda: any(complaint in line for line in server.log))
    assert not any(secret[:9] in line for line in server.log)


def test_log_has_reasons_of_streams(server: RunningServer) -> None:
    assert "the file is empty" in upload(server, b"", stream="true")
    wait_until(lambda: any(" transcriptions: error: the file is empty" in line for line in server.log))


def test_log_omits_words_of_ffmpeg(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    soundfile.write(tmp_path / "a.wav", np.zeros(160), 16000)
    (tmp_path / "ffmpeg").write_text(f"#!/bin/sh\n/bin/cat {tmp_path}/a.wav; echo \"error in 'diary'\" >&2; exit 1\n")
    (tmp_path / "ffmpeg").chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    caplog.set_level("INFO", "asr_stream.server")
    assert "ffmpeg says: error in 'diary'" in refusal_of(b"\x1aE\xdf\xa3" + bytes(20))  # Matroska
    assert "transcriptions: error: the file is damaged or cut short" in caplog.messages
    assert "diary" not in caplog.text
