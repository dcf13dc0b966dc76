"""OpenAI's transcription of files: `POST /v1/audio/transcriptions`, `GET /v1/models` and `/v1/models/{id}`.

A session recognizes an upload (uploads.py) in the time that live streams leave; with `channel` "each", a session for
each channel. A client that disconnects cancels its request.

The field `model` may be any name; `prompt`, `temperature` and other fields are ignored.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, Coroutine
from contextlib import AsyncExitStack, aclosing
from typing import Any

import numpy as np
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response
from starlette.routing import BaseRoute, Route
from starlette.types import Receive, Scope, Send

from asr.streaming.audio.audio_file import StartAfterEndError
from asr.streaming.audio.ffmpeg import find_ffmpeg
from asr.streaming.events import Error, Final
from asr.streaming.server.protocols.common import ProtocolError, shown, warnings_about
from asr.streaming.server.protocols.realtime_config import COMMIT_MODELS
from asr.streaming.server.protocols.transcriptions_answer import Heard, complete_response, log_error, send_events
from asr.streaming.server.protocols.transcriptions_form import Options
from asr.streaming.server.protocols.uploads import Upload, receive_form
from asr.streaming.server.protocols.websocket import refusal
from asr.streaming.server.server import Refused, Server
from asr.streaming.server.session import Session, SessionFailed

logger = logging.getLogger("asr_stream.server")

ALIASES = ("whisper-1", "gpt-4o-transcribe", "gpt-4o-mini-transcribe", "gpt-transcribe", *COMMIT_MODELS)
"""Names of OpenAI's transcription models, the defaults of its clients."""


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
            log_error(error)
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
                await send_events(finals, options.logprobs, upload.warnings, send)
                return
            heard = sorted([each async for each in finals], key=lambda each: each.final.start)
            # On a thread, because hours of audio have a hundred thousand words.
            response = await asyncio.to_thread(complete_response, heard, session.audio_s, options, upload.warnings)
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
