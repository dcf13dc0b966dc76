"""Punctuation of recognized words: python benchmarks/punctuation.py data/train_sp --cased libritts-cased.txt

--cased: sentences with case and punctuation, one per line, such as the transcripts of LibriTTS. Utterances that contain
one or more of them are recognized, those that follow each other (-0003, -0004) as one stream, and their marks are
compared with those of the punctuation network:

- reference: on the words of the transcript, one utterance at a time, pauses unknown,
- recognized: on the words of the finals, one final at a time, pauses unknown,
- with pauses: the same with the pauses before them.

A mark counts after the word that is aligned with the reference's, right or wrong; a mark after any other word of the
sentence is false. false_period, false_comma: in 1000 words. WER: of the finals of all utterances. F1 and the
punctuation error rate: docs/guides/text.md.

Further rows: the shares of the pauses after each mark, by their upper bounds in s, for asr/punctuation/batches.py.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import jiwer
import numpy as np
from command import new_parser, progress, show, utterances

from asr import Recognizer
from asr._core import NUM_PAUSE_CLASSES, pause_class, shown_marks
from asr.data.speech import Clip, evenly_spread
from asr.evaluation.wer import count_errors
from asr.punctuation.corpus import NONE, UNKNOWN_CASE, Corpus, CorpusReader
from asr.punctuation.evaluate import MARKS, Labels, Scores
from asr.runtime.punctuation import Punctuation, bundled_punctuation
from asr.runtime.search import Word
from asr.streaming import Final

MIN_WORDS = 4
"""Shorter sentences could occur in an utterance by chance."""


def read_cased(path: Path) -> dict[str, list[tuple[list[str], list[int]]]]:
    """The words in capitals and the marks of each line, keyed by their first words."""
    found: dict[str, list[tuple[list[str], list[int]]]] = {}
    for line in path.read_text(encoding="utf-8").splitlines():
        reader = CorpusReader()
        reader.add(line)
        if len(reader) >= MIN_WORDS:
            corpus: Corpus = reader.corpus()
            words = [corpus.vocabulary[word].upper() for word in corpus.words]
            found.setdefault(" ".join(words[:MIN_WORDS]), []).append((words, corpus.marks.tolist()))
    return found


def known_marks(words: Sequence[str], cased: dict[str, list[tuple[list[str], list[int]]]]) -> list[int | None]:
    """The mark after each word of a transcript; None if no cased line contains it."""
    marks: list[int | None] = [None] * len(words)
    for start in range(len(words) - MIN_WORDS + 1):
        for line, line_marks in cased.get(" ".join(words[start : start + MIN_WORDS]), []):
            if list(words[start : start + len(line)]) == line:
                marks[start : start + len(line)] = line_marks
    return marks


def passages(clips: Sequence[Clip]) -> Iterator[list[Clip]]:
    """Groups the clips that follow each other in a recording, by the numbers at the ends of their ids."""
    group: list[Clip] = []
    for clip in clips:
        if group and place(clip.id) != (place(group[-1].id)[0], place(group[-1].id)[1] + 1):
            yield group
            group = []
        group.append(clip)
    if group:
        yield group


def place(id: str) -> tuple[str, int]:
    """The recording of an utterance, and its number in it; -1 if it has none."""
    match = re.fullmatch(r"(.*\D)(\d+)", id)
    return (match[1], int(match[2])) if match else (id, -1)


def aligned(words: Sequence[str], found: Sequence[str]) -> tuple[list[int | None], list[tuple[int, int]]]:
    """The index of the found word at each word, or None; and of each other found word the place and its index."""
    at_word: list[int | None] = [None] * len(words)
    extra: list[tuple[int, int]] = []
    if found:
        for piece in jiwer.process_words(" ".join(words), " ".join(found)).alignments[0]:
            for i in range(piece.hyp_end_idx - piece.hyp_start_idx):
                if piece.type == "insert":
                    extra.append((piece.ref_start_idx, piece.hyp_start_idx + i))
                else:
                    at_word[piece.ref_start_idx + i] = piece.hyp_start_idx + i
    return at_word, extra


def compare(scores: Scores, words: Sequence[str], wanted: Sequence[int | None], found: list[tuple[str, int]]) -> None:
    """Compares `found`, words and the mark after each, with the known marks of the transcript."""
    at_word, extra = aligned(words, [word for word, _ in found])
    pairs = []
    for index, mark in zip(at_word, wanted, strict=True):
        if mark is not None:
            pairs.append((NONE if index is None else found[index][1], mark))
    pairs += [(found[index][1], NONE) for at, index in extra if 0 < at < len(words) and wanted[at] is not None]
    if pairs:
        marks = np.array(pairs, np.int64)
        unknown = np.full(len(marks), UNKNOWN_CASE, np.int64)
        scores.add(Labels(marks[:, 0], unknown), Labels(marks[:, 1], unknown))


def count_pauses(counts: np.ndarray, words: Sequence[str], wanted: Sequence[int | None], found: Sequence[Word]) -> None:
    """Adds the class of the pause after each found word with a known mark to counts (marks, NUM_PAUSE_CLASSES)."""
    for index, mark in zip(aligned(words, [word.word for word in found])[0], wanted, strict=True):
        if mark is not None and index is not None and index + 1 < len(found):
            counts[mark, pause_class(max(0.0, found[index + 1].start - found[index].end))] += 1


def answered(punctuation: Punctuation, words: Sequence[Word], with_pauses: bool) -> list[tuple[str, int]]:
    """The words, each with the mark shown after it."""
    texts = [word.word.lower() for word in words]
    pauses = [0.0, *(max(0.0, b.start - a.end) for a, b in pairwise(words))]
    probs = punctuation.answer(texts, pauses if with_pauses else None).mark_probs
    marks = shown_marks(texts, probs, has_pauses=with_pauses)
    return [(word.word, mark) for word, mark in zip(words, marks, strict=True)]


def row(name: str, scores: Scores) -> dict[str, Any]:
    marks = {f"{mark}_f1": score.f1 for mark, score in scores.marks.items()}
    for mark in ("period", "comma"):
        score = scores.marks[mark]
        marks[f"false_{mark}"] = 1000 * (score.found - score.correct) / max(scores.num_words, 1)
    return {"text": name, "words": scores.num_words, **marks, "per": scores.mark_error_rate}


def pause_rows(counts: np.ndarray) -> Iterator[dict[str, Any]]:
    """counts: (marks, NUM_PAUSE_CLASSES) places; class 0, unknown pauses, is empty."""
    for mark, name in {NONE: "none", **MARKS}.items():
        total = int(counts[mark].sum())
        shares = dict(zip(PAUSE_BOUNDS, (counts[mark, 1:] / max(total, 1)).tolist(), strict=True))
        yield {"pauses_after": name, "places": total, **shares}


def pause_bounds() -> list[str]:
    """The upper bounds in s of the pause classes."""
    classes = [pause_class(0.01 * i) for i in range(200)]
    return [*(f"{0.01 * classes.index(number):.2f}" for number in range(2, NUM_PAUSE_CLASSES)), "more"]


PAUSE_BOUNDS = pause_bounds()


def main() -> None:
    parser = new_parser(__doc__)
    parser.add_argument("--cased", type=Path, required=True, metavar="FILE", help="sentences with case and marks")
    parser.add_argument("--punctuation", type=Path, metavar="FILE", help="default: the bundled network")
    args = parser.parse_args()

    cased = read_cased(args.cased)
    number, args.num_utterances = args.num_utterances, None
    texts: set[str] = set()
    chosen: list[Clip] = []
    for clip in utterances(args):  # the other copies differ in speed or noise
        marks = known_marks(clip.text.split(), cased)
        if clip.text not in texts and any(mark is not None for mark in marks):
            chosen.append(clip)
        texts.add(clip.text)
    chosen = evenly_spread(chosen, number)
    if not chosen:
        parser.error(f"no transcript of {args.data} has a sentence of {args.cased} in it")

    path = args.punctuation or bundled_punctuation()
    assert path is not None
    punctuation = Punctuation(path)
    recognizer = Recognizer(args.model, text="plain", punctuation=punctuation)
    scores = {name: Scores() for name in ("reference", "recognized", "with pauses")}
    counts = np.zeros((len(MARKS) + 1, NUM_PAUSE_CLASSES), np.int64)
    references, hypotheses = [], []
    for passage in progress(list(passages(chosen)), "recognizing"):
        words = [word for clip in passage for word in clip.text.split()]
        marks = known_marks(words, cased)
        read = [[Word(word, 0.0, 0.0, 1.0) for word in clip.text.split()] for clip in passage]
        alone = [pair for each in read for pair in answered(punctuation, each, False)]
        compare(scores["reference"], words, marks, alone)
        stream = recognizer.stream()
        stream.accept_waveform(np.concatenate([clip.waveform() for clip in passage]))
        stream.finish()
        finals = [event.raw_words for event in stream.events() if isinstance(event, Final)]
        for name in ("recognized", "with pauses"):
            found = [pair for final in finals for pair in answered(punctuation, final, name == "with pauses")]
            compare(scores[name], words, marks, found)
        count_pauses(counts, words, marks, [word for final in finals for word in final])
        references.append(" ".join(words))
        hypotheses.append(" ".join(word.word for final in finals for word in final))
    wer = count_errors(references, hypotheses).rate
    rows = [row(name, each) | {"wer": 0.0 if name == "reference" else wer} for name, each in scores.items()]
    show([*rows, *pause_rows(counts)], args)


if __name__ == "__main__":
    main()
