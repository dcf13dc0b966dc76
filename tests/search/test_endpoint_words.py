"""The silence before an endpoint depends on the words: hand-made language model and log-probabilities."""

from __future__ import annotations

import math

import numpy as np
import pytest
from support.arpa import packed
from support.frame_positions import FramePositions
from support.toy_model import toy_metadata
from support.work import answer_step, encoder_step

from asr import _core
from asr._core import (
    NUM_CASES,
    NUM_MARKS,
    PUNCTUATION_TYPE,
    PUNCTUATION_VERSION,
    NgramLm,
    PunctuationMetadata,
    special_features,
)
from asr.runtime.search import LmWeights

TOKENS = ["", "<unk>", "", "\u2581A", "\u2581B", "\u2581CAT"]
SPEECH = {"A": 3, "B": 4, "C": 5}


def language_model() -> NgramLm:
    """A sentence often ends with A (log P = -1.2) and hardly ever with B (-5.8)."""
    words = packed(("-99 <s> 0", "-3 </s> 0", "-1 A 0", "-1 B 0"), ("-0.5 A </s>", "-2.5 B </s>"))
    return NgramLm(np.frombuffer(words, np.uint8))


def frames(*parts: str | int) -> list[int]:
    """Most likely tokens of frames. A string is words of one frame each with two blanks between them; an int is
    blanks."""
    ids: list[int] = []
    for part in parts:
        if isinstance(part, int):
            ids += [0] * part
        else:
            ids += [id for word in part for id in (SPEECH[word], 0, 0)][:-2]
    return ids


class StreamRun:
    """Runs a stream, one frame at a time, with the audio and the network's outputs for `ids`."""

    def __init__(
        self,
        ids: list[int],
        with_lm: bool = True,
        second_pass: bool = False,
        sentence_end: float | str | None = None,
        formatted: bool = False,
        **endpoints: float,
    ) -> None:
        """sentence_end: output of a punctuation network for the last word, "broken", or None for no network."""
        self.sentence_end = sentence_end
        self.asked: list[dict[str, np.ndarray]] = []
        """Features (num_units, 5) and pauses (num_units,) of each run."""
        self.finals: list[tuple[str, int]] = []
        """Text of each final, and the frame before which it was returned."""
        self.words: list[list[tuple[str, float, float, float]]] = []
        self.second_passes: list[tuple[int, int]] = []
        """First and last frame of each run."""
        self.ids = np.array(ids)
        properties = {"model_type": PUNCTUATION_TYPE, "format_version": str(PUNCTUATION_VERSION)}
        properties |= {"look_ahead": "2", "left_context": "3", "mixed_case": "{}"}
        network = None if sentence_end is None else PunctuationMetadata(properties)
        chosen = _core.Options(
            chunk_ms=40,
            second_pass=second_pass,
            search="beam",
            beam_size=8,
            text="formatted" if formatted else "plain",
            **endpoints,
        )
        weights = LmWeights(weight=0.1, word_bonus=0.0, prior_weight=0.0)
        fusion = weights.fusion(language_model(), TOKENS) if with_lm else None
        metadata = toy_metadata(TOKENS, language="en")
        self.stream = _core.Stream(_core.SegmentOptions(chosen, metadata, fusion=fusion, punctuation=network))
        self.positions = FramePositions()
        noise = np.random.default_rng(0).standard_normal(640 * len(ids)).astype(np.float32) * 0.01
        for begin in range(0, len(noise), 640):
            self.stream.accept(noise[begin : begin + 640])
            self._work()

    def _work(self) -> None:
        while (work := self.stream.work()) is not None:
            if work.network == "punctuation":
                self._punctuate(work)
            else:
                step = encoder_step(work)
                count = (step.num_frames - 3) // 4
                start = self.positions.start(step)
                if step.slot:
                    self.second_passes.append((start, start + count))
                log_probs = np.full((count, len(TOKENS)), -12.0, np.float32)
                log_probs[np.arange(count), self.ids[start : start + count]] = 0.0
                answer_step(self.stream, log_probs, np.zeros((count, 2), np.float32))
            for type, text, _, _, words, *_ in self.stream.take_events():
                if type == "final":
                    self.finals.append((text, self.stream.num_frames))
                    self.words.append(words)

    def _punctuate(self, work: _core.Work) -> None:
        units = {name: work.inputs[name][0] for name in ("features", "pauses")}
        self.asked.append(units)
        if isinstance(self.sentence_end, str):
            self.stream.not_answered(self.sentence_end)
            return
        marks = np.zeros((len(units["pauses"]), NUM_MARKS), np.float32)
        marks[:, 0] = 1.0
        marks[-2] = (  # of the last word: the end follows
            1 - self.sentence_end,
            0,
            self.sentence_end / 2,
            self.sentence_end / 2,
        )
        answer_step(self.stream, marks, np.zeros((len(marks), NUM_CASES), np.float32))


