"""asr-stream: a streaming speech recognizer that one person can train, export and embed.

from asr import Recognizer

stream = Recognizer().stream()
stream.accept_waveform(samples)  # float32 in ±1 or int16, any length
for event in stream.events():
    print(event.text)
"""

from __future__ import annotations

import importlib
import os
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from asr.streaming.alignment import align
    from asr.streaming.recognizer import Recognizer

__version__ = "0.1.0"
__all__ = ["Recognizer", "__version__", "align"]
_DOORS = {"Recognizer": "asr.streaming.recognizer", "align": "asr.streaming.alignment"}

# ONNX Runtime and Ray report to their makers unless these are set before they start. A value of the user's is kept.
os.environ.setdefault("ORT_DISABLE_TELEMETRY", "1")
os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")


def __dir__() -> list[str]:
    return __all__


def __getattr__(name: str) -> Any:
    # NumPy and ONNX Runtime are loaded when the recognizer is first used, so that `import asr` is fast.
    if name not in _DOORS:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    try:
        return getattr(importlib.import_module(_DOORS[name]), name)
    except ModuleNotFoundError as error:
        if error.name != "asr.streaming":
            raise
        raise ImportError(
            "asr-stream is not installed in this Python, which finds its source folder: `make stream` installs it "
            "into .venv; run .venv/bin/python, or . .venv/bin/activate first"
        ) from error
