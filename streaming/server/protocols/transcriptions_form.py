"""The fields of a form that is posted to `/v1/audio/transcriptions`."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from starlette.datastructures import FormData

from asr.channels import Channel, parse_channel
from asr.streaming.server.protocols.common import (
    ProtocolError,
    check_keywords,
    check_language,
    check_languages,
    check_text,
    shown,
)
from asr.streaming.terminal.layout import Layout, parse_row, rows
from asr.streaming.timestamps import parse_duration, parse_time

FORMATS = ("json", "text", "srt", "verbose_json", "vtt", "ass")
"""OpenAI's, and ass."""
GRANULARITIES = ("word", "segment")
INCLUDE = ("logprobs",)


@dataclass(frozen=True)
class Options:
    """What a form asks for.

    channel, start_s and duration_s (see `read_blocks`) and the rows of layout are extensions.
    """

    format: str
    granularities: tuple[str, ...]
    """Of times in verbose_json."""
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
        check_languages(_values(form, "languages"), "languages", language)
        format = _text(form, "response_format") or "json"
        _require_known("response_format", [format], FORMATS)
        granularities = _values(form, "timestamp_granularities")
        _require_known("timestamp_granularities", granularities, GRANULARITIES)
        include = _values(form, "include")
        _require_known("include", include, INCLUDE)
        switch = (_text(form, "stream") or "false").lower()
        if switch not in ("true", "false", "1", "0"):
            raise ProtocolError(f"stream is {shown(switch)}; it must be true or false", "stream")
        stream = switch in ("true", "1")
        for name, given, formats in (
            ("timestamp_granularities", granularities, ("verbose_json",)),
            ("include", include, ("json",)),
            ("stream", stream, ("json", "text")),
        ):
            if given and format not in formats:
                allowed = " or ".join(map(repr, formats))
                raise ProtocolError(f"{name} goes with response_format {allowed}, not {shown(format)}", name)
        try:
            channel = parse_channel(_text(form, "channel") or "mix")
        except ValueError as error:
            raise ProtocolError(f"channel {error}", "channel") from error
        if include and channel == "each":
            raise ProtocolError("include goes with one channel: set channel to mix or a number", "include")
        layout = _layout(form, format)
        if layout.timestamps and stream:
            raise ProtocolError("timestamps do not go with stream: leave out one of the two", "timestamps")
        return cls(
            format=format,
            granularities=tuple(granularities) or ("segment",),
            stream=stream,
            logprobs=bool(include),
            keywords=check_keywords(_values(form, "keywords"), "keywords"),
            text=check_text(form["text"]) if "text" in form else None,
            language=language,
            channel=channel,
            start_s=_seconds(form, "start", 0.0),
            duration_s=_seconds(form, "duration", math.inf),
            layout=layout,
        )


def _text(form: FormData, name: str) -> str:
    """The value of a field; "" if it is missing."""
    return str(form.get(name) or "")


def _values(form: FormData, name: str) -> list[Any]:
    """All values of a field that may be repeated, as `name[]` or as `name`."""
    return form.getlist(f"{name}[]") + form.getlist(name)


def _require_known(name: str, values: Sequence[object], known: Sequence[str]) -> None:
    for value in values:
        if value not in known:
            raise ProtocolError(f"{name} is {shown(value)}; choose one of {', '.join(known)}", name)


def _seconds(form: FormData, name: str, default: float) -> float:
    """The seconds in a field, which are the default if it is missing or empty."""
    text = _text(form, name)
    try:
        parse = parse_duration if name == "duration" else parse_time
        return parse(text) if text else default
    except ValueError as error:
        raise ProtocolError(f"{name} {error}", name) from error


def _layout(form: FormData, format: str) -> Layout:
    values = {}
    for row in rows():
        if text := _text(form, row.name):
            try:
                values[row.name] = parse_row(row, text, (format,))
            except ValueError as error:
                raise ProtocolError(f"{row.name} {error}", row.name) from error
    return Layout(**values)
