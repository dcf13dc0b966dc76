"""Formatted and plain text in every protocol: the defaults, and which clients can choose."""

from __future__ import annotations

import asyncio
import json
import re
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from conftest import SAMPLE
from support.commas import write_punctuation
from support.server import RunningServer, serving
from websockets.asyncio.client import connect
from websockets.exceptions import InvalidStatus
from wyoming.asr import Transcript
from wyoming.audio import AudioChunk, AudioStart, AudioStop
from wyoming.client import AsyncTcpClient

BOUNDARY = "mimosa"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    commas = write_punctuation(tmp_path_factory.mktemp("punctuation") / "commas.onnx")
    with serving("--text", "formatted", "--punctuation", str(commas), "--wyoming-port", "0") as running:
        yield running


def is_formatted(text: str) -> bool:
    """Text as from the model of support/commas.py; plain text has no punctuation."""
    words = text.split()
    assert len(words) > 8, text
    assert ("," in text) == all(re.fullmatch(r"[A-Z][a-z']*[,.]", word) for word in words), text
    return "," in text


def pieces(samples: np.ndarray) -> list[bytes]:
    return [samples[begin : begin + 16000].tobytes() for begin in range(0, len(samples), 16000)]


def vosk(server: RunningServer, samples: np.ndarray, **config: str) -> list[dict]:
    async def talk() -> list[dict]:
        async with connect(server.ws_url, max_size=None) as socket:
            await socket.send(json.dumps({"config": {"sample_rate": 16000} | config}))
            replies = []
            for message in (*pieces(samples), '{"eof": 1}'):
                await socket.send(message)
                replies.append(json.loads(await asyncio.wait_for(socket.recv(), 30)))
            return replies

    return asyncio.run(talk())


@pytest.mark.parametrize(
    ("config", "expected"),
    [({}, False), ({"text": "plain"}, False), ({"text": "formatted"}, True), ({"text": "default"}, True)],
)
def test_vosk_clients_get_plain_text_unless_they_ask(
    server: RunningServer, sample: np.ndarray, config: dict[str, str], expected: bool
) -> None:
    final = vosk(server, sample, **config)[-1]
    assert is_formatted(final["text"]) == expected
    assert expected or final["text"] == final["text"].lower()
    assert " ".join(word["word"] for word in final["result"]) == final["text"]


def test_vosk_clients_get_an_error_for_other_text(server: RunningServer, sample: np.ndarray) -> None:
    assert (
        "text is 'pretty'; choose one of default, formatted, plain"
        in vosk(server, sample[:0], text="pretty")[0]["error"]
    )


def post(server: RunningServer, **fields: str) -> tuple[int, dict]:
    parts = [
        f'--{BOUNDARY}\r\nContent-Disposition: form-data; name="{name}"\r\n\r\n{value}\r\n'
        for name, value in fields.items()
    ]
    head = f'--{BOUNDARY}\r\nContent-Disposition: form-data; name="file"; filename="a.wav"\r\n\r\n'
    body = "".join(parts).encode() + head.encode() + SAMPLE.read_bytes() + f"\r\n--{BOUNDARY}--\r\n".encode()
    headers = {"Content-Type": f"multipart/form-data; boundary={BOUNDARY}"}
    request = urllib.request.Request(f"{server.url}/v1/audio/transcriptions", body, headers)
    try:
        with urllib.request.urlopen(request, timeout=60) as response:
            return response.status, json.load(response)
    except urllib.error.HTTPError as error:
        return error.code, json.load(error)


@pytest.mark.parametrize(
    ("fields", "expected"), [({}, True), ({"text": "formatted"}, True), ({"text": "plain"}, False)]
)
def test_transcriptions_have_the_servers_text_by_default(
    server: RunningServer, fields: dict[str, str], expected: bool
) -> None:
    status, answer = post(server, **fields)
    assert status == 200 and is_formatted(answer["text"]) == expected


def test_a_text_that_is_none_is_refused(server: RunningServer) -> None:
    status, answer = post(server, text="pretty")
    assert status == 400 and "text is 'pretty'; choose one of formatted, plain" in answer["error"]["message"]

    async def talk() -> None:
        async with connect(server.ws_url + "/v1/realtime?text=pretty"):
            pass

    with pytest.raises(InvalidStatus) as refused:
        asyncio.run(talk())
    assert (
        refused.value.response.status_code == 400 and b"choose one of formatted, plain" in refused.value.response.body
    )


@pytest.mark.parametrize(("query", "expected"), [("", True), ("?text=plain", False)])
def test_realtime_clients_choose_in_the_address(
    server: RunningServer, sample: np.ndarray, query: str, expected: bool
) -> None:
    import base64

    import soxr

    audio = soxr.resample(np.concatenate([sample, np.zeros(32000, np.int16)]), 16000, 24000)

    async def talk() -> str:
        async with connect(server.ws_url + "/v1/realtime" + query, max_size=None) as socket:
            for piece in pieces(audio.astype("<i2")):
                data = base64.b64encode(piece).decode()
                await socket.send(json.dumps({"type": "input_audio_buffer.append", "audio": data}))
            deltas = ""
            while True:
                event = json.loads(await asyncio.wait_for(socket.recv(), 30))
                if event["type"].endswith(".delta"):
                    deltas += event["delta"]
                if event["type"].endswith("transcription.completed"):
                    assert deltas == event["transcript"]
                    return str(event["transcript"])

    assert is_formatted(asyncio.run(talk())) == expected


def wyoming(server: RunningServer, samples: np.ndarray) -> str:
    found = re.search(r"tcp://127.0.0.1:(\d+) for Wyoming", "\n".join(server.log))
    assert found
    port = int(found[1])

    async def talk() -> str:
        async with AsyncTcpClient("127.0.0.1", port, connect_timeout=60, read_timeout=60) as client:
            await client.write_event(AudioStart(16000, 2, 1).event())
            for piece in pieces(samples):
                await client.write_event(AudioChunk(16000, 2, 1, piece).event())
            await client.write_event(AudioStop().event())
            while event := await client.read_event():
                if Transcript.is_type(event.type):
                    return Transcript.from_event(event).text
        raise AssertionError("no transcript came")

    return asyncio.run(talk())


def test_wyoming_clients_get_plain_text(server: RunningServer, sample: np.ndarray) -> None:
    text = wyoming(server, sample)
    assert not is_formatted(text) and text == text.lower()


def test_wyoming_clients_get_formatted_text_on_option(sample: np.ndarray, tmp_path: Path) -> None:
    commas = write_punctuation(tmp_path / "commas.onnx")
    options = ("--punctuation", str(commas), "--wyoming-port", "0", "--wyoming-text", "formatted")
    with serving("--text", "plain", *options) as server:
        assert is_formatted(wyoming(server, sample))
