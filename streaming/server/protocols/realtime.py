"""OpenAI's Realtime transcription: a WebSocket at /v1/realtime.

Audio arrives in `input_audio_buffer.append` and is recognized immediately. Text is sent for items, which are
sections of the audio (realtime_items.py). `turn_detection` (realtime_config.py) decides what ends an item: with
"server_vad", the recognizer's endpoint rules and `commit`; with null, only `commit`, and an item may have several
utterances.

An `error` event is sent only for a message that cannot be processed at all, because some clients (LiveKit) give up on
any error. Keywords that cannot be used are skipped and listed in `warnings` of `session.updated`. The close code and
its reason report the end of a session.
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
import json
import logging
import math
import re
import uuid
from collections.abc import Sequence
from contextlib import aclosing
from dataclasses import replace
from typing import Any

from starlette.routing import BaseRoute, WebSocketRoute
from starlette.websockets import WebSocket, WebSocketDisconnect

from asr.runtime.search import WITH_DECODER
from asr.streaming.events import Event
from asr.streaming.recognizer import Recognizer
from asr.streaming.server.protocols.audio_format import WholeFrames, plain_base64
from asr.streaming.server.protocols.common import (
    MAX_JSON,
    ProtocolError,
    check_text,
    decoded,
    parse_object,
    shown,
    warnings_about,
)
from asr.streaming.server.protocols.realtime_config import (
    COMMIT_MODELS,
    LIVE_DELAYS,
    SessionConfig,
    requested_format,
)
from asr.streaming.server.protocols.realtime_items import Items, Mark
from asr.streaming.server.protocols.websocket import INTERNAL_ERROR, Client, refuse
from asr.streaming.server.server import Refused, Server
from asr.streaming.server.session import Session, SessionFailed

logger = logging.getLogger("asr_stream.server")

SUBPROTOCOL = "realtime"
MIN_COMMIT_S = 0.1
"""Committing less audio is an error, as with OpenAI."""
MAX_ID_LENGTH = 512
PIECE = 65536
"""Letters of Base64 that are decoded before other clients get a turn."""
_AUDIO = re.compile(r'"audio"\s*:\s*"')


async def _realtime(websocket: WebSocket) -> None:
    server: Server = websocket.app.state.server
    try:
        text = check_text(websocket.query_params.get("text", server.recognizer.text))
        async with server.open("realtime", text=text) as session:
            await websocket.accept(SUBPROTOCOL if SUBPROTOCOL in websocket.scope["subprotocols"] else None)
            connection = Connection(
                Client(websocket, server, session),
                session,
                model=websocket.query_params.get("model", ""),
                old_form="realtime=v1" in websocket.headers.get("openai-beta", ""),
            )
            await connection.run()
    except Refused as refused:
        await refuse(websocket, refused)
    except ProtocolError as error:
        await websocket.send_denial_response(error.response())


class Connection:
    """A client of this protocol, and its session."""

    def __init__(self, client: Client, session: Session, model: str, old_form: bool) -> None:
        """old_form: use the session object and the events from before 2025-08 until the first update."""
        self._client = client
        self._session = session
        self._recognizer = session.recognizer
        """The server's recognizer; the session's changes with its configuration."""
        self._session_id = f"sess_{session.id}"
        silence_ms = 1000 * self._recognizer.silence_after_speech_s
        silence_ms = round(silence_ms) if math.isfinite(silence_ms) else None
        language = self._recognizer.onnx.metadata.language
        self._config = SessionConfig(silence_ms, None if model in COMMIT_MODELS else silence_ms, language, model)
        self._items = Items(old_form, _is_live(self._recognizer), self._config.silence_ms is not None)
        self._uncommitted_s = 0.0
        self._frames = WholeFrames()
        self._unreadable = ""
        """Why appended audio cannot be read: an update with another format was refused."""

    async def run(self) -> None:
        """Serves the client until the session ends."""
        sending = asyncio.ensure_future(self._send_transcripts())
        try:
            with contextlib.suppress(WebSocketDisconnect):
                try:
                    await self._receive(sending)
                except SessionFailed as failed:
                    await self._send_error(ProtocolError(str(failed), status=500))
                    await self._client.close(INTERNAL_ERROR, str(failed))
        finally:
            sending.cancel()
            await asyncio.gather(sending, return_exceptions=True)

    async def _receive(self, sending: asyncio.Future[None]) -> None:
        await self._send_session("created")
        async with aclosing(self._client.messages()) as messages:
            async for message in messages:
                await self._handle(message)
                if sending.done():
                    break
        if not self._client.connected:
            return
        if self._config.silence_ms is None and self._uncommitted_s:
            await self._end_item("commit")
        await self._session.finish()
        await sending
        await self._client.close(self._client.close_code, self._client.why_ended)

    async def _send_transcripts(self) -> None:
        try:
            async for event in self._session.events():
                long = self._items.is_long
                texts = await asyncio.to_thread(self._texts, event) if long else self._texts(event)
                for text in texts:
                    await self._client.send(text)
        except (WebSocketDisconnect, SessionFailed):
            raise
        except Exception:  # `run` often sees only that the session is closed
            logger.exception("realtime: the transcripts cannot be sent")
            raise
        finally:
            self._session.close()  # because `_receive` may wait until events are read

    def _texts(self, event: Event) -> list[str]:
        return [_text(message) for message in self._items.take(event)]

    async def _handle(self, message: str | bytes) -> None:
        """Handles a client's event; sends an error if that is impossible."""
        event_id = None
        try:
            event = await _parse(message)
            if isinstance(given := event.get("event_id"), str):
                event_id = given[:MAX_ID_LENGTH]
            await self._handle_command(event)
        except ProtocolError as error:
            await self._send_error(error, event_id)

    async def _handle_command(self, event: dict[str, Any]) -> None:
        match event.get("type"):
            case "input_audio_buffer.append":
                await self._append(event.get("audio"))
            case "input_audio_buffer.commit":
                if self._uncommitted_s < MIN_COMMIT_S:
                    raise ProtocolError(
                        f"there are {self._uncommitted_s:.3f} s of audio to commit; "
                        f"at least {MIN_COMMIT_S} s are needed",
                        code="input_audio_buffer_commit_empty",
                    )
                await self._end_item("commit")
            case "input_audio_buffer.clear":
                self._frames.clear()
                await self._end_item("clear")
            case "session.update" | "transcription_session.update" as type:
                await self._update(event.get("session"), old_form=type != "session.update")
            case type:
                known = "session.update, input_audio_buffer.append, .commit, .clear"
                raise ProtocolError(f"type is {shown(type)}; this server takes {known}", "type", "unknown_type")

    async def _append(self, audio: object) -> None:
        if self._unreadable:
            sentence = f"this audio is not used, because its format was refused: {self._unreadable}"
            raise ProtocolError(sentence, "audio", "invalid_audio")
        format = self._config.format
        for data in await _decoded_audio(audio):
            samples = format.samples(self._frames.take(data, format.sample_bytes))
            await self._session.accept_waveform(samples, format.rate)
            self._uncommitted_s += len(samples) / format.rate

    async def _end_item(self, how: str) -> None:
        """Ends the utterance, so that its final belongs to the item, and then commits or clears the item."""
        await self._mark("manual")
        await self._session.end_utterance()
        await self._mark(how)
        if self._config.silence_ms is not None:
            await self._mark("vad")
        self._uncommitted_s = 0.0

    async def _update(self, session: object, old_form: bool) -> None:
        try:
            config = self._config.updated(session, old_form)
        except ProtocolError as error:
            # The client may not know, and send audio that must not be read in the former format.
            if not self._has_format(session, old_form):
                self._unreadable = str(error)
            raise
        self._items.old_form = old_form
        if requested_format(session, old_form) is not None:
            self._unreadable = ""
        await self._session.change(**self._changes(config))
        warnings: list[str] = []
        if config.keywords:
            used = self._session.recognizer.hotwords
            warnings = warnings_about(config.keywords, used)
            config = replace(config, keywords=used or ())
        await self._mark("manual" if config.silence_ms is None else "vad")
        self._items.live = _is_live(self._session.recognizer)
        self._items.details = config.details
        if config.format != self._config.format:
            self._frames.clear()
        self._config = config
        await self._send_session("updated", warnings)

    def _has_format(self, session: object, old_form: bool) -> bool:
        """Whether a refused update asks for the present audio format, or for none."""
        try:
            return requested_format(session, old_form) in (None, self._config.format)
        except ProtocolError:
            return False

    def _changes(self, config: SessionConfig) -> dict[str, Any]:
        """The recognizer's options for `config`."""
        server = self._recognizer
        is_default = config.silence_ms in (None, config.default_silence_ms)
        silence_s = server.silence_after_speech_s if is_default else config.silence_ms / 1000
        # Without turn detection, the endpoint rules still apply, to limit the memory of an utterance.
        changes = {
            "silence_after_speech_s": silence_s,
            "min_silence_after_speech_s": silence_s if config.is_fixed else server.min_silence_after_speech_s,
            "second_pass": server.second_pass,
            "search": server.search,
            "max_alternatives": config.max_alternatives,
            "hotwords": server.hotwords if config.keywords is None else config.keywords,
        }
        if config.delay in LIVE_DELAYS:
            changes |= {"second_pass": False, "search": "beam" if server.search in WITH_DECODER else server.search}
        return changes

    async def _mark(self, what: str) -> None:
        now = self._session.audio_s
        await self._session.report(Mark(what, now, now))

    async def _send_session(self, what: str, warnings: Sequence[str] = ()) -> None:
        kind = "transcription_session" if self._items.old_form else "session"
        session = self._config.to_dict(self._session_id, self._items.old_form)
        extra = {"warnings": warnings} if warnings else {}
        await self._send({"type": f"{kind}.{what}", "session": session} | extra)

    async def _send_error(self, error: ProtocolError, event_id: str | None = None) -> None:
        await self._send({"type": "error", "error": error.to_dict() | {"event_id": event_id}})

    async def _send(self, message: dict[str, Any]) -> None:
        await self._client.send(_text(message))