def silence(ids: list[int], **options: object) -> int:
    """Frames of silence that ended the only utterance of `ids`."""
    run = StreamRun([*ids, *[0] * 60], **options)  # type: ignore[arg-type]
    assert len(run.finals) == 1
    return run.finals[0][1] - len(ids)


def test_finished_sentence_ends_sooner_than_an_unfinished_one() -> None:
    finished, unfinished = frames("BBBBBBA"), frames("AAAAAAB")
    assert silence(finished) == 13  # 0.5 s
    assert silence(unfinished) == 29  # 0.2 s and 0.16 s for each of 5.8 nats
    assert silence(finished, with_lm=False) == silence(unfinished, with_lm=False) == 17


def test_confidence_tells_if_a_language_model_helped() -> None:
    for with_lm, numbers in ((True, (-1.40, 1.85, 2.51)), (False, (-6.64, 6.94, 2.98))):
        run = StreamRun(frames("A", 60), with_lm=with_lm)
        ((word,),) = run.words
        assert word[3] == pytest.approx(1 / (1 + math.exp(-sum(numbers))))


def test_punctuation_network_decides_if_the_sentence_is_over() -> None:
    words = frames("AAAAAAA")
    assert silence(words, with_lm=False, sentence_end=1 / (1 + math.exp(-3))) == 18  # 0.7 s
    assert silence(words, with_lm=False, sentence_end=0.5) == 27
    assert silence(words, with_lm=False, sentence_end=0.0) == 45
    assert silence(words, with_lm=False, sentence_end="broken") == silence(words, with_lm=False) == 17
    assert silence(words, sentence_end=1.0) == 17  # the language model expects the end, too
    assert silence(frames("AAAAAAB"), sentence_end=1.0) == 19


def test_network_runs_once_in_a_possible_end() -> None:
    run = StreamRun(frames("AAAAAAA", 12, "AA", 14, "A", 60), sentence_end=0.3)
    assert [text for text, _ in run.finals] == ["a a a a a a a a a a"]  # plain text
    assert [len(units["pauses"]) - 2 for units in run.asked] == [9, 10]  # 12 frames are less than the minimum silence
    after = [special.tolist() for special in special_features_of("sentence", "end")]
    for units in run.asked:
        assert [units["features"][0].tolist(), units["features"][-1].tolist()] == after
    pauses = [*[1] * 6, 5, 1]  # classes: none between two words, but for the 12 frames; the first one does not count
    assert [units["pauses"].tolist() for units in run.asked] == [[0, 0, *pauses, 0], [0, 0, *pauses, 6, 0]]
    assert not StreamRun(frames("AAAAAAA", 60), sentence_end=0.3, min_silence_after_speech_s=2.0).asked  # a fixed one


def test_network_gets_the_pauses_of_shown_words() -> None:
    run = StreamRun(frames("CCC", 12, "CC", 60), with_lm=False, sentence_end=1.0, formatted=True)
    assert len(run.finals) == 1
    assert run.asked[-1]["pauses"].tolist() == [0, 0, 1, 1, 5, 1, 0]  # of the final: classes, as above


def test_network_knows_of_a_forced_cut() -> None:
    run = StreamRun(frames("A" * 20, 8, "A", 36, "A", 44), sentence_end=0.9, max_utterance_s=2.0)
    assert [len(text.split()) for text, _ in run.finals] == [20, 1, 1]
    first_units = [units["features"][0].tolist() for units in run.asked]
    continues, sentence = (special.tolist() for special in special_features_of("continues", "sentence"))
    assert first_units == [continues, sentence]


def test_sentence_goes_on_after_forced_cut_and_silence() -> None:
    run = StreamRun(frames("A" * 20, 80, "A", 44), sentence_end=0.9, max_utterance_s=2.0, silence_without_speech_s=1.0)
    assert [len(text.split()) for text, _ in run.finals] == [20, 1]
    (continues,) = (special.tolist() for special in special_features_of("continues"))
    assert [units["features"][0].tolist() for units in run.asked] == [continues]


