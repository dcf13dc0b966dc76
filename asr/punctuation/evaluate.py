"""Evaluation of case and punctuation: precision, recall and F1 of each mark and of capitals, on cased text."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path

import numpy as np
import numpy.typing as npt

from asr._core import shown_marks
from asr.punctuation.corpus import CAPITALIZED, COMMA, LOWER, NONE, PERIOD, QUESTION, UNKNOWN_CASE, Corpus
from asr.runtime.punctuation import Answer, PunctuationNetwork

WINDOW = 256
"""Words per call of the network."""
MARKS = {COMMA: "comma", PERIOD: "period", QUESTION: "question"}


@dataclass
class F1:
    correct: int = 0
    found: int = 0
    expected: int = 0

    @property
    def precision(self) -> float:
        return self.correct / max(self.found, 1)

    @property
    def recall(self) -> float:
        return self.correct / max(self.expected, 1)

    @property
    def f1(self) -> float:
        return 2 * self.correct / max(self.found + self.expected, 1)

    def add(
        self, found: npt.NDArray[np.bool_], expected: npt.NDArray[np.bool_], correct: npt.NDArray[np.bool_]
    ) -> None:
        self.found += int(found.sum())
        self.expected += int(expected.sum())
        self.correct += int((found & expected & correct).sum())


@dataclass
class Scores:
    num_words: int = 0
    marks: dict[str, F1] = field(default_factory=lambda: {name: F1() for name in (*MARKS.values(), "all marks")})
    capitals: F1 = field(default_factory=F1)
    """Scores of the capitals shown; words of unknown case are skipped."""
    num_mark_errors: int = 0
    num_marks: int = 0
    """Words with a mark in the reference or in the answer."""

    @property
    def mark_error_rate(self) -> float:
        """Punctuation error rate of LibriSpeech-PC (Meister et al. 2023): wrong, missing and extra marks, divided by
        the number of these and the correct ones."""
        return self.num_mark_errors / max(self.num_marks, 1)

    def add(self, found: Labels, expected: Labels) -> None:
        self.num_words += len(expected.marks)
        same = found.marks == expected.marks
        for mark, name in MARKS.items():
            self.marks[name].add(found.marks == mark, expected.marks == mark, same)
        self.marks["all marks"].add(found.marks != NONE, expected.marks != NONE, same)
        either = (found.marks != NONE) | (expected.marks != NONE)
        self.num_marks += int(either.sum())
        self.num_mark_errors += int((either & ~same).sum())
        known = expected.cases != UNKNOWN_CASE
        cases, wanted = found.cases[known], expected.cases[known]
        self.capitals.add(cases != LOWER, wanted != LOWER, cases == wanted)

    def __str__(self) -> str:
        rows = [*self.marks.items(), ("capitals", self.capitals)]
        parts = [f"{name} {f.f1:.1%} ({f.precision:.1%} {f.recall:.1%})" for name, f in rows if f.expected]
        return f"{self.num_words} words, F1 (precision recall): {', '.join(parts)}; PER {self.mark_error_rate:.1%}"


@dataclass(frozen=True)
class Labels:
    marks: npt.NDArray[np.int64]
    cases: npt.NDArray[np.int64]
    """Case as shown: the first word of a sentence is capitalized."""


def evaluate(model: PunctuationNetwork, corpus: Corpus, max_words: int = 1 << 40) -> Scores:
    """Scores over running text without marking sentence ends; pauses are unknown."""
    scores = Scores()
    at_starts = np.zeros(len(corpus), bool)
    at_starts[corpus.starts] = True
    for part, answer in _answers(model, corpus):
        marks, cases = corpus.marks[part].astype(np.int64), corpus.cases[part].astype(np.int64)
        # Any word is capitalized at the beginning of a sentence.
        cases = np.where((cases == UNKNOWN_CASE) & at_starts[part], CAPITALIZED, cases)
        words = [corpus.vocabulary[i] for i in corpus.words[part]]
        scores.add(shown(answer, words), Labels(marks, cases))
        if scores.num_words >= max_words:
            break
    return scores


def tune(model: PunctuationNetwork, corpora: Sequence[Corpus]) -> float:
    """The offset for the logit of "no mark" with the best F1 averaged over all marks and corpora.

    The most likely answer misses more marks than it adds, because most words have no mark.
    """
    f1 = np.zeros(len(NONE_OFFSETS))
    for corpus in corpora:
        totals = [F1() for _ in NONE_OFFSETS]
        for part, answer in _answers(model, corpus):
            log_probs = np.log(answer.mark_probs + 1e-9)
            expected = corpus.marks[part]
            for offset, total in zip(NONE_OFFSETS, totals, strict=True):
                found = (log_probs - offset * (np.arange(log_probs.shape[1]) == NONE)).argmax(-1)
                total.add(found != NONE, expected != NONE, found == expected)
        f1 += [total.f1 for total in totals]
    return NONE_OFFSETS[int(f1.argmax())]


NONE_OFFSETS = (0.0, 0.15, 0.3, 0.45, 0.6)
"""Text without pauses would select up to 1.05; with known pauses, more than 0.6 only adds wrong commas."""


def read_iwslt(path: Path) -> Corpus:
    """A file of the TED punctuation benchmark (IWSLT 2011): a word and O, COMMA, PERIOD or QUESTION a line, no case.

    Joins split words (do n't) and splits joined ones (avant-garde), to match recognized words. Raises ValueError for
    other formats, or if there is no word.
    """
    names = {"O": NONE, "COMMA": COMMA, "PERIOD": PERIOD, "QUESTION": QUESTION}
    words: list[str] = []
    marks: list[int] = []
    for number, line in enumerate(path.read_text(encoding="utf-8", errors="replace").splitlines(), 1):
        fields = line.split()
        if not fields:
            continue
        if len(fields) == 1:  # a mark alone belongs to the previous word
            fields.insert(0, "")
        if len(fields) != 2 or fields[1] not in names:
            raise ValueError(f"{path}, line {number}: {line!r:.60} is not a word and one of {', '.join(names)}")
        word, mark = fields[0].lower(), names[fields[1]]
        if words and (word == "n't" or word in CLITICS):
            words[-1] += word
            marks[-1] = mark
            continue
        parts = [part for part in re.split(r"[^\w'.,:$%&]+", word) if any(map(str.isalnum, part))]
        words += parts
        marks += [NONE] * len(parts)
        if marks:
            marks[-1] = max(marks[-1], mark)
    if not words:
        raise ValueError(f"{path} has no words")
    index: dict[str, int] = {}
    numbers = np.array([index.setdefault(word, len(index)) for word in words], np.int32)
    unknown = np.full(len(words), UNKNOWN_CASE, np.uint8)
    return Corpus(
        list(index), numbers, np.array(marks, np.uint8), unknown, np.zeros(0, np.int64), np.zeros(1, np.int64), {}
    )


CLITICS = frozenset({"'s", "'re", "'m", "'ll", "'ve", "'d"})


def shown(answer: Answer, words: Sequence[str]) -> Labels:
    """The labels of a text's words as asr._core.punctuate shows them."""
    marks, cases = np.array(shown_marks(list(words), answer.mark_probs), np.int64), answer.case_probs.argmax(-1)
    sentence = np.insert(marks[:-1] == PERIOD, 0, True)
    return Labels(marks, np.where(sentence & (cases == LOWER), CAPITALIZED, cases))


def _answers(model: PunctuationNetwork, corpus: Corpus) -> Iterator[tuple[slice, Answer]]:
    """Answers for each contiguous part of a corpus, and its position."""
    for start, stop in pairwise((*corpus.breaks.tolist(), len(corpus))):
        yield slice(start, stop), answer_running(model, [corpus.vocabulary[i] for i in corpus.words[start:stop]])


def answer_running(model: PunctuationNetwork, words: Sequence[str]) -> Answer:
    """Answers for a text of any length, in windows; equal to those for the whole text at once."""
    marks, cases = [], []
    for start in range(0, len(words), WINDOW):
        stop = min(start + WINDOW, len(words))
        # One more word before the context, because the unit before the first word takes its place.
        first = max(0, start - model.left_context - 1)
        last = min(stop + model.look_ahead, len(words))
        answer = model.answer(words[first:last], continues=None if first else False, complete=last == len(words))
        marks.append(answer.mark_probs[start - first : stop - first])
        cases.append(answer.case_probs[start - first : stop - first])
    return Answer(np.concatenate(marks), np.concatenate(cases))
