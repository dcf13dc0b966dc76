"""The C++ front end: ring buffer, log-mel filterbank, CTC search, endpointing.

Arrays are never cast or copied silently: a dtype that is not listed raises TypeError; a wrong number of dimensions
or memory that is not C-contiguous raises ValueError. Long calls let other Python threads run. An object serves one
thread at a time, and a second thread that enters meanwhile gets RuntimeError; only `RingBuffer` is meant for two
threads, one that writes and one that reads.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, ClassVar, Final, Literal, TypedDict, final, overload

import numpy as np
import numpy.typing as npt
from typing_extensions import Unpack

_Samples = npt.NDArray[np.float32] | npt.NDArray[np.int16]

# The contract of all runtimes (csrc/contract.h).
SAMPLE_RATE: int
MIN_SAMPLE_RATE: int
MAX_SAMPLE_RATE: int
FRAME_SHIFT: int
FRAME_LENGTH: int
NUM_MEL_BINS: int
LOW_FREQ_HZ: float
HIGH_FREQ_HZ: float
PREEMPHASIS: float
SUBSAMPLING: int
FEATURE_OVERLAP: int
ENCODER_FRAME_MS: int
END_SILENCE: int
BLANK_ID: int
UNK_ID: int
SOS_EOS_ID: int
MAX_PHONES: int
FORMAT_VERSION: int
ENCODER_INPUTS: tuple[str, ...]
ENCODER_OUTPUTS: tuple[str, ...]
PHONE_OUTPUT: str

@final
class ModelMetadata:
    def __init__(self, properties: dict[str, str]) -> None: ...

@final
class DecoderMetadata:
    def __init__(self, properties: dict[str, str]) -> None: ...
    tokens: Final[list[str]]
    dim: Final[int]
    states: Final[list[StateTensor]]

# A tensor that a stream carries between encoder steps, from a row such as
# "state_keys float32 N,6,C,192" (csrc/metadata.h).
@final
class StateTensor:
    def __init__(self, row: str) -> None: ...
    name: Final[str]
    dtype: Final[Literal["float32", "int64"]]
    sizes: Final[list[int | str]]
    batch_axis: Final[int]
    def shape(self, batch_size: int, left_context: int) -> tuple[int, ...]: ...

# Measurements of a model (csrc/calibration.h): for each metadata key the names of its numbers, with the values of the
# bundled models; and the numbers of a model.
CALIBRATION: dict[str, dict[str, float]]

def is_language(code: str) -> bool: ...
def language_name(code: str) -> str: ...

DECODER_INPUTS: tuple[str, ...]
DECODER_OUTPUTS: tuple[str, ...]
DECODER_STEP_INPUT: str
DECODER_STEP_OUTPUT: str
DECODER_TYPE: str
DECODER_VERSION: int
NEURAL_LM_TYPE: str
NEURAL_LM_VERSION: int
NEURAL_LM_INPUTS: tuple[str, ...]
NEURAL_LM_OUTPUTS: tuple[str, ...]
PUNCTUATION_TYPE: str
PUNCTUATION_VERSION: int
PUNCTUATION_INPUTS: tuple[str, ...]
PUNCTUATION_OUTPUTS: tuple[str, ...]

# The options of recognition (csrc/options.h).
@final
class Option:
    name: Final[str]
    doc: Final[str]
    type: Final[Literal["flag", "choice", "integer", "milliseconds", "number", "list"]]
    low: Final[float]
    with_low: Final[bool]
    high: Final[float]
    allowed: Final[str]
    choices: Final[tuple[str, ...]]
    default: Final[Any]
    of_model: Final[bool]
    def parse(self, text: str) -> Any: ...

OPTIONS: dict[str, Option]

class OptionValues(TypedDict, total=False):  # in the stub only
    # <options> written by python scripts/write_options.py
    chunk_ms: int | None
    left_context_ms: int | None
    search: str | None
    second_pass: bool | None
    use_lm: bool | None
    beam_size: int | None
    num_rescored: int | None
    text: str | None
    beam_threshold: float | None
    rescore_ctc_weight: float | None
    joint_ctc_weight: float | None
    lm_weight: float | None
    lm_word_bonus: float | None
    lm_oov_penalty: float | None
    lm_prior_weight: float | None
    hotword_boost: float | None
    unknown_cost: float | None
    silence_after_speech_s: float | None
    min_silence_after_speech_s: float | None
    silence_without_speech_s: float | None
    max_utterance_s: float | None
    max_alternatives: int | None
    commands: bool | None
    spelling: str | None
    hotwords: str | Path | Sequence[str] | None
    phrases: str | Path | Sequence[str] | None
    mask: str | Path | Sequence[str] | None
    replace: str | Path | Sequence[str] | None
    own_commands: str | Path | Sequence[str] | None
    # </options>

@final
class Options:
    def __init__(self, **values: Unpack[OptionValues]) -> None: ...
    def __getattr__(self, name: str) -> Any: ...
    def resolved(self, metadata: ModelMetadata) -> Options: ...

@final
class RingBuffer:
    def __init__(self, capacity: int) -> None: ...
    def write(self, samples: _Samples) -> int: ...
    def read(self, max_samples: int) -> tuple[npt.NDArray[np.float32], int]: ...
    def callback_pointers(
        self, channel: int = 0, num_channels: int = 1, sample_rate: int = 16000
    ) -> tuple[int, int]: ...
    capacity: Final[int]
    num_available: Final[int]
    num_written: Final[int]
    num_dropped: Final[int]
    sample_offset: Final[int]
    num_callbacks: Final[int]
    num_input_overflows: Final[int]
    first_callback_ns: Final[int]
    last_callback_ns: Final[int]

@final
class Fbank:
    def __init__(self) -> None: ...
    def accept_waveform(self, samples: _Samples) -> None: ...
    def input_finished(self) -> None: ...
    def get_frames(self, start: int, count: int) -> npt.NDArray[np.float32]: ...
    def discard_frames(self, before: int) -> None: ...
    num_samples: Final[int]
    num_frames_ready: Final[int]
    first_frame: Final[int]

@final
class NgramLm:
    def __init__(self, data: npt.NDArray[np.uint8]) -> None: ...
    def log_probs(self, words: list[str]) -> list[float]: ...
    def __contains__(self, word: str) -> bool: ...
    phones: Final[list[str]]
    def pronunciations(self, word: str) -> list[list[str]]: ...
    pronunciations_size: Final[int]
    g2p: Final[bytes]
    num_ngrams: Final[list[int]]
    def level(
        self, order: int
    ) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.float32], npt.NDArray[np.float32], npt.NDArray[np.int64]]: ...

@final
class G2p:
    def __init__(self, data: npt.NDArray[np.uint8]) -> None: ...
    phones: Final[list[str]]
    def pronounce(self, word: str, num_best: int = 1) -> list[tuple[list[int], float]]: ...

@final
class Hotwords:
    def __init__(self, list: str, tokens: list[str], boost: float = ..., lm: NgramLm | None = None) -> None: ...
    warnings: Final[list[str]]

@final
class LmFusion:
    def __init__(
        self,
        lm: NgramLm | None,
        tokens: list[str],
        *,
        weight: float = ...,
        word_bonus: float = ...,
        oov_penalty: float = ...,
        prior_weight: float = ...,
        hotwords: Hotwords | None = None,
        phones: list[str] = ...,
    ) -> None: ...
    over_phones: Final[bool]
    tokens: Final[list[str]]
    PAUSE_LOG_PROB: ClassVar[float]
    def prior_gain(self, before: int, token: int) -> float:
        """The prior of the phone of a token after that of another one; 0: where a word begins or ends."""

    def text(self, word: int) -> str: ...

@final
class Hypothesis:
    def __init__(
        self,
        tokens: list[int],
        *,
        log_prob: float,
        lm_score: float,
        start_frames: list[int],
        end_frames: list[int],
        confidences: list[float],
        hotword_score: float = 0.0,
        words: list[int] = ...,
    ) -> None: ...
    tokens: Final[list[int]]
    log_prob: Final[float]
    lm_score: Final[float]
    hotword_score: Final[float]
    start_frames: Final[list[int]]
    end_frames: Final[list[int]]
    confidences: Final[list[float]]
    words: Final[list[int]]

@final
class CtcGreedySearch:
    def __init__(self) -> None: ...
    def advance(self, log_probs: npt.NDArray[np.float32]) -> None: ...
    def hypotheses(self, num_best: int = 1, finished: bool = False) -> list[Hypothesis]: ...
    def reset(self) -> None: ...
    num_frames: Final[int]

@final
class CtcPrefixBeamSearch:
    def __init__(
        self,
        *,
        beam_size: int = 256,
        max_tokens_per_frame: int = 0,
        beam_threshold: float = 0.0,
        recombine: bool = False,
        lattice: bool = False,
        lm: LmFusion | None = None,
    ) -> None: ...
    def advance(self, log_probs: npt.NDArray[np.float32]) -> None: ...
    def hypotheses(self, num_best: int = 1, finished: bool = False) -> list[Hypothesis]: ...
    def sentences(self, num_best: int) -> list[Hypothesis]: ...
    def reset(self) -> None: ...
    num_frames: Final[int]

def align_tokens(log_probs: npt.NDArray[np.float32], tokens: Sequence[int]) -> Hypothesis: ...

# Which spelling of each word was said (-1: none), the frames of their tokens (of a word without spellings one token
# -1), and the frames of other speech (csrc/search/alignment.h).
@final
class TextAlignment:
    hypothesis: Final[Hypothesis]
    spellings: Final[list[int]]
    others: Final[list[tuple[int, int]]]

def align_text(
    log_probs: npt.NDArray[np.float32],
    words: Sequence[Sequence[Sequence[int]]],
    *,
    skipped_cost: float,
    other_cost: float,
) -> TextAlignment: ...

JOINT_BEAM_SIZE: int

@final
class DecoderStep:
    parents: Final[npt.NDArray[np.int64]]
    tokens: Final[npt.NDArray[np.int64]]

@final
class JointSearch:
    def __init__(
        self, log_probs: npt.NDArray[np.float32], *, ctc_weight: float = ..., beam_size: int = ...
    ) -> None: ...
    def step(self) -> DecoderStep | None: ...
    def answer(self, log_probs: npt.NDArray[np.float32]) -> None: ...
    def hypotheses(self, num_best: int, first_frame: int = 0) -> list[Hypothesis]: ...

@final
class Phrases:
    def __init__(
        self,
        list: str,
        tokens: list[str],
        unknown_cost: float = ...,
        phones: list[str] = ...,
        lm: NgramLm | None = None,
    ) -> None: ...
    over_phones: Final[bool]
    tokens: Final[list[str]]

@final
class CtcPhraseSearch:
    def __init__(self, phrases: Phrases) -> None: ...
    def advance(self, log_probs: npt.NDArray[np.float32]) -> None: ...
    def hypotheses(self, num_best: int = 1, finished: bool = False) -> list[Hypothesis]: ...
    def reset(self) -> None: ...
    num_frames: Final[int]

_Word = tuple[str, float, float, float]  # text, start and end in seconds, confidence

@overload
def words(hypothesis: Hypothesis, tokens: list[str], with_lm: bool = False) -> list[_Word]: ...
@overload
def words(hypothesis: Hypothesis, fusion: LmFusion, letters: Hypothesis, tokens: list[str]) -> list[_Word]: ...
def spell(text: str, tokens: list[str]) -> list[int]: ...
def format_numbers(words: list[str], language: str = "en") -> list[tuple[str, int, int]]: ...
def best_rescored(hypotheses: list[Hypothesis], decoder_scores: list[float], ctc_weight: float) -> int: ...

@final
class TextOptions:
    warnings: Final[list[str]]
    """A sentence for each skipped line of a list."""

def text_options(
    language: str,
    punctuation: PunctuationMetadata | None = None,
    written_forms: list[tuple[str, str]] = ...,
    **options: Unpack[OptionValues],
) -> TextOptions | None: ...

@final
class PunctuationRun:
    words: Final[list[str]]
    pauses_s: Final[list[float]]
    continues: Final[bool | None]
    complete: Final[bool]

class TextFormatter:
    def __init__(self, options: TextOptions) -> None: ...
    def partial(self, words: Sequence[_Word], num_stable: int) -> PunctuationRun | None: ...
    def final(self, words: Sequence[_Word], is_cut: bool = False) -> PunctuationRun | None: ...
    def shown(
        self, mark_probs: Sequence[float] = ..., case_probs: Sequence[float] = ...
    ) -> tuple[list[_Word], int, int]: ...
    def reset(self) -> None: ...

def new_fusion(options: Options, lm: NgramLm | None, metadata: ModelMetadata) -> LmFusion | None: ...
def new_phrases(options: Options, lm: NgramLm | None, metadata: ModelMetadata) -> Phrases | None: ...

@final
class SegmentOptions:
    def __init__(
        self,
        options: Options,
        metadata: ModelMetadata,
        *,
        fusion: LmFusion | None = None,
        phrases: Phrases | None = None,
        punctuation: PunctuationMetadata | None = None,
        neural_lm: NeuralLmMetadata | None = None,
        decoder: DecoderMetadata | None = None,
        second_pass_window: int = 125,
    ) -> None: ...
    punctuation_warning: Final[str]
    skipped_lines: Final[list[str]]

@final
class NeuralLmMetadata:
    def __init__(self, properties: dict[str, str]) -> None: ...
    share: Final[float]
    weight: Final[float]
    def pieces_of(self, word: str) -> list[int]: ...

@final
class StateUse:
    """See csrc/work.h."""

    slot: Final[int]
    begins: Final[bool]
    left_context: Final[int]
    stays: Final[bool]
    for_next: Final[bool]
    parents: Final[list[int]]

@final
class Work:
    """One run of a network, see csrc/work.h."""

    network: Final[Literal["encoder", "decoder", "punctuation", "neural_lm"]]
    inputs: Final[dict[str, npt.NDArray[Any]]]
    """By name, float32 or int64, read-only."""
    outputs: Final[dict[str, tuple[int, ...]]]
    """Shapes by name; -1: any size."""
    state: Final[StateUse | None]
    has_batch: Final[bool]
    padded_size: Final[int]

class StreamFailed(RuntimeError): ...

@final
class Stream:
    def __init__(self, options: SegmentOptions) -> None: ...
    def accept(self, samples: _Samples, sample_rate: int = 16000) -> None: ...
    def gap(self, num_samples: int, sample_rate: int = 16000) -> None: ...
    def end_utterance(self) -> None: ...
    def change(self, options: SegmentOptions) -> None: ...
    def finish(self) -> None: ...
    def work(self) -> Work | None: ...
    def answer(self, outputs: Sequence[npt.NDArray[np.float32]]) -> None:
        """Answers the pending work with its outputs, in order."""

    def not_answered(self, reason: str) -> None:
        """Reports that the network of the pending work could not be run. The stream fails if it is the encoder."""

    failure: Final[str]
    """Empty if the stream has not failed."""
    def take_events(
        self,
    ) -> list[
        tuple[
            Literal["partial", "final", "gap", "error"],
            str,
            float,
            float,
            list[_Word],
            int,
            str | None,
            str,
            list[_Word],
            list[tuple[str, list[_Word], float]],
            int,
        ]
    ]: ...
    sample_offset: Final[int]
    num_wanted: Final[int]
    num_changes: Final[int]
    num_samples: Final[int]
    num_frames: Final[int]
    num_features_kept: Final[int]
    num_frames_kept: Final[int]
    num_bytes_kept: Final[int]

@final
class Resampler:
    def __init__(self, sample_rate: int) -> None: ...
    def accept(self, samples: _Samples) -> npt.NDArray[np.float32]: ...
    def finish(self) -> npt.NDArray[np.float32]: ...

ONNX_OPSET: int

def read_onnx_properties(data: bytes) -> dict[str, str]: ...
def checksum(data: bytes) -> int: ...

# Case and punctuation (csrc/text/punctuation.h).
NUM_WORD_FEATURES: int
NUM_WORD_FEATURE_ROWS: int
NUM_PAUSE_CLASSES: int
NUM_MARKS: int
NUM_CASES: int

def word_features(words: list[str]) -> npt.NDArray[np.int32]: ...
def special_features(unit: Literal["sentence", "continues", "end"]) -> npt.NDArray[np.int32]: ...
def pause_class(pause_s: float) -> int: ...

@final
class PunctuationUnits:
    work: Final[Work]
    """Of one text: features (1, num_units, NUM_WORD_FEATURES) and pauses (1, num_units)."""
    first_word: Final[int]
    num_words: Final[int]

@final
class PunctuationMetadata:
    def __init__(self, properties: dict[str, str]) -> None: ...
    look_ahead: Final[int]
    left_context: Final[int]
    mixed: Final[dict[str, str]]

def punctuation_units(
    words: list[str], pauses_s: list[float] | None, *, continues: bool | None, complete: bool
) -> PunctuationUnits: ...
def punctuate(
    words: list[str],
    mark_probs: npt.NDArray[np.float32],
    case_probs: npt.NDArray[np.float32],
    mixed: dict[str, str],
    *,
    continues: bool = False,
    complete: bool = True,
    has_pauses: bool = False,
    language: str = "en",
) -> list[str]: ...
def shown_marks(
    words: list[str],
    mark_probs: npt.NDArray[np.float32],
    *,
    complete: bool = True,
    has_pauses: bool = False,
    language: str = "en",
) -> list[int]: ...
