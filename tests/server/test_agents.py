"""Message exchanges of voice agents' clients, which are too large to install for a test.

Their messages were recorded from livekit-plugins-openai 1.8.9 (`STT`) and pipecat-ai 1.14.0
(`OpenAIRealtimeSTTService`, `OpenAISTTService`) connected to this server. Both treat any `error` event as the end of
the session. Pipecat configures the session after it has been created, LiveKit immediately.
"""

from __future__ import annotations

import asyncio
import base64
import io
import json
from collections.abc import Iterator
from typing import Any

import numpy as np
import openai
import pytest
import soundfile
import soxr
import websockets
from support.realtime import TOKEN, TRANSCRIPTION
from support.server import RunningServer, serving

PCM = {"type": "audio/pcm", "rate": 24000}
LIVEKIT_VAD = {"type": "server_vad", "threshold": 0.5, "prefix_padding_ms": 600, "silence_duration_ms": 350}


@pytest.fixture(scope="module")
def server() -> Iterator[RunningServer]:
    with serving("--search", "beam", token=TOKEN) as server:
        yield server


def update(model: str, more: dict[str, Any], **transcription: Any) -> dict[str, Any]:
    audio = {"format": PCM, "transcription": {"model": model, **transcription}} | more
    return {"type": "session.update", "session": {"type": "transcription", "audio": {"input": audio}}}


# query, session.update, whether the client commits when its own VAD finds the end of speech
SESSIONS = {
    "LiveKit": (
        "?intent=transcription&model=gpt-4o-mini-transcribe",
        update("gpt-4o-mini-transcribe", {"turn_detection": LIVEKIT_VAD}, language="en"),
        False,
    ),
    "LiveKit with semantic_vad": (
        "?intent=transcription&model=gpt-4o-transcribe",
        update(
            "gpt-4o-transcribe",
            {
                "turn_detection": {"type": "semantic_vad", "eagerness": "high"},
                "noise_reduction": {"type": "near_field"},
            },
            language="en",
            prompt="A walk.",
        ),
        False,
    ),
    "LiveKit with keywords": (
        "?intent=transcription&model=gpt-transcribe",
        update("gpt-transcribe", {"turn_detection": LIVEKIT_VAD}, keywords=["quixote", "C3PO"], languages=["en", "fr"]),
        False,
    ),
    "LiveKit with its own detector": (
        "?intent=transcription&model=gpt-live-transcribe",
        update("gpt-live-transcribe", {}, keywords=[], languages=["en"]),
        True,
    ),
    "Pipecat": (
        "?intent=transcription",
        update("gpt-realtime-whisper", {"turn_detection": None}, language="en"),
        True,
    ),
    "Pipecat with the server's detector": (
        "?intent=transcription",
        update("gpt-transcribe", {"turn_detection": {"type": "semantic_vad"}}, language="en"),
        False,
    ),
}


@pytest.mark.parametrize("client", SESSIONS)
def test_each_utterance_is_an_item(server: RunningServer, sample: np.ndarray, client: str) -> None:
    query, configuration, commits = SESSIONS[client]
    spoken = soxr.resample(np.concatenate([sample, np.zeros(16000, np.int16)]), 16000, 24000)

    async def talk() -> list[dict[str, Any]]:
        headers = {"Authorization": f"Bearer {TOKEN}"}
        async with websockets.connect(f"{server.ws_url}/v1/realtime{query}", additional_headers=headers) as socket:
            await socket.send(json.dumps(configuration))
            for _ in range(2):
                for begin in range(0, len(spoken), 1200):  # 50 ms
                    audio = base64.b64encode(spoken[begin : begin + 1200].tobytes()).decode()
                    await socket.send(json.dumps({"type": "input_audio_buffer.append", "audio": audio}))
                if commits:
                    await socket.send(json.dumps({"type": "input_audio_buffer.commit"}))
            events: list[dict[str, Any]] = []
            while sum(event["type"] == f"{TRANSCRIPTION}.completed" for event in events) < 2:
                events.append(json.loads(await socket.recv()))
                assert events[-1]["type"] != "error", events[-1]
            return events

    events = asyncio.run(asyncio.wait_for(talk(), 60))
    assert [event["type"] for event in events[:2]] == ["session.created", "session.updated"]
    assert ("warnings" in events[1]) == ("keywords" in client)
    kinds = [event["type"].removeprefix("input_audio_buffer.") for event in events[2:]]
    detector = ["speech_started", "speech_stopped"]
    assert [kind for kind in kinds if kind in detector] == ([] if commits else 2 * detector)
    items = list(dict.fromkeys(event["item_id"] for event in events[2:] if "item_id" in event))
    assert len(items) == 2
    for item in items:
        own = [event for event in events if event.get("item_id") == item]
        text = "".join(event["delta"] for event in own if event["type"] == f"{TRANSCRIPTION}.delta")
        assert text == own[-1]["transcript"] and "old man" in text.lower()
        assert isinstance(own[-1]["usage"]["seconds"], int)


# What LiveKit's `recognize` and Pipecat's segments send: a WAV file in memory, with these fields.
FORMS: list[dict[str, Any]] = [
    {"model": "gpt-4o-mini-transcribe", "language": "en", "response_format": "json"},
    {"model": "whisper-1", "language": "en", "response_format": "verbose_json"},
    {
        "model": "gpt-transcribe",
        "languages": ["en", "fr"],
        "keywords": ["quixote", "C3PO"],
        "prompt": "A walk.",
        "response_format": "json",
    },
    {"model": "gpt-transcribe", "language": "en", "response_format": "json", "include": ["logprobs"]},
]


@pytest.mark.parametrize("form", FORMS, ids=lambda form: form["model"])
def test_an_utterance_as_a_file(server: RunningServer, sample: np.ndarray, form: dict[str, Any]) -> None:
    wav = io.BytesIO()
    soundfile.write(wav, sample, 16000, format="WAV")
    client = openai.OpenAI(base_url=f"{server.url}/v1", api_key=TOKEN, max_retries=0)
    answer = client.audio.transcriptions.create(file=("file.wav", wav.getvalue(), "audio/wav"), **form)
    assert "old man" in answer.text.lower()
