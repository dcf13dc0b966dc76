"""The recognizer: a model and its options. Immutable, shared by any number of streams and threads.

recognizer = Recognizer()                      # the bundled model
stream = recognizer.stream()
stream.accept_waveform(samples)                # float32 in ±1 or int16, any length, again and again
stream.finish()
for event in stream.events(): print(event.type, event.text)
"""

from __future__ import annotations

import string
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from asr._core import LmFusion, NgramLm, Options, Phrases, SegmentOptions, new_fusion, new_phrases
from asr.features import ENCODER_FRAME_MS, FEATURE_OVERLAP, SUBSAMPLING
from asr.lm.packed import load_lm
from asr.options import LISTS, OPTIONS, described
from asr.runtime.network import Network
from asr.runtime.neural_lm import NeuralLmFile, bundled_neural_lm
from asr.runtime.onnx_decoder import OnnxDecoder, decoder_beside
from asr.runtime.onnx_model import OnnxModel, bundled_model
from asr.runtime.onnx_session import check_session_options
from asr.runtime.punctuation import Punctuation, bundled_punctuation
from asr.runtime.search import WITHOUT_LM, list_text, output_symbols
from asr.streaming.stream import Stream
from asr.tokenizer import SOS_EOS_ID

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from asr._core import OptionValues

MIN_GENERAL_WORDS = 100_000
"""Vocabulary from which a language model counts as one of general text. The bundled one has 272,000 words."""


