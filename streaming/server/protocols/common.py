"""Shared by the protocols: parsing of untrusted client messages, their common fields, and errors.

A check returns the value in the server's form, or raises `ProtocolError`.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from starlette.responses import JSONResponse

from asr._core import OPTIONS, language_name
from asr.runtime.search import Word
from asr.streaming.events import spaced

MAX_KEYWORDS, MAX_KEYWORD_LENGTH, MAX_KEYWORD_LETTERS = 500, 64, 8000
"""Maximum number of keywords, of letters in each, and of letters in all. G2P takes 0.2 s for this many letters."""
MAX_JSON = 65536
"""Letters of JSON in a message. Parsing millions of values would delay the other clients."""
_DIGITS = re.compile("[0-9]{1,12}")
ANY_LANGUAGE = "auto"
"""Clients of recognizers with several languages send it; here it means the model's language."""


class ProtocolError(Exception):
    """A message or request that cannot be fulfilled. The text tells the client the value and what is allowed."""

    def __init__(self, message: str, param: str | None = None, code: str | None = None, status: int = 400) -> None:
        """param: the invalid field. status: of an HTTP response."""
        super().__init__(message)
        self.param, self.code, self.status = param, code, status

    def to_dict(self) -> dict[str, Any]:
        """The `error` object of OpenAI's responses and events."""
        kind = "server_error" if self.status >= 500 else "invalid_request_error"
        return {"message": str(self), "type": kind, "param": self.param, "code": self.code}

    def response(self, headers: Mapping[str, str] | None = None) -> JSONResponse:
        """The HTTP response."""
        return JSONResponse({"error": self.to_dict()}, self.status, headers)


def decoded(text: str | bytes) -> str:
    """`text` as a string, from UTF-8 only: json.loads would also accept UTF-16 and surrogates."""
    try:
        return text.decode() if isinstance(text, bytes) else text
    except ValueError as error:
        raise ProtocolError(f"this is not JSON: {str(error)[:80]}", code="invalid_json") from None


def parse_object(text: str | bytes) -> dict[str, Any]:
    """The JSON object in `text`."""
    text = decoded(text)
    if len(text) > MAX_JSON:
        sentence = f"this JSON has {len(text)} letters; only audio may make a message longer than {MAX_JSON}"
        raise ProtocolError(sentence, code="too_large")
    try:
        found = json.loads(text)
        if "\\u" in text:
            # An unpaired surrogate is valid in JSON but not in UTF-8.
            json.dumps(found, ensure_ascii=False).encode()
    except RecursionError:
        raise ProtocolError("this JSON is nested too deeply", code="invalid_json") from None
    except UnicodeEncodeError:
        reason = "a string has a lone surrogate (\\ud800 to \\udfff), which is not a character"
        raise ProtocolError(reason, code="invalid_json") from None
    except ValueError as error:
        raise ProtocolError(f"this is not JSON: {str(error)[:80]}", code="invalid_json") from None
    if not isinstance(found, dict):
        raise ProtocolError(f"this is JSON, but {shown(found)} is not an object", code="invalid_json")
    return found


def whole_number(name: str, value: Any, low: int, high: int, param: str | None = None) -> int:
    """`value` as an int in [low, high]; accepts 16000.0 and "16000", too."""
    number = int(value) if isinstance(value, str) and _DIGITS.fullmatch(value) else value
    whole = isinstance(number, (int, float)) and not isinstance(number, bool) and low <= number <= high
    if not whole or number != int(number):
        raise ProtocolError(f"{name} is {shown(value)}; it must be a whole number in [{low}, {high}]", param)
    return int(number)


def check_text(value: object, more: Sequence[str] = ()) -> str:
    """The style of the text: one of the option `text` or of `more`."""
    choices = (*more, *OPTIONS["text"].choices)
    if value not in choices:
        raise ProtocolError(f"text is {shown(value)}; choose one of {', '.join(choices)}", "text")
    return str(value)