async def _parse(message: str | bytes) -> dict[str, Any]:
    """The event in a message. The audio of a long one, which may have megabytes, is not parsed as JSON."""
    if isinstance(message, bytes) and not message.lstrip().startswith(b"{"):
        sentence = "a binary message must be an event in JSON; send audio in input_audio_buffer.append, in Base64"
        raise ProtocolError(sentence, code="invalid_json")
    if len(message) <= MAX_JSON:
        return parse_object(message)
    text, audio = decoded(message), ""
    if begins := _AUDIO.search(text):
        begin = begins.end()
        audio = text[begin:].partition('"')[0]
        text = text[:begin] + text[begin + len(audio) :]
    event = parse_object(text)
    if "\\" in audio:  # some encoders escape "/" and "+"
        with contextlib.suppress(ValueError):  # then it is not Base64, either
            audio = await asyncio.to_thread(json.loads, f'"{audio}"')
    return event | {"audio": audio}


async def _decoded_audio(audio: object) -> list[bytes]:
    """The bytes of `audio`, in Base64."""
    wrong = ProtocolError(f"audio is {shown(audio)}; it must be samples in Base64", "audio", "invalid_audio")
    if not isinstance(audio, str):
        raise wrong
    text = plain_base64(audio) if len(audio) <= PIECE else await asyncio.to_thread(plain_base64, audio)
    pieces = []
    for begin in range(0, len(text), PIECE):
        piece = text[begin : begin + PIECE]
        is_last = begin + PIECE >= len(text)
        try:
            pieces.append(base64.b64decode(piece, validate=True))
        except ValueError:
            raise wrong from None
        if not is_last:
            if piece.endswith("="):
                raise wrong
            await asyncio.sleep(0)
    return pieces


def _text(message: dict[str, Any]) -> str:
    """Encodes as JSON. Long lists are encoded item by item: each call holds the GIL, which the event loop needs."""

    def encoded(value: Any) -> str:
        return f"[{', '.join(map(json.dumps, value))}]" if isinstance(value, list) else json.dumps(value)

    fields = {"event_id": f"event_{uuid.uuid4().hex}"} | message
    return f"{{{', '.join(f'{json.dumps(name)}: {encoded(value)}' for name, value in fields.items())}}}"


def _is_live(recognizer: Recognizer) -> bool:
    """Whether stable words are sent before their final: there is no second pass that knows more than the partials."""
    return not recognizer.second_pass and recognizer.search not in WITH_DECODER


routes: list[BaseRoute] = [WebSocketRoute("/v1/realtime", _realtime)]
