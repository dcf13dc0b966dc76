"""Finds the times of the words of a text in its recording, however long, even if the text is not exact.

The recording is recognized, and runs of words that are both in the text and in what was recognized are anchors (as in
Moreno et al. 1998, "A recursive algorithm for the forced alignment of very long audio segments"). Between anchors, at
pauses, the recording is cut into parts of some seconds, and each part of the text is aligned to the outputs of CTC in
its part. There a word of the text may be skipped at a cost, and so may speech that is not in the text.
"""

from __future__ import annotations

import bisect
import itertools
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, NamedTuple

import numpy as np
import numpy.typing as npt

from asr import _core
from asr._core import Fbank, Hypothesis, align_text
from asr.features import ENCODER_FRAME_S, FEATURE_OVERLAP, SAMPLE_RATE, SUBSAMPLING
from asr.runtime.search import Word
from asr.streaming.alignment.anchors import find_anchors
from asr.streaming.alignment.text import Speller, TextWord, spoken_form, text_words
from asr.streaming.audio.audio_file import read_blocks
from asr.streaming.events import Final
from asr.streaming.recognizer import Recognizer
from asr.streaming.resampler import Resampler, check_sample_rate, mono
from asr.text import WORD_BOUNDARY

CHUNK_SIZE, LEFT_CONTEXT = 64, 128
"""Of the encoder, in frames: 2.56 s and 5.12 s."""
MIN_PART_S, MAX_PART_S = 8.0, 20.0
"""Parts end at the longest pause in this range, if there is an anchor on both of its sides."""
SKIPPED_COST = 10.0
OTHER_COST = 2.0
"""Nats for a word of the text that is not said, and for a frame of speech that is not in the text."""
MAX_CELLS = 250_000_000
"""Frames times tokens of a part, 4 bytes each. A part beyond it has neither anchors nor, most likely, this text."""


class Phone(NamedTuple):
    """A phone of a word. Times in seconds."""

    phone: str
    start: float
    end: float


@dataclass(frozen=True)
class AlignedWord:
    """A word of the text.

    text: as written, with its punctuation. paragraph: its number, from 0.
    start, end: seconds from the beginning of the recording; None for a word that is not said.
    confidence: the mean probability of its tokens there, in (0, 1); 0 for a word that is not said.
    phones: of the pronunciation that fits best; empty for numbers, and for a model without phones.
    """

    text: str
    paragraph: int
    start: float | None = None
    end: float | None = None
    confidence: float = 0.0
    phones: tuple[Phone, ...] = ()


@dataclass(frozen=True)
class Alignment:
    """A text with the times of its words.

    duration: of the recording, in seconds.
    words: all words of the text, in order.
    extra: words that are said but not in the text, as recognized.
    """

    duration: float
    words: tuple[AlignedWord, ...]
    extra: tuple[Word, ...] = ()

    def missing(self) -> list[AlignedWord]:
        """The words that are not said."""
        return [word for word in self.words if word.start is None]


def align(
    recording: str | Path | IO[bytes] | npt.NDArray[Any],
    text: str,
    recognizer: Recognizer | None = None,
    *,
    sample_rate: int = SAMPLE_RATE,
    progress: Callable[[float], object] = lambda audio_s: None,
) -> Alignment:
    """Finds the times of the words of `text` in `recording`.

    recording: see `read_blocks`; or samples, see `Stream.accept_waveform`, at `sample_rate`.
    text: a blank line separates paragraphs. It need not be exact: words that are not said, and words that are not in
        the text, are found, if most of it is right.
    recognizer: default: the bundled model.
    progress: called with the seconds of audio that have been read.

    Raises ValueError for a text without words, and like `read_blocks` and `Recognizer`.
    """
    written = text_words(text)
    if not written:
        raise ValueError("the text has no words")
    recognizer = recognizer or Recognizer()
    speller = Speller(recognizer.onnx, recognizer.language_model)
    heard = _Listener(recognizer, phones=bool(speller.phones))
    for samples, rate in _blocks(recording, sample_rate):
        heard.accept(samples, rate)
        progress(heard.audio_s)
    log_probs = heard.finish()
    return _Aligner(written, speller, log_probs, heard.finals).alignment(heard.audio_s)


def _blocks(
    recording: str | Path | IO[bytes] | npt.NDArray[Any], sample_rate: int
) -> Iterator[tuple[npt.NDArray[Any], int]]:
    if not isinstance(recording, np.ndarray):
        yield from read_blocks(recording)
        return
    check_sample_rate(sample_rate)
    samples = mono(recording)
    for begin in range(0, len(samples), sample_rate):
        yield samples[begin : begin + sample_rate], sample_rate


