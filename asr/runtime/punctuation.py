"""Case and punctuation at run time: an ONNX file of `asr export`, run on recognized words.

The graph takes units, which csrc/text/punctuation.h makes from words, and returns the probabilities of the marks after
them and of their cases; that header also describes their effect on the words.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from asr._core import (
    NUM_CASES,
    NUM_MARKS,
    NUM_WORD_FEATURES,
    PUNCTUATION_INPUTS,
    PUNCTUATION_OUTPUTS,
    PunctuationMetadata,
    PunctuationUnits,
    punctuate,
    punctuation_units,
)
from asr.runtime.network import open_file
from asr.runtime.onnx_session import Signature

_SHAPES: dict[str, list[int | str]] = {
    **dict(zip(PUNCTUATION_INPUTS, (["N", "T", NUM_WORD_FEATURES], ["N", "T"], ["N"]), strict=True)),
    **dict(zip(PUNCTUATION_OUTPUTS, (["N", "T", NUM_MARKS], ["N", "T", NUM_CASES]), strict=True)),
}
SIGNATURE = Signature(
    {name: ("tensor(int64)", _SHAPES[name]) for name in PUNCTUATION_INPUTS},
    {name: ("tensor(float)", _SHAPES[name]) for name in PUNCTUATION_OUTPUTS},
)


def bundled_punctuation() -> Path | None:
    """The bundled punctuation model of English; None if the package was built without it."""
    path = Path(__file__).parents[1] / "models" / "english.punctuation.onnx"
    return path if path.is_file() else None


class Answer(NamedTuple):
    mark_probs: npt.NDArray[np.float32]
    """(num_words or num_units, 4): none, comma, period, question mark after each word"""
    case_probs: npt.NDArray[np.float32]
    """(num_words or num_units, 3): lower case, capitalized, all capitals"""


class PunctuationNetwork:
    """The punctuation network, from a file or in PyTorch."""

    look_ahead: int
    left_context: int
    """Numbers of words after and before a word on which its answer depends."""

    def answer_units(self, units: PunctuationUnits) -> Answer:
        """The probabilities of marks and cases for all units, including those around the words."""
        raise NotImplementedError

    def answer(
        self,
        words: Sequence[str],
        pauses_s: Sequence[float] | None = None,
        *,
        continues: bool | None = False,
        complete: bool = True,
    ) -> Answer:
        """The probabilities of marks and cases for the words, at least one.

        continues: None if earlier words are left out; then `left_context` and one of them are among these.
        """
        units = punctuation_units(
            list(words), None if pauses_s is None else list(pauses_s), continues=continues, complete=complete
        )
        of_words = slice(units.first_word, units.first_word + units.num_words)
        return Answer(*(probs[of_words] for probs in self.answer_units(units)))


class Punctuation(PunctuationNetwork):
    """A punctuation model file. Immutable: any number of streams may share one."""

    def __init__(self, path: str | Path, num_threads: int = 1) -> None:
        """Reads a file. Raises ModelError or MetadataError if it cannot be used, OSError if it cannot be read."""
        self.network, self.metadata, properties = open_file(
            path, PunctuationMetadata, lambda _: SIGNATURE, num_threads=num_threads, arena=False
        )
        self.look_ahead, self.left_context = self.metadata.look_ahead, self.metadata.left_context
        self.license = properties.get("license", "")
        """SPDX identifier of the weights' license; empty if not stated."""

    def __call__(
        self,
        words: Sequence[str],
        pauses_s: Sequence[float] | None = None,
        *,
        continues: bool = False,
        complete: bool = True,
    ) -> list[str]:
        """The words as shown, one for each given word.

        Args:
            words: in lower case; words that an earlier step wrote with capitals, digits or signs keep them.
            pauses_s: seconds of silence before each word, NaN if unknown; None: all unknown.
            continues: the utterance continues a sentence that was cut, so it does not begin with a capital.
            complete: the speaker has ended; False for a partial and for a forced cut, whose last word gets no mark.
        """
        if not words:
            return []
        answer = self.answer(words, pauses_s, continues=continues, complete=complete)
        has_pauses = pauses_s is not None
        return punctuate(
            list(words), *answer, self.metadata.mixed, continues=continues, complete=complete, has_pauses=has_pauses
        )

    def answer_units(self, units: PunctuationUnits) -> Answer:
        marks, cases = self.network.answer(units.work)
        return Answer(marks[0], cases[0])
