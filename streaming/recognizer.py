"""The recognizer: a model and how to run it. Immutable, shared by any number of streams and threads.

recognizer = Recognizer()                      # the bundled model
stream = recognizer.stream()
stream.accept_waveform(samples)                # float32 in ±1 or int16, any length, again and again
stream.finish()
for event in stream.events(): print(event.type, event.text)
"""

from __future__ import annotations

import string
from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass, field, fields
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from asr._core import OPTION_RANGES, LmFusion, NgramLm, Phrases, SegmentOptions, check_option
from asr.features import ENCODER_FRAME_MS, FEATURE_OVERLAP, SUBSAMPLING
from asr.lm.packed import load_lm
from asr.runtime.metadata import MetadataError
from asr.runtime.onnx_model import ModelError, OnnxModel, bundled_model
from asr.runtime.punctuation import Punctuation
from asr.runtime.search import BEAM_SIZE, LmWeights, list_text, new_hotwords, output_symbols
from asr.runtime.shown_text import TEXT, bundled_punctuation, check_text, text_options
from asr.streaming.stream import Stream
from asr.tokenizer import UNK_ID


def _default(name: str) -> float:
    return OPTION_RANGES[name][3]


@dataclass(frozen=True)
class Recognizer:
    """Options of recognition: model, latency, search, endpoint rules.

    model: an exported `.onnx` file, an `OnnxModel` to share, or None for the bundled one: int8, or float32 on a GPU,
        whose kernels have no int8.
    chunk_ms: audio per step, a multiple of 40 in [40, 5120]; text appears once per chunk.
    left_context_ms: what the encoder remembers before the chunk, a multiple of 40 in [0, 20480].
        None stands for what the model file says, which is 640 and 2560 as a rule, and becomes that.
    search: "greedy" | "beam" (CTC prefix beam search) | "rescore" (beam; at the endpoint the attention
        decoder picks among the hypotheses of the beam).
    second_pass: encode an utterance that has ended again, with full context in three views (csrc/second_pass.h), and
        take its final from that, which is then at least as good as offline recognition. False takes it from the chunks.
    lm: language model for the beam searches: a file from `asr lm`, an `NgramLm` to share, None for none, or "auto":
        the bundled one with the bundled model, none with another. lm_weights: what it counts.
    hotwords: words and phrases that are expected, for the beam searches: a list such as ["Abbey Road", "Leighton:2"],
        or a file with one a line. Each of its letters counts `hotword_boost` nats, in (0, 20], or what is given behind
        a colon or a tab.
    phrases: a grammar in place of free speech, such as voice commands: a list, or a file with one phrase a line. Only
        these are recognized, one after the other, and "[unk]" for other speech, without language model and decoder.
        "[unk]" costs `unknown_cost` nats a letter, in (0, 100]: the higher, the rarer it is.
    beam_size: hypotheses kept, in [1, 1024]. num_threads: of ONNX Runtime, for each step.
    provider: "cpu" | "cuda".
    text: "formatted": numbers in digits, case and punctuation, of English words; or "plain": words alone.
    punctuation: model for case and punctuation, a file or one to share, None for none, or "auto": the bundled one.
        Without one formatted text is in small letters. Endpoints depend on it, however text is shown.
    mask: words and phrases that are not to be shown, a list, or a file with one a line: their letters become stars.
    silence_after_speech_s, min_silence_after_speech_s: the longest and the shortest silence that ends an utterance:
        the recognized words decide between them. Equal: a fixed silence.
    silence_without_speech_s, max_utterance_s: the other endpoint rules, see `asr._core.Endpointer`; the last one in
        (0, 120].

    Raises ValueError for a value outside these, and for a model that cannot be used.
    """

    model: str | Path | OnnxModel | None = None
    _: KW_ONLY
    chunk_ms: int | None = None
    left_context_ms: int | None = None
    search: str = "rescore"
    second_pass: bool = True
    lm: str | Path | NgramLm | None = "auto"
    lm_weights: LmWeights = field(default_factory=LmWeights)
    hotwords: str | Path | Sequence[str] | None = None
    hotword_boost: float = _default("hotword_boost")
    phrases: str | Path | Sequence[str] | None = None
    unknown_cost: float = _default("unknown_cost")
    text: str = TEXT
    punctuation: str | Path | Punctuation | None = "auto"
    mask: str | Path | Sequence[str] | None = None
    beam_size: int = BEAM_SIZE
    provider: str = "cpu"
    num_threads: int = 1
    silence_after_speech_s: float = _default("silence_after_speech_s")
    min_silence_after_speech_s: float = _default("min_silence_after_speech_s")
    silence_without_speech_s: float = _default("silence_without_speech_s")
    max_utterance_s: float = _default("max_utterance_s")

    def __post_init__(self) -> None:
        shares_model = isinstance(self.model, OnnxModel) or "onnx" in self.__dict__
        check_option("max_utterance_s", self.max_utterance_s)
        metadata = self.onnx.metadata
        self._set_duration("chunk_ms", metadata.default_chunk_size)
        self._set_duration("left_context_ms", metadata.default_left_context)
        # Made here rather than with the first audio, so that wrong options raise where they are given.
        _ = self.segment_options
        try:
            self.onnx.metadata.check_front_end()
        except MetadataError as error:
            raise ModelError(f"{self.onnx.path}: {error}") from error
        if self.search == "rescore" and not self.onnx.has_decoder:
            raise ValueError("this model has no decoder to rescore with; use search='beam' or export it again")
        if not shares_model:
            self._warm_up()

    def with_options(self, **changes: Any) -> Recognizer:
        """The same recognizer but for `changes`, at once: it shares the model and the language model.

        Raises ValueError as the class itself does.
        """
        variant = object.__new__(type(self))
        if not changes.keys() & {"model", "provider", "num_threads"}:
            variant.__dict__["onnx"] = self.onnx
            if not changes.keys() - {"text", "punctuation", "mask"}:
                variant.__dict__["fusion"] = self.fusion
            if "punctuation" not in changes:
                variant.__dict__["punctuator"] = self.punctuator
            if "lm" not in changes and changes.get("search", self.search) != "greedy" and self.language_model:
                variant.__dict__["language_model"] = self.language_model
        variant.__init__(**{each.name: getattr(self, each.name) for each in fields(self)} | changes)  # type: ignore[misc]
        return variant

    def _set_duration(self, name: str, by_default: int) -> None:
        """Puts the model's own value, of encoder frames, where none is given, and checks it."""
        value = getattr(self, name)
        if value is None:
            value = by_default * ENCODER_FRAME_MS
            object.__setattr__(self, name, value)
        low, _, high, _ = OPTION_RANGES[name]
        whole = isinstance(value, int) and not isinstance(value, bool)
        if not whole or value % ENCODER_FRAME_MS or not low <= value <= high:
            raise ValueError(f"{name} is {value!r}; it must be a multiple of {ENCODER_FRAME_MS} in [{low:g}, {high:g}]")

    def _warm_up(self) -> None:
        """The first run of each graph takes several times as long: better now than with the first words."""
        num_frames = SUBSAMPLING * self.chunk_size + FEATURE_OVERLAP
        silence = np.zeros((num_frames, self.onnx.metadata.num_mel_bins), np.float32)
        self.onnx.encode(silence, self.chunk_size, self.left_context)
        if self.search == "rescore":
            self.onnx.score([[0]], np.zeros((1, self.onnx.metadata.dim), np.float32))

    @cached_property
    def onnx(self) -> OnnxModel:
        """The model itself."""
        if isinstance(self.model, OnnxModel):
            return self.model
        bundled = "float32" if self.provider == "cuda" else "int8"
        path = bundled_model(bundled) if self.model is None else Path(self.model)
        return OnnxModel(path, provider=self.provider, num_threads=self.num_threads)

    @cached_property
    def language_model(self) -> NgramLm | None:
        """The language model of the search."""
        if self.lm is None or isinstance(self.lm, NgramLm):
            return self.lm
        if self.lm == "auto":
            return load_lm("bundled") if self.model is None and self.search != "greedy" else None
        if self.lm == "bundled":
            _check_bundled_lm(self.onnx.tokens)
        return load_lm(self.lm)

    @cached_property
    def fusion(self) -> LmFusion | None:
        """The language model and the hotwords as the search uses them."""
        if self.closed_list is not None:
            if self.hotwords:
                raise ValueError("phrases are a grammar, which takes no hotwords; give one of the two")
            return None
        if self.search == "greedy" and (self.language_model or self.hotwords):
            raise ValueError("search greedy takes no language model and no hotwords; use search beam or rescore")
        hotwords = None
        if self.hotwords:
            hotwords = new_hotwords(
                self.hotwords, self.onnx.tokens, self.hotword_boost, self.language_model, self.onnx.metadata.phones
            )
        return self.lm_weights.fusion(self.language_model, self.onnx.tokens, hotwords, self.onnx.metadata.phones)

    @cached_property
    def closed_list(self) -> Phrases | None:
        """The phrases as the search uses them."""
        if self.phrases is None:
            return None
        return Phrases(list_text("phrases", self.phrases), output_symbols(self.onnx.tokens), self.unknown_cost)

    @cached_property
    def segment_options(self) -> SegmentOptions:
        """The options as the core takes them."""
        return SegmentOptions(
            # Before the language model, whose opening returns the memory that is free by then.
            text=text_options(self.text, self.onnx.tokens, self.mask, self.punctuator),
            tokens=output_symbols(self.onnx.tokens),
            chunk_size=self.chunk_size,
            second_pass=self.second_pass,
            search=self.search,
            beam_size=self.beam_size,
            fusion=self.fusion,
            phones=list(self.onnx.metadata.phones),
            phrases=self.closed_list,
            rescore_ctc_weight=self.onnx.metadata.rescore_ctc_weight,
            silence_after_speech_s=self.silence_after_speech_s,
            min_silence_after_speech_s=self.min_silence_after_speech_s,
            silence_without_speech_s=self.silence_without_speech_s,
            max_utterance_s=self.max_utterance_s,
        )

    @cached_property
    def punctuator(self) -> Punctuation | None:
        """The model for case and punctuation, which endpoints depend on too."""
        check_text(self.text)
        model = bundled_punctuation() if self.punctuation == "auto" else self.punctuation
        if model is None or isinstance(model, Punctuation):
            return model
        try:
            return Punctuation(model, self.num_threads)
        except OSError as error:
            raise ValueError(f"punctuation: {model} cannot be read: {error.strerror}") from error

    @property
    def chunk_size(self) -> int:
        """Encoder frames per chunk."""
        assert self.chunk_ms is not None
        return self.chunk_ms // ENCODER_FRAME_MS

    @property
    def left_context(self) -> int:
        """Encoder frames seen before the chunk."""
        assert self.left_context_ms is not None
        return self.left_context_ms // ENCODER_FRAME_MS

    def stream(self) -> Stream:
        """A new stream: it holds all state of one source of audio, and serves one thread at a time."""
        return Stream(self)


def _check_bundled_lm(tokens: Sequence[str]) -> None:
    """ValueError for a model with other letters than those of the bundled language model."""
    letters = {
        letter
        for id, token in enumerate(output_symbols(tokens))
        if id != UNK_ID
        for letter in token
        if letter.isalpha()
    }
    if other := "".join(sorted(letters - set(string.ascii_uppercase))):
        shown = other if len(other) <= 12 else f"{other[:12]}..."
        raise ValueError(
            f"lm 'bundled' has English words in capital letters, and this model also writes {shown!r}: make a language "
            "model of its words with `asr lm train`, or use none"
        )
