"""The text of events: spoken commands, masking, numbers, punctuation, replacements; see csrc/text/formatter.h."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from asr import _core
from asr._core import OPTIONS
from asr.runtime.punctuation import Punctuation
from asr.runtime.search import list_text, output_symbols

TEXTS = OPTIONS["text"].choices


def bundled_punctuation() -> Path | None:
    """The bundled punctuation model of English; None if the package was built without it."""
    path = Path(__file__).parents[1] / "models" / "english.punctuation.onnx"
    return path if path.is_file() else None


def text_options(
    text: str,
    tokens: Sequence[str],
    mask: str | Path | Sequence[str] | None = None,
    punctuation: Punctuation | None = None,
    *,
    commands: bool = False,
    command_list: str | Path | Sequence[str] | None = None,
    replace: str | Path | Sequence[str] | None = None,
    written_forms: Sequence[tuple[str, str]] = (),
    language: str | None = None,
) -> _core.TextOptions | None:
    """Text options for a model with these tokens; None: words as recognized.

    written_forms: of hotwords, see `LmFusion.written_forms`. language: a BCP 47 code; None: guessed from the tokens.
    Raises ValueError for a list that cannot be read or used.
    """

    def text_of(name: str, lines: str | Path | Sequence[str] | None) -> str | None:
        return None if lines is None else list_text(name, lines)

    return _core.text_options(
        formatted=text == "formatted",
        tokens=output_symbols(tokens),
        mask=text_of("mask", mask),
        commands=commands,
        command_list=text_of("command_list", command_list),
        replace=text_of("replace", replace),
        written_forms=list(written_forms),
        punctuation=None if punctuation is None else punctuation.metadata,
        language=language,
    )