def special_features_of(*units: str) -> list[np.ndarray]:
    return [np.array(special_features(unit)) for unit in units]  # type: ignore[arg-type]


def test_few_words_are_waited_for() -> None:
    assert silence(frames("A"), with_lm=False) == 29
    assert silence(frames("AA"), with_lm=False) == 25
    assert silence(frames("AAAAAAAA"), with_lm=False) == 17


def test_the_bounds_hold() -> None:
    assert silence(frames("AAAAAAB"), silence_after_speech_s=0.8) == 20
    assert silence(frames("BBBBBBA"), min_silence_after_speech_s=0.8) == 20
    for words in ("BBBBBBA", "AAAAAAB"):
        assert silence(frames(words), silence_after_speech_s=0.8, min_silence_after_speech_s=0.8) == 20
        assert silence(frames(words), silence_after_speech_s=0.4) == 10  # also below the lower one


def test_who_has_paused_is_waited_for() -> None:
    assert silence(frames("AAAAAA", 12, "A"), with_lm=False) == 18  # 1.5 times
    assert silence(frames("AAAAAA", 16, "A"), with_lm=False) == 24
    assert silence(frames("AAAAAA", 16, "AAAA"), with_lm=False) == 24


def test_pause_that_split_a_sentence_raises_next_timeout() -> None:
    cut = StreamRun(frames("AAAAAAB", 32, "AAAAAAA", 60))
    assert [text for text, _ in cut.finals] == ["a a a a a a b", "a a a a a a a"]
    first, second = (frame for _, frame in cut.finals)
    assert first == len(frames("AAAAAAB")) + 29
    assert second == len(frames("AAAAAAB", 32, "AAAAAAA")) + 48  # 1.5 times 32
    whole = StreamRun(frames("AAAAAAA", 32, "AAAAAAA", 60))  # the sentence has ended: the next words begin another one
    assert whole.finals[1][1] == len(frames("AAAAAAA", 32, "AAAAAAA")) + 13
    later = StreamRun(frames("AAAAAAB", 90, "AAAAAAA", 60))  # and so it is after 3.2 s
    assert later.finals[1][1] == len(frames("AAAAAAB", 90, "AAAAAAA")) + 13


@pytest.mark.parametrize(("silence", "expected"), [(50, 19), (50 + 125, 13)])
def test_next_timeout_expects_half_unless_silence_follows(silence: int, expected: int) -> None:
    first = frames("AAAAAAB", 26, "AAAAAAA")
    second = frames("AAAAAAA")
    run = StreamRun([*first, *[0] * silence, *second, *[0] * 60])
    ends = [frame for _, frame in run.finals]
    assert ends == [len(first) + 39, len(first) + silence + len(second) + expected]


@pytest.mark.parametrize(("pause", "context"), [(70, True), (90, False)])
def test_second_pass_attends_to_the_previous_speech(pause: int, context: bool) -> None:
    first, second = frames("AAAAAAB"), frames("BBAAA")
    run = StreamRun([*first, *[0] * pause, *second, *[0] * 60], second_pass=True)
    assert [text for text, _ in run.finals] == ["a a a a a a b", "b b a a a"]
    ends = [frame for _, frame in run.finals]
    margin = 15  # frames of the silence around the words
    words = len(first) + pause, len(first) + pause + len(second)
    alone = (ends[0] if context else words[0] - margin, min(words[1] + margin, ends[1]))
    first_view = (0, alone[1]) if context else alone  # of the three, it has the context
    assert run.second_passes == [(0, len(first) + margin)] * 3 + [first_view, alone, alone]
    # Its words are only those of the utterance, at their times.
    starts = [round(word[1] / 0.04) for word in run.words[1]]
    assert abs(starts[0] - len(first) - pause) <= 3


def test_long_utterances_are_encoded_in_windows() -> None:
    run = StreamRun(frames("A" * 70, 30, "A" * 70, 60), second_pass=True)
    (_, first_end), (_, second_end) = run.finals
    windows = [(0, 125), (125, first_end), (first_end, first_end + 125), (first_end + 125, second_end)]
    expected = [window for window in windows for _ in range(3)]
    expected[6] = (first_end - 125, first_end + 125)  # the context, 5 s, of the first view
    assert run.second_passes == expected
