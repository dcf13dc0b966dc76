"""A segment: audio without a gap, on its way from samples over feature and encoder frames to events.

- The chunk grid starts with the segment, and audio is taken up to exactly the next chunk's end: how the
  audio was cut into pushes cannot show.
- An endpoint ends an utterance: the search starts afresh, while the encoder keeps its cache, because what the
  speaker and the room sound like stays true.
- Endpoints are looked for at every encoder frame, not at every chunk: the latency does not decide where an
  utterance ends.
- Partials come of chunks, the final of the whole: an utterance that has ended is encoded once more with full
  context (the second pass), which costs less than its chunks did.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from asr._core import Fbank
from asr.features import ENCODER_FRAME_S, FEATURE_OVERLAP, FRAME_SHIFT, SUBSAMPLING
from asr.search import Word, finish, words
from asr.streaming.events import Error, Event, Final, Partial, spoken

if TYPE_CHECKING:
    from asr._core import CtcGreedySearch, CtcPrefixBeamSearch, Hypothesis
    from asr.streaming.recognizer import Recognizer

FRAME_REACH = 280
"""Samples from where a feature frame's 10 ms begin to the end of its window."""
MAX_FULL_CONTEXT = 750
"""Encoder frames, 30 s: the second pass takes longer utterances in chunks of this, which bounds its memory."""


