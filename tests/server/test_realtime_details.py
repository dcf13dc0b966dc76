"""Realtime results besides text: times, logprobs, alternatives. With OpenAI's own client."""

from __future__ import annotations

import math
from collections.abc import Iterator
from itertools import pairwise
from typing import Any
from unittest.mock import Mock

import numpy as np
import pytest
from openai.types.realtime import (
    ConversationItemInputAudioTranscriptionCompletedEvent,
    ConversationItemInputAudioTranscriptionDeltaEvent,
    RealtimeServerEvent,
)
from openai.types.realtime.conversation_item_input_audio_transcription_completed_event import (
    UsageTranscriptTextUsageDuration,
)
from starlette.testclient import TestClient
from support.realtime import TOKEN, TRANSCRIPTION, append, encoded, talk, until_completed
from support.recognition import recognize
from support.server import RunningServer, quick_recognizer, serving

from asr import Recognizer
from asr.runtime.onnx_model import bundled_model
from asr.streaming import Final
from asr.streaming.server.app import create_app
from asr.streaming.server.protocols.realtime_items import Items
from asr.streaming.server.security.access import Access
from asr.streaming.server.security.limits import Limits
from asr.streaming.server.server import Server

LOGPROBS = "item.input_audio_transcription.logprobs"


@pytest.fixture(scope="module")
def server() -> Iterator[RunningServer]:
    with serving("--search", "beam", "--lm", "none", token=TOKEN) as server:
        yield server


@pytest.fixture(scope="module")
def finals(audio: np.ndarray) -> list[Final]:
    """The result of the server's recognizer for the audio."""
    recognizer = Recognizer(
        bundled_model("int8"), search="beam", lm=None, second_pass=False, max_alternatives=2, silence_after_speech_s=0.5
    )
    return [event for event in recognize(recognizer, audio, rate=24000) if isinstance(event, Final)]


def completed(events: list[RealtimeServerEvent]) -> list[dict[str, Any]]:
    return [event.to_dict() for event in events if event.type == f"{TRANSCRIPTION}.completed"]


def test_times_logprobs_and_alternatives_as_asked_for(
    server: RunningServer, audio: np.ndarray, finals: list[Final]
) -> None:
    detection = {"type": "server_vad", "silence_duration_ms": 500}

    async def dialogue(connection: Any) -> tuple[dict[str, Any], list[RealtimeServerEvent]]:
        transcription = {"timestamp_granularities": ["word"], "max_alternatives": 2}
        session = {
            "type": "transcription",
            "include": [LOGPROBS],
            "audio": {"input": {"transcription": transcription, "turn_detection": detection}},
        }
        await connection.session.update(session=session)
        reply = (await connection.recv()).to_dict()
        await append(connection, audio)
        return reply, await until_completed(connection, 3)

    reply, events = talk(server, dialogue)
    assert reply["session"]["include"] == [LOGPROBS]
    transcription = reply["session"]["audio"]["input"]["transcription"]
    assert transcription["timestamp_granularities"] == ["word"] and transcription["max_alternatives"] == 2
    assert any(final.alternatives for final in finals)
    items = completed(events)
    for item, final in zip(items, finals, strict=True):
        assert item["transcript"] == final.text
        assert item["words"] == [
            {"word": word.word, "start": round(word.start, 3), "end": round(word.end, 3)} for word in final.words
        ]
        assert "".join(token["token"] for token in item["logprobs"]) == final.text
        expected = [math.log(word.confidence) for word in final.words]
        assert [token["logprob"] for token in item["logprobs"]] == pytest.approx(expected, abs=1e-4)
        utterance = {"start": round(final.start, 3), "end": round(final.end, 3)}
        assert item["alternatives"] == [utterance | other.to_dict() for other in final.alternatives]
        deltas = [e for e in events if e.type == f"{TRANSCRIPTION}.delta" and e.item_id == item["item_id"]]
        assert [token for delta in deltas for token in delta.to_dict()["logprobs"]] == item["logprobs"]
        assert [word for delta in deltas for word in delta.to_dict()["words"]] == item["words"]
        # The client's types; clients in other languages reject unexpected fields.
        for delta in deltas:
            ConversationItemInputAudioTranscriptionDeltaEvent.model_validate(delta.to_dict(), strict=True)
        event = ConversationItemInputAudioTranscriptionCompletedEvent.model_validate(item, strict=True)
        assert isinstance(event.usage, UsageTranscriptTextUsageDuration)
    ends = [0.0, *(final.end for final in finals)]
    spans = [math.ceil(round(end - start, 3)) for start, end in pairwise(ends)]
    assert [item["usage"]["seconds"] for item in items] == spans


def test_failure_to_send_transcripts_is_logged(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(Items, "take", Mock(side_effect=KeyError("a mistake")))
    recognizer = quick_recognizer()
    app = create_app(Server(recognizer, Limits(idle_s=3.0), num_threads=1), Access())
    with (
        TestClient(app) as client,
        client.websocket_connect("/v1/realtime", headers={"host": "localhost"}) as websocket,
    ):
        assert websocket.receive_json()["type"] == "session.created"
        websocket.send_json({"type": "input_audio_buffer.append", "audio": encoded(np.zeros(4800))})
        websocket.send_json({"type": "input_audio_buffer.commit"})
        assert websocket.receive_json()["type"] == "error"
    (record,) = [each for each in caplog.records if each.name == "asr_stream.server" and each.exc_info]
    assert record.message == "realtime: the transcripts cannot be sent"
