"""The WebSocket /v1/realtime: with OpenAI's own client, and with messages that no client would send."""

from __future__ import annotations

import asyncio
import json
import math
import signal
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import websockets
from openai.types.realtime import RealtimeServerEvent
from support.realtime import (
    TOKEN,
    TRANSCRIPTION,
    WAIT_S,
    append,
    encoded,
    realtime_server,
    set_up,
    talk,
    transcripts,
    until_completed,
)
from support.recognition import recognize
from support.server import RunningServer, quick_recognizer, serving

from asr import Recognizer
from asr.runtime.onnx_model import bundled_model
from asr.streaming import Final, Partial


@pytest.fixture(scope="module")
def server() -> Iterator[RunningServer]:
    yield from realtime_server()


@pytest.fixture(scope="module")
def recognizer() -> Recognizer:
    """The server's recognizer."""
    return quick_recognizer()


def texts(recognizer: Recognizer, audio: np.ndarray) -> list[str]:
    return [event.text for event in recognize(recognizer, audio, rate=24000) if isinstance(event, Final)]


def num_deltas(recognizer: Recognizer, audio: np.ndarray) -> list[int]:
    """Expected deltas per utterance: one for each partial with more stable words than all earlier ones, and one for the
    final."""
    counts, num_stable = [1], 0
    for event in recognize(recognizer, audio, rate=24000):
        if isinstance(event, Final):
            counts.append(1)
            num_stable = 0
        elif isinstance(event, Partial) and event.num_stable > num_stable:
            counts[-1] += 1
            num_stable = event.num_stable
    return counts[:-1]


# ---- the dialogue ----


def test_pauses_end_items(server: RunningServer, recognizer: Recognizer, audio: np.ndarray) -> None:
    async def dialogue(connection: Any) -> list[RealtimeServerEvent]:
        await set_up(connection, {"type": "server_vad", "silence_duration_ms": 500})
        await append(connection, audio)
        return await until_completed(connection, 3)

    events = talk(server, dialogue)
    local = recognizer.with_options(silence_after_speech_s=0.5)
    expected, counts = texts(local, audio), num_deltas(local, audio)
    assert transcripts(events) == expected and len(expected) == 3
    assert min(counts) > 1
    items = list(dict.fromkeys(event.item_id for event in events if hasattr(event, "item_id")))
    assert len(items) == 3 and len({event.event_id for event in events}) == len(events)
    for i, item in enumerate(items):
        own = [event for event in events if getattr(event, "item_id", None) == item]
        deltas = [event.delta for event in own if event.type == f"{TRANSCRIPTION}.delta"]
        assert [event.type for event in own if event.type != f"{TRANSCRIPTION}.delta"] == [
            "input_audio_buffer.speech_started",
            "input_audio_buffer.speech_stopped",
            "input_audio_buffer.committed",
            f"{TRANSCRIPTION}.completed",
        ]
        assert own[0].type == "input_audio_buffer.speech_started"
        assert 0 <= own[0].audio_start_ms < own[-3].audio_end_ms <= 1000 * len(audio) / 24000
        assert own[-2].previous_item_id == (items[i - 1] if i else None)
        # Partials that wait for a busy client are merged (session.py), so a delta may have the words of several.
        assert 1 <= len(deltas) <= counts[i] and "".join(deltas) == expected[i]
    added = [event.item for event in events if event.type == "conversation.item.added"]
    assert [(item.id, item.content[0].transcript) for item in added] == list(zip(items, expected, strict=True))


