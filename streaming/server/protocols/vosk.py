"""vosk-server's WebSocket protocol at `/` and `/vosk`; its many clients work unmodified.

    client                                      server
    {"config": {"sample_rate": 16000, ...}}     nothing
    binary: int16, little-endian                {"partial": "and so"} or {"result": [...], "text": "and so on"}
    {"reset": 1}                                {"result": [...], "text": ...}: ends the utterance
    {"eof": 1}                                  {"result": [...], "text": ...}, and the connection is closed
    {"reset": 0} or {"eof": 0}                  {"partial": ...}, as for a message without audio

Each reply covers the audio up to its message; text changes once per chunk. Keys of the config, with vosk-server's
defaults: `sample_rate` 8000, `words` 1 (0: results have only `text`), `max_alternatives` 0 (more: results are
`alternatives`, most likely first, without punctuation after the first), `phrase_list` [] (a grammar: phrases of the
list, and "[unk]" for anything else). Extensions are `channels` 1 (more: interleaved samples), `channel` "mix" (or a
number from 1), `num_stable` 0 (1: partials have `num_stable`, the number of
leading words that are unlikely to change) and `text` "plain" ("formatted": with digits, case and punctuation;
"default": as set by the server's --text). Other keys are ignored. Plain text is in lower case except for "I".

The protocol: https://alphacephei.com/vosk/server. It has no errors; here a client gets {"error": ...} before the
connection is closed.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from contextlib import AsyncExitStack, suppress
from typing import Any

import numpy as np
from starlette.routing import BaseRoute, WebSocketRoute
from starlette.websockets import WebSocket, WebSocketDisconnect

from asr.channels import Channel
from asr.options import OPTIONS
from asr.runtime.search import Word
from asr.streaming.events import Final, Partial, joined, timed_word
from asr.streaming.resampler import MAX_CHANNELS, MAX_SAMPLE_RATE, MIN_SAMPLE_RATE, mono
from asr.streaming.server.protocols.audio_format import WholeFrames
from asr.streaming.server.protocols.common import ProtocolError, check_text, parse_object, shown, whole_number
from asr.streaming.server.protocols.websocket import INTERNAL_ERROR, POLICY_VIOLATION, Client, refuse
from asr.streaming.server.server import Refused, Server, why_ended
from asr.streaming.server.session import Session, SessionFailed

DEFAULT_SAMPLE_RATE = 8000
MAX_ALTERNATIVES = 1000
MAX_PHRASE_LETTERS = 20_000
"""Maximum number of letters of a `phrase_list`. Pronouncing unknown words of so many letters takes 0.5 s, for which the
changes of other clients wait."""


async def serve(websocket: WebSocket) -> None:
    """Serves one client, from its handshake to its end."""
    server: Server = websocket.app.state.server
    async with AsyncExitStack() as stack:
        try:
            session = await stack.enter_async_context(server.open("vosk", text="plain"))
        except Refused as refused:
            await refuse(websocket, refused)
            return
        await websocket.accept()
        client = Client(websocket, server, session)
        try:
            await _converse(client, Dialogue(session, server.recognizer.text))
        except ProtocolError as error:
            await _fail(client, POLICY_VIOLATION, error)
        except SessionFailed as error:
            await _fail(client, INTERNAL_ERROR, error)
        except WebSocketDisconnect:
            pass


async def _converse(client: Client, dialogue: Dialogue) -> None:
    async for message in client.messages():
        reply = await dialogue.reply(message)
        if reply is not None:
            await client.send(json.dumps(reply, ensure_ascii=False))
        if dialogue.ended:
            await client.close()
            return
    if client.connected:
        await client.send(json.dumps(await dialogue.result_at_end(), ensure_ascii=False))
        await client.close(client.close_code, client.why_ended)


async def _fail(client: Client, code: int, error: Exception) -> None:
    with suppress(WebSocketDisconnect):
        await client.send(json.dumps({"error": str(error)}))
        await client.close(code, str(error), log=why_ended(error))


class Dialogue:
    """The configuration of a client, and the replies to it."""

    def __init__(self, session: Session, default_text: str) -> None:
        """default_text: the style of text for clients that do not choose one."""
        self._session = session
        self._default_text = default_text
        self._free = session.recognizer
        self._sample_rate = DEFAULT_SAMPLE_RATE
        self._num_channels = 1
        self._channel: Channel = "mix"
        self._words = True
        self._max_alternatives = 0
        self._with_stable = False
        self._partial: Partial | None = None
        self._frames = WholeFrames()
        self.ended = False
        """Whether the client has its last result."""

    async def reply(self, message: str | bytes) -> dict[str, Any] | None:
        """The reply to a message; None if it has none. Raises ProtocolError and SessionFailed."""
        if isinstance(message, bytes):
            await self._accept(message)
            finals = await self._settle()
            return self._result(finals) if finals else self._partial_result()
        command = parse_object(message)
        if not command.keys() & {"config", "eof", "reset"}:
            raise ProtocolError(f"the message has {shown(next(iter(command), ''))}; it must have config, eof or reset")
        if "config" in command:
            await self._configure(command["config"])
        if command.get("eof"):
            return await self.result_at_end()
        if command.get("reset"):
            await self._session.end_utterance()
            return self._result(await self._settle())
        return None if "config" in command else self._partial_result()

    async def result_at_end(self) -> dict[str, Any]:
        """Returns the result of the last utterance."""
        await self._session.finish()
        self.ended = True
        return self._result(await self._settle())

    async def _accept(self, data: bytes) -> None:
        if data := self._frames.take(data, 2 * self._num_channels):
            samples = np.frombuffer(data, "<i2").reshape(-1, self._num_channels)
            one = mono(samples) if self._channel == "mix" else np.ascontiguousarray(samples[:, int(self._channel) - 1])
            await self._session.accept_waveform(one, self._sample_rate)

    async def _settle(self) -> list[Final]:
        finals = []
        for event in await self._session.settle():
            if isinstance(event, Final):
                finals.append(event)
            if isinstance(event, (Partial, Final)):
                self._partial = event if isinstance(event, Partial) else None
        return finals

    async def _configure(self, config: Any) -> None:
        if not isinstance(config, dict):
            raise ProtocolError(f"config is {shown(config)}; it must be an object")
        if "sample_rate" in config:
            rate = config["sample_rate"]
            self._sample_rate = whole_number("sample_rate", rate, MIN_SAMPLE_RATE, MAX_SAMPLE_RATE)
        if "channels" in config or "channel" in config:
            self._choose_channel(config)
        if "words" in config:
            if config["words"] not in (0, 1):
                raise ProtocolError(f"words is {shown(config['words'])}; it must be 0 or 1")
            self._words = bool(config["words"])
        if "max_alternatives" in config:
            alternatives = config["max_alternatives"]
            self._max_alternatives = whole_number("max_alternatives", alternatives, 0, MAX_ALTERNATIVES)
            others = min(max(self._max_alternatives - 1, 0), int(OPTIONS["max_alternatives"].high))
            await self._session.change(max_alternatives=others)
        if "num_stable" in config:
            self._with_stable = bool(whole_number("num_stable", config["num_stable"], 0, 1))
        if "text" in config:
            text = check_text(config["text"], ("default",))
            await self._session.change(text=self._default_text if text == "default" else text)
        if "phrase_list" in config:
            await self._restrict(config["phrase_list"])

    def _choose_channel(self, config: dict[str, Any]) -> None:
        count = whole_number("channels", config.get("channels", self._num_channels), 1, MAX_CHANNELS)
        given = config.get("channel", self._channel)
        if given == "each":
            raise ProtocolError("channel is 'each'; it must be 'mix' or a number: open a connection for each channel")
        if given != "mix":
            given = whole_number("channel", given, 1, count)
        self._num_channels, self._channel = count, given
        self._frames.clear()

    async def _restrict(self, phrases: Any) -> None:
        if not isinstance(phrases, list) or not all(isinstance(phrase, str) for phrase in phrases):
            raise ProtocolError(f"phrase_list is {shown(phrases)}; it must be a list of strings")
        for phrase in phrases:
            if "\0" in phrase:  # it would end the core's message about the phrase
                raise ProtocolError(f"phrase_list has {shown(phrase)}; a phrase cannot have a NUL character")
        if (num_letters := sum(map(len, phrases))) > MAX_PHRASE_LETTERS:
            raise ProtocolError(f"phrase_list has {num_letters} letters; it may have {MAX_PHRASE_LETTERS}")
        free = self._free
        changes = {name: getattr(free, name) for name in ("phrases", "hotwords", "neural_lm", "search")}
        if phrases:  # greedy search, which a server may use for speed, does not support a grammar
            changes = {"phrases": phrases, "hotwords": None, "neural_lm": None, "search": "beam"}
        try:
            await self._session.change(**changes)
        except ValueError as error:
            raise ProtocolError(f"phrase_list: {error}") from error

    def _partial_result(self) -> dict[str, Any]:
        text, num_stable = (self._partial.text, self._partial.num_stable) if self._partial else ("", 0)
        return {"partial": text} | ({"num_stable": num_stable} if self._with_stable else {})

    def _result(self, finals: list[Final]) -> dict[str, Any]:
        """Returns all utterances that ended as one result, because a message has one reply."""
        text = joined(final.text for final in finals)
        words = [word for final in finals for word in final.words]
        if self._max_alternatives:
            confidence = sum(word.confidence for word in words) / max(len(words), 1)
            others = finals[0].alternatives if len(finals) == 1 else ()
            return {
                "alternatives": [
                    self._alternative(text, words, confidence),
                    *(self._alternative(other.text, other.words, other.confidence) for other in others),
                ]
            }
        if self._words and words:
            return {"result": [{"conf": round(word.confidence, 3)} | timed_word(word) for word in words], "text": text}
        return {"text": text}

    def _alternative(self, text: str, words: Sequence[Word], confidence: float) -> dict[str, Any]:
        timed = {"result": [timed_word(word) for word in words]} if self._words and words else {}
        return {"confidence": round(confidence, 3)} | timed | {"text": text}


routes: list[BaseRoute] = [WebSocketRoute(path, serve) for path in ("/", "/vosk")]
