"""A client of the Realtime protocol, which is OpenAI's own."""

from __future__ import annotations

import asyncio
import base64
from collections.abc import Awaitable, Callable, Iterator
from typing import Any

import numpy as np
import openai
from openai.types.realtime import RealtimeServerEvent

from support.server import RunningServer, serving

TOKEN = "open-sesame"
WAIT_S = 60.0
TRANSCRIPTION = "conversation.item.input_audio_transcription"


def realtime_server() -> Iterator[RunningServer]:
    """A fixture's server for two sessions that must not fail."""
    with serving("--max-sessions", "2", token=TOKEN) as server:
        yield server
        assert not any("Traceback" in line for line in server.log)


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


def transcripts(events: list[RealtimeServerEvent]) -> list[str]:
    return [event.transcript for event in events if event.type == f"{TRANSCRIPTION}.completed"]
