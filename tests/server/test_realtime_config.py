"""The session settings that clients request, and those that they get."""

from __future__ import annotations

import math
from typing import Any

import pytest
from starlette.testclient import TestClient

from asr import Recognizer
from asr.streaming.server.app import create_app
from asr.streaming.server.protocols.common import ProtocolError
from asr.streaming.server.protocols.realtime_config import COMMIT_MODELS, SessionConfig
from asr.streaming.server.security.access import Access
from asr.streaming.server.server import Server

SERVER_MS = 1600


def updated(language: str = "en", **audio_input: Any) -> SessionConfig:
    session = {"type": "transcription", "audio": {"input": audio_input}}
    return SessionConfig(SERVER_MS, SERVER_MS, language).updated(session, old_form=False)


@pytest.mark.parametrize(
    ("detection", "silence_ms", "is_fixed"),
    [
        ({"type": "semantic_vad"}, 1600, False),
        ({"type": "semantic_vad", "eagerness": None}, 1600, False),
        ({"type": "semantic_vad", "eagerness": "auto"}, 1600, False),
        ({"type": "semantic_vad", "eagerness": "low"}, 3200, False),
        ({"type": "semantic_vad", "eagerness": "high"}, 800, False),
        ({"type": "server_vad"}, 1600, False),
        ({"type": "server_vad", "silence_duration_ms": 350, "threshold": 0.5, "prefix_padding_ms": 600}, 350, True),
        ({"type": "server_vad", "silence_duration_ms": 350.4}, 350, True),
        ({"type": "server_vad", "silence_duration_ms": 0}, 100, True),
        ({"type": "server_vad", "silence_duration_ms": 10**400}, 10000, True),
        ({"type": "server_vad", "silence_duration_ms": float("inf")}, 10000, True),
        (None, None, False),
    ],
)
def test_turns_end_by_words_or_fixed_silence(
    detection: dict[str, Any] | None, silence_ms: int | None, is_fixed: bool
) -> None:
    config = updated(turn_detection=detection)
    assert (config.silence_ms, config.is_fixed) == (silence_ms, is_fixed)
    given = config.to_dict("id", old_form=False)["audio"]["input"]["turn_detection"]
    assert given == (detection and {"type": "server_vad", "silence_duration_ms": silence_ms})


def test_turn_detection_stays_as_it_was_set() -> None:
    config = updated(turn_detection={"type": "server_vad", "silence_duration_ms": 350})
    for changes in ({"turn_detection": {"type": "server_vad"}}, {"transcription": {"model": COMMIT_MODELS[0]}}, {}):
        config = config.updated({"audio": {"input": changes}}, old_form=False)
        assert (config.silence_ms, config.is_fixed) == (350, True)
    config = config.updated({"audio": {"input": {"turn_detection": {"type": "semantic_vad"}}}}, old_form=False)
    assert (config.silence_ms, config.is_fixed) == (1600, False)


@pytest.mark.parametrize("language", ["en", "en-US", "en_GB", "EN-au", "english", "", None])
def test_a_region_of_english_is_english(language: str | None) -> None:
    config = updated(transcription={"language": language, "languages": ["fr-FR", "en-IN"]})
    assert config.to_dict("id", old_form=False)["audio"]["input"]["transcription"]["language"] == "en"


@pytest.mark.parametrize(
    ("own", "value"),
    [("de", "de"), ("de", "de-AT"), ("de", "German"), ("de-CH", "de"), ("pt", "pt-BR"), ("", "en"), ("", "de")],
)
def test_the_language_is_that_of_the_model(own: str, value: str) -> None:
    config = updated(own, transcription={"language": value})
    assert config.to_dict("id", old_form=False)["audio"]["input"]["transcription"]["language"] == own


@pytest.mark.parametrize(("own", "value"), [("de", "en"), ("de", "english"), ("de-CH", "ger"), ("pt", "portuguese")])
def test_another_language_is_refused(own: str, value: str) -> None:
    with pytest.raises(
        ProtocolError, match=f"language is '{value}'; this server recognizes '{own}' only: leave it out"
    ):
        updated(own, transcription={"language": value})


def test_silence_chosen_by_a_client_is_fixed(recognizer: Recognizer) -> None:
    """In other cases the words determine the pause, up to this limit."""
    server = Server(recognizer, num_threads=1)
    url = "/v1/realtime"

    def silences(**detection: object) -> tuple[float, float]:
        session = {"type": "transcription", "audio": {"input": {"turn_detection": detection}}}
        socket.send_json({"type": "session.update", "session": session})
        assert socket.receive_json()["type"] == "session.updated"
        (open_session,) = server.sessions
        used = open_session.recognizer
        return used.min_silence_after_speech_s, used.silence_after_speech_s

    with (
        TestClient(create_app(server, Access())) as client,
        client.websocket_connect(url, headers={"host": "localhost"}) as socket,
    ):
        assert socket.receive_json()["type"] == "session.created"
        assert silences(type="server_vad", silence_duration_ms=350) == (0.35, 0.35)
        assert silences(type="semantic_vad", eagerness="low") == (recognizer.min_silence_after_speech_s, 4.0)


@pytest.mark.parametrize("silence_s", [math.inf, 1.2345])
def test_unchanged_silence_is_exactly_the_server_option(recognizer: Recognizer, silence_s: float) -> None:
    """With inf, silence ends no items unless the client requests it."""
    server = Server(recognizer.with_options(silence_after_speech_s=silence_s), num_threads=1)
    shown_ms = None if math.isinf(silence_s) else 1234

    def detection() -> dict[str, Any] | None:
        return socket.receive_json()["session"]["audio"]["input"]["turn_detection"]

    def update(**audio_input: Any) -> tuple[dict[str, Any] | None, float]:
        session = {"type": "transcription", "audio": {"input": audio_input}}
        socket.send_json({"type": "session.update", "session": session})
        reported = detection()
        (open_session,) = server.sessions
        return reported, open_session.recognizer.silence_after_speech_s

    with (
        TestClient(create_app(server, Access())) as client,
        client.websocket_connect("/v1/realtime", headers={"host": "localhost"}) as socket,
    ):
        default = shown_ms and {"type": "server_vad", "silence_duration_ms": shown_ms}
        assert detection() == default
        assert update(transcription={"language": "en"}) == (default, silence_s)
        assert update(turn_detection=None) == (None, silence_s)
        usual = {"type": "server_vad", "silence_duration_ms": shown_ms or 2000}
        for kind in ("server_vad", "semantic_vad"):
            assert update(turn_detection={"type": kind}) == (usual, silence_s if shown_ms else 2.0)


@pytest.mark.parametrize(
    ("session", "details"),
    [
        ({"include": ["item.input_audio_transcription.logprobs"] * 2}, {"logprobs"}),
        ({"audio": {"input": {"transcription": {"timestamp_granularities": ["word"]}}}}, {"words"}),
        ({"audio": {"input": {"transcription": {"max_alternatives": 2.0}}}}, {"alternatives"}),
        ({"include": [], "audio": {"input": {"transcription": {"max_alternatives": 0}}}}, set()),
    ],
)
def test_each_detail_is_asked_for_alone(session: dict[str, Any], details: set[str]) -> None:
    config = SessionConfig(SERVER_MS, SERVER_MS, "en").updated(session, old_form=False)
    assert config.details == details
    assert config.updated({}, old_form=False).details == details