def test_only_a_commit_ends_items_without_turn_detection(
    server: RunningServer, recognizer: Recognizer, audio: np.ndarray
) -> None:
    cut = 24000 * 10  # in the second pause

    async def dialogue(connection: Any) -> list[RealtimeServerEvent]:
        await set_up(connection, None)
        await append(connection, audio[:cut])
        await connection.input_audio_buffer.commit()
        await append(connection, audio[cut:])
        await connection.input_audio_buffer.commit()
        return await until_completed(connection, 2)

    events = talk(server, dialogue)
    parts = [texts(recognizer, audio[:cut]), texts(recognizer, audio[cut:])]
    assert [len(part) for part in parts] == [2, 1]
    assert transcripts(events) == [" ".join(part) for part in parts]
    assert not any("speech" in event.type for event in events)
    seconds = [event.usage.seconds for event in events if event.type == f"{TRANSCRIPTION}.completed"]
    assert seconds == [math.ceil(cut / 24000), math.ceil((len(audio) - cut) / 24000)]


def test_commit_needs_no_pause_and_clear_forgets(
    server: RunningServer, recognizer: Recognizer, audio: np.ndarray
) -> None:
    async def dialogue(connection: Any) -> list[RealtimeServerEvent]:
        await append(connection, audio[:72000])
        await connection.input_audio_buffer.clear()
        while (await connection.recv()).type != "input_audio_buffer.cleared":
            pass
        await append(connection, audio[:48000])
        await connection.input_audio_buffer.commit()
        committed = await until_completed(connection, 1)
        assert not any(event.type == "input_audio_buffer.speech_stopped" for event in committed)
        await append(connection, audio[48000:170000])
        return committed + await until_completed(connection, 1)

    events = talk(server, dialogue)
    assert transcripts(events) == texts(recognizer, audio[:48000]) + texts(recognizer, audio[48000:170000])


def test_semantic_vad_and_unusable_keywords_are_accepted(server: RunningServer) -> None:
    """Clients such as LiveKit end the session at any error: `session.updated` states the actual setting instead."""

    async def dialogue(connection: Any) -> None:
        transcription = {"model": "whisper-1", "language": "en-US", "keywords": ["WALKED"], "delay": "low"}
        detection = {"type": "semantic_vad", "eagerness": "low", "silence_duration_ms": "none"}
        audio = {"transcription": transcription, "turn_detection": detection}
        await connection.session.update(session={"type": "transcription", "audio": {"input": audio}})
        updated = (await connection.recv()).to_dict()
        assert updated["type"] == "session.updated"
        found = updated["session"]["audio"]["input"]
        assert found["turn_detection"] == {"type": "server_vad", "silence_duration_ms": 4000}
        assert found["transcription"] == {
            "model": "whisper-1",
            "language": "en",
            "prompt": "",
            "keywords": [],
            "delay": "low",
        }
        assert updated["warnings"] == ["keywords that this model or its search cannot use are left out: 'WALKED'"]

    talk(server, dialogue)


def test_deltas_are_the_transcript_despite_the_second_pass(audio: np.ndarray) -> None:
    """Whole utterances with a second pass; words as they become stable if the client asks for a low delay."""
    audio = np.concatenate([audio, np.zeros(3 * 24000, np.int16)])  # the longest wait for the rest of a sentence
    utterances = texts(Recognizer(bundled_model("int8"), search="greedy", second_pass=True), audio)
    with serving(token=TOKEN, second_pass=True) as server:

        async def dialogue(connection: Any) -> dict[str, list[RealtimeServerEvent]]:
            events = {}
            for delay in ("high", "low"):
                session = {"type": "transcription", "audio": {"input": {"transcription": {"delay": delay}}}}
                await connection.session.update(session=session)
                assert (await connection.recv()).type == "session.updated"
                await append(connection, audio)
                events[delay] = await until_completed(connection, len(utterances))
            return events

        events = talk(server, dialogue)
    num_deltas = {}
    for delay, all_events in events.items():
        assert delay == "low" or transcripts(all_events) == utterances
        for event in all_events:
            if event.type == f"{TRANSCRIPTION}.completed":
                own = [e for e in all_events if getattr(e, "item_id", None) == event.item_id]
                deltas = [e.delta for e in own if e.type == f"{TRANSCRIPTION}.delta"]
                assert "".join(deltas) == event.transcript
                num_deltas[delay] = num_deltas.get(delay, 0) + len(deltas)
    assert num_deltas["high"] == len(utterances) < num_deltas["low"]


