"""Case and punctuation at run time: an ONNX file of `asr export`, run over recognized words.

The file's graph takes units, as csrc/text/punctuation.h makes them of words, and answers with the probabilities of the
marks after them and of their cases; that header also says what those do to the words.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from asr._core import (
    NUM_CASES,
    NUM_MARKS,
    punctuate,
    punctuation_units,
    read_onnx_properties,
)
from asr.runtime.metadata import EXPORT_AGAIN, MetadataError
from asr.runtime.onnx_session import ModelError, open_session, run

MODEL_TYPE = "asr_stream_punctuation"
FORMAT_VERSION = 1
INPUTS = ("features", "pauses", "num_units")
OUTPUTS = ("mark_probs", "case_probs")
SENTENCE_MARKS = slice(2, 4)
"""Indices in `Answer.mark_probs` of the marks that end a sentence: full stop and question mark."""


class Answer(NamedTuple):
    mark_probs: npt.NDArray[np.float32]
    """(num_words, 4): none, comma, full stop, question mark after each word"""
    case_probs: npt.NDArray[np.float32]
    """(num_words, 3): small letters, capitalized, all capitals"""


class Punctuation:
    """Immutable: any number of streams may share one."""

    def __init__(self, path: str | Path, num_threads: int = 1) -> None:
        """Reads a file. Raises ModelError or MetadataError where it cannot be used, OSError where it cannot be read."""
        self._name = str(path)
        data = Path(path).read_bytes()
        properties = _properties(data, self._name)
        self.look_ahead = _integer(properties, "look_ahead")
        """Words after a word that its mark and case depend on: with as many behind it, they no longer change."""
        self.left_context = _integer(properties, "left_context")
        """Words before a word that they depend on."""
        self.mixed = _mixed(properties)
        """Spelling of words of mixed case, by their lower-case form."""
        self.license = properties.get("license", "")
        """SPDX identifier of the weights' license; empty when none is stated."""
        self._session = open_session(data, self._name, "cpu", num_threads)
        for kind, found, wanted in (
            ("inputs", self._session.get_inputs(), INPUTS),
            ("outputs", self._session.get_outputs(), OUTPUTS),
        ):
            names = tuple(value.name for value in found)
            if names != wanted:
                raise ModelError(f"{self._name} has the {kind} {names}, not {wanted}: {EXPORT_AGAIN}")

    def __call__(
        self,
        words: Sequence[str],
        pauses_s: Sequence[float] | None = None,
        *,
        continues: bool = False,
        complete: bool = True,
    ) -> list[str]:
        """The words as they are shown, one for each word given.

        Args:
            words: in small letters; a word that an earlier step has written with capitals, digits or signs keeps them.
            pauses_s: seconds of silence before each word, NaN where unknown; None for all unknown.
            continues: the utterance goes on with a sentence that was cut, so it does not begin with a capital.
            complete: the speaker has ended; False for a partial and for a forced cut, whose last word gets no mark.
        """
        if not words:
            return []
        answer = self.answer(words, pauses_s, continues=continues, complete=complete)
        return punctuate(list(words), *answer, self.mixed, continues=continues, complete=complete)

    def answer(
        self,
        words: Sequence[str],
        pauses_s: Sequence[float] | None = None,
        *,
        continues: bool | None = False,
        complete: bool = True,
    ) -> Answer:
        """The probabilities behind the marks and cases of `__call__`, of at least one word.

        continues: None where words before these are left out, `left_context` and one of which are among these.
        """
        features, pauses, first = punctuation_units(
            list(words), None if pauses_s is None else list(pauses_s), continues=continues, complete=complete
        )
        feeds = {
            "features": features[None],
            "pauses": pauses[None],
            "num_units": np.array([len(pauses)], np.int64),
        }
        marks, cases = run(self._session, OUTPUTS, feeds, self._name)
        answer = Answer(marks[0, first : first + len(words)], cases[0, first : first + len(words)])
        if answer.mark_probs.shape != (len(words), NUM_MARKS) or answer.case_probs.shape != (len(words), NUM_CASES):
            raise ModelError(f"{self._name} answers with another shape than its units have: {EXPORT_AGAIN}")
        return answer


class PunctuatedUtterance:
    """An utterance as it grows: its words as they are shown, as soon as nothing can change them any more.

    The final text, of `Punctuation` over all words, begins with what was shown.
    """

    def __init__(self, punctuation: Punctuation, *, continues: bool = False) -> None:
        self._punctuation = punctuation
        self._continues = continues
        self._marks = np.zeros((0, NUM_MARKS), np.float32)
        self._cases = np.zeros((0, NUM_CASES), np.float32)

    def __call__(self, words: Sequence[str], pauses_s: Sequence[float] | None = None) -> list[str]:
        """The first words of the utterance so far as they are shown, all but the last `Punctuation.look_ahead`.

        words, pauses_s: all of the utterance that no longer change; those of the call before are not looked at again.
        """
        known, last = len(self._marks), max(0, len(words) - self._punctuation.look_ahead)
        if last > known:
            first = max(0, known - self._punctuation.left_context)
            answer = self._punctuation.answer(
                words[first:],
                None if pauses_s is None else pauses_s[first:],
                continues=None if first else self._continues,
                complete=False,
            )
            self._marks = np.concatenate((self._marks, answer.mark_probs[known - first : last - first]))
            self._cases = np.concatenate((self._cases, answer.case_probs[known - first : last - first]))
        shown = min(last, len(self._marks))
        return punctuate(
            list(words[:shown]),
            self._marks[:shown],
            self._cases[:shown],
            self._punctuation.mixed,
            continues=self._continues,
            complete=True,
        )


def _properties(data: bytes, name: str) -> dict[str, str]:
    try:
        properties = read_onnx_properties(data)
    except ValueError as error:
        raise ModelError(f"{name} is damaged: {error}; {EXPORT_AGAIN}") from error
    found = properties.get("model_type")
    if found != MODEL_TYPE:
        raise MetadataError(f"{name} is no model for punctuation: its model_type is {found!r}, not {MODEL_TYPE!r}")
    version = properties.get("format_version")
    if version != str(FORMAT_VERSION):
        raise MetadataError(
            f"{name} has format_version {version!r}; this release reads {FORMAT_VERSION}: update asr-stream, or write "
            "the file again with this release's `asr export`"
        )
    return properties


def _integer(properties: dict[str, str], key: str) -> int:
    text = properties.get(key, "")
    if not (text.isdecimal() and text.isascii() and len(text) < 6):
        raise MetadataError(f"metadata key {key} is {text!r:.60}, not a number of words: {EXPORT_AGAIN}")
    return int(text)


def _mixed(properties: dict[str, str]) -> dict[str, str]:
    try:
        value: Any = json.loads(properties["mixed_case"])
        if not all(isinstance(text, str) for item in value.items() for text in item):
            raise ValueError(value)
    except (KeyError, ValueError, AttributeError, RecursionError) as error:
        raise MetadataError(f"metadata key mixed_case is damaged or missing: {EXPORT_AGAIN}") from error
    return dict(value)
