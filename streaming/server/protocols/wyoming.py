"""The Wyoming protocol of voice assistants (Home Assistant) over TCP: speech to text, at the end and streaming.

    client                                             server
    describe                                           info
    transcribe (or not), audio-start, audio-chunk...   transcript-start, transcript-chunk for each utterance
    audio-stop                                         transcript: all of it, transcript-stop
    ping                                               pong

Any sample rate, 16 bits, one or two channels. The concatenated chunks are the transcript; none is taken back. Text is
plain, in lower case, unless --wyoming-text says otherwise: punctuation would keep assistants from understanding
commands. Unknown events are ignored, as the protocol demands. An invalid event is answered by an `error` event, and the
connection is closed.

An event is a line of JSON with the number of bytes of JSON (`data_length`) and of audio (`payload_length`) that follow.
An event of more than 1 MiB in total is refused before it is read.

A client that closes its sending side without audio-stop also gets the transcript.

The protocol: https://github.com/OHF-Voice/wyoming. It has no authentication: anyone who can reach the port may use it.
"""

from __future__ import annotations

import asyncio
import json
import socket
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass
from typing import Any

import numpy as np

from asr import __version__
from asr.streaming.events import Final, spaced
from asr.streaming.resampler import MAX_SAMPLE_RATE, MIN_SAMPLE_RATE, mono
from asr.streaming.server.protocols.common import (
    ProtocolError,
    check_language,
    keywords_within_limits,
    parse_object,
    shown,
    whole_number,
)
from asr.streaming.server.security.descriptors import BACKLOG
from asr.streaming.server.security.log import logged_as
from asr.streaming.server.security.timeouts import SessionTimeouts
from asr.streaming.server.security.tls import READ_SIZE
from asr.streaming.server.server import Refused, Server
from asr.streaming.server.session import Session, SessionFailed

_ARTIFACT = {
    "name": "asr-stream",
    "description": "Streaming speech recognition",
    "version": __version__,
    "attribution": {"name": "asr-stream", "url": ""},
    "installed": True,
}


def info(language: str) -> dict[str, Any]:
    """The `info` event's data. language: of the model file; empty if not stated."""
    model = _ARTIFACT | {"languages": [language] if language else []}
    return {"asr": [_ARTIFACT | {"models": [model], "supports_transcript_streaming": True}]}


@dataclass(frozen=True)
class Event:
    """An event of the protocol, in either direction."""

    type: str
    data: dict[str, Any]
    payload: bytes = b""


async def read_event(reader: asyncio.StreamReader, max_bytes: int, first: bytes = b"") -> Event | None:
    """The next event; None if the client has left. Raises ProtocolError if it is invalid or exceeds `max_bytes`.

    reader: made with a limit of `max_bytes`. first: bytes of the event that were read.
    """
    try:
        line = first + (b"" if first == b"\n" else await reader.readuntil(b"\n"))
        header = parse_object(line)
        left = max_bytes - len(line)
        data_length = whole_number("data_length", header.get("data_length") or 0, 0, left)
        payload_length = whole_number("payload_length", header.get("payload_length") or 0, 0, left - data_length)
        data = header.get("data") or {}
        more = parse_object(await reader.readexactly(data_length)) if data_length else {}
        payload = await reader.readexactly(payload_length)
    except asyncio.LimitOverrunError:
        raise ProtocolError(f"the first line of an event has more than {max_bytes} bytes") from None
    except (asyncio.IncompleteReadError, OSError):
        return None
    if not isinstance(header.get("type"), str):
        raise ProtocolError(f"type is {shown(header.get('type'))}; it must be a string")
    if not isinstance(data, dict):
        raise ProtocolError(f"data is {shown(data)}; it must be an object")
    return Event(header["type"], data | more, payload)


@asynccontextmanager
async def listening(server: Server, listening_socket: socket.socket, text: str = "plain") -> AsyncIterator[None]:
    """Serves at `listening_socket` while the context lasts. text: "plain" | "formatted"."""
    clients: set[asyncio.Task] = set()

    async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        clients.add(task)
        writer.transport.max_size = READ_SIZE  # type: ignore[attr-defined]  # of asyncio's own transports
        address = writer.get_extra_info("peername")
        try:
            if server.connections.add(writer.transport):
                with logged_as(client=address[0] if address else "unknown"):
                    await Connection(server, reader, writer, text).serve()
        finally:
            clients.discard(task)
            server.connections.discard(writer.transport)
            writer.transport.abort()

    port = await asyncio.start_server(
        connected, sock=listening_socket, limit=server.limits.max_short_message_bytes, backlog=BACKLOG
    )
    try:
        yield
    finally:
        port.close()
        for task in clients:
            task.cancel()
        await asyncio.gather(*clients, return_exceptions=True)


