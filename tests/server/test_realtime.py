"""The WebSocket /v1/realtime: with OpenAI's own client, and with what no client would send."""

from __future__ import annotations

import asyncio
import base64
import json
import math
import re
import signal
from collections.abc import Awaitable, Callable, Iterator
from typing import Any

import numpy as np
import openai
import pytest
import soxr
import websockets
from openai.types.realtime import RealtimeServerEvent
from support.recognition import recognize
from support.server import RunningServer, serving

from asr import Recognizer
from asr.runtime.onnx_model import bundled_model
from asr.streaming import Final, Partial
from asr.streaming.server.protocols.realtime_items import Items, Mark

TOKEN = "open-sesame"
WAIT_S = 60.0
TRANSCRIPTION = "conversation.item.input_audio_transcription"


@pytest.fixture(scope="module")
def server() -> Iterator[RunningServer]:
    with serving("--max-sessions", "2", token=TOKEN) as server:
        yield server
        assert not any("Traceback" in line for line in server.log)


@pytest.fixture(scope="module")
def recognizer() -> Recognizer:
    """The server's."""
    return Recognizer(bundled_model("float32"), search="greedy", second_pass=False)


@pytest.fixture(scope="module")
def audio(conversation: np.ndarray) -> np.ndarray:
    """(num_samples,) int16, 24 kHz, with silence at the end."""
    samples = soxr.resample(np.concatenate([conversation, np.zeros(32000, np.float32)]), 16000, 24000)
    return np.clip(32768 * samples, -32768, 32767).astype(np.int16)


def texts(recognizer: Recognizer, audio: np.ndarray) -> list[str]:
    return [event.text for event in recognize(recognizer, audio, rate=24000) if isinstance(event, Final)]


def talk(server: RunningServer, dialogue: Callable[[Any], Awaitable[Any]]) -> Any:
    """A dialogue with OpenAI's client, after `session.created`."""

    async def run() -> Any:
        client = openai.AsyncOpenAI(base_url=f"{server.url}/v1", api_key=TOKEN)
        async with client.realtime.connect(model="whisper-1", extra_query={"intent": "transcription"}) as connection:
            created = await connection.recv()
            assert created.type == "session.created" and created.session.audio.input.transcription.model == "whisper-1"
            return await dialogue(connection)

    return asyncio.run(asyncio.wait_for(run(), WAIT_S))


async def set_up(connection: Any, turn_detection: dict[str, Any] | None) -> None:
    session = {"type": "transcription", "audio": {"input": {"turn_detection": turn_detection}}}
    await connection.session.update(session=session)
    updated = await connection.recv()
    assert updated.type == "session.updated"
    detection = updated.session.audio.input.turn_detection
    assert (detection and detection.to_dict()) == turn_detection


async def append(connection: Any, audio: np.ndarray) -> None:
    for begin in range(0, len(audio), 2400):
        await connection.input_audio_buffer.append(audio=encoded(audio[begin : begin + 2400]))


def encoded(audio: np.ndarray) -> str:
    return base64.b64encode(audio.astype("<i2").tobytes()).decode()


async def until_completed(connection: Any, count: int) -> list[RealtimeServerEvent]:
    events = []
    while count:
        events.append(await connection.recv())
        assert events[-1].type != "error", events[-1]
        count -= events[-1].type == f"{TRANSCRIPTION}.completed"
    return events


def said(events: list[RealtimeServerEvent]) -> list[str]:
    return [event.transcript for event in events if event.type == f"{TRANSCRIPTION}.completed"]


# ---- the dialogue ----


def test_pauses_end_items(server: RunningServer, recognizer: Recognizer, audio: np.ndarray) -> None:
    async def dialogue(connection: Any) -> list[RealtimeServerEvent]:
        await set_up(connection, {"type": "server_vad", "silence_duration_ms": 500})
        await append(connection, audio)
        return await until_completed(connection, 3)

    events = talk(server, dialogue)
    expected = texts(recognizer.with_options(silence_after_speech_s=0.5), audio)
    assert said(events) == expected and len(expected) == 3
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
        assert len(deltas) > 1 and "".join(deltas) == expected[i]
    added = [event.item for event in events if event.type == "conversation.item.added"]
    assert [(item.id, item.content[0].transcript) for item in added] == list(zip(items, expected, strict=True))


