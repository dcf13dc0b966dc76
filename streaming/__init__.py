"""Live recognition: audio goes in as it is spoken, words come out a fraction of a second later. Never imports PyTorch.

Importing this package is cheap: every name is loaded when it is first used.
"""

# ruff: noqa: F401
from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from asr.containers import AudioFileError
    from asr.streaming.audio.audio_file import read_blocks
    from asr.streaming.audio.microphone import Microphone, MicrophoneError, list_devices
    from asr.streaming.events import Alternative, Error, Event, Final, Gap, Partial
    from asr.streaming.recognizer import Recognizer
    from asr.streaming.stream import Stream, StreamFailed

_HOME = {
    **dict.fromkeys(("Alternative", "Error", "Event", "Final", "Gap", "Partial"), "events"),
    **dict.fromkeys(("AudioFileError", "read_blocks"), "audio.audio_file"),
    **dict.fromkeys(("Microphone", "MicrophoneError", "list_devices"), "audio.microphone"),
    "Recognizer": "recognizer",
    **dict.fromkeys(("Stream", "StreamFailed"), "stream"),
}

__all__ = sorted(_HOME)


def __getattr__(name: str) -> Any:
    if name in _HOME:
        return getattr(importlib.import_module(f"asr.streaming.{_HOME[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
