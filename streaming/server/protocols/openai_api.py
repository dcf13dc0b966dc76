"""Shared parts of OpenAI's two protocols: the error object, and the checks of fields that both have."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from asr.streaming.server.protocols import messages
from asr.streaming.server.protocols.messages import BadMessage, shown

MAX_KEYWORDS, MAX_KEYWORD_LENGTH = 500, 100
COMMIT_MODELS = ("gpt-realtime-whisper", "gpt-live-transcribe")
"""OpenAI's models without turn detection: a client that asks for one commits."""


class ApiError(Exception):
    """A request that cannot be fulfilled. The text is for the client: the value, what is allowed, a way out."""

    def __init__(self, message: str, param: str | None = None, code: str | None = None, status: int = 400) -> None:
        """param: the field at fault. status: of the HTTP answer."""
        super().__init__(message)
        self.param, self.code, self.status = param, code, status

    def to_dict(self) -> dict[str, Any]:
        """The `error` object of OpenAI's answers and events."""
        kind = "server_error" if self.status >= 500 else "invalid_request_error"
        return {"message": str(self), "type": kind, "param": self.param, "code": self.code}


def check_language(value: object, param: str) -> None:
    """ApiError for another language than the model's; a region ("en-US") changes nothing."""
    try:
        messages.check_language(value, param)
    except BadMessage as error:
        raise ApiError(str(error), param) from None


def check_languages(values: Sequence[object], param: str) -> None:
    """ApiError for a list of languages without the model's."""
    for i, value in enumerate(values, 1):
        try:
            return check_language(value, param)
        except ApiError:
            if i == len(values):
                raise


def check_keywords(values: Sequence[object], param: str) -> tuple[str, ...]:
    """Words and phrases to be recognized more readily. ApiError unless they are text, not too many and not too long."""
    keywords = tuple(value for value in values if isinstance(value, str) and "\n" not in value)
    if len(keywords) != len(values) or len(keywords) > MAX_KEYWORDS:
        raise ApiError(f"{param} must be at most {MAX_KEYWORDS} strings of one line each", param)
    for keyword in keywords:
        if len(keyword) > MAX_KEYWORD_LENGTH:
            raise ApiError(f"{param} has {shown(keyword)}; a keyword has at most {MAX_KEYWORD_LENGTH} letters", param)
    return keywords