class Connection:
    """A client."""

    def __init__(
        self, server: Server, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, text: str = "plain"
    ) -> None:
        self._server = server
        self._text = text
        self._reader = reader
        self._writer = writer
        self._stack = AsyncExitStack()
        """Closed together with the current transcription."""
        self._session: Session | None = None
        self._sending: asyncio.Task[str] | None = None
        self._hotwords: tuple[str, ...] = ()
        """Of the last `transcribe`, for one transcription."""

    async def serve(self) -> None:
        """Answers events until the client leaves or a timeout ends the session."""
        timeouts = SessionTimeouts(self._server)
        try:
            async with self._stack:
                async for event in timeouts.messages(self._receive):
                    self._server.connections.serve(self._writer.transport)
                    await self._answer(event)
                if self._session is not None:
                    self._session.why_ended = timeouts.why_ended or "the client left"
                if not self._writer.transport.is_closing():
                    await self._end()  # the client may have closed only its sending direction
        except (ProtocolError, Refused, SessionFailed) as error:
            with suppress(OSError):
                await self._send("error", {"text": str(error), "code": type(error).__name__})
        except OSError:
            return
        with suppress(OSError, asyncio.TimeoutError):
            self._writer.close()
            await asyncio.wait_for(self._writer.wait_closed(), 2.0)

    async def _receive(self) -> Event | None:
        """The next event. Once it has begun, the rest of it must come in time."""
        limits = self._server.limits
        if not (first := await self._reader.read(1)):
            return None
        with self._aborted_after(limits.timeout_s):
            return await read_event(self._reader, limits.max_short_message_bytes, first)

    @contextmanager
    def _aborted_after(self, seconds: float) -> Iterator[None]:
        late = asyncio.get_running_loop().call_later(seconds, self._writer.transport.abort)
        try:
            yield
        finally:
            late.cancel()

    async def _answer(self, event: Event) -> None:
        if event.type == "describe":
            await self._send("info", info(self._server.language))
        elif event.type == "ping":
            await self._send("pong", {"text": event.data.get("text")})
        elif event.type == "transcribe":
            check_language(event.data.get("language"), "language", self._server.language)
            self._hotwords = _keywords(event.data)
            if self._session is not None:  # it came after audio-start
                await self._session.change(hotwords=self._hotwords or self._server.recognizer.hotwords)
        elif event.type == "audio-start":
            _audio_format(event.data)
            await self._begin()
        elif event.type == "audio-chunk":
            await self._accept(event)
        elif event.type == "audio-stop":
            await self._end()

    async def _begin(self) -> Session:
        if self._session is None:
            changes = {"text": self._text} | ({"hotwords": self._hotwords} if self._hotwords else {})
            try:
                self._session = await self._stack.enter_async_context(self._server.open("wyoming", **changes))
            except ValueError as error:
                raise ProtocolError(str(error)) from error
            self._sending = asyncio.create_task(self._send_chunks(self._session))
            # Retrieves the exception, so that asyncio does not log it if no code awaits the task.
            self._sending.add_done_callback(lambda task: task.cancelled() or task.exception())
            self._stack.callback(self._sending.cancel)
        return self._session

    async def _accept(self, event: Event) -> None:
        rate, channels = _audio_format(event.data)
        if len(event.payload) % (2 * channels):
            raise ProtocolError(f"a chunk has {len(event.payload)} bytes; it must have {2 * channels} for each frame")
        session = await self._begin()
        samples = np.frombuffer(event.payload, "<i2").reshape(-1, channels)
        await session.accept_waveform(mono(samples), rate)

    async def _send_chunks(self, session: Session) -> str:
        """Sends utterances as they end; returns the complete text."""
        await self._send("transcript-start", self._language())
        text = ""
        async for event in session.events():
            if isinstance(event, Final):
                (part,) = spaced([event.text], before=text)
                text += part
                await self._send("transcript-chunk", {"text": part})
        return text

    def _language(self) -> dict[str, str]:
        return {"language": self._server.language} if self._server.language else {}

    async def _end(self) -> None:
        if self._session is not None and self._sending is not None:
            await self._session.finish()
            await self._send("transcript", {"text": await self._sending} | self._language())
            await self._send("transcript-stop", {})
            self._session = self._sending = None
            self._hotwords = ()
            await self._stack.aclose()

    async def _send(self, type: str, data: dict[str, Any]) -> None:
        """Raises OSError if the client is gone or accepts no data for `timeout_s`."""
        body = json.dumps(data).encode()
        header = {"type": type, "version": __version__, "data_length": len(body)}
        self._writer.write(json.dumps(header).encode() + b"\n" + body)
        with self._aborted_after(self._server.limits.timeout_s):
            await self._writer.drain()


def _keywords(data: dict[str, Any]) -> tuple[str, ...]:
    """The names and terms of a `transcribe` event."""
    words = []
    for name in ("transcript_names", "transcript_terms"):
        given = data.get(name) or []
        if not isinstance(given, list) or not all(isinstance(text, str) for text in given):
            raise ProtocolError(f"{name} is {shown(given)}; it must be a list of strings")
        words += given
    return keywords_within_limits(words)


def _audio_format(data: dict[str, Any]) -> tuple[int, int]:
    """Sample rate in Hz and number of channels."""
    whole_number("width, bytes of a sample,", data.get("width"), 2, 2)
    rate = whole_number("rate", data.get("rate"), MIN_SAMPLE_RATE, MAX_SAMPLE_RATE)
    return rate, whole_number("channels", data.get("channels"), 1, 2)