def test_turn_detection_changes_on_the_way(server: RunningServer, recognizer: Recognizer, audio: np.ndarray) -> None:
    """Earlier speech stays in the same item, and pauses in later speech do not end it."""
    cut = 24000 * 10

    async def dialogue(connection: Any) -> list[RealtimeServerEvent]:
        await set_up(connection, None)
        await append(connection, audio[:cut])
        vad = {"type": "server_vad", "silence_duration_ms": 5000}
        await connection.session.update(session={"type": "transcription", "audio": {"input": {"turn_detection": vad}}})
        await append(connection, audio[cut:])
        await connection.input_audio_buffer.commit()
        return await until_completed(connection, 1)

    events = talk(server, dialogue)
    patient = recognizer.with_options(silence_after_speech_s=5.0, min_silence_after_speech_s=5.0)
    assert transcripts(events) == [" ".join(texts(recognizer, audio[:cut]) + texts(patient, audio[cut:]))]


def test_accepts_former_session_object_and_token_as_subprotocol(server: RunningServer, audio: np.ndarray) -> None:
    async def dialogue() -> list[dict[str, Any]]:
        protocols = [websockets.Subprotocol(name) for name in ("realtime", f"openai-insecure-api-key.{TOKEN}")]
        async with websockets.connect(
            f"{server.ws_url}/v1/realtime?intent=transcription",
            subprotocols=protocols,
            additional_headers={"OpenAI-Beta": "realtime=v1"},
        ) as websocket:
            assert websocket.subprotocol == "realtime"
            session = {
                "input_audio_format": "pcm16",
                "input_audio_transcription": {"model": "gpt-4o-transcribe", "language": "en", "prompt": "HELLO"},
                "turn_detection": None,
            }
            await websocket.send(json.dumps({"type": "transcription_session.update", "session": session}))
            await websocket.send(json.dumps({"type": "input_audio_buffer.append", "audio": encoded(audio[:24000])}))
            await websocket.send(json.dumps({"type": "input_audio_buffer.commit"}))
            events = []
            while not events or events[-1]["type"] != f"{TRANSCRIPTION}.completed":
                events.append(json.loads(await websocket.recv()))
        assert events[1]["session"].items() >= session.items()
        return events

    events = asyncio.run(asyncio.wait_for(dialogue(), WAIT_S))
    kinds = [event["type"] for event in events if event["type"] != f"{TRANSCRIPTION}.delta"]
    assert kinds[:3] == [
        "transcription_session.created",
        "transcription_session.updated",
        "input_audio_buffer.committed",
    ]
    assert kinds[3:] == ["conversation.item.created", f"{TRANSCRIPTION}.completed"]


# ---- the end ----


def test_finals_are_sent_before_the_server_ends(recognizer: Recognizer, audio: np.ndarray) -> None:
    with serving(token=TOKEN) as server:

        async def dialogue(connection: Any) -> tuple[list[RealtimeServerEvent], Any]:
            await set_up(connection, None)
            await append(connection, audio[:72000])
            await (await connection._connection.ping())  # the server has read the audio
            await connection.recv()  # of the transcript
            server.process.send_signal(signal.SIGHUP)  # as of a closed terminal
            events = await until_completed(connection, 1)
            with pytest.raises(websockets.ConnectionClosed) as closed:
                await connection.recv()
            return events, closed.value.rcvd

        events, closed = talk(server, dialogue)
        assert transcripts(events) == [" ".join(texts(recognizer, audio[:72000]))]
        assert (closed.code, closed.reason) == (1001, "the server is shutting down; connect again")
        assert server.process.wait(60) == 0
