"""The session object of OpenAI's Realtime transcription: parsing and validation, in its present and former form.

Present (`session.update`): `audio.input` with `format`, `transcription`, `turn_detection`. Former
(`transcription_session.update`): `input_audio_format`, `input_audio_sampling_rate` (an extension, as in Azure's Voice
Live), `input_audio_transcription`, `turn_detection`. Other fields are ignored.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from asr.options import OPTIONS
from asr.streaming.server.protocols.audio_format import USUAL_FORMAT, AudioFormat
from asr.streaming.server.protocols.common import (
    ProtocolError,
    check_keywords,
    check_language,
    check_languages,
    shown,
    whole_number,
)

COMMIT_MODELS = ("gpt-realtime-whisper", "gpt-live-transcribe")
"""OpenAI's models without turn detection: clients of these commit items."""
MIN_SILENCE_MS, MAX_SILENCE_MS = 100, 10000
USUAL_SILENCE_MS = round(1000 * OPTIONS["silence_after_speech_s"].default)

DELAYS = ("minimal", "low", "medium", "high", "xhigh")
LIVE_DELAYS = ("minimal", "low")
INCLUDE = ("item.input_audio_transcription.logprobs",)
GRANULARITIES = ("word",)
MAX_ALTERNATIVES = int(OPTIONS["max_alternatives"].high)
EAGERNESS = {"low": 2.0, "medium": 1.0, "auto": 1.0, "high": 0.5}
"""Factors for the server's silence with "semantic_vad"."""


@dataclass(frozen=True)
class SessionConfig:
    """default_silence_ms: the server's setting; None: silence ends no item. silence_ms: silence that ends an item;
    None: only a commit ends it."""

    default_silence_ms: int | None
    silence_ms: int | None
    language: str
    """Language of the model file, a BCP 47 code; empty if not stated."""
    model: str = ""
    prompt: str = ""
    delay: str | None = None
    """One of DELAYS. LIVE_DELAYS: text during an utterance, from one pass; None: the server's default."""
    keywords: tuple[str, ...] | None = None
    """None: the server's own hotwords."""
    include: tuple[str, ...] = ()
    """A subset of INCLUDE."""
    granularities: tuple[str, ...] = ()
    """A subset of GRANULARITIES: times in events, an extension."""
    max_alternatives: int = 0
    """Number of other hypotheses for each utterance, an extension."""
    turns_given: bool = False
    """Whether an update had `turn_detection`. If not, OpenAI's models decide whether pauses end items."""
    format: AudioFormat = USUAL_FORMAT
    """Of the audio that the client appends."""
    is_fixed: bool = False
    """Whether an item ends after exactly `silence_ms`; otherwise the endpoint rules choose a silence up to it."""

    def updated(self, session: object, old_form: bool) -> SessionConfig:
        """The configuration after an update with `session`. Raises ProtocolError for unsupported values."""
        if not isinstance(session, dict):
            raise ProtocolError(f"session is {shown(session)}; it must be an object", "session")
        format = requested_format(session, old_form) or self.format
        if old_form:
            audio, path, name = session, "session", "input_audio_transcription"
        else:
            if session.get("type", "transcription") != "transcription":
                raise _wrong("session.type", session["type"], "'transcription': this server does nothing else")
            audio, path, name = session, "session.audio.input", "transcription"
            audio = _object(_object(session, "audio", "session"), "input", "session.audio")
        config = replace(self, format=format)._with_transcription(_object(audio, name, path), f"{path}.{name}")
        if "include" in session:
            config = replace(config, include=_choices(session["include"], "session.include", INCLUDE))
        if "turn_detection" in audio:
            silence_ms = self._silence_ms(audio["turn_detection"], f"{path}.turn_detection")
            given = audio["turn_detection"] or {}
            if given.get("type") == "semantic_vad":
                config = replace(config, is_fixed=False)
            elif given.get("silence_duration_ms") is not None:
                config = replace(config, is_fixed=silence_ms != self.default_silence_ms)
            return replace(config, silence_ms=silence_ms, turns_given=True)
        if not self.turns_given:
            return replace(config, silence_ms=None if config.model in COMMIT_MODELS else self.default_silence_ms)
        return config

    @property
    def _usual_silence_ms(self) -> int:
        """For clients that request turn detection without a number."""
        return USUAL_SILENCE_MS if self.default_silence_ms is None else self.default_silence_ms

    @property
    def details(self) -> frozenset[str]:
        """The optional fields of events that the client requested."""
        wanted = {"logprobs": self.include, "words": self.granularities, "alternatives": self.max_alternatives}
        return frozenset(name for name, asked in wanted.items() if asked)

    def to_dict(self, session_id: str, old_form: bool) -> dict[str, Any]:
        """The session object for the client."""
        name, former_name = self.format.names
        vad = {"type": "server_vad", "silence_duration_ms": self.silence_ms}
        turn_detection = None if self.silence_ms is None else vad
        transcription: dict[str, Any] = {"model": self.model, "language": self.language, "prompt": self.prompt}
        transcription |= {} if self.keywords is None else {"keywords": self.keywords}
        transcription |= {} if self.delay is None else {"delay": self.delay}
        transcription |= {"timestamp_granularities": self.granularities} if self.granularities else {}
        transcription |= {"max_alternatives": self.max_alternatives} if self.max_alternatives else {}
        session: dict[str, Any] = {"id": session_id, "object": "realtime.transcription_session"}
        session |= {"include": self.include} if self.include else {}
        if old_form:
            session |= {"input_audio_format": former_name, "input_audio_sampling_rate": self.format.rate}
            return session | {"input_audio_transcription": transcription, "turn_detection": turn_detection}
        format = {"type": name} | ({"rate": self.format.rate} if self.format.encoding == "pcm" else {})
        audio = {"format": format, "transcription": transcription, "turn_detection": turn_detection}
        return session | {"type": "transcription", "audio": {"input": audio | {"noise_reduction": None}}}

    def _with_transcription(self, transcription: dict[str, Any], path: str) -> SessionConfig:
        check_language(transcription.get("language"), f"{path}.language", self.language)
        if (languages := transcription.get("languages")) is not None:
            if not isinstance(languages, list):
                raise _wrong(f"{path}.languages", languages, "a list of strings")
            check_languages(languages, f"{path}.languages", self.language)
        texts = {"model": self.model, "prompt": self.prompt}
        for name in texts:
            if (value := transcription.get(name)) is not None:
                if not isinstance(value, str):
                    raise _wrong(f"{path}.{name}", value, "a string")
                texts[name] = value
        config = replace(self, model=texts["model"], prompt=texts["prompt"])
        if (delay := transcription.get("delay")) is not None:
            if delay not in DELAYS:
                raise _wrong(f"{path}.delay", delay, f"one of {', '.join(DELAYS)}")
            config = replace(config, delay=delay)
        if (keywords := transcription.get("keywords")) is not None:
            if not isinstance(keywords, list):
                raise _wrong(f"{path}.keywords", keywords, "a list of strings")
            config = replace(config, keywords=check_keywords(keywords, f"{path}.keywords"))
        if "timestamp_granularities" in transcription:
            name = f"{path}.timestamp_granularities"
            granularities = _choices(transcription["timestamp_granularities"], name, GRANULARITIES)
            config = replace(config, granularities=granularities)
        if "max_alternatives" in transcription:
            count = transcription["max_alternatives"] or 0
            count = whole_number(f"{path}.max_alternatives", count, 0, MAX_ALTERNATIVES)
            config = replace(config, max_alternatives=count)
        return config

    def _silence_ms(self, turn_detection: object, path: str) -> int | None:
        if turn_detection is None:
            return None
        kind = turn_detection.get("type", "server_vad") if isinstance(turn_detection, dict) else None
        if not isinstance(turn_detection, dict) or kind not in ("server_vad", "semantic_vad"):
            raise _wrong(path, turn_detection, "null, or an object of type 'server_vad' or 'semantic_vad'")
        silence_ms: object
        if kind == "semantic_vad":  # converted to "server_vad", which `session.updated` reports
            eagerness = turn_detection.get("eagerness") or "auto"
            if not isinstance(eagerness, str) or eagerness not in EAGERNESS:
                raise _wrong(f"{path}.eagerness", eagerness, f"one of {', '.join(EAGERNESS)}")
            silence_ms = EAGERNESS[eagerness] * self._usual_silence_ms
        else:
            silence_ms = turn_detection.get("silence_duration_ms")
            if silence_ms is None:
                return self.silence_ms or self._usual_silence_ms
            if not isinstance(silence_ms, (int, float)) or isinstance(silence_ms, bool) or silence_ms != silence_ms:
                raise _wrong(f"{path}.silence_duration_ms", silence_ms, "a number of milliseconds")
        # A value out of range is clipped instead of rejected; `session.updated` reports the value in use.
        return round(min(max(silence_ms, MIN_SILENCE_MS), MAX_SILENCE_MS))