class Recognizer:
    __doc__ = (
        """Assets (models and lists) and the options of recognition.

    model: an exported `.onnx` file, an `OnnxModel` to share, or None or "bundled" for the bundled model: int8, or
        float32 on a GPU; CUDA has no int8 kernels.
    lm: language model for the beam searches: a file from `asr lm`, an `NgramLm` to share, None for none, or "auto": the
        bundled one for the bundled model, none for another.
    neural_lm: neural language model that rescores finals: a file of `asr export`, one to share, None for none,
        "bundled", or "auto": the bundled one for English language models of at least 100,000 words, as the bundled one.
        Without `lm`, it rescores the sentences that a search by spelling finds (beam, rescore or joint). Not with
        `phrases`.
    punctuation: model for case and punctuation: a file, one to share, None for none, or "auto": the bundled one for an
        English model. Without one, formatted text is in lower case. Endpoints use it even if text is not formatted.
    decoder: attention decoder for the searches rescore and joint: a file, an `OnnxDecoder` to share, None for none, or
        "auto": the file that `asr export` writes beside the model, NAME.decoder.onnx, if the search uses one.
    provider: "cpu" or "cuda".
    num_threads: threads of ONNX Runtime for each step. An open `model` has its own.

    Every option of recognition is a keyword argument and an attribute. A list is a list of strings, such as
    hotwords=["Abbey Road", "Leighton:2"], or a file with one per line. Lines that cannot be used are skipped;
    `warnings` names them.

    """
        + "\n    ".join(f"{name}: {described(option)}" for name, option in OPTIONS.items())
        + """

    It can be pickled for another process, which opens the files again.

    Raises ValueError for a value out of range, and for a model that cannot be used.
    """
    )

    __slots__ = (
        "_given",
        "_networks",
        "_opened",
        "attention_decoder",
        "fusion",
        "language_model",
        "neural_model",
        "onnx",
        "options",
        "punctuator",
        "segment_options",
    )  # options cannot be assigned

    def __init__(
        self,
        model: str | Path | OnnxModel | None = None,
        *,
        lm: str | Path | NgramLm | None = "auto",
        neural_lm: str | Path | NeuralLmFile | None = "auto",
        punctuation: str | Path | Punctuation | None = "auto",
        decoder: str | Path | OnnxDecoder | None = "auto",
        provider: str = "cpu",
        num_threads: int = 1,
        _opened: dict[str, tuple[object, Any]] | None = None,
        **options: Unpack[OptionValues],
    ) -> None:
        given = {name: _copied(lines) if name in LISTS else lines for name, lines in options.items()}
        chosen = _to_core(given)  # checks the options before models are opened
        model = None if model == "bundled" else model
        files = {"model": model, "lm": lm, "neural_lm": neural_lm, "punctuation": punctuation, "decoder": decoder}
        for name, file in files.items():
            if isinstance(file, str | Path) and "\0" in str(file):
                raise ValueError(f"{name} is {str(file)!r}; the path of a file has no NUL character")
        self._given: dict[str, Any] = {
            **files,
            "provider": provider,
            "num_threads": num_threads,
            **given,
        }
        self._opened = dict(_opened or {})
        """Open assets with the keys that they were made from. A variant reuses those with equal keys."""

        former = self._opened.get("model")
        self.onnx: OnnxModel = self._open(
            "model", (model, provider, num_threads), lambda: _open_model(model, provider, num_threads)
        )
        metadata, core = self.onnx.metadata, self.onnx.metadata.core
        self.options = chosen.resolved(core)
        if punctuation == "auto":
            punctuation = bundled_punctuation() if metadata.language.split("-")[0] == "en" else None
        self.punctuator: Punctuation | None = self._open_file("punctuation", Punctuation, punctuation, num_threads)
        self.language_model = self._new_language_model()
        self.neural_model = self._new_neural_model()
        self.fusion: LmFusion | None = None
        grammar: Phrases | None = None
        if chosen.phrases is not None:
            grammar = self._open(
                "phrases",
                (self.language_model, core, chosen.phrases, self.unknown_cost),
                lambda: new_phrases(chosen, self.language_model, core),
            )
        elif self.language_model or chosen.hotwords is not None:
            weights = [getattr(self.options, name) for name in OPTIONS if name.startswith(("lm_", "hotword"))]
            self.fusion = self._open(
                "fusion",
                (self.language_model, core, weights),
                lambda: new_fusion(chosen, self.language_model, core),
            )
        over_phones = grammar is not None or (self.fusion is not None and self.fusion.over_phones)
        self.attention_decoder = self._new_decoder(rescores=self.search == "rescore" and not over_phones)
        self.segment_options = SegmentOptions(
            chosen,
            core,
            fusion=self.fusion,
            phrases=grammar,
            punctuation=self.punctuator.metadata if self.punctuator else None,
            neural_lm=self.neural_model.metadata if self.neural_model else None,
            decoder=self.attention_decoder.metadata if self.attention_decoder else None,
        )
        opened = {"punctuation": self.punctuator, "neural_lm": self.neural_model, "decoder": self.attention_decoder}
        self._networks = {name: file.network for name, file in opened.items() if file}
        if self._opened["model"] is not former and not isinstance(model, OnnxModel):
            self._warm_up()

    def _open(self, what: str, key: object, make: Callable[[], Any]) -> Any:
        if what not in self._opened or self._opened[what][0] != key:
            self._opened[what] = (key, make())
        return self._opened[what][1]

    def _open_file(self, name: str, kind: type, file: Any, *session: Any) -> Any:
        """`file` opened as `kind`; one that is open already, and None, as they are."""

        def make() -> Any:
            try:
                return file if file is None or isinstance(file, kind) else kind(file, *session)
            except OSError as error:
                raise ValueError(f"{name}: {file} cannot be read: {error.strerror}") from error

        return self._open(name, (file, *session), make)

    def _new_language_model(self) -> NgramLm | None:
        model, lm = self._given["model"], self._given["lm"] if self.use_lm else None
        hotwords, phrases = self.options.hotwords, self.options.phrases
        if phrases is not None and hotwords is not None:
            raise ValueError("phrases are a grammar, which takes no hotwords; give one of the two")
        if lm == "auto":
            lm = "bundled" if model is None and self.search not in WITHOUT_LM else None
        if self.search in WITHOUT_LM and phrases is None and (lm or hotwords is not None):
            raise ValueError(
                f"search {self.search} takes no language model and no hotwords; use search beam or rescore"
            )
        if lm == "bundled":
            _check_bundled_lm(output_symbols(self.onnx.tokens))
        return self._open("lm", lm, lambda: _open_lm(lm)) if lm else None

    def _new_neural_model(self) -> NeuralLmFile | None:
        """By default only with n-grams of general English, such as the bundled ones and those that `asr lm adapt` and
        `mix` make from them."""
        neural_lm, num_threads = self._given["neural_lm"] if self.use_lm else None, self._given["num_threads"]
        lm, has_phrases = self.language_model, self.phrases is not None
        if has_phrases or self.search == "greedy":
            if neural_lm in (None, "auto"):
                return None
            what = "phrases are a grammar" if has_phrases else "search greedy finds one sentence"
            raise ValueError(
                f"neural_lm is {str(neural_lm)!r}, but it compares sentences, and {what}: leave neural_lm out, or use "
                "search beam, rescore or joint, without phrases"
            )
        if neural_lm == "auto":
            is_english = self.onnx.metadata.language.split("-")[0] == "en"
            is_general = lm is not None and lm.num_ngrams[0] >= MIN_GENERAL_WORDS
            neural_lm = bundled_neural_lm() if is_english and is_general else None
        if neural_lm is None:
            return None
        if neural_lm == "bundled" and (neural_lm := bundled_neural_lm()) is None:
            raise ValueError("neural_lm: this installation has no bundled neural language model; give a file, or none")
        return self._open_file("neural_lm", NeuralLmFile, neural_lm, num_threads)

    def _new_decoder(self, rescores: bool) -> OnnxDecoder | None:
        decoder, session = self._given["decoder"], (self._given["provider"], self._given["num_threads"])
        if decoder == "auto":
            beside = decoder_beside(self.onnx.path)
            decoder = beside if (rescores or self.search == "joint") and beside.is_file() else None
        return self._open_file("decoder", OnnxDecoder, decoder, *session)

    def _warm_up(self) -> None:
        """Runs each graph once: the first run takes several times as long and must not delay the first words."""
        num_frames = SUBSAMPLING * self.chunk_size + FEATURE_OVERLAP
        silence = np.zeros((num_frames, self.onnx.metadata.num_mel_bins), np.float32)
        self.onnx.encode(silence, self.chunk_size, self.left_context)
        encoder_out = np.zeros((1, self.onnx.metadata.dim), np.float32)
        if decoder := self.attention_decoder:
            decoder.step(np.array([SOS_EOS_ID]), decoder.begin(encoder_out))

    def with_options(self, **changes: Any) -> Recognizer:
        """This recognizer with `changes`; it shares all unchanged assets, so this is fast.

        Raises ValueError like the constructor.
        """
        return type(self)(**{**self._given, **changes}, _opened=self._opened)

    def __getattr__(self, name: str) -> Any:
        if name in LISTS:
            return self._given.get(name)  # as given
        if name in OPTIONS:
            return getattr(self.options, name)
        if name.startswith("_") or name not in self._given:
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
        return self._given[name]

    def __copy__(self) -> Recognizer:
        return self

    def __deepcopy__(self, memo: object) -> Recognizer:
        return self

    def __reduce__(self) -> tuple[Callable[..., Recognizer], tuple[dict[str, Any]]]:
        """Another process opens the files again."""
        for name in ("model", "lm", "neural_lm", "punctuation", "decoder"):
            if not isinstance(self._given[name], str | Path | None):
                raise TypeError(f"a Recognizer with an open {name} cannot be pickled: give the path of the file")
        return _from_given, (self._given,)

    def __repr__(self) -> str:
        return f"Recognizer({', '.join(f'{name}={value!r}' for name, value in self._given.items())})"

    def network(self, name: str) -> Network:
        """The network of this name, see csrc/work.h."""
        return self.onnx.encoder if name == "encoder" else self._networks[name]

    @property
    def warnings(self) -> tuple[str, ...]:
        """The spelling warning, a sentence for each skipped line of a list, and one if the punctuation is not used."""
        found = (self.spelling_warning, *self.skipped_lines, self.segment_options.punctuation_warning)
        return tuple(filter(None, found))

    @property
    def skipped_lines(self) -> tuple[str, ...]:
        """A sentence for each line of a list that cannot be used."""
        return tuple(self.segment_options.skipped_lines)

    @property
    def spelling_warning(self) -> str:
        """Why a model with phones spells words by their sound, if it does so without the user's choice; else empty."""
        without_lm = self._given["lm"] is None or not self.use_lm
        chosen = self.search in WITHOUT_LM or self.phrases is not None or without_lm
        if chosen or not self.onnx.metadata.phones:
            return ""
        name = self._given["model"] or "the bundled model"
        if self.language_model is None:
            return (
                f"{name} is used without a language model: it spells words by their sound, mostly wrong; "
                "give lm=bundled for English, or lm=FILE from asr lm; without one, search=joint makes the fewest "
                "errors (lm=none hides this message)"
            )
        if not self.language_model.phones:
            return (
                f"{self._given['lm']} has no pronunciations: words are spelled by their sound, mostly wrong; make "
                "it with asr lm adapt, or with asr lm train --lexicon"
            )
        return ""

    @property
    def chunk_size(self) -> int:
        """Encoder frames per chunk."""
        return self.options.chunk_ms // ENCODER_FRAME_MS

    @property
    def left_context(self) -> int:
        """Encoder frames seen before the chunk."""
        return self.options.left_context_ms // ENCODER_FRAME_MS

    def stream(self) -> Stream:
        """A new stream: it has the state of one audio source and is used by one thread at a time."""
        return Stream(self)