def test_without_turn_detection_only_a_commit_ends_an_item(
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
    assert said(events) == [" ".join(part) for part in parts]
    assert not any("speech" in event.type for event in events)
    seconds = [event.usage.seconds for event in events if event.type == f"{TRANSCRIPTION}.completed"]
    assert seconds == [math.ceil(cut / 24000), math.ceil((len(audio) - cut) / 24000)]


def test_a_commit_does_not_wait_for_a_pause_and_a_clear_forgets(
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
    assert said(events) == texts(recognizer, audio[:48000]) + texts(recognizer, audio[48000:170000])


def test_a_second_commit_without_audio_is_an_error(server: RunningServer, audio: np.ndarray) -> None:
    async def dialogue(connection: Any) -> None:
        await append(connection, audio[:48000])
        await connection.input_audio_buffer.commit()
        await until_completed(connection, 1)
        await connection.input_audio_buffer.commit()
        assert (await connection.recv()).error.code == "input_audio_buffer_commit_empty"

    talk(server, dialogue)


def test_semantic_vad_and_keywords_that_cannot_be_used_are_no_error(server: RunningServer) -> None:
    """Clients such as LiveKit give up on any error: `session.updated` says what holds instead."""

    async def dialogue(connection: Any) -> None:
        transcription = {"model": "whisper-1", "language": "en-US", "keywords": ["WALKED"], "delay": "low"}
        detection = {"type": "semantic_vad", "eagerness": "low", "silence_duration_ms": "none"}
        audio = {"transcription": transcription, "turn_detection": detection}
        await connection.session.update(session={"type": "transcription", "audio": {"input": audio}})
        updated = (await connection.recv()).to_dict()
        assert updated["type"] == "session.updated"
        found = updated["session"]["audio"]["input"]
        assert found["turn_detection"] == {"type": "server_vad", "silence_duration_ms": 1600}
        assert found["transcription"] == {
            "model": "whisper-1",
            "language": "en",
            "prompt": "",
            "keywords": [],
            "delay": "low",
        }
        assert updated["warnings"] == ["keywords that this model or its search cannot use are left out: 'WALKED'"]

    talk(server, dialogue)


def test_deltas_are_the_transcript_whatever_the_second_pass_changes(audio: np.ndarray) -> None:
    """With a second pass, whole utterances; where the client asks for a low delay, words as they become stable."""
    with serving(token=TOKEN, second_pass=True) as server:

        async def dialogue(connection: Any) -> dict[str, list[RealtimeServerEvent]]:
            events = {}
            for delay in ("high", "low"):
                session = {"type": "transcription", "audio": {"input": {"transcription": {"delay": delay}}}}
                await connection.session.update(session=session)
                assert (await connection.recv()).type == "session.updated"
                await append(connection, audio)
                events[delay] = await until_completed(connection, 3)
            return events

        events = talk(server, dialogue)
    num_deltas = {}
    for delay, all_events in events.items():
        for event in all_events:
            if event.type == f"{TRANSCRIPTION}.completed":
                own = [e for e in all_events if getattr(e, "item_id", None) == event.item_id]
                deltas = [e.delta for e in own if e.type == f"{TRANSCRIPTION}.delta"]
                assert "".join(deltas) == event.transcript
                num_deltas[delay] = num_deltas.get(delay, 0) + len(deltas)
    assert num_deltas["high"] == 3 < num_deltas["low"]


def test_turn_detection_changes_on_the_way(server: RunningServer, recognizer: Recognizer, audio: np.ndarray) -> None:
    """What was said before goes on in the same item; a longer silence than any in the audio does not end it."""
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
    patient = recognizer.with_options(silence_after_speech_s=5.0)
    assert said(events) == [" ".join(texts(recognizer, audio[:cut]) + texts(patient, audio[cut:]))]
    assert not any(event.type == "input_audio_buffer.speech_stopped" for event in events)


def test_the_former_session_object_and_a_token_as_subprotocol(server: RunningServer, audio: np.ndarray) -> None:
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


def test_a_refused_update_changes_nothing(server: RunningServer) -> None:
    async def dialogue(connection: Any) -> None:
        await connection.send_raw(
            json.dumps({"type": "transcription_session.update", "session": {"input_audio_format": "g711_ulaw"}})
        )
        assert (await connection.recv()).type == "error"
        await set_up(connection, None)
        await connection.send_raw(json.dumps({"type": "session.update", "session": 5}))
        assert (await connection.recv()).type == "error"
        await connection.send_raw(json.dumps({"type": "transcription_session.update", "session": {}}))
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


# ---- what is refused ----

APPEND = "input_audio_buffer.append"


def update(**audio_input: Any) -> dict[str, Any]:
    return {"type": "session.update", "session": {"type": "transcription", "audio": {"input": audio_input}}}


def vad(**fields: Any) -> dict[str, Any]:
    return update(turn_detection={"type": "server_vad"} | fields)


HOSTILE: list[tuple[Any, str | None, str]] = [
    ("{", None, "this is not JSON"),
    ("[" * 30000, None, "this JSON is nested too deeply"),
    ("[" * 30000 + "]" * 30000, None, "this JSON is nested too deeply"),
    ('{"type": ' + "9" * 5000 + "}", None, "this is not JSON"),
    (b"\xff\xfe\x00", None, "this is not JSON"),
    ("[]", None, "a list is no object"),
    ({"type": ["session.update"]}, "type", "type is a list; this server takes session.update"),
    ({"type": "response.create"}, "type", "type is 'response.create'; this server takes"),
    ({"type": "x" * 60000}, "type", r"^type is 'x{60}'; this"),
    ({"type": APPEND}, "audio", "16 bits, little-endian, in Base64"),
    ({"type": APPEND, "audio": 7}, "audio", "16 bits"),
    ({"type": APPEND, "audio": "AAA"}, "audio", "16 bits"),
    ({"type": APPEND, "audio": "AAAA" * 3 + "!"}, "audio", "16 bits"),
    ({"type": APPEND, "audio": "ÄÄÄÄ"}, "audio", "16 bits"),
    ({"type": APPEND, "audio": "AAAA"}, "audio", "16 bits"),
    ({"type": "input_audio_buffer.commit"}, None, r"0\.000 s of audio to commit; at least 0\.1 s are needed"),
    ({"type": "session.update"}, "session", "session is None; it must be an object"),
    ({"type": "session.update", "session": {"type": "realtime"}}, "session.type", "it must be 'transcription'"),
    ({"type": "session.update", "session": {"audio": 5}}, "session.audio", "session.audio is 5; it must be an object"),
    (update(format={"type": "audio/pcmu"}), "session.audio.input.format", "type 'audio/pcm', rate 24000"),
    (update(format={"type": "audio/pcm", "rate": 16000}), "session.audio.input.format", "rate 24000"),
    (update(transcription={"language": "fr"}), "session.audio.input.transcription.language", "recognizes 'en' only"),
    (
        update(transcription={"languages": ["fr"]}),
        "session.audio.input.transcription.languages",
        "recognizes 'en' only",
    ),
    (update(transcription={"languages": "en"}), "session.audio.input.transcription.languages", "a list of strings"),
    (update(transcription={"prompt": {}}), "session.audio.input.transcription.prompt", "must be a string"),
    (update(transcription={"keywords": "WALKED"}), "session.audio.input.transcription.keywords", "a list of strings"),
    (update(transcription={"keywords": [[]]}), "session.audio.input.transcription.keywords", "at most 500 strings"),
    (json.dumps(update(transcription={"keywords": ["\ud800"]})), None, "a string has a lone surrogate"),
    (update(transcription={"delay": "none"}), "session.audio.input.transcription.delay", "one of minimal, low, medium"),
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
    (vad(silence_duration_ms=True), "session.audio.input.turn_detection.silence_duration_ms", r"in \[100, 10000\]"),
    (vad(silence_duration_ms=1e400), "session.audio.input.turn_detection.silence_duration_ms", r"is inf; it must"),
    (vad(silence_duration_ms=99), "session.audio.input.turn_detection.silence_duration_ms", r"is 99; it must"),
    (
        {"type": "transcription_session.update", "session": {"input_audio_format": "g711_ulaw"}},
        "session.input_audio_format",
        "is 'g711_ulaw'; it must be 'pcm16'",
    ),
]


def test_what_is_wrong_is_said_and_the_session_goes_on(server: RunningServer, audio: np.ndarray) -> None:
    async def dialogue(connection: Any) -> list[str]:
        for number, (message, param, pattern) in enumerate(HOSTILE):
            id = f"event {number}" if isinstance(message, dict) else None
            await connection.send_raw(json.dumps(message | {"event_id": id}) if id else message)
            event = await connection.recv()
            assert event.type == "error" and event.error.type == "invalid_request_error", message
            assert (event.error.event_id, event.error.param) == (id, param)
            assert re.search(pattern, event.error.message) and len(event.error.message) < 300, event.error.message
        await append(connection, audio[:48000])
        await connection.input_audio_buffer.commit()
        return said(await until_completed(connection, 1))

    (transcript,) = talk(server, dialogue)
    assert transcript


def test_a_message_has_a_limit(server: RunningServer) -> None:
    async def dialogue(connection: Any) -> int | None:
        await connection.send_raw(json.dumps({"type": APPEND, "audio": "A" * 65536}))
        with pytest.raises(websockets.ConnectionClosedError) as closed:
            await connection.recv()
        return closed.value.rcvd and closed.value.rcvd.code

    assert talk(server, dialogue) == 1009


def test_no_more_clients_than_sessions(server: RunningServer) -> None:
    async def run() -> None:
        def connect() -> Any:
            return websockets.connect(
                f"{server.ws_url}/v1/realtime", additional_headers={"Authorization": f"Bearer {TOKEN}"}
            )

        async with connect(), connect():
            with pytest.raises(websockets.InvalidStatus) as refused:
                await connect()
            response = refused.value.response
            assert response.status_code == 503
            assert json.loads(response.body)["error"]["message"].startswith("all 2 streams are taken")
            with pytest.raises(websockets.InvalidStatus, match="401"):
                await websockets.connect(f"{server.ws_url}/v1/realtime")

    asyncio.run(asyncio.wait_for(run(), WAIT_S))


# ---- the end ----


def test_what_was_said_is_told_before_the_server_ends(recognizer: Recognizer, audio: np.ndarray) -> None:
    with serving(token=TOKEN) as server:

        async def dialogue(connection: Any) -> tuple[list[RealtimeServerEvent], Any]:
            await set_up(connection, None)
            await append(connection, audio[:72000])
            await connection.recv()  # of the transcript
            server.process.send_signal(signal.SIGTERM)
            events = await until_completed(connection, 1)
            with pytest.raises(websockets.ConnectionClosed) as closed:
                await connection.recv()
            return events, closed.value.rcvd

        events, closed = talk(server, dialogue)
        assert said(events) == [" ".join(texts(recognizer, audio[:72000]))]
        assert (closed.code, closed.reason) == (1001, "the server is about to end")
        assert server.process.wait(10) == 0


# ---- items ----


def deltas_of(items: Items, event: Any) -> list[str]:
    return [message["delta"] for message in items.take(event) if message["type"].endswith(".delta")]


def completed(items: Items, mark: str = "commit") -> str:
    return list(items.take(Mark(mark, 7, 7)))[-1]["transcript"]


def test_a_delta_is_what_will_hardly_change() -> None:
    items = Items(old_form=False, live=True)
    assert deltas_of(items, Partial("ONE TOO", 0, 1)) == []
    assert deltas_of(items, Partial("ONE TWO TREE", 0, 2, num_stable=1)) == ["ONE"]
    assert deltas_of(items, Partial("ONE TWO THREE", 0, 3, num_stable=2)) == [" TWO"]
    assert deltas_of(items, Partial("WON TWO", 0, 3, num_stable=1)) == []
    assert deltas_of(items, Mark("manual", 3, 3)) == []
    assert deltas_of(items, Final("ONE TWO THREE FOUR", 0, 4)) == [" THREE FOUR"]
    assert deltas_of(items, Partial("FOUR FIVE", 0, 2, num_stable=1)) == [" FOUR"]
    assert deltas_of(items, Partial("", 0, 3)) == []  # the utterance was none
    assert deltas_of(items, Final("FIVE", 5, 6)) == [" FIVE"]
    last = list(items.take(Mark("commit", 7, 7)))[-1]
    assert last["transcript"] == "ONE TWO THREE FOUR FOUR FIVE" and last["usage"]["seconds"] == 7


@pytest.mark.parametrize(
    ("final", "transcript"),
    [
        ("IT WAS THAT THAT THEY ENFORCED", "WAS THAT THAT THEY ENFORCED"),
        ("IS THAT THAT THEY ENFORCED", "WAS THAT THAT THEY ENFORCED"),
        ("WAS THAT WHAT THEY ENFORCED", "WAS THAT THAT THEY ENFORCED"),
        ("WAS THAT A LAW THAT THEY ENFORCED", "WAS THAT THAT THEY ENFORCED"),
        ("SO FAR", "WAS THAT THAT"),
        ("SO FAR AND NO FURTHER", "WAS THAT THAT NO FURTHER"),
        ("", "WAS THAT THAT"),
    ],
)
def test_deltas_are_the_transcript_where_a_final_differs(final: str, transcript: str) -> None:
    items = Items(old_form=False, live=True)
    deltas = deltas_of(items, Partial("WAS THAT THAT THEY", 0, 1, num_stable=3))
    deltas += deltas_of(items, Final(final, 0, 2))
    items.take(Mark("manual", 3, 3))
    assert "".join(deltas) == transcript


def test_what_a_second_pass_may_change_is_not_sent() -> None:
    items = Items(old_form=False, live=False)
    assert deltas_of(items, Mark("manual", 0, 0)) == []
    assert deltas_of(items, Partial("WAS THAT THAT THEY", 0, 1, num_stable=3)) == []
    assert deltas_of(items, Final("WAS THAT THEY", 0, 2)) == ["WAS THAT THEY"]
    assert completed(items) == "WAS THAT THEY"
