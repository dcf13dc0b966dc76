"""The text of events: numbers in digits, case and punctuation, masked words; see csrc/text/formatter.h."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from asr import _core
from asr._core import OPTIONS
from asr.runtime.punctuation import Punctuation
from asr.runtime.search import list_text, output_symbols

TEXT: str = OPTIONS["text"].default
TEXTS = OPTIONS["text"].choices


def bundled_punctuation() -> Path | None:
    """The model for case and punctuation of English that ships with the package; None where it came without."""
    path = Path(__file__).parents[1] / "models" / "english.punctuation.onnx"
    return path if path.is_file() else None


def text_options(
    text: str,
    tokens: Sequence[str],
    mask: str | Path | Sequence[str] | None = None,
    punctuation: Punctuation | None = None,
) -> _core.TextOptions | None:
    """Options of the text of events for a model with these tokens; None: words as they are recognized.

    Raises ValueError for a mask that cannot be read.
    """
    list = None if mask is None else list_text("mask", mask)
    return _core.text_options(
        formatted=text == "formatted",
        tokens=output_symbols(tokens),
        mask=list,
        punctuation=None if punctuation is None else punctuation.metadata,
    )
