"""Wyoming, with the `wyoming` package as in Home Assistant, and with raw bytes that no package sends."""

from __future__ import annotations

import asyncio
import json
import re
import socket
import urllib.request
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import nullcontext
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import soxr
from support.recognition import finals, plain_text, recognize
from support.server import RunningServer, serving
from support.synth import speech
from wyoming.asr import Transcribe, Transcript, TranscriptChunk
from wyoming.audio import AudioChunk, AudioStart, AudioStop
from wyoming.client import AsyncTcpClient
from wyoming.event import Event
from wyoming.info import Describe, Info
from wyoming.ping import Ping, Pong

import asr
from asr import Recognizer
from asr.runtime.onnx_model import bundled_model
from asr.streaming import Final
from asr.streaming.server.protocols.wyoming import Connection, listening
from asr.streaming.server.security.limits import Limits

PAUSE = np.zeros(24000, np.int16)


def wyoming_port(server: RunningServer) -> int:
    found = re.search(r"tcp://127.0.0.1:(\d+) for Wyoming", "\n".join(server.log))
    assert found
    return int(found[1])


@pytest.fixture(scope="module")
def server() -> Iterator[RunningServer]:
    with serving("--wyoming-port", "0", "--search", "beam", "--lm", "none") as server:
        yield server


@pytest.fixture(scope="module")
def port(server: RunningServer) -> int:
    return wyoming_port(server)


@pytest.fixture(scope="module")
def recognizer() -> Recognizer:
    """As the server's."""
    return Recognizer(bundled_model("int8"), search="beam", second_pass=False, lm=None)


def connected(port: int, talk: Callable[[AsyncTcpClient], Awaitable[Any]]) -> Any:
    async def run() -> Any:
        async with AsyncTcpClient("127.0.0.1", port, connect_timeout=60, read_timeout=60) as client:
            return await talk(client)

    return asyncio.run(run())


async def send_audio(client: AsyncTcpClient, samples: np.ndarray, rate: int = 16000, channels: int = 1) -> None:
    data = samples.astype(np.int16).tobytes()
    for begin in range(0, len(data), 4096):
        await client.write_event(AudioChunk(rate, 2, channels, data[begin : begin + 4096]).event())


async def transcribe(client: AsyncTcpClient, samples: np.ndarray, rate: int = 16000, channels: int = 1) -> str:
    """As in Home Assistant: sends everything, then reads until the transcript."""
    await client.write_event(Transcribe(language="en").event())
    await client.write_event(AudioStart(rate, 2, channels).event())
    await send_audio(client, samples, rate, channels)
    await client.write_event(AudioStop().event())
    while event := await client.read_event():
        if Transcript.is_type(event.type):
            return Transcript.from_event(event).text
    raise AssertionError("no transcript came")


def test_what_the_server_reports_of_itself(port: int) -> None:
    async def talk(client: AsyncTcpClient) -> None:
        await client.write_event(Describe().event())
        event = await client.read_event()
        assert event is not None and Info.is_type(event.type)
        info = Info.from_event(event)
        (program,) = info.asr
        (model,) = program.models
        assert program.name == "asr-stream" and program.installed and program.version == asr.__version__
        assert program.supports_transcript_streaming
        assert model.languages == ["en"] and model.installed and model.attribution.name
        assert not info.tts and not info.wake

    connected(port, talk)


def test_a_transcript_and_another_on_the_same_connection(port: int, sample: np.ndarray, recognizer: Recognizer) -> None:
    async def talk(client: AsyncTcpClient) -> None:
        expected = plain_text(finals(recognize(recognizer, sample)))
        assert len(expected.split()) > 10
        assert await transcribe(client, sample) == expected
        assert await transcribe(client, sample[:32000]) == plain_text(finals(recognize(recognizer, sample[:32000])))

    connected(port, talk)


def test_a_transcript_frees_the_stream(server: RunningServer, port: int) -> None:
    """A satellite may keep its connection between commands."""

    async def talk(client: AsyncTcpClient) -> None:
        await transcribe(client, PAUSE)
        await client.write_event(Ping().event())
        while (event := await client.read_event()) and not Pong.is_type(event.type):
            pass
        with urllib.request.urlopen(f"{server.url}/healthz", timeout=60) as answer:
            assert json.load(answer)["sessions"] == 0

    connected(port, talk)


