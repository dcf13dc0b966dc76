"""What clients ask for in a session, and what they get."""

from __future__ import annotations

from typing import Any

import pytest

from asr.streaming.server.protocols.realtime_config import SessionConfig

SERVER_MS = 1600


def updated(**audio_input: Any) -> SessionConfig:
    session = {"type": "transcription", "audio": {"input": audio_input}}
    return SessionConfig(SERVER_MS, SERVER_MS).updated(session, old_form=False)


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
def test_turns_end_by_the_words_or_by_a_fixed_silence(
    detection: dict[str, Any] | None, silence_ms: int | None, is_fixed: bool
) -> None:
    config = updated(turn_detection=detection)
    assert (config.silence_ms, config.is_fixed) == (silence_ms, is_fixed)
    given = config.to_dict("id", old_form=False)["audio"]["input"]["turn_detection"]
    assert given == (detection and {"type": "server_vad", "silence_duration_ms": silence_ms})


@pytest.mark.parametrize("language", ["en", "en-US", "en_GB", "EN-au", "english", "", None])
def test_a_region_of_english_is_english(language: str | None) -> None:
    config = updated(transcription={"language": language, "languages": ["fr-FR", "en-IN"]})
    assert config.to_dict("id", old_form=False)["audio"]["input"]["transcription"]["language"] == "en"
