"""The responses to an upload: text, JSON, subtitles or a stream of events.

`logprobs` and `avg_logprob` are computed from word confidences, because a word is not a single token of the model.
"""

from __future__ import annotations

import json
import logging
import math
import statistics
import zlib
from collections.abc import AsyncIterator, Sequence
from typing import Any, NamedTuple

from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.types import Send

from asr._core import language_name
from asr.channels import label_of
from asr.streaming.events import Final, spaced, timed_word
from asr.streaming.server.protocols.common import ProtocolError, log_confidence, logprobs
from asr.streaming.server.protocols.transcriptions_form import Options
from asr.streaming.terminal.formats import labeled, utterance
from asr.streaming.terminal.layout import SUBTITLES
from asr.streaming.terminal.subtitles import labeled_document

logger = logging.getLogger("asr_stream.server")

_MEDIA_TYPES = {"vtt": "text/vtt", "ass": "text/x-ssa"}


class Heard(NamedTuple):
    """A final, and the number of its channel; 0 unless each channel is recognized."""

    final: Final
    channel: int


def log_error(error: ProtocolError) -> None:
    """Logs the error without text of the client: messages about fields quote values, and ffmpeg may quote the file."""
    is_field = error.param not in (None, "file")
    reason = f"{error.param} has an unusable value" if is_field else str(error).partition("ffmpeg says")[0].rstrip(": ")
    logger.info("transcriptions: error: %s", reason)


def _lines(heard: Sequence[Heard], before: str = "") -> str:
    """The text of finals; with several channels, each is a line with its label. before: the preceding text."""
    if heard and heard[0].channel:
        return "\n" * bool(before) + "\n".join(labeled(final.text, label_of(channel)) for final, channel in heard)
    return "".join(spaced([final.text for final, _ in heard], before))


def complete_response(heard: list[Heard], duration_s: float, options: Options, warnings: list[str]) -> Response:
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


async def send_events(finals: AsyncIterator[Heard], with_logprobs: bool, warnings: list[str], send: Send) -> None:
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
        log_error(error)
        await write(json.dumps({"error": error.to_dict()}))
    await write("[DONE]", more=False)
