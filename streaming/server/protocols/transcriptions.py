"""OpenAI's transcription of files: `POST /v1/audio/transcriptions`, `GET /v1/models` and `/v1/models/{id}`.

A session recognizes an upload (uploads.py) in the time that live streams leave; with `channel` "each", a session for
each channel. A client that disconnects cancels its request.

`logprobs` and `avg_logprob` are computed from word confidences, because a word is not a single token of the model.

The field `model` may be any name; `prompt`, `temperature` and other fields are ignored.
"""

from __future__ import annotations

import asyncio
import json
import logging
import math
import statistics
import zlib
from collections.abc import AsyncGenerator, AsyncIterator, Coroutine, Sequence
from contextlib import AsyncExitStack, aclosing
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from starlette.datastructures import FormData
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.routing import BaseRoute, Route
from starlette.types import Receive, Scope, Send

from asr._core import language_name
from asr.channels import Channel, label_of, parse_channel
from asr.streaming.audio.audio_file import StartAfterEndError
from asr.streaming.audio.ffmpeg import find_ffmpeg
from asr.streaming.events import Error, Final, spaced, timed_word
from asr.streaming.server.protocols.common import (
    ProtocolError,
    check_keywords,
    check_language,
    check_languages,
    check_text,
    log_confidence,
    logprobs,
    shown,
    warnings_about,
)
from asr.streaming.server.protocols.realtime_config import COMMIT_MODELS
from asr.streaming.server.protocols.uploads import Upload, receive_form
from asr.streaming.server.protocols.websocket import refusal
from asr.streaming.server.server import Refused, Server
from asr.streaming.server.session import Session, SessionFailed
from asr.streaming.terminal.formats import labeled, utterance
from asr.streaming.terminal.layout import SUBTITLES, Layout, parse_row, rows
from asr.streaming.terminal.subtitles import labeled_document
from asr.streaming.timestamps import parse_duration, parse_time

logger = logging.getLogger("asr_stream.server")

FORMATS = ("json", "text", "srt", "verbose_json", "vtt", "ass")
"""OpenAI's, and ass."""
_MEDIA_TYPES = {"vtt": "text/vtt", "ass": "text/x-ssa"}
GRANULARITIES = ("word", "segment")
INCLUDE = ("logprobs",)
ALIASES = ("whisper-1", "gpt-4o-transcribe", "gpt-4o-mini-transcribe", "gpt-transcribe", *COMMIT_MODELS)
"""Names of OpenAI's transcription models, the defaults of its clients."""


@dataclass(frozen=True)
class Options:
    """The fields of a form. granularities: of times in verbose_json. logprobs: whether the client requests them.

    channel, start_s and duration_s (see `read_blocks`) and the rows of layout are extensions.
    """

    format: str
    granularities: tuple[str, ...]
    stream: bool
    logprobs: bool
    keywords: tuple[str, ...]
    text: str | None
    """"formatted" | "plain", an extension; None: the server's default."""
    language: str
    """Language of the model file."""
    channel: Channel
    start_s: float
    duration_s: float
    layout: Layout

    @property
    def changes(self) -> dict[str, Any]:
        """Options of the session that differ from the server's."""
        changes = {"text": self.text, "hotwords": self.keywords}
        return {name: value for name, value in changes.items() if value}

    @classmethod
    def from_form(cls, form: FormData, language: str) -> Options:
        """language: of the model file. Raises ProtocolError for unsupported values."""
        check_language(form.get("language"), "language", language)
        check_languages(form.getlist("languages[]") + form.getlist("languages"), "languages", language)
        format = form.get("response_format") or "json"
        if format not in FORMATS:
            known = ", ".join(FORMATS)
            raise ProtocolError(f"response_format is {shown(format)}; choose one of {known}", "response_format")
        granularities = form.getlist("timestamp_granularities[]") + form.getlist("timestamp_granularities")
        for granularity in granularities:
            if granularity not in GRANULARITIES:
                known = ", ".join(GRANULARITIES)
                raise ProtocolError(
                    f"timestamp_granularities is {shown(granularity)}; choose from {known}", "timestamp_granularities"
                )
        if granularities and format != "verbose_json":
            raise ProtocolError(
                f"timestamp_granularities go with response_format 'verbose_json', not {shown(format)}",
                "timestamp_granularities",
            )
        include = form.getlist("include[]") + form.getlist("include")
        for name in include:
            if name not in INCLUDE:
                raise ProtocolError(f"include is {shown(name)}; choose from {', '.join(INCLUDE)}", "include")
        if include and format != "json":
            raise ProtocolError(f"include goes with response_format 'json', not {shown(format)}", "include")
        stream = str(form.get("stream") or "false").lower()
        if stream not in ("true", "false", "1", "0"):
            raise ProtocolError(f"stream is {shown(stream)}; it must be true or false", "stream")
        if stream in ("true", "1") and format not in ("json", "text"):
            raise ProtocolError(f"stream goes with response_format 'json' or 'text', not {shown(format)}", "stream")
        try:
            channel = parse_channel(str(form.get("channel") or "mix"))
        except ValueError as error:
            raise ProtocolError(f"channel {error}", "channel") from error
        if include and channel == "each":
            raise ProtocolError("include goes with one channel: set channel to mix or a number", "include")
        start_s, duration_s = _time(form, "start", 0.0), _time(form, "duration", math.inf)
        layout = _layout(form, str(format))
        if layout.timestamps and stream in ("true", "1"):
            raise ProtocolError("timestamps do not go with stream: leave out one of the two", "timestamps")
        keywords = check_keywords(form.getlist("keywords[]") + form.getlist("keywords"), "keywords")
        text = check_text(form["text"]) if "text" in form else None
        times = tuple(map(str, granularities)) or ("segment",)
        return cls(
            str(format),
            times,
            stream in ("true", "1"),
            bool(include),
            keywords,
            text,
            language,
            channel,
            start_s,
            duration_s,
            layout,
        )


