"""Hotwords that clients bring: those that the recognizer can use. The others are no reason to refuse a client."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import TYPE_CHECKING

from asr.runtime.search import output_symbols

if TYPE_CHECKING:
    from asr.streaming.recognizer import Recognizer

_WEIGHT = re.compile(r"[:\t][0-9.]+$")  # as in "Leighton:2"


def usable_hotwords(recognizer: Recognizer, words: Iterable[str]) -> tuple[str, ...]:
    """Those of `words` that the model can spell; none where the search is greedy or follows a list of phrases."""
    if recognizer.search == "greedy" or recognizer.phrases is not None:
        return ()
    letters = set("".join(output_symbols(recognizer.onnx.tokens)).upper()) - {"▁"} | {" "}
    spelled = tuple(word for word in words if word.strip() and set(_WEIGHT.sub("", word).upper()) <= letters)
    try:
        recognizer.with_options(hotwords=spelled)
    except ValueError:  # a weight out of range
        return ()
    return spelled