def requested_format(session: object, old_form: bool) -> AudioFormat | None:
    """The audio format in an update's `session`; None if it has none. Raises ProtocolError for an unsupported one."""

    def member(parent: Any, key: str) -> Any:
        return parent.get(key) if isinstance(parent, dict) else None

    kind: Any
    if old_form:
        path = "session.input_audio_format"
        kind, rate = member(session, "input_audio_format"), member(session, "input_audio_sampling_rate")
    else:
        path = "session.audio.input.format"
        kind, rate = member(member(member(session, "audio"), "input"), "format"), None
        if isinstance(kind, dict):
            if kind.get("channels", 1) != 1:
                raise _wrong(f"{path}.channels", kind["channels"], "1: open a session for each channel")
            kind, rate = kind.get("type"), kind.get("rate")
    if kind is None and rate is None:
        return None
    return AudioFormat.parse("audio/pcm" if kind is None else kind, rate, path)


def _wrong(path: str, value: object, allowed: str) -> ProtocolError:
    return ProtocolError(f"{path} is {shown(value)}; it must be {allowed}", path)


def _choices(values: object, path: str, known: Sequence[str]) -> tuple[str, ...]:
    """The values of a list, all among `known`; none for null."""
    if values is None:
        return ()
    allowed = f"a list of {' and '.join(map(repr, known))}"
    if not isinstance(values, list):
        raise _wrong(path, values, allowed)
    for value in values:
        if value not in known:
            raise ProtocolError(f"{path} has {shown(value)}; it must be {allowed}", path)
    return tuple(dict.fromkeys(values))


def _object(parent: dict[str, Any], key: str, path: str) -> dict[str, Any]:
    """The object at `key`; empty if there is none."""
    value = parent.get(key)
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise _wrong(f"{path}.{key}", value, "an object")
    return value