def _time(form: FormData, name: str, default: float) -> float:
    """The seconds in a field, which are the default if it is missing or empty."""
    text = str(form.get(name) or "")
    try:
        parse = parse_duration if name == "duration" else parse_time
        return parse(text) if text else default
    except ValueError as error:
        raise ProtocolError(f"{name} {error}", name) from error


def _layout(form: FormData, format: str) -> Layout:
    values = {}
    for row in rows():
        if text := str(form.get(row.name) or ""):
            try:
                values[row.name] = parse_row(row, text, (format,))
            except ValueError as error:
                raise ProtocolError(f"{row.name} {error}", row.name) from error
    return Layout(**values)


class Heard(NamedTuple):
    """A final, and the number of its channel; 0 unless each channel is recognized."""

    final: Final
    channel: int


class Transcriptions:
    """ASGI endpoint of POST /v1/audio/transcriptions."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        server: Server = scope["app"].state.server
        try:
            # Opened before anything is read, so that there are never more uploads than `max_uploads`.
            async with server.open("transcriptions", is_upload=True) as session:
                form, file = await receive_form(Request(scope, receive), server)
                try:
                    options = Options.from_form(form, server.language)
                except ProtocolError:
                    file.close()
                    raise
                upload = Upload(file, server.limits.max_upload_s, options.channel, options.start_s, options.duration_s)
                try:
                    try:
                        await session.change(**options.changes)
                    except SessionFailed as error:
                        raise ProtocolError(str(error), code="stopping", status=503) from error
                    finals = _finals(server, session, upload, options)
                    await _unless_gone(receive, self._answer(session, upload, finals, options, scope, receive, send))
                finally:
                    upload.close()
        except ClientDisconnect:
            pass
        except Refused as refused:
            await refusal(refused)(scope, receive, send)
        except ProtocolError as error:
            _log(error)
            await error.response()(scope, receive, send)

    async def _answer(
        self,
        session: Session,
        upload: Upload,
        finals: AsyncGenerator[Heard, None],
        options: Options,
        scope: Scope,
        receive: Receive,
        send: Send,
    ) -> None:
        async with aclosing(finals):
            # Clients such as LiveKit add their own keywords, so an unusable keyword must not fail the request.
            upload.warnings += warnings_about(options.keywords, session.recognizer.hotwords)
            if options.stream:
                await _stream(finals, options.logprobs, upload.warnings, send)
                return
            heard = sorted([each async for each in finals], key=lambda each: each.final.start)
            # On a thread, because hours of audio have a hundred thousand words.
            response = await asyncio.to_thread(_whole, heard, session.audio_s, options, upload.warnings)
            await response(scope, receive, send)


async def _finals(server: Server, session: Session, upload: Upload, options: Options) -> AsyncGenerator[Heard, None]:
    """Yields the nonempty finals of a file. Raises ProtocolError if the file cannot be read to its end.

    session: of the first channel; further ones are opened when the file has more.
    """
    heard: asyncio.Queue[Heard | None] = asyncio.Queue()
    listening: list[asyncio.Future[None]] = []

    async def listen(session: Session, channel: int) -> None:
        async for event in session.events():
            if isinstance(event, Final) and event.text:
                heard.put_nowait(Heard(event.shifted(options.start_s), channel))
            elif isinstance(event, Error):
                upload.warnings.append(event.text)

    async def feed() -> None:
        sessions = [session]
        listening.append(asyncio.ensure_future(listen(session, int(options.channel == "each"))))
        failure: Exception | None = None
        # Closed by the task that opens them, because `logged_as` belongs to one task.
        async with AsyncExitStack() as further:
            try:
                while (block := await upload.next_block()) is not None:
                    samples, sample_rate = block
                    channels = np.atleast_2d(samples.T)
                    while len(sessions) < len(channels):
                        opening = server.open("transcriptions", is_upload=True, **options.changes)
                        sessions.append(await further.enter_async_context(opening))
                        listening.append(asyncio.ensure_future(listen(sessions[-1], len(sessions))))
                    for each, channel in zip(sessions, channels, strict=True):
                        await each.accept_waveform(np.ascontiguousarray(channel), sample_rate)
            except Exception as error:
                failure = error
            for each in sessions:  # otherwise `events` would not end
                await each.finish()
            await asyncio.gather(*listening)
            if failure:
                raise failure

    feeding = asyncio.ensure_future(feed())
    feeding.add_done_callback(lambda _: heard.put_nowait(None))
    try:
        while (found := await heard.get()) is not None:
            yield found
        await feeding
    except Refused as error:
        reason = f"channel each needs a stream for each channel: {error}"
        raise ProtocolError(reason, "channel", "overloaded", status=503) from error
    except MemoryError as error:
        raise ProtocolError(f"{error}; try again later", status=503) from error
    except StartAfterEndError as error:
        raise ProtocolError(str(error), "start") from error
    except ValueError as error:  # AudioFileError, or a sample rate out of range
        if isinstance(error.__cause__, OSError):
            raise ProtocolError(f"{error}; try again later", status=500) from error
        reason = str(error).rstrip(".")
        raise ProtocolError(f"{reason}; send {_readable_formats()}", "file") from error
    except SessionFailed as error:
        raise ProtocolError(str(error), status=500) from error
    except Exception as error:
        logger.exception("transcriptions: the file cannot be read")
        reason = "the file cannot be read: the reason is in the server's log"
        raise ProtocolError(reason, "file", status=500) from error
    finally:
        for task in (feeding, *listening):
            task.cancel()
        await asyncio.gather(feeding, *listening, return_exceptions=True)


def _readable_formats() -> str:
    more = ", or WebM, MP4, M4A, AAC, WMA, AMR or another format that ffmpeg reads" if find_ffmpeg() else ""
    return f"WAV, FLAC, MP3, Ogg or another format that libsndfile reads{more}"


def _log(error: ProtocolError) -> None:
    """Logs the error without text of the client: messages about fields quote values, and ffmpeg may quote the file."""
    is_field = error.param not in (None, "file")
    reason = f"{error.param} has an unusable value" if is_field else str(error).partition("ffmpeg says")[0].rstrip(": ")
    logger.info("transcriptions: error: %s", reason)


def _lines(heard: Sequence[Heard], before: str = "") -> str:
    """The text of finals; with several channels, each is a line with its label. before: the preceding text."""
    if heard and heard[0].channel:
        return "\n" * bool(before) + "\n".join(labeled(final.text, label_of(channel)) for final, channel in heard)
    return "".join(spaced([final.text for final, _ in heard], before))


def _whole(heard: list[Heard], duration_s: float, options: Options, warnings: list[str]) -> Response:
    """The response in the requested format; JSON includes the warnings."""
    text = _lines(heard)
    labels = [(final, label_of(channel) if channel else "") for final, channel in heard]
    if options.format == "text":
        if options.layout.timestamps:
            text = "\n".join(utterance(final, label, options.layout) for final, label in labels)
        return PlainTextResponse(text + "\n")
    if options.format in SUBTITLES:
        document = labeled_document(options.format, labels, options.layout)
        return PlainTextResponse(document, media_type=_MEDIA_TYPES.get(options.format, "text/plain"))
    # Rounded first, because a sum of many pieces is not exact. An integer, as in OpenAI's; LiteLLM requires it.
    usage = {"type": "duration", "seconds": math.ceil(round(duration_s, 3))}
    extra: dict[str, Any] = {"warnings": warnings} if warnings else {}
    if options.format == "json":
        if options.logprobs:
            extra["logprobs"] = logprobs([word for final, _ in heard for word in final.words])
        return JSONResponse({"text": text, "usage": usage} | extra)
    # Whisper returns the name of the language; the code is the fallback.
    language = language_name(options.language) or options.language
    answer: dict[str, Any] = {"task": "transcribe", "language": language, "duration": round(duration_s, 3)}
    answer |= {"text": text, "usage": usage} | extra
    if "segment" in options.granularities:
        answer["segments"] = [_segment(i, final) | _channel(channel) for i, (final, channel) in enumerate(heard)]
    if "word" in options.granularities:
        answer["words"] = [timed_word(word) | _channel(channel) for final, channel in heard for word in final.words]
    return JSONResponse(answer)


def _channel(number: int) -> dict[str, int]:
    return {"channel": number} if number else {}


def _segment(i: int, final: Final) -> dict[str, Any]:
    """An utterance as a segment with all fields of Whisper's, because clients filter by them and their types require
    them.

    `no_speech_prob` is 0: utterances without words are no segments, and nothing else estimates it.
    """
    text = final.text.encode()
    return {
        "id": i,
        "seek": 0,
        "start": round(final.start, 3),
        "end": round(final.end, 3),
        "text": final.text,
        "tokens": [],
        "temperature": 0.0,
        "avg_logprob": round(statistics.fmean(map(log_confidence, final.words)), 3),
        "compression_ratio": round(len(text) / len(zlib.compress(text)), 3),
        "no_speech_prob": 0.0,
    }


async def _stream(finals: AsyncIterator[Heard], with_logprobs: bool, warnings: list[str], send: Send) -> None:
    """Server-sent events: a delta for each utterance, then the text, which is the concatenation of the deltas, and the
    warnings.

    There is no `usage`: in these events, OpenAI counts tokens, and the types of its clients accept nothing else.
    """
    headers = [(b"content-type", b"text/event-stream; charset=utf-8"), (b"cache-control", b"no-store")]
    await send({"type": "http.response.start", "status": 200, "headers": headers})

    async def write(data: str, more: bool = True) -> None:
        await send({"type": "http.response.body", "body": f"data: {data}\n\n".encode(), "more_body": more})

    text, tokens = "", []

    async def event(type: str, own: list[dict[str, Any]], **fields: object) -> None:
        details = {"logprobs": own} if with_logprobs else {}
        await write(json.dumps({"type": f"transcript.text.{type}"} | fields | details))

    try:
        async for final, channel in finals:
            delta = _lines([Heard(final, channel)], before=text)
            own = logprobs(final.words, before=text)
            text += delta
            tokens += own
            await event("delta", own, delta=delta, **_channel(channel))
        await event("done", tokens, text=text, **({"warnings": warnings} if warnings else {}))
    except ProtocolError as error:
        _log(error)
        await write(json.dumps({"error": error.to_dict()}))
    await write("[DONE]", more=False)


async def _unless_gone(receive: Receive, work: Coroutine[Any, Any, None]) -> None:
    """Awaits `work`, and cancels it if the client disconnects."""

    async def gone() -> None:
        while (await receive())["type"] != "http.disconnect":
            pass

    tasks = [asyncio.ensure_future(work), asyncio.ensure_future(gone())]
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        if not tasks[0].done():
            raise ClientDisconnect
        tasks[0].result()
    except (TimeoutError, asyncio.TimeoutError) as error:
        raise ClientDisconnect from error  # the client does not accept data
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


def _model(id: str) -> dict[str, Any]:
    return {"id": id, "object": "model", "created": 0, "owned_by": "asr-stream"}


def _own_name(request: Request) -> str:
    server: Server = request.app.state.server
    return server.recognizer.onnx.path.stem


def _models(request: Request) -> Response:
    return JSONResponse({"object": "list", "data": [_model(_own_name(request))]})


def _one_model(request: Request) -> Response:
    id = request.path_params["id"]
    own = _own_name(request)
    if id != own and id not in ALIASES:
        sentence = f"there is no model {shown(id)}; this server has {own}, also as {', '.join(ALIASES)}"
        return ProtocolError(sentence, "model", "model_not_found", status=404).response()
    return JSONResponse(_model(id))


routes: list[BaseRoute] = [
    Route("/v1/audio/transcriptions", Transcriptions(), methods=["POST"]),
    Route("/v1/models", _models),
    Route("/v1/models/{id}", _one_model),
]
