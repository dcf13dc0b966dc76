"""Hotwords that clients bring: those that the recognizer can use. The others are no reason to refuse a client."""

from __future__ import annotations

import re
from collections.abc import Iterable

from asr.runtime.search import output_symbols
from asr.streaming.recognizer import Recognizer
from asr.streaming.server.protocols.messages import shown

_WEIGHT = re.compile(r"[:\t][0-9.]+$")  # as in "Leighton:2"


def usable_hotwords(recognizer: Recognizer, words: Iterable[str]) -> tuple[str, ...]:
    """The `words` that the model can spell; none where the search is greedy or follows a list of phrases."""
    if recognizer.search == "greedy" or recognizer.phrases is not None:
        return ()
    letters = set("".join(output_symbols(recognizer.onnx.tokens)).upper()) - {"▁"} | {" "}
    spelled = tuple(word for word in words if word.strip() and set(_WEIGHT.sub("", word).upper()) <= letters)
    try:
        recognizer.with_options(hotwords=spelled)
    except ValueError:  # a weight out of range
        return ()
    return spelled


def warnings_about(words: Iterable[str], usable: Iterable[str]) -> list[str]:
    """A sentence that names the `words` that are not `usable`; nothing where all are."""
    usable = set(usable)
    if not (left_out := [shown(word) for word in words if word not in usable]):
        return []
    some = ", ".join(left_out[:10]) + ", ..." * (len(left_out) > 10)
    return [f"keywords that this model or its search cannot use are left out: {some}"]