def test_only_data_that_waits_is_timed() -> None:
    """An answer that the client has taken does not end the connection later."""
    aborted = []

    async def run() -> None:
        limits = Limits(timeout_s=0.1)
        transport = SimpleNamespace(abort=lambda: aborted.append(True), is_closing=lambda: False)
        written: list[bytes] = []

        async def taken() -> None: ...

        writer = SimpleNamespace(
            transport=transport, write=written.append, drain=taken, close=lambda: None, wait_closed=taken
        )
        connections = SimpleNamespace(serve=lambda transport: None)
        server = SimpleNamespace(limits=limits, stopping=asyncio.Event(), connections=connections, language="")
        reader = asyncio.StreamReader()
        reader.feed_data(event("describe"))
        reader.feed_eof()
        await Connection(server, reader, writer).serve()
        assert b'"info"' in written[0]
        await asyncio.sleep(2 * limits.timeout_s)

    asyncio.run(run())
    assert not aborted


def test_two_channels_at_44100_hz(port: int, sample: np.ndarray, recognizer: Recognizer) -> None:
    left = soxr.resample(sample, 16000, 44100)
    right = (left * 0.5).astype(np.int16)
    both = np.stack([left, right], axis=1)
    mono = both.mean(axis=1, dtype=np.float32) / np.float32(32768.0)

    async def talk(client: AsyncTcpClient) -> None:
        assert await transcribe(client, both, 44100, 2) == plain_text(finals(recognize(recognizer, mono, rate=44100)))

    connected(port, talk)


def test_chunks_come_during_speech_and_form_the_transcript(port: int, recognizer: Recognizer) -> None:
    first, second = ((speech(text) * 32767).astype(np.int16) for text in ("the boy went home", "she walked to the sea"))
    expected = plain_text(finals(recognize(recognizer, np.concatenate([first, PAUSE, second, PAUSE]))))

    async def talk(client: AsyncTcpClient) -> None:
        await client.write_event(AudioStart(16000, 2, 1).event())
        await send_audio(client, np.concatenate([first, PAUSE]))
        start = await client.read_event()
        assert start is not None and start.type == "transcript-start"
        chunk = await client.read_event()  # before the end of the audio
        assert chunk is not None and TranscriptChunk.is_type(chunk.type)
        await send_audio(client, np.concatenate([second, PAUSE]))
        await client.write_event(AudioStop().event())
        chunks, rest = [chunk], []
        while not rest or rest[-1].type != "transcript-stop":
            event = await client.read_event()
            assert event is not None
            (chunks if TranscriptChunk.is_type(event.type) else rest).append(event)
        assert [event.type for event in rest] == ["transcript", "transcript-stop"]
        text = Transcript.from_event(rest[0]).text
        assert "".join(TranscriptChunk.from_event(event).text for event in chunks) == text == expected
        assert len(chunks) == 2 and "went" in text

    connected(port, talk)


def test_chunks_keep_spoken_lines() -> None:
    """An utterance of nothing but commands is empty."""

    class Spoken:
        async def finish(self) -> None: ...

        async def events(self) -> AsyncIterator[Final]:
            for text in ("Dear Ann,\n", "", "thank you.", "Bye."):
                yield Final(text, 0, 1)

    async def talk(client: AsyncTcpClient) -> None:
        await client.write_event(AudioStart(16000, 2, 1).event())
        await client.write_event(AudioStop().event())
        events = [await client.read_event() for _ in range(7)]
        assert [(event.type, event.data.get("text")) for event in events if event] == [
            ("transcript-start", None),
            *(("transcript-chunk", text) for text in ("Dear Ann,\n", "", "thank you.", " Bye.")),
            ("transcript", "Dear Ann,\nthank you. Bye."),
            ("transcript-stop", None),
        ]

    async def run() -> None:
        connections = SimpleNamespace(add=lambda _: True, serve=lambda _: None, discard=lambda _: None)
        server: Any = SimpleNamespace(limits=Limits(), connections=connections, stopping=asyncio.Event(), language="")
        server.open = lambda *_, **changes: nullcontext(Spoken())
        with socket.create_server(("127.0.0.1", 0)) as listening_socket:
            async with listening(server, listening_socket), AsyncTcpClient(*listening_socket.getsockname()) as client:
                await talk(client)

    asyncio.run(run())


def test_names_that_the_client_expects_are_recognized(port: int) -> None:
    audio = (speech("a cold winter morning") * 32767).astype(np.int16)

    async def talk(client: AsyncTcpClient) -> None:
        plain = await transcribe(client, audio)
        names = ["Winter", "TV/AC 5", "", "语音"]  # all but the first one cannot be spelled
        await client.write_event(Transcribe(transcript_names=names, transcript_terms=["morning"]).event())
        await send_audio(client, audio)
        await client.write_event(AudioStop().event())
        while (event := await client.read_event()) and not Transcript.is_type(event.type):
            pass
        assert event is not None
        text = Transcript.from_event(event).text
        assert "winter" not in plain and "morning" not in plain and "winter morning" in text

    connected(port, talk)