class _Listener:
    """Recognizes a recording and keeps the outputs of CTC, with a longer chunk than recognition has."""

    def __init__(self, recognizer: Recognizer, phones: bool) -> None:
        self.finals: list[Final] = []
        self._stream = recognizer.stream()
        self._model = recognizer.onnx
        self._phones = phones
        self._resampler = Resampler(SAMPLE_RATE)
        self._sample_rate = SAMPLE_RATE
        self._fbank = Fbank()
        self._cache = self._model.init_cache(1, LEFT_CONTEXT)
        self._num_encoded = 0
        self._log_probs: list[npt.NDArray[np.float32]] = []

    @property
    def audio_s(self) -> float:
        return self._stream.sample_offset / SAMPLE_RATE

    def accept(self, samples: npt.NDArray[Any], sample_rate: int) -> None:
        self._stream.accept_waveform(samples, sample_rate)
        self._take_finals()
        if sample_rate != self._sample_rate:  # as between two recordings in one Ogg file
            self._fbank.accept_waveform(self._resampler.finish())
            self._resampler, self._sample_rate = Resampler(sample_rate), sample_rate
        self._fbank.accept_waveform(self._resampler.accept(np.ascontiguousarray(samples)))
        self._encode(SUBSAMPLING * CHUNK_SIZE + FEATURE_OVERLAP)

    def finish(self) -> npt.NDArray[np.float32]:
        """(num_frames, vocab_size) float32: log-probabilities of the phones or tokens."""
        self._stream.finish()
        self._take_finals()
        self._fbank.accept_waveform(self._resampler.finish())
        self._fbank.input_finished()
        self._encode(SUBSAMPLING)
        metadata = self._model.metadata
        width = metadata.num_phone_tokens if self._phones else metadata.vocab_size
        return np.concatenate([np.empty((0, width), np.float32), *self._log_probs])

    def _take_finals(self) -> None:
        self.finals += [event for event in self._stream.events() if isinstance(event, Final)]

    def _encode(self, at_least: int) -> None:
        """Encodes chunks as long as there are `at_least` feature frames."""
        size = SUBSAMPLING * CHUNK_SIZE + FEATURE_OVERLAP
        while (num_valid := min(self._fbank.num_frames_ready - self._num_encoded, size)) >= at_least:
            chunk = np.zeros((1, size, self._model.metadata.num_mel_bins), np.float32)
            chunk[0, :num_valid] = self._fbank.get_frames(self._num_encoded, num_valid)
            output = self._model.step(chunk, np.array([num_valid], np.int64), self._cache)
            self._cache = output.cache
            found = output.phone_log_probs if self._phones else output.log_probs
            assert found is not None
            self._log_probs.append(found[0, : num_valid // SUBSAMPLING])
            self._num_encoded += SUBSAMPLING * CHUNK_SIZE
            self._fbank.discard_frames(min(self._num_encoded, self._fbank.num_frames_ready))


class _Said(NamedTuple):
    """One of the spoken words of a word of the text: which, and the index of the word."""

    spoken: str
    word: int


class _Part(NamedTuple):
    """Indices [begin, end) of spoken words, and frames [first, last) that they are aligned to."""

    begin: int
    end: int
    first: int
    last: int


class _Aligner:
    def __init__(
        self,
        written: Sequence[TextWord],
        speller: Speller,
        log_probs: npt.NDArray[np.float32],
        finals: Sequence[Final],
    ) -> None:
        self._written = written
        self._spell = speller
        self._log_probs = log_probs
        self._said = [_Said(spoken, index) for index, word in enumerate(written) for spoken in word.spoken]
        self._recognized = [word for final in finals for word in final.raw_words]
        self._learn_numbers(finals)
        self._times: list[Word | None] = [None] * len(self._said)
        self._phones: dict[int, tuple[Phone, ...]] = {}
        self._others: list[tuple[float, float]] = []

    def alignment(self, duration: float) -> Alignment:
        for part in self._parts():
            self._align(part)
        found: list[AlignedWord] = []
        pieces: list[list[int]] = [[] for _ in self._written]
        for place, said in enumerate(self._said):
            if self._times[place]:
                pieces[said.word].append(place)
        for word, places in zip(self._written, pieces, strict=True):
            times = [time for place in places if (time := self._times[place])]
            if not times:
                found.append(AlignedWord(word.text, word.paragraph))
                continue
            phones = tuple(phone for place in places for phone in self._phones.get(place, ()))
            least = min(time.confidence for time in times)
            found.append(AlignedWord(word.text, word.paragraph, times[0].start, times[-1].end, least, phones))
        return Alignment(duration, tuple(found), tuple(self._extra()))

    def _learn_numbers(self, finals: Iterable[Final]) -> None:
        """Finds how a number of the text is said, if the recognizer writes it in the same way."""
        digits = {said.spoken for said in self._said if any(map(str.isdigit, said.spoken))}
        for final in finals if digits else ():
            for word in final.words:
                (form, *more) = [*(spoken for each in text_words(word.word) for spoken in each.spoken), ""]
                if form in digits and more == [""]:
                    span = [raw.word for raw in final.raw_words if word.start <= (raw.start + raw.end) / 2 < word.end]
                    self._spell.learn(form, [spoken_form(each) for each in span])

    def _parts(self) -> list[_Part]:
        """Cuts between two anchors that follow each other both in the text and in what was recognized."""
        anchors = find_anchors(
            [said.spoken for said in self._said], [spoken_form(word.word) for word in self._recognized]
        )
        cuts = []
        for (i, j), (next_i, next_j) in itertools.pairwise(anchors):
            if (next_i, next_j) == (i + 1, j + 1):
                pause = (self._recognized[j].end, self._recognized[next_j].start)
                cuts.append((sum(pause) / 2, pause[1] - pause[0], next_i))
        chosen: list[tuple[float, int]] = []
        since, best = 0.0, None
        for at, pause_s, index in cuts:
            if best is not None and at > since + MAX_PART_S:
                chosen.append((best[0], best[2]))
                since, best = best[0], None
            if at >= since + MIN_PART_S and (best is None or pause_s >= best[1]):
                best = (at, pause_s, index)
        if best is not None:
            chosen.append((best[0], best[2]))
        num_frames = len(self._log_probs)
        edges = [(0, 0), *((min(round(at / ENCODER_FRAME_S), num_frames), index) for at, index in chosen)]
        edges.append((num_frames, len(self._said)))
        return [_Part(begin, end, first, last) for (first, begin), (last, end) in itertools.pairwise(edges)]

    def _align(self, part: _Part) -> None:
        """Finds the times of the words of a part, and of the speech between them."""
        spellings = [self._spell(said.spoken) for said in self._said[part.begin : part.end]]
        num_tokens = sum(2 * len(ids) for choices in spellings for ids in choices) + 4 * len(spellings) + 2
        origin = part.first * ENCODER_FRAME_S
        if num_tokens * (part.last - part.first) > MAX_CELLS:
            self._others.append((origin, part.last * ENCODER_FRAME_S))
            return
        found = align_text(
            np.ascontiguousarray(self._log_probs[part.first : part.last]),
            spellings,
            skipped_cost=SKIPPED_COST,
            other_cost=OTHER_COST,
        )
        self._others += [(origin + ENCODER_FRAME_S * a, origin + ENCODER_FRAME_S * b) for a, b in found.others]
        said = [place for place, choice in enumerate(found.spellings) if choice >= 0]
        lengths = [len(spellings[place][found.spellings[place]]) if spellings[place] else 1 for place in said]
        timed = _timed(found.hypothesis, lengths)
        begin = 0
        for place, length, word in zip(said, lengths, timed, strict=True):
            at = word._replace(start=origin + word.start, end=origin + word.end)
            self._times[part.begin + place] = at
            if self._spell.phones and spellings[place]:
                frames = found.hypothesis.start_frames[begin : begin + length]
                ids = spellings[place][found.spellings[place]]
                names = [self._spell.phones[(id - 1) // 2] for id in ids]
                self._phones[part.begin + place] = _phones(names, frames, origin, at)
            begin += length

    def _extra(self) -> Iterator[Word]:
        """The recognized words that have speech which is not in the text, and no word of the text in their middle."""
        said = [(word.start, word.end) for word in self._times if word]
        others = sorted(self._others)
        for word in self._recognized:
            middle = (word.start + word.end) / 2
            if _meets(others, word.start, word.end) and not _meets(said, middle, middle):
                yield word


def _meets(spans: Sequence[tuple[float, float]], start: float, end: float) -> bool:
    """Whether one of the spans, which are in order and apart, has time in common with this one."""
    place = bisect.bisect_left(spans, (end,))
    return place > 0 and spans[place - 1][1] > start


def _timed(hypothesis: Hypothesis, lengths: Sequence[int]) -> list[Word]:
    """The words of a hypothesis, with the times of recognition; lengths: their numbers of tokens."""
    symbols = [f"{WORD_BOUNDARY}x" if place == 0 else "x" for length in lengths for place in range(length)]
    renamed = Hypothesis(
        list(range(len(symbols))),
        log_prob=hypothesis.log_prob,
        lm_score=0.0,
        start_frames=hypothesis.start_frames,
        end_frames=hypothesis.end_frames,
        confidences=hypothesis.confidences,
    )
    found = [Word(*word) for word in _core.words(renamed, symbols, False)]
    ends = list(itertools.accumulate(lengths))
    means = [
        sum(hypothesis.confidences[end - length : end]) / length for end, length in zip(ends, lengths, strict=True)
    ]
    return [word._replace(confidence=mean) for word, mean in zip(found, means, strict=True)]


def _phones(names: Sequence[str], frames: Sequence[int], origin: float, word: Word) -> tuple[Phone, ...]:
    """The phones of a word. A token is emitted later than it is said, all of a word by as much as the first one."""
    late = origin + ENCODER_FRAME_S * frames[0] - word.start
    starts = [min(origin + ENCODER_FRAME_S * frame - late, word.end) for frame in frames]
    return tuple(Phone(*row) for row in zip(names, starts, [*starts[1:], word.end], strict=True))