def _from_given(given: dict[str, Any]) -> Recognizer:
    return Recognizer(**given)


def _copied(lines: Any) -> Any:
    return lines if lines is None or isinstance(lines, str | Path) else tuple(lines)


def _to_core(options: dict[str, Any]) -> Options:
    """The options with their lists as texts. No hotwords are allowed, because a client may have none."""
    values = dict(options)
    for name in LISTS:
        if values.get(name) is not None:
            values[name] = list_text(name, values[name]) if values[name] or name != "hotwords" else None
    return Options(**values)


def _open_model(model: str | Path | OnnxModel | None, provider: str, num_threads: int) -> OnnxModel:
    if isinstance(model, OnnxModel):
        check_session_options(provider, num_threads)
        return model
    bundled = "float32" if provider == "cuda" else "int8"
    path = bundled_model(bundled) if model is None else Path(model)
    return OnnxModel(path, provider=provider, num_threads=num_threads)


def _open_lm(lm: str | Path | NgramLm) -> NgramLm:
    return lm if isinstance(lm, NgramLm) else load_lm(lm)


def _check_bundled_lm(symbols: Sequence[str]) -> None:
    """Raises ValueError for a model with other characters than those of the bundled language model."""
    letters = {letter for symbol in symbols for letter in symbol if letter.isalpha()}
    if other := "".join(sorted(letters - set(string.ascii_uppercase))):
        shown = other if len(other) <= 12 else f"{other[:12]}..."
        raise ValueError(
            f"lm 'bundled' has English words in capital letters, but this model also writes {shown!r}: make a language "
            "model of its words with `asr lm train`, or use none"
        )