def test_names_are_for_the_transcription_begun(port: int) -> None:
    """Some clients send audio-start first."""
    audio = (speech("a cold winter morning") * 32767).astype(np.int16)

    async def talk(client: AsyncTcpClient) -> None:
        texts = []
        for names in (["Winter", "morning"], []):
            await client.write_event(AudioStart(16000, 2, 1).event())
            if names:
                await client.write_event(Transcribe(transcript_names=names).event())
            await send_audio(client, audio)
            await client.write_event(AudioStop().event())
            chunks = 0
            while (event := await client.read_event()) and not Transcript.is_type(event.type):
                chunks += TranscriptChunk.is_type(event.type)
            assert event is not None and chunks == 1
            texts.append(Transcript.from_event(event).text)
        assert "winter morning" in texts[0] and "winter" not in texts[1]

    connected(port, talk)


def test_half_closed_client_gets_the_transcript(port: int, sample: np.ndarray, recognizer: Recognizer) -> None:
    format = {"rate": 16000, "width": 2, "channels": 1}
    with socket.create_connection(("127.0.0.1", port), 60) as client:
        for begin in range(0, len(sample), 16000):
            client.sendall(event("audio-chunk", sample[begin : begin + 16000].tobytes(), **format))
        client.shutdown(socket.SHUT_WR)
        answer = b"".join(iter(lambda: client.recv(65536), b""))
    text = plain_text(finals(recognize(recognizer, sample)))
    assert f'{{"text": "{text}"'.encode() in answer.rsplit(b'"type": "transcript"', 1)[1]


def test_silence_has_an_empty_transcript(port: int) -> None:
    async def talk(client: AsyncTcpClient) -> None:
        assert await transcribe(client, PAUSE) == ""

    connected(port, talk)


def test_pings_are_answered_and_the_unknown_is_ignored(port: int) -> None:
    async def talk(client: AsyncTcpClient) -> None:
        await client.write_event(Event("select-program", {"name": "nobody"}))
        await client.write_event(AudioStop().event())
        await client.write_event(Ping("still there?").event())
        event = await client.read_event()
        assert event is not None and Pong.from_event(event).text == "still there?"

    connected(port, talk)


def event(type: str, payload: bytes = b"", **data: object) -> bytes:
    body = json.dumps(data).encode()
    header = {"type": type, "data_length": len(body), "payload_length": len(payload)}
    return json.dumps(header).encode() + b"\n" + body + payload


FORMAT = {"rate": 16000, "width": 2, "channels": 1}


@pytest.mark.parametrize(
    ("data", "complaint"),
    [
        (b"POST / HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n", "not JSON"),
        (b"x" * (2**20 + 100), "more than 1048576 bytes"),
        (b"{}\n", "type is None"),
        (b'{"type": 5}\n', "type is 5"),
        (b'{"type": "ping", "data": [1]}\n', "data is a list"),
        (b'{"type": "ping", "data_length": 1e9}\n', "data_length is 1000000000.0"),
        (b'{"type": "ping", "data_length": -1}\n', "data_length is -1"),
        (b'{"type": "ping", "data_length": 2}\n[]', "a list is not an object"),
        (b'{"type": "audio-chunk", "payload_length": 1073741824}\n', "payload_length is 1073741824"),
        (b'{"type": "audio-chunk", "payload_length": "many"}\n', "payload_length is 'many'"),
        (b'{"type": "audio-chunk", "data_length": 600000, "payload_length": 600000}\n', "payload_length is 600000"),
        (event("transcribe", language="de"), "language is 'de'; this server recognizes 'en' only"),
        (event("transcribe", language=["en"]), "language is a list"),
        (event("transcribe", transcript_names="all"), "transcript_names is 'all'; it must be a list of strings"),
        (event("audio-start", **FORMAT | {"rate": 100}), "rate is 100"),
        (event("audio-chunk", b"abcd", rate=16000, channels=1), "width, bytes of a sample, is None"),
        (event("audio-chunk", b"abcd", **FORMAT | {"width": 4}), "width, bytes of a sample, is 4"),
        (event("audio-chunk", b"abcd", **FORMAT | {"channels": 3}), "channels is 3"),
        (event("audio-chunk", b"abc", **FORMAT), "a chunk has 3 bytes; it must have 2 for each frame"),
    ],
)
def test_nonsense_is_answered_and_left(port: int, data: bytes, complaint: str) -> None:
    with socket.create_connection(("127.0.0.1", port), timeout=60) as client:
        client.sendall(data)
        answer = b""
        while piece := client.recv(65536):
            answer += piece
    header, body = answer.splitlines()
    assert json.loads(header)["type"] == "error"
    text = json.loads(body)["text"]
    assert complaint in text and len(text) < 200
