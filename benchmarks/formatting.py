"""Cost and stability of formatting: python benchmarks/formatting.py data/dev --num-utterances 40

Every utterance goes through a `Recognizer` as plain text, in blocks of one chunk; its partials and finals are then
formatted separately. Times are CPU time of one thread in ms, the minimum of --passes over the same audio, because other
programs on the machine empty the caches:

- partial, final: formatting an event, including the punctuation network and its call from Python, as in
  `asr.streaming`, right after the acoustic model; network: the call alone.
- step: the acoustic model for one chunk, without the search; ratio: partial over step, of the medians.
- stable: share of the words shown in finals that a partial called stable before; plain: of the words of plain text.
- lag: words that are stable in plain text but not yet in formatted text, mean over the partials with words.
- differs: share of the words called stable that differ in the final although its plain words are the same.
- only_marks: share of the partials that change a mark or a capital and nothing else; flicker: that change one of a word
  that another word followed already; marks: that change one of any word, also the mark after the last word, which is
  unknown until the next word.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from itertools import takewhile
from typing import Any, TypeVar

import numpy as np
from command import new_parser, progress, show, timed_events, utterances

from asr import Recognizer
from asr._core import PunctuationRun, TextFormatter, punctuation_units, text_options
from asr.features import FEATURE_OVERLAP, SUBSAMPLING
from asr.runtime.punctuation import Punctuation, bundled_punctuation
from asr.runtime.search import Word
from asr.streaming import Event, Final, Partial

T = TypeVar("T")


def bare(word: str) -> str:
    """The word without case and marks."""
    return word.lower().rstrip(".,?")


def changed_marks(before: Sequence[str], after: Sequence[str]) -> list[int]:
    """Positions of shown words of which only the mark or the case changes, up to the first other word."""
    pairs = takewhile(lambda pair: bare(pair[0]) == bare(pair[1]), zip(before, after, strict=False))
    return [place for place, (old, new) in enumerate(pairs) if old != new]


def timed(action: Callable[[], T]) -> tuple[T, float]:
    """The result of `action`, and its CPU time of this thread in ms."""
    began = time.thread_time()
    result = action()
    return result, 1e3 * (time.thread_time() - began)


class Formatting:
    """Formats the events of utterances and counts."""

    def __init__(self, recognizer: Recognizer, punctuation: Punctuation) -> None:
        language = recognizer.onnx.metadata.language
        options = text_options(language=language, punctuation=punctuation.metadata)
        assert options is not None
        self.formatter = TextFormatter(options)
        self.punctuation = punctuation
        self.times: dict[str, list[float]] = {"partial": [], "final": [], "network": []}
        self.lags: list[int] = []
        self.num_words = self.num_stable = self.num_plain = self.num_plain_stable = self.num_differ = 0
        self.num_partials = self.num_marks = self.num_flickers = self.num_only_marks = 0
        self._stable: list[Word] = []
        self._plain: list[str] = []
        self._shown: list[str] = []

    def add(self, event: Event) -> None:
        words = [(word.word, word.start, word.end, word.confidence) for word in event.words]
        if isinstance(event, Partial):
            stable = event.num_stable
            shown, num_stable = self._format("partial", lambda: self.formatter.partial(words, stable))
            if words:
                ends = [word[2] for word in shown[:num_stable]]
                self.lags.append(stable - sum(word[2] <= max(ends, default=0.0) for word in words[:stable]))
            self._compare([word[0] for word in shown])
            self._stable = [Word(*word) for word in shown[:num_stable]]
            self._plain = [word[0] for word in words[:stable]]
        elif isinstance(event, Final):
            shown, _ = self._format("final", lambda: self.formatter.final(words, False))
            plain = [word[0] for word in words]
            self.num_words += len(shown)
            self.num_plain += len(plain)
            self.num_plain_stable += len(self._plain)
            self.num_stable += len(self._stable)
            if plain[: len(self._plain)] == self._plain:
                pairs = zip(self._stable, shown, strict=False)
                self.num_differ += sum(word.word != final[0] for word, final in pairs)
            self._stable, self._plain, self._shown = [], [], []

    def _compare(self, shown: list[str]) -> None:
        """Counts the marks that a partial changes."""
        before, self._shown = self._shown, shown
        changed = changed_marks(before, shown)
        self.num_partials += 1
        self.num_marks += bool(changed)
        self.num_flickers += any(place + 1 < len(before) for place in changed)
        self.num_only_marks += bool(changed) and list(map(bare, before)) == list(map(bare, shown))

    def _format(
        self, kind: str, begin: Callable[[], PunctuationRun | None]
    ) -> tuple[list[tuple[str, float, float, float]], int]:
        """The shown words, and how many of them are stable."""
        run, took = timed(begin)
        probs: tuple[Any, ...] = ()
        if run is not None:
            # Excluded from the time, because the core makes these itself in microseconds.
            units = punctuation_units(run.words, run.pauses_s, continues=run.continues, complete=run.complete)
            answer, of_network = timed(lambda: self.punctuation.answer_units(units))
            self.times["network"].append(of_network)
            took += of_network
            of_words = slice(units.first_word, units.first_word + units.num_words)
            probs = tuple(values[of_words].ravel() for values in answer)
        shown, of_showing = timed(lambda: self.formatter.shown(*probs))
        self.times[kind].append(took + of_showing)
        return shown[:2]

    def rows(self, times: dict[str, list[float]], steps: list[float]) -> list[dict[str, Any]]:
        rows = []
        for name, of_kind in (times | {"step": steps}).items():
            median, p95, most = np.percentile(of_kind or [np.nan], [50, 95, 100])
            rows.append({"what": name, "number": len(of_kind), "median_ms": median, "p95_ms": p95, "max_ms": most})
        ratio = np.median(times["partial"]) / np.median(steps)
        share = {
            "ratio": ratio,
            "stable": self.num_stable / max(self.num_words, 1),
            "plain": self.num_plain_stable / max(self.num_plain, 1),
            "lag": float(np.mean(self.lags or [np.nan])),
            "differs": self.num_differ / max(self.num_stable, 1),
            "only_marks": self.num_only_marks / max(self.num_partials, 1),
            "flicker": self.num_flickers / max(self.num_partials, 1),
            "marks": self.num_marks / max(self.num_partials, 1),
        }
        return [*rows, share]


def step_times(recognizer: Recognizer, number: int = 50) -> list[float]:
    """CPU times in ms of the acoustic model for one chunk."""
    onnx = recognizer.onnx
    num_frames = SUBSAMPLING * recognizer.chunk_size + FEATURE_OVERLAP
    features = np.zeros((1, num_frames, onnx.metadata.num_mel_bins), np.float32)
    cache, times = onnx.init_cache(1, recognizer.left_context), []
    for _ in range(number):
        output, took = timed(lambda cache=cache: onnx.step(features, np.array([num_frames]), cache))
        cache = output.cache
        times.append(took)
    return times[number // 5 :]


def main() -> None:
    parser = new_parser(__doc__)
    parser.add_argument("--punctuation", help="default: the bundled one")
    parser.add_argument("--passes", type=int, default=3, metavar="N", help="(default 3)")
    args = parser.parse_args()
    recognizer = Recognizer(args.model, text="plain", second_pass=False)
    path = args.punctuation or bundled_punctuation()
    assert path is not None
    punctuation = Punctuation(path)
    clips = utterances(args)
    passes = [formatted(clips, recognizer, punctuation) for _ in progress(range(args.passes), "passes")]
    times = {name: list(np.min([each.times[name] for each in passes], axis=0)) for name in passes[0].times}
    show(passes[0].rows(times, step_times(recognizer)), args)


def formatted(clips: Sequence[Any], recognizer: Recognizer, punctuation: Punctuation) -> Formatting:
    """Formats the events of `clips` and measures it."""
    formatting = Formatting(recognizer, punctuation)
    assert recognizer.chunk_ms is not None
    block = 16 * recognizer.chunk_ms
    for clip in clips:
        for _, event in timed_events(recognizer, clip.waveform(), block):
            formatting.add(event)
    return formatting


if __name__ == "__main__":
    main()