def check_language(value: object, param: str, language: str) -> None:
    """Accepts None, "auto" and the model's language: its code, with any region ("en", "en-US"), or its name.

    language: of the model file. If it states none, any value is accepted.
    """
    if value in (None, "", ANY_LANGUAGE):
        return
    if not isinstance(value, str):
        raise ProtocolError(f"{param} is {shown(value)}; it must be a string such as {language or 'en'!r}", param)
    own = language.split("-")[0]
    if own and value.replace("_", "-").lower().split("-")[0] not in (own, language_name(own)):
        raise ProtocolError(f"{param} is {shown(value)}; this server recognizes {language!r} only: leave it out", param)


def check_languages(values: Sequence[object], param: str, language: str) -> None:
    """Accepts a list of languages that is empty or contains the model's."""
    for i, value in enumerate(values, 1):
        try:
            return check_language(value, param, language)
        except ProtocolError:
            if i == len(values):
                raise


def check_keywords(values: Sequence[object], param: str) -> tuple[str, ...]:
    """Words and phrases to recognize more readily: strings of one line each, within the limits."""
    keywords = tuple(value for value in values if isinstance(value, str) and "\n" not in value)
    if len(keywords) != len(values) or len(keywords) > MAX_KEYWORDS:
        raise ProtocolError(f"{param} must be at most {MAX_KEYWORDS} strings of one line each", param)
    for keyword in keywords:
        if len(keyword) > MAX_KEYWORD_LENGTH:
            sentence = f"{param} has {shown(keyword)}; a keyword has at most {MAX_KEYWORD_LENGTH} letters"
            raise ProtocolError(sentence, param)
    if (num_letters := sum(map(len, keywords))) > MAX_KEYWORD_LETTERS:
        sentence = f"{param} have {num_letters} letters; all keywords together have at most {MAX_KEYWORD_LETTERS}"
        raise ProtocolError(sentence, param)
    return keywords


def keywords_within_limits(values: Iterable[str]) -> tuple[str, ...]:
    """The longest prefix of `values` that `check_keywords` accepts."""
    keywords: list[str] = []
    num_letters = 0
    for value in values:
        if "\n" in value or len(value) > MAX_KEYWORD_LENGTH:
            continue
        num_letters += len(value)
        if num_letters > MAX_KEYWORD_LETTERS or len(keywords) == MAX_KEYWORDS:
            break
        keywords.append(value)
    return tuple(keywords)


def warnings_about(keywords: Iterable[str], used: object) -> list[str]:
    """A sentence that names those `keywords` that are not among the `used` hotwords; empty if all are."""
    used = set(used) if isinstance(used, tuple) else set()
    if not (left_out := [shown(word) for word in keywords if word not in used]):
        return []
    some = ", ".join(left_out[:10]) + ", ..." * (len(left_out) > 10)
    return [f"keywords that this model or its search cannot use are left out: {some}"]


def logprobs(words: Sequence[Word], before: str = "") -> list[dict[str, Any]]:
    """OpenAI's `logprobs` with words instead of tokens: the natural logarithm of a word's confidence.

    The concatenated tokens are the text. before: the preceding text.
    """
    tokens = spaced((word.word for word in words), before)
    return [
        {"token": token, "bytes": list(token.encode()), "logprob": round(log_confidence(word), 4)}
        for token, word in zip(tokens, words, strict=True)
    ]


def log_confidence(word: Word) -> float:
    """The natural logarithm of the confidence, with a floor of 1e-9, because JSON has no infinity."""
    return math.log(max(word.confidence, 1e-9))


def shown(value: Any) -> str:
    """`value` for an error message, cut to 64 characters."""
    if isinstance(value, (dict, list)):
        return "an object" if isinstance(value, dict) else "a list"
    text = repr(value[:60] if isinstance(value, str) else value)
    return text if len(text) <= 64 else f"{text[:60]}…"
