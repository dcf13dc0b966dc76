"""Formatted and plain text in every protocol: the defaults, and which clients can choose."""

from __future__ import annotations

import asyncio
import base64
import json
import re
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import openai
import pytest
import soxr
from conftest import SAMPLE
from support.commas import write_punctuation
from support.server import RunningServer, serving
from test_server_vosk import AT_16K, EOF, converse, pieces
from test_server_wyoming import connected, transcribe, wyoming_port
from websockets.asyncio.client import connect
from websockets.exceptions import InvalidStatus


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


@pytest.mark.parametrize(
    ("config", "expected"),
    [({}, False), ({"text": "plain"}, False), ({"text": "formatted"}, True), ({"text": "default"}, True)],
)
def test_vosk_clients_get_plain_text_unless_they_ask(
    server: RunningServer, sample: np.ndarray, config: dict[str, str], expected: bool
) -> None:
    final = converse(server.ws_url, AT_16K, json.dumps({"config": config}), *pieces(sample, 32000), EOF)[-1]
    assert is_formatted(final["text"]) == expected
    assert expected or final["text"] == final["text"].lower()
    assert " ".join(word["word"] for word in final["result"]) == final["text"]


def transcription(server: RunningServer, **fields: str) -> str:
    client = openai.OpenAI(base_url=f"{server.url}/v1", api_key="any", max_retries=0)
    return client.audio.transcriptions.create(file=SAMPLE, model="any", extra_body=fields).text


@pytest.mark.parametrize(
    ("fields", "expected"), [({}, True), ({"text": "formatted"}, True), ({"text": "plain"}, False)]
)
def test_transcriptions_have_the_servers_text_by_default(
    server: RunningServer, fields: dict[str, str], expected: bool
) -> None:
    assert is_formatted(transcription(server, **fields)) == expected


def test_a_text_that_is_none_is_refused(server: RunningServer) -> None:
    with pytest.raises(openai.BadRequestError, match="text is 'pretty'; choose one of formatted, plain"):
        transcription(server, text="pretty")

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
    audio = soxr.resample(np.concatenate([sample, np.zeros(32000, np.int16)]), 16000, 24000)

    async def talk() -> str:
        async with connect(server.ws_url + "/v1/realtime" + query, max_size=None) as socket:
            for piece in pieces(audio, 32000):
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
    return connected(wyoming_port(server), lambda client: transcribe(client, samples))


def test_wyoming_clients_get_plain_text(server: RunningServer, sample: np.ndarray) -> None:
    text = wyoming(server, sample)
    assert not is_formatted(text) and text == text.lower()


def test_wyoming_clients_get_formatted_text_on_option(sample: np.ndarray, tmp_path: Path) -> None:
    commas = write_punctuation(tmp_path / "commas.onnx")
    options = ("--punctuation", str(commas), "--wyoming-port", "0", "--wyoming-text", "formatted")
    with serving("--text", "plain", *options) as server:
        assert is_formatted(wyoming(server, sample))
