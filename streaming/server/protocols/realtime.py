"""OpenAI's Realtime transcription: a WebSocket at /v1/realtime.

Audio of 24 kHz comes in `input_audio_buffer.append` and is recognised at once. Text goes out for items, stretches of
the audio (realtime_items.py). What ends one is the session's `turn_detection` (realtime_config.py): with "server_vad"
the recogniser's endpoint rules, and `commit`; with null only `commit`, and an item may hold several utterances.
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
import json
import uuid
from contextlib import aclosing
from typing import Any

import numpy as np
from starlette.routing import BaseRoute, WebSocketRoute
from starlette.websockets import WebSocket, WebSocketDisconnect

from asr.streaming.server.protocols.messages import BadMessage, parse_object, shown
from asr.streaming.server.protocols.openai_api import ApiError, expect_keywords
from asr.streaming.server.protocols.realtime_config import SAMPLE_RATE, Config
from asr.streaming.server.protocols.realtime_items import Items, Mark
from asr.streaming.server.protocols.websocket import INTERNAL_ERROR, Client, refuse
from asr.streaming.server.server import Refused, Server
from asr.streaming.server.session import Session, SessionFailed

SUBPROTOCOL = "realtime"
MIN_COMMIT_S = 0.1
"""A commit of less audio is an error, as it is with OpenAI."""
MAX_ID_LENGTH = 512


async def _realtime(websocket: WebSocket) -> None:
    server: Server = websocket.app.state.server
    try:
        async with server.open("realtime") as session:
            await websocket.accept(SUBPROTOCOL if SUBPROTOCOL in websocket.scope["subprotocols"] else None)
            conversation = Conversation(
                Client(websocket, server),
                session,
                model=websocket.query_params.get("model", ""),
                old_form="realtime=v1" in websocket.headers.get("openai-beta", ""),
            )
            await conversation.run()
    except Refused as refused:
        await refuse(websocket, refused)


class Conversation:
    """A client that speaks this protocol, and its session."""

    def __init__(self, client: Client, session: Session, model: str, old_form: bool) -> None:
        """old_form: until the client says otherwise, objects and events as they were before 2025-08."""
        self._client = client
        self._session = session
        self._session_id = f"sess_{uuid.uuid4().hex}"
        silence_ms = round(1000 * session.recognizer.silence_after_speech_s)
        self._config = Config(silence_ms, silence_ms, model)
        self._items = Items(old_form)
        self._uncommitted_s = 0.0

    async def run(self) -> None:
        """To the end of the session."""
        telling = asyncio.ensure_future(self._tell())
        try:
            with contextlib.suppress(WebSocketDisconnect):
                try:
                    await self._talk(telling)
                except SessionFailed as failed:
                    await self._send_error(ApiError(str(failed), status=500))
                    await self._client.close(INTERNAL_ERROR, str(failed))
        finally:
            telling.cancel()
            await asyncio.gather(telling, return_exceptions=True)

    async def _talk(self, telling: asyncio.Future[None]) -> None:
        await self._send_session("created")
        async with aclosing(self._client.messages()) as messages:
            async for message in messages:
                await self._hear(message)
                if telling.done():
                    break
        if not self._client.connected:
            return
        if self._config.silence_ms is None and self._uncommitted_s:
            await self._end_item("commit")
        await self._session.finish()
        await telling
        await self._send_error(ApiError(self._client.why_ended, code="session_expired"))
        await self._client.close(self._client.close_code, self._client.why_ended)

    async def _tell(self) -> None:
        async for event in self._session.events():
            for message in self._items.take(event):
                await self._send(message)

    async def _hear(self, message: str | bytes) -> None:
        """A client's event; what is wrong with it is the client's to know."""
        event_id = None
        try:
            try:
                event = parse_object(message)
            except BadMessage as error:
                raise ApiError(str(error), code="invalid_json") from None
            if isinstance(given := event.get("event_id"), str):
                event_id = given[:MAX_ID_LENGTH]
            await self._obey(event)
        except ApiError as error:
            await self._send_error(error, event_id)

    async def _obey(self, event: dict[str, Any]) -> None:
        match event.get("type"):
            case "input_audio_buffer.append":
                await self._append(event.get("audio"))
            case "input_audio_buffer.commit":
                if self._uncommitted_s < MIN_COMMIT_S:
                    raise ApiError(
                        f"there are {self._uncommitted_s:.3f} s of audio to commit; it takes {MIN_COMMIT_S} s",
                        code="input_audio_buffer_commit_empty",
                    )
                await self._end_item("commit")
            case "input_audio_buffer.clear":
                await self._end_item("clear")
            case "session.update" | "transcription_session.update" as type:
                self._items.old_form = type != "session.update"
                await self._update(self._config.updated(event.get("session"), self._items.old_form))
            case type:
                known = "session.update, input_audio_buffer.append, .commit, .clear"
                raise ApiError(f"type is {shown(type)}; this server takes {known}", "type", "unknown_type")

    async def _append(self, audio: object) -> None:
        try:
            data = base64.b64decode(audio, validate=True) if isinstance(audio, str) else None
        except ValueError:
            data = None
        if data is None or len(data) % 2:
            raise ApiError("audio must be samples of 16 bits, little-endian, in Base64", "audio", "invalid_audio")
        if data:
            samples = np.frombuffer(data, "<i2").astype(np.int16)
            await self._session.accept_waveform(samples, SAMPLE_RATE)
            self._uncommitted_s += len(samples) / SAMPLE_RATE

    async def _end_item(self, how: str) -> None:
        """Ends the utterance, whose final then belongs to the item; the item is committed, or cleared."""
        await self._mark("manual")
        await self._session.end_utterance()
        await self._mark(how)
        if self._config.silence_ms is not None:
            await self._mark("vad")
        self._uncommitted_s = 0.0

    async def _update(self, config: Config) -> None:
        # Without turn detection the endpoint rules stay as they are: they bound what an utterance holds in memory.
        silence_s = (config.silence_ms or config.default_silence_ms) / 1000
        if config.keywords is not None and config.keywords != self._config.keywords:
            await expect_keywords(self._session, config.keywords, "keywords")
        if silence_s != self._session.recognizer.silence_after_speech_s:
            await self._session.change(silence_after_speech_s=silence_s)
        await self._mark("manual" if config.silence_ms is None else "vad")
        self._config = config
        await self._send_session("updated")

    async def _mark(self, what: str) -> None:
        now = self._session.audio_s
        await self._session.report(Mark(what, now, now))

    async def _send_session(self, what: str) -> None:
        kind = "transcription_session" if self._items.old_form else "session"
        session = self._config.to_dict(self._session_id, self._items.old_form)
        await self._send({"type": f"{kind}.{what}", "session": session})

    async def _send_error(self, error: ApiError, event_id: str | None = None) -> None:
        await self._send({"type": "error", "error": error.to_dict() | {"event_id": event_id}})

    async def _send(self, message: dict[str, Any]) -> None:
        await self._client.send(json.dumps({"event_id": f"event_{uuid.uuid4().hex}"} | message))


routes: list[BaseRoute] = [WebSocketRoute("/v1/realtime", _realtime)]
