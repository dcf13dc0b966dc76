"""The Realtime protocol: messages that are rejected, and that the session continues."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import websockets
from support.realtime import (
    TRANSCRIPTION,
    append,
    realtime_server,
    set_up,
    talk,
    transcripts,
    until_completed,
)
from support.server import RunningServer

from asr.streaming.server.protocols.audio_format import TAKEN
from asr.streaming.server.protocols.common import MAX_JSON
from asr.streaming.server.security.limits import Limits


@pytest.fixture(scope="module")
def server() -> Iterator[RunningServer]:
    yield from realtime_server()


def test_a_refused_update_changes_nothing(server: RunningServer) -> None:
    async def dialogue(connection: Any) -> None:
        await connection.send_raw(
            json.dumps({"type": "transcription_session.update", "session": {"input_audio_format": "g722"}})
        )
        assert (await connection.recv()).type == "error"
        await set_up(connection, None)
        await connection.send_raw(json.dumps({"type": "session.update", "session": 5}))
        assert (await connection.recv()).type == "error"
        former = {"type": "transcription_session.update", "session": {"input_audio_format": "pcm16"}}
        await connection.send_raw(json.dumps(former))
        assert json.loads(await connection.recv_bytes())["type"] == "transcription_session.updated"
        await connection.send_raw(json.dumps({"type": "session.update", "session": 5}))
        assert (await connection.recv()).type == "error"
        await append(connection, np.zeros(4800, np.int16))
        await connection.input_audio_buffer.commit()
        kinds = []
        while not kinds or kinds[-1] != f"{TRANSCRIPTION}.completed":
            kinds.append(json.loads(await connection.recv_bytes())["type"])
        assert "conversation.item.created" in kinds and "conversation.item.added" not in kinds

    talk(server, dialogue)


APPEND = "input_audio_buffer.append"


def session(**fields: Any) -> dict[str, Any]:
    return {"type": "session.update", "session": fields}


def update(**audio_input: Any) -> dict[str, Any]:
    return session(type="transcription", audio={"input": audio_input})


def vad(**fields: Any) -> dict[str, Any]:
    return update(turn_detection={"type": "server_vad"} | fields)


FORMAT = "session.audio.input.format"
LOGPROBS, DETAILS = "item.input_audio_transcription.logprobs", "session.audio.input.transcription"

HOSTILE: list[tuple[Any, str | None, str]] = [
    ("{", None, "this is not JSON"),
    ("[" * 30000, None, "this JSON is nested too deeply"),
    ("[" * 30000 + "]" * 30000, None, "this JSON is nested too deeply"),
    ('{"type": ' + "9" * 5000 + "}", None, "this is not JSON"),
    (b"\xff\xfe\x00", None, "a binary message must be an event in JSON; send audio in input_audio_buffer.append"),
    (b"", None, "a binary message must be an event in JSON"),
    (b'{"\xff', None, "this is not JSON"),
    ("[]", None, "a list is not an object"),
    ({"type": ["session.update"]}, "type", "type is a list; this server takes session.update"),
    ({"type": "response.create"}, "type", "type is 'response.create'; this server takes"),
    ({"type": "x" * 60000}, "type", r"^type is 'x{60}'; this"),
    ({"type": APPEND}, "audio", "audio is None; it must be samples in Base64"),
    ({"type": APPEND, "audio": 7}, "audio", "audio is 7; it must"),
    ({"type": APPEND, "audio": "A"}, "audio", "audio is 'A'; it must"),
    ({"type": APPEND, "audio": "AAAA" * 3 + "!"}, "audio", "in Base64"),
    ({"type": APPEND, "audio": "data:audio/wav;base64,AAAA"}, "audio", "audio is 'data:audio/wav;base64,AAAA'; it"),
    ({"type": APPEND, "audio": "ÄÄÄÄ"}, "audio", "in Base64"),
    ({"type": "input_audio_buffer.commit"}, None, r"0\.000 s of audio to commit; at least 0\.1 s are needed"),
    ({"type": "session.update"}, "session", "session is None; it must be an object"),
    (session(type="realtime"), "session.type", "it must be 'transcription'"),
    (session(audio=5), "session.audio", "session.audio is 5; it must be an object"),
    (update(format=5) | {"session": {"audio": {"input": 5}}}, "session.audio.input", "is 5; it must be an object"),
    ({"type": APPEND, "audio": 20000 * "AAAA" + "AAA!"}, "audio", "in Base64"),
    ({"type": APPEND, "audio": 16384 * "AAAA"[:-1] + "=" + "AAAA"}, "audio", "in Base64"),
    ({"type": APPEND, "audio": 16383 * "AAAA" + "AAA=" + "AAAA"}, "audio", "in Base64"),
    (
        json.dumps({"type": "x" * MAX_JSON, "audio": ""}),
        None,
        rf"this JSON has 655\d\d letters; only audio may make a message longer than {MAX_JSON}",
    ),
    (json.dumps([1] * MAX_JSON), None, "this JSON has 196608 letters; only audio"),
    (b"{\xff" * (MAX_JSON + 1), None, "this is not JSON"),
    (update(format={"type": "audio/opus"}), FORMAT, f"format is 'audio/opus'; this server takes {re.escape(TAKEN)}$"),
    (update(format={"type": "audio/pcm", "channels": 2}), f"{FORMAT}.channels", "channels is 2; it must be 1: open a"),
    (update(format=5), FORMAT, f"format is 5; this server takes {re.escape(TAKEN)}$"),
    (update(format={"type": ["audio/pcm"]}), FORMAT, "format is a list; this server takes"),
    (
        update(format={"type": "audio/pcm", "rate": 999}),
        FORMAT,
        r"rate is 999; it must be a whole number in \[1000, 768000",
    ),
    (
        update(format={"type": "audio/pcma", "rate": 16000}),
        FORMAT,
        "rate of 'audio/pcma' is 16000; it must be 8000: leave",
    ),
    (update(format="g711_ulaw", transcription={"language": "fr"}), f"{DETAILS}.language", "recognizes 'en' only"),
    ({"type": APPEND, "audio": "AAAA"}, "audio", "its format was refused: .* recognizes 'en' only"),
    (update(transcription={"language": "fr"}), f"{DETAILS}.language", "recognizes 'en' only"),
    (update(transcription={"languages": ["fr"]}), f"{DETAILS}.languages", "recognizes 'en' only"),
    (update(transcription={"languages": "en"}), f"{DETAILS}.languages", "a list of strings"),
    (update(transcription={"prompt": {}}), f"{DETAILS}.prompt", "must be a string"),
    (update(transcription={"keywords": "WALKED"}), f"{DETAILS}.keywords", "a list of strings"),
    (update(transcription={"keywords": [[]]}), f"{DETAILS}.keywords", "at most 500 strings"),
    (update(transcription={"keywords": ["x" * 65]}), f"{DETAILS}.keywords", "a keyword has at most 64 letters"),
    (
        update(transcription={"keywords": 126 * ["x" * 64]}),
        f"{DETAILS}.keywords",
        "have 8064 letters; all keywords together have at most 8000",
    ),
    (json.dumps(update(transcription={"keywords": ["\ud800"]})), None, "a string has a lone surrogate"),
    (update(transcription={"delay": "none"}), f"{DETAILS}.delay", "one of minimal, low, medium"),
    (
        update(turn_detection="server_vad"),
        "session.audio.input.turn_detection",
        "of type 'server_vad' or 'semantic_vad'",
    ),
    (
        update(turn_detection={"type": "semantic_vad", "eagerness": "very"}),
        "session.audio.input.turn_detection.eagerness",
        "one of low, medium, auto, high",
    ),
    (
        update(turn_detection={"type": "vad"}),
        "session.audio.input.turn_detection",
        "of type 'server_vad' or 'semantic_vad'",
    ),
    (vad(silence_duration_ms=True), "session.audio.input.turn_detection.silence_duration_ms", "is True; it must be a"),
    (vad(silence_duration_ms="350"), "session.audio.input.turn_detection.silence_duration_ms", "is '350'; it must"),
    (vad(silence_duration_ms=math.nan), "session.audio.input.turn_detection.silence_duration_ms", "is nan; it must"),
    (session(include=["everything"]), "session.include", f"has 'everything'; it must be a list of '{LOGPROBS}'"),
    (session(include=LOGPROBS), "session.include", "it must be a list of"),
    (session(include=[{}]), "session.include", "session.include has an object"),
    (
        update(transcription={"timestamp_granularities": ["segment"]}),
        f"{DETAILS}.timestamp_granularities",
        "has 'segment'; it must be a list of 'word'",
    ),
    (update(transcription={"max_alternatives": 21}), None, r"is 21; it must be a whole number in \[0, 20\]"),
    (update(transcription={"max_alternatives": "two"}), None, "max_alternatives is 'two'"),
    (
        {"type": "transcription_session.update", "session": {"input_audio_format": "g722"}},
        "session.input_audio_format",
        "is 'g722'; this server takes",
    ),
    ({"type": APPEND, "audio": "AAAA"}, "audio", "its format was refused: .* is 'g722'; this server takes 'audio/pcm'"),
]


def test_error_is_reported_and_the_session_continues(server: RunningServer, audio: np.ndarray) -> None:
    async def dialogue(connection: Any) -> list[str]:
        for number, (message, param, pattern) in enumerate(HOSTILE):
            id = f"event {number}" if isinstance(message, dict) else None
            await connection.send_raw(json.dumps(message | {"event_id": id}) if id else message)
            event = await connection.recv()
            assert event.type == "error" and event.error.type == "invalid_request_error", message
            assert (event.error.event_id, event.error.param) == (id, param)
            assert re.search(pattern, event.error.message) and len(event.error.message) < 300, event.error.message
        await connection.session.update(session=update(format={"type": "audio/pcm", "rate": 24000})["session"])
        assert (await connection.recv()).type == "session.updated"
        await append(connection, audio[:48000])
        await connection.input_audio_buffer.commit()
        events = await until_completed(connection, 1)
        await connection.input_audio_buffer.commit()  # without audio
        assert (await connection.recv()).error.code == "input_audio_buffer_commit_empty"
        return transcripts(events)

    (transcript,) = talk(server, dialogue)
    assert transcript


def test_a_message_has_a_limit(server: RunningServer) -> None:
    async def dialogue(connection: Any) -> int | None:
        with pytest.raises(websockets.ConnectionClosedError) as closed:
            await connection.send_raw(json.dumps({"type": APPEND, "audio": "A" * Limits().max_message_bytes}))
            await connection.recv()
        return closed.value.rcvd and closed.value.rcvd.code

    assert talk(server, dialogue) == 1009