class Segment:
    """State of one segment. Events are appended to `events`."""

    def __init__(self, recognizer: Recognizer, start_s: float, events: list[Event]) -> None:
        """`start_s`: seconds of the stream before this segment's first sample."""
        self._recognizer = recognizer
        self._start_s = start_s
        self._events = events
        self._fbank = Fbank()
        self._cache = recognizer.onnx.init_cache(1, recognizer.left_context)
        self._search = recognizer.new_search()
        self._next_frame = 0  # feature frame: the first of the next chunk
        self._num_frames = 0  # encoder frames decoded
        self._utterance_start = 0  # encoder frame
        self._encoder_out: list[np.ndarray] = []  # of the current utterance, (num_frames, dim) float32 each
        self._partial_text = ""
        self._reported_nonfinite = False
        self.num_nonfinite_before = 0
        """Samples that were not finite and were replaced before they came here."""

    def accept(self, samples: np.ndarray) -> int:
        """Continue with `samples`, (num_samples,) float32 in ±1 or int16, 16 kHz, up to the end of a chunk.

        Returns how many were used: all of them, or as many as completed the chunk that is now decoded.
        """
        window = SUBSAMPLING * self._recognizer.chunk_size + FEATURE_OVERLAP
        chunk_end = (self._next_frame + window - 1) * FRAME_SHIFT + FRAME_REACH
        samples = samples[: chunk_end - self._fbank.num_samples]
        self._fbank.accept_waveform(samples)
        if self._fbank.num_frames_ready >= self._next_frame + window:
            self._decode(window)
            self._report_partial()
            self._report_nonfinite()
        return len(samples)

    def finish(self) -> None:
        """Decode what is left, ragged as it is, and end the utterance."""
        self._fbank.input_finished()
        # The last feature frames come only now: together they may be a little more than a chunk.
        while (num_left := self._fbank.num_frames_ready - self._next_frame) >= SUBSAMPLING:
            self._decode(num_left)
        self._end_utterance()
        self._report_nonfinite()

    def _decode(self, num_valid: int) -> None:
        """One step of the model over the next `num_valid` feature frames, a chunk at most, and the search."""
        num_new = min(num_valid // SUBSAMPLING, self._recognizer.chunk_size)
        features = np.zeros((1, SUBSAMPLING * num_new + FEATURE_OVERLAP, self._fbank.num_bins), np.float32)
        num_valid = min(num_valid, features.shape[1])
        features[0, :num_valid] = self._fbank.get_frames(self._next_frame, num_valid)
        self._next_frame += SUBSAMPLING * num_new
        log_probs, encoder_out, self._cache = self._recognizer.onnx.step(
            features, np.array([num_valid], np.int64), self._cache
        )
        first = 0  # encoder frame of this chunk with which the current utterance begins
        for frame in range(num_new):
            self._search.advance(log_probs[0, frame : frame + 1])
            self._num_frames += 1
            num_frames = self._num_frames - self._utterance_start
            num_blanks = self._search.num_trailing_blanks
            if self._recognizer.endpointer.update(
                num_frames=num_frames,
                num_trailing_silence_frames=num_blanks,
                has_speech=num_blanks < num_frames,
            ):
                self._encoder_out.append(encoder_out[0, first : frame + 1])
                self._end_utterance()
                first = frame + 1
        # A copy, so that the rest of the chunk can be freed.
        self._encoder_out.append(encoder_out[0, first:num_new].copy())

    def _report_partial(self) -> None:
        found = self._words(self._search.hypotheses(1)[0])
        partial = spoken(Partial, found, self._now())
        if partial.text != self._partial_text:
            self._partial_text = partial.text
            self._events.append(partial)

    def _end_utterance(self) -> None:
        """Report the current utterance, if anything was said, and begin the next one."""
        found = self._second_pass() if self._recognizer.second_pass else self._first_pass()
        if found:
            self._events.append(spoken(Final, found, self._now()))
        elif self._partial_text:
            self._events.append(spoken(Partial, [], self._now()))  # takes back what it seemed to be
        self._search.reset()
        self._utterance_start = self._num_frames
        self._encoder_out = []
        self._partial_text = ""
        self._fbank.discard_frames(min(SUBSAMPLING * self._utterance_start, self._fbank.num_frames_ready))

    def _first_pass(self) -> list[Word]:
        """The utterance as its chunks have it."""
        return self._words(self._best(self._search, self._encoder_out))

    def _second_pass(self) -> list[Word]:
        """The utterance as it is in full context; silence is not worth it."""
        if not self._search.hypotheses(1)[0].tokens:
            return []
        first_frame = SUBSAMPLING * self._utterance_start
        num_frames = self._num_frames - self._utterance_start
        num_features = min(SUBSAMPLING * num_frames + FEATURE_OVERLAP, self._fbank.num_frames_ready - first_frame)
        log_probs, encoder_out = self._recognizer.onnx.encode(
            self._fbank.get_frames(first_frame, num_features),
            min(num_frames, MAX_FULL_CONTEXT),
            self._recognizer.left_context,
        )
        search = self._recognizer.new_search()
        search.advance(log_probs)
        return self._words(self._best(search, [encoder_out]), self._utterance_start)

    def _best(self, search: CtcGreedySearch | CtcPrefixBeamSearch, encoder_out: list[np.ndarray]) -> Hypothesis:
        recognizer = self._recognizer
        return finish(
            search,
            recognizer.search,
            lambda tokens: recognizer.onnx.score(tokens, np.concatenate(encoder_out)),
            recognizer.onnx.metadata.rescore_ctc_weight,
        )

    def _report_nonfinite(self) -> None:
        count = self._fbank.num_nonfinite_samples + self.num_nonfinite_before
        if count and not self._reported_nonfinite:
            self._reported_nonfinite = True
            verb = "samples were" if count > 1 else "sample was"
            text = f"{count} {verb} not finite (NaN or infinity) and taken for silence; more are not reported"
            self._events.append(Error(text, self._now(), self._now()))

    def _words(self, hypothesis: Hypothesis, first_frame: int = 0) -> list[Word]:
        """Words of a hypothesis in seconds of the stream; it counts encoder frames from `first_frame`."""
        start_s = self._start_s + first_frame * ENCODER_FRAME_S
        return [
            word._replace(start_s=word.start_s + start_s, end_s=word.end_s + start_s)
            for word in words(hypothesis, self._recognizer.onnx.tokens)
        ]

    def _now(self) -> float:
        return self._start_s + self._num_frames * ENCODER_FRAME_S
