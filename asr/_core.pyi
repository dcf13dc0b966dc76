"""The C++ front end: ring buffer, log-mel filterbank, CTC search, endpointing.

Arrays are never cast or copied silently: a dtype that is not listed raises TypeError; a wrong number of dimensions
or memory that is not C-contiguous raises ValueError. Long calls let other Python threads run. An object serves one
thread at a time, and a second thread that enters meanwhile gets RuntimeError; only `RingBuffer` is meant for two
threads, one that writes and one that reads.
"""

from collections.abc import Sequence
from typing import Literal, final, overload

import numpy as np
import numpy.typing as npt

_Samples = npt.NDArray[np.float32] | npt.NDArray[np.int16]

# The contract of all runtimes (csrc/contract.h).
SAMPLE_RATE: int
"""Of recognition, in Hz."""
MIN_SAMPLE_RATE: int
MAX_SAMPLE_RATE: int
"""Of audio that a stream takes, in Hz."""
NUM_MEL_BINS: int
SUBSAMPLING: int
FEATURE_OVERLAP: int
ENCODER_FRAME_MS: int
BLANK_ID: int
UNK_ID: int
SOS_EOS_ID: int
"""These three tokens are in no text."""
MAX_PHONES: int
FORMAT_VERSION: int
"""Of a model file's metadata."""
ENCODER_INPUTS: tuple[str, ...]
ENCODER_OUTPUTS: tuple[str, ...]
PHONE_OUTPUT: str
"""A further output, the last one, of a model with a phone head."""
DECODER_INPUTS: tuple[str, ...]
DECODER_OUTPUTS: tuple[str, ...]
DECODER_PAST: tuple[str, ...]
NEURAL_LM_TYPE: str
NEURAL_LM_VERSION: int
NEURAL_LM_INPUTS: tuple[str, ...]
NEURAL_LM_OUTPUTS: tuple[str, ...]
PUNCTUATION_TYPE: str
PUNCTUATION_VERSION: int
PUNCTUATION_INPUTS: tuple[str, ...]
PUNCTUATION_OUTPUTS: tuple[str, ...]
DECODER_STEP_OUTPUTS: tuple[str, ...]
BEAM_SIZE: int
HOTWORD_BOOST: float
UNKNOWN_COST: float
OPTION_RANGES: dict[str, tuple[float, bool, float, float]]
"""Of an option: the lowest value, whether it is allowed itself, the highest, the default."""

def check_option(name: str, value: float) -> None:
    """ValueError where an option of `OPTION_RANGES` has a value outside its range; it names both."""

@final
class RingBuffer:
    """Bounded queue of float32 samples from one producer thread to one consumer thread.

    A full ring drops the new samples and counts them. `read` reports the loss where it happened, so that times stay
    true. Neither side ever waits for the other.
    """

    def __init__(self, capacity: int) -> None:
        """`capacity` in samples, rounded up to a power of two. ValueError outside [1, 2**30]."""

    def write(self, samples: _Samples) -> int:
        """Append `samples`, shape (num_samples,); int16 is scaled by 1/32768.

        Returns how many were accepted, the first ones; the rest is dropped and counted.
        RuntimeError while another thread, or the PortAudio callback, is writing.
        """

    def read(self, max_samples: int) -> tuple[npt.NDArray[np.float32], int]:
        """Take up to `max_samples`: `(samples, gap)`, where `gap` samples were lost just before `samples[0]`.

        Stops in front of a gap. With an empty ring `samples` is empty, and `gap` counts what was lost since.
        ValueError when `max_samples` is negative. RuntimeError while another thread is reading.
        """

    def callback_pointers(self, channel: int = 0, num_channels: int = 1, sample_rate: int = 16000) -> tuple[int, int]:
        """Addresses of a C function and of its user data: a PaStreamCallback that writes into this ring.

        The stream must deliver interleaved float32 input with `num_channels` channels, of which `channel` is kept.
        No Python runs in the callback. Both addresses are valid as long as this object: close the stream first.
        Where PortAudio reports that audio was lost before the callback, `read` returns a gap of what is missing by
        the clock, if that is 100 ms or more.
        ValueError unless 0 <= channel < num_channels <= 1024 and sample_rate > 0, in Hz.
        """

    @property
    def capacity(self) -> int:
        """Samples that fit."""
    @property
    def num_available(self) -> int:
        """Samples that wait to be read."""
    @property
    def num_written(self) -> int:
        """Samples accepted since the start."""
    @property
    def num_dropped(self) -> int:
        """Samples lost since the start: the ring was full, or they were lost before they came here."""
    @property
    def sample_offset(self) -> int:
        """Device time, in samples, just after what `read` has returned, gaps included.

        After `samples, gap = ring.read(n)`, `samples[0]` is at `ring.sample_offset - len(samples)`.
        """
    @property
    def num_callbacks(self) -> int:
        """Calls of the PortAudio callback."""
    @property
    def num_input_overflows(self) -> int:
        """Callbacks that came with paInputOverflow: audio was lost before the callback."""
    @property
    def first_callback_ns(self) -> int:
        """Time of the first callback on the clock of `time.monotonic_ns`; 0 before it."""
    @property
    def last_callback_ns(self) -> int:
        """Time of the last callback on the clock of `time.monotonic_ns`; 0 before the first."""

@final
class Fbank:
    """Streaming log-mel filterbank, equal to `torchaudio.compliance.kaldi.fbank` within 1e-4.

    25 ms frames every 10 ms, povey window, pre-emphasis 0.97, frame mean removed, `snip_edges=False`, no dither,
    power spectrum, natural logarithm floored at float32 epsilon. Samples are in [-1, 1]. How the audio is cut into
    calls does not change a bit of the features. `num_samples` of audio give
    `(num_samples + shift // 2) // shift` frames, `shift` being 10 ms; audio shorter than a frame is reflected as
    often as it takes.
    """

    def __init__(
        self,
        *,
        sample_rate: int = 16000,
        num_bins: int = 80,
        low_freq: float = 20.0,
        high_freq: float = 7600.0,
    ) -> None:
        """Rates in Hz. ValueError unless 2000 <= sample_rate <= 192000, 4 <= num_bins <= 512 and
        0 <= low_freq < high_freq <= sample_rate / 2."""

    def accept_waveform(self, samples: _Samples) -> None:
        """Append `samples`, shape (num_samples,), of any length; int16 is scaled by 1/32768.

        Samples that are not finite, or above 1e9 in magnitude, are replaced by 0 and counted.
        ValueError after `input_finished`.
        """

    def input_finished(self) -> None:
        """Compute the last frames, whose windows reach past the end of the audio."""

    def get_frames(self, start: int, count: int) -> npt.NDArray[np.float32]:
        """A copy of frames [start, start + count), shape (count, num_bins).

        ValueError outside [first_frame, num_frames_ready).
        """

    def discard_frames(self, before: int) -> None:
        """Free the frames before `before`. ValueError when it is negative or above `num_frames_ready`."""

    def reset(self) -> None:
        """Forget everything: the next sample is the first of a new stream."""

    @property
    def sample_rate(self) -> int:
        """Hz."""
    @property
    def num_bins(self) -> int: ...
    @property
    def num_samples(self) -> int:
        """Samples accepted since the start."""
    @property
    def num_frames_ready(self) -> int:
        """Frames computed since the start."""
    @property
    def first_frame(self) -> int:
        """The first frame that is still held."""
    @property
    def num_nonfinite_samples(self) -> int:
        """Samples replaced by 0 since the start."""

@final
class NgramLm:
    """A word n-gram language model in the packed format of `asr.lm.packed`. Immutable, shared by threads."""

    def __init__(self, data: npt.NDArray[np.uint8]) -> None:
        """`data`: the bytes of the file, shape (size,). ValueError when they are not a whole, valid file."""

    def log_probs(self, words: list[str]) -> list[float]:
        """Natural log-probabilities of the words of a sentence in turn, and of its end: len(words) + 1.

        A word outside the vocabulary counts as <unk>.
        """

    def __contains__(self, word: str) -> bool: ...
    @property
    def phones(self) -> list[str]:
        """Names of the phones that words are pronounced in; empty for a file without pronunciations."""
    def pronunciations(self, word: str) -> list[list[str]]:
        """The pronunciations of a word, in phones; none for a word outside the vocabulary."""
    @property
    def pronunciations_size(self) -> int:
        """Bytes of the file that are about pronunciations; 0: none."""
    @property
    def g2p(self) -> bytes:
        """The file of the model that pronounces other words; empty: none."""
    @property
    def num_ngrams(self) -> list[int]:
        """Number of n-grams of order 1, 2, ..."""
    def level(
        self, order: int
    ) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.float32], npt.NDArray[np.float32], npt.NDArray[np.int64]]:
        """The n-grams of an order as the file has them, (count,) each: last word, natural log-probability and back-off
        weight, and how many n-grams of the next order begin with it. ValueError for an order that it does not have.
        """

@final
class G2p:
    """Pronounces words that no dictionary has: a model of `asr lexicon train`. Immutable, shared by threads."""

    def __init__(self, data: npt.NDArray[np.uint8]) -> None:
        """`data`: the bytes of the file, shape (size,). ValueError when they are not a whole, valid file."""

    @property
    def phones(self) -> list[str]:
        """All that it writes, ascending by their bytes."""

    def pronounce(self, word: str, num_best: int = 1) -> list[tuple[list[int], float]]:
        """The most likely pronunciations, best first: indices into `phones`, and the natural logarithm of the
        probability among the hypotheses of the beam.

        `word` is spelled in the case of the dictionary that the model was trained on. None for a word of more than 64
        letters or with a letter that the model does not know. ValueError for num_best < 1.
        """

@final
class Hotwords:
    """Words and phrases that are expected. Immutable, shared by threads."""

    def __init__(self, list: str, tokens: list[str], boost: float = HOTWORD_BOOST, lm: NgramLm | None = None) -> None:
        """`list`: one word or phrase a line; behind a tab or a colon the nats that each of its letters gains, in
        (0, 20], in place of `boost`. `tokens` as for `LmFusion`. `lm`: for a search over phones, the language model
        that pronounces the words; what a hotword's letters gain is then spread over its phones.

        ValueError for a list without any, a boost out of range, and a word that the tokens cannot spell or that
        cannot be pronounced.
        """

@final
class LmFusion:
    """A language model, hotwords or both as partners of the beam search (shallow fusion). Immutable, shared by threads.

    A hypothesis scores its CTC log-probability + `weight` * log P(words) + `word_bonus` for each word -
    `oov_penalty` for each word outside the vocabulary, and - `prior_weight` * log P(letter | the one before) for each
    letter of a word in it, and for the border behind it, as often as these occur in the vocabulary; rare ones count as
    0.5 %. The word under way counts as the likeliest it can become.

    Each hotword that a hypothesis contains, from border to border, adds its boost for each of its letters; one under
    way adds it for the letters so far. For the language model its words are known, and share at least the probability
    of <unk> among them.
    """

    def __init__(
        self,
        lm: NgramLm | None,
        tokens: list[str],
        *,
        weight: float = 0.9,
        word_bonus: float = -2.4,
        oov_penalty: float = 8.0,
        prior_weight: float = 0.7,
        hotwords: Hotwords | None = None,
        phones: list[str] = ...,
    ) -> None:
        """`tokens`: spelling of every token id, "\u2581" between words, "" for a token that is no text.

        phones: names of the model's phones, in its order; with a language model that has pronunciations the search is
        over these, token 1 + 2i being phone i that begins a word, 2 + 2i phone i inside one, and 0 the blank. Words
        that are pronounced alike are then hypotheses of their own.

        ValueError for neither a language model nor hotwords, and outside weight in [0, 10], word_bonus in [-20, 20],
        oov_penalty in [0, 100], prior_weight in [0, 2], and for phones that are not those of the language model.
        """

    @property
    def over_phones(self) -> bool: ...
    @property
    def tokens(self) -> list[str]:
        """What is searched over: spelling of every token id, or "\u2581AA", "AA" and so on for phones."""
    def text(self, word: int) -> str:
        """How a word of `Hypothesis.words` is written; "" for one outside the vocabulary."""

@final
class Hypothesis:
    """The hypothesis since the last reset: tokens with times.

    Token i occupies encoder frames [start_frames[i], end_frames[i]), counted from the start of the stream, along the
    best alignment. `confidences[i]`, in (0, 1], is the geometric mean of its posteriors over these frames.
    """

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
    ) -> None:
        """ValueError where the lists are of different lengths."""

    @property
    def tokens(self) -> list[int]: ...
    @property
    def log_prob(self) -> float:
        """Natural log-probability since the last reset: of the prefix (beam search) or the best path (greedy)."""
    @property
    def lm_score(self) -> float:
        """What the language model adds to it, in the same currency; 0 without one."""
    @property
    def hotword_score(self) -> float:
        """What hotwords add to it."""
    @property
    def start_frames(self) -> list[int]: ...
    @property
    def end_frames(self) -> list[int]: ...
    @property
    def confidences(self) -> list[float]: ...
    @property
    def words(self) -> list[int]:
        """Of a search over phones, each word, for `LmFusion.text`; -1 at the end: not complete yet."""

@final
class CtcGreedySearch:
    """Best-path CTC decoding: the likeliest token of each frame, repeats merged, blanks removed."""

    def __init__(self) -> None: ...
    def advance(self, log_probs: npt.NDArray[np.float32]) -> None:
        """Continue with `log_probs`, shape (num_frames, vocab_size): natural log-probabilities, a chunk of any length.

        ValueError, and nothing is used, when vocab_size is not that of earlier chunks, or a row holds NaN or values
        above 0, or nothing finite.
        """

    def hypotheses(self, num_best: int = 1, finished: bool = False) -> list[Hypothesis]:
        """The best hypothesis, as a list of one. ValueError when `num_best` is below 1."""

    def reset(self) -> None:
        """Start a new utterance. `num_frames` goes on."""

    @property
    def num_frames(self) -> int:
        """Encoder frames since the start of the stream."""
    @property
    def num_trailing_blanks(self) -> int:
        """Frames since the last token, or since the last reset when there is none."""

@final
class CtcPrefixBeamSearch:
    """CTC prefix beam search (Graves et al. 2006, Hannun et al. 2014), streaming.

    Results do not depend on how the log-probabilities are cut into chunks. A repeated token survives as two when
    the model puts a blank between.
    """

    def __init__(
        self,
        *,
        beam_size: int = 256,
        max_tokens_per_frame: int = 0,
        beam_threshold: float = 0.0,
        recombine: bool = False,
        lattice: bool = False,
        lm: LmFusion | None = None,
    ) -> None:
        """ValueError unless 1 <= beam_size <= 1024 and beam_threshold >= 0.

        `lm` takes part in choosing the hypotheses. `recombine`: of those that it cannot distinguish any more, which
        end in the same token, the best is kept alone. `beam_threshold`: what scores so much less than the best is
        dropped; 0 drops nothing.

        A frame extends hypotheses by its `max_tokens_per_frame` likeliest tokens only; 0 stands for beam_size + 1,
        which gives the same hypotheses as looking at all tokens.
        """

    def advance(self, log_probs: npt.NDArray[np.float32]) -> None:
        """Continue with `log_probs`, shape (num_frames, vocab_size): natural log-probabilities, a chunk of any length.

        ValueError, and nothing is used, when vocab_size is not that of earlier chunks, or a row holds NaN or values
        above 0, or nothing finite.
        """

    def sentences(self, num_best: int) -> list[Hypothesis]:
        """The best paths of the lattice, of different words; of an utterance that has ended."""

    def hypotheses(self, num_best: int = 1, finished: bool = False) -> list[Hypothesis]:
        """Up to `num_best` hypotheses, best first, at least one: the empty one when there is no speech.

        finished: the utterance has ended, so the language model scores its last word as complete, and its end.
        ValueError when `num_best` is below 1.
        """

    def reset(self) -> None:
        """Start a new utterance. `num_frames` goes on."""

    @property
    def num_frames(self) -> int:
        """Encoder frames since the start of the stream."""
    @property
    def num_trailing_blanks(self) -> int:
        """Frames since the last token of the best hypothesis, or since the last reset when it is empty."""

@final
class Phrases:
    """A grammar: a list of phrases, and [unk] for anything else. Immutable, shared by threads."""

    def __init__(self, list: str, tokens: list[str], unknown_cost: float = UNKNOWN_COST) -> None:
        """`list`: one phrase a line; "[unk]" may be among them, and is always possible. `unknown_cost`: nats for each
        token that [unk] stands for, in (0, 100]. `tokens` as for `LmFusion`.

        ValueError for a list without a phrase, a cost out of range, and a word that the tokens cannot spell.
        """

    @property
    def tokens(self) -> list[str]:
        """Spelling of every token id of the hypotheses: those of the model, and "\u2581[unk]"."""

@final
class CtcPhraseSearch:
    """Streaming CTC search over a grammar of phrases: best alignments over a trie, and [unk]."""

    def __init__(self, phrases: Phrases) -> None: ...
    def advance(self, log_probs: npt.NDArray[np.float32]) -> None:
        """As of `CtcPrefixBeamSearch`."""

    def hypotheses(self, num_best: int = 1, finished: bool = False) -> list[Hypothesis]:
        """Up to `num_best` hypotheses, best first, at least one, in `Phrases.tokens`.

        finished: made of whole phrases and [unk]; until then one under way counts, with its whole words.
        ValueError when `num_best` is below 1.
        """

    def reset(self) -> None:
        """Start a new utterance. `num_frames` goes on."""

    @property
    def num_frames(self) -> int:
        """Encoder frames since the start of the stream."""
    @property
    def num_trailing_blanks(self) -> int:
        """Frames since the last token of the best hypothesis, or since the last reset when it is empty."""

@final
class Endpointer:
    """Rule-based endpointing on decoded silence. Immutable; threads may share it."""

    def __init__(
        self,
        *,
        silence_after_speech_s: float = 2.0,
        min_silence_after_speech_s: float = 0.5,
        silence_without_speech_s: float = 5.0,
        max_utterance_s: float = 20.0,
        frame_s: float = 0.04,
    ) -> None:
        """Seconds, all above 0, or ValueError; infinity switches a rule off. `frame_s` is an encoder frame.

        The silence that ends an utterance with speech is at most `silence_after_speech_s`, and, if that is not less, at
        least `min_silence_after_speech_s`.
        """

    def update(
        self,
        *,
        num_frames: int,
        num_trailing_silence_frames: int,
        has_speech: bool,
        word_begins: bool = False,
        end_log_prob: float = -3.0,
        num_words: int = 6,
        longest_pause_frames: int = 0,
        end_log_odds: float | None = None,
    ) -> Literal["silence_after_speech", "silence_without_speech", "max_utterance"] | None:
        """The rule that ends the utterance now, or None. Counts are encoder frames since the utterance began.

        word_begins: the next frame begins a word. `max_utterance` waits for a pause of six frames, so as not to cut a
        word; from 1.25 times its limit for the next word also; to 1.5 times its limit.
        `silence_after_speech` waits longer where the language model expects no end of the sentence (end_log_prob:
        natural log P(</s>)), after few words, and 1.5 times as long as the speaker has paused before
        (longest_pause_frames). With end_log_odds, of the network for punctuation that the sentence is over, these count
        less, and the pause once.
        ValueError unless 0 <= num_trailing_silence_frames <= num_frames.
        """

    @property
    def silence_after_speech_s(self) -> float: ...
    @property
    def silence_without_speech_s(self) -> float: ...
    @property
    def max_utterance_s(self) -> float: ...
    @property
    def frame_s(self) -> float: ...

BEAM_THRESHOLD: float
"""Nats below the best at which a hypothesis is dropped: half the time, and the same words."""
NUM_RESCORED: int
"""Hypotheses that the decoder scores at most: it is what a final waits for."""

_Word = tuple[str, float, float, float]
"""Word, its start and end in seconds, its confidence in (0, 1)."""

@overload
def words(hypothesis: Hypothesis, tokens: list[str], with_lm: bool = False) -> list[_Word]:
    """The words of a hypothesis, times counted from frame 0. `tokens`: spelling of every token id, "" for one that is
    in no text; "\u2581" begins a word, or stands alone between words. `with_lm`: a language model took part in the
    search, which confidences depend on. ValueError for an id outside `tokens`."""

@overload
def words(hypothesis: Hypothesis, fusion: LmFusion, letters: Hypothesis, tokens: list[str]) -> list[_Word]:
    """The words of a hypothesis of a search over phones. `letters`: of a greedy search over the letters of the same
    audio, `tokens` their spelling: they write the words outside the vocabulary."""

def spell(text: str, tokens: list[str]) -> list[int]:
    """Ids of the fewest tokens that write the words of `text`, A to Z in the case that the model has. `tokens`: as for
    `words`. ValueError for a text without words, and for a word that no tokens write."""

def format_numbers(words: list[str]) -> list[tuple[str, int, int]]:
    """English words, in lower case, with the numbers among them in digits: (text, first, last) of every shown token,
    which stands for the words `first` to `last`. Every word is in one token, in order. See csrc/text/numbers.h."""

def best_rescored(hypotheses: list[Hypothesis], decoder_scores: list[float], ctc_weight: float) -> int:
    """See `asr.runtime.search.rescore`."""

DEFAULT_TEXT: str
"""The default text of events: "formatted" or "plain"."""

@final
class TextOptions:
    """How the words of a stream are shown. Immutable; of `text_options`."""

def text_options(
    *,
    formatted: bool,
    tokens: list[str],
    mask: str | None = None,
    punctuation: PunctuationMetadata | None = None,
) -> TextOptions | None:
    """None: words as they are recognized, which those of models are whose `tokens` write other letters than A to Z.
    `mask`: what is not to be shown, one a line. `punctuation`: of the network that gives case and punctuation.
    """

@final
class PunctuationRun:
    """Words that a formatter needs the answer of the network for."""

    @property
    def words(self) -> list[str]:
        """In small letters, as far as nobody has written them."""
    @property
    def pauses_s(self) -> list[float]: ...
    @property
    def continues(self) -> bool | None:
        """The words go on with a sentence; None: words before them are left out."""
    @property
    def complete(self) -> bool:
        """The speaker has ended."""

class TextFormatter:
    """The words of a stream as they are shown, one utterance after another; see csrc/text/formatter.h.

    Words are (text, start in seconds, end, confidence).
    """

    def __init__(self, options: TextOptions) -> None: ...
    def partial(self, words: Sequence[_Word], num_stable: int) -> PunctuationRun | None: ...
    def final(self, words: Sequence[_Word], is_cut: bool = False) -> PunctuationRun | None:
        """is_cut: the speaker goes on, so there is no mark at the end, and the next utterance begins small."""

    def shown(self, mark_probs: Sequence[float] = ..., case_probs: Sequence[float] = ...) -> tuple[list[_Word], int]:
        """The words that are shown, and how many of them stand for good. Probabilities: of the words of the run, one
        after the other. ValueError for another number."""

    def reset(self) -> None:
        """What follows is another text."""

@final
class SegmentOptions:
    """Options of recognition. Immutable, shared by segments; `asr.streaming.Recognizer` describes them."""

    def __init__(
        self,
        *,
        tokens: list[str],
        chunk_size: int,
        second_pass: bool,
        search: str,
        beam_size: int,
        fusion: LmFusion | None,
        rescore_ctc_weight: float,
        silence_after_speech_s: float,
        min_silence_after_speech_s: float,
        silence_without_speech_s: float,
        max_utterance_s: float,
        max_full_context: int = 750,
        phrases: Phrases | None = None,
        phones: list[str] = ...,
        text: TextOptions | None = None,
        neural_lm: NeuralLmMetadata | None = None,
    ) -> None:
        """ValueError for a value outside its range. `tokens` as for `words`. `phones`: names of the model's phones.
        `text`: how a stream shows its words; None: as they are.
        The second pass takes an utterance of more
        than `max_full_context` encoder frames in chunks of that many."""

@final
class EncoderStep:
    """Work: a run of the encoder with one of two caches, that of the stream or that of the second pass."""

    @property
    def second_pass(self) -> bool: ...
    @property
    def begins(self) -> bool:
        """With a new cache."""
    @property
    def features(self) -> npt.NDArray[np.float32]:
        """(4c + 3, 80) for c encoder frames."""
    @property
    def num_valid(self) -> int:
        """Feature frames that are real."""
    @property
    def num_frames(self) -> int:
        """Of `features`, 4c + 3."""

@final
class NeuralLmMetadata:
    def __init__(self, properties: dict[str, str]) -> None: ...
    @property
    def share(self) -> float: ...
    @property
    def weight(self) -> float: ...
    def pieces_of(self, word: str) -> list[int]: ...

class PieceTree:
    """Word pieces to score, (num_nodes,) int64: each after its parent. mask (num_nodes, num_nodes) bool."""

    @property
    def pieces(self) -> npt.NDArray[np.int64]: ...
    @property
    def parents(self) -> npt.NDArray[np.int64]: ...
    @property
    def depths(self) -> npt.NDArray[np.int64]: ...
    @property
    def mask(self) -> npt.NDArray[np.bool_]: ...

class DecoderScoring:
    """Work: a run of the decoder over whole sentences."""

    @property
    def tokens(self) -> list[list[int]]: ...
    @property
    def encoder_out(self) -> npt.NDArray[np.float32]:
        """(num_frames, dim), of the utterance."""

class StreamFailed(RuntimeError):
    """A stream whose network could not be run: it is of no more use."""

@final
class Stream:
    """Audio on its way to words: everything but the network, which its owner runs when it asks.

    `accept`, `gap`, `end_utterance`, `change` or `finish`; then, as long as `work()` is not None, `stepped`,
    `scored` or `punctuated`, or `fail`; then `take_events`. What cannot be done before the network has run is queued.

    ValueError after `finish`; StreamFailed after `fail`, of all but `take_events` and the properties.
    """

    def __init__(self, options: SegmentOptions) -> None: ...
    def accept(self, samples: _Samples, sample_rate: int = 16000) -> None:
        """Continue with audio of any length and rate in Hz, in [MIN_SAMPLE_RATE, MAX_SAMPLE_RATE]."""

    def gap(self, num_samples: int, sample_rate: int = 16000) -> None:
        """So many samples were lost here, in [0, 2**48]."""

    def end_utterance(self) -> None: ...
    def change(self, options: SegmentOptions) -> None:
        """End the utterance; what follows is recognized with `options`."""

    def finish(self) -> None:
        """No more audio. Twice is once."""

    def work(self) -> EncoderStep | DecoderScoring | PunctuationUnits | PieceTree | None:
        """What is to be computed before the stream goes on."""

    def stepped(
        self,
        log_probs: npt.NDArray[np.float32],
        encoder_out: npt.NDArray[np.float32],
        phone_log_probs: npt.NDArray[np.float32] | None = None,
    ) -> None:
        """Answers an EncoderStep: (c, vocab_size), (c, dim) and, which a fusion over phones needs, (c, 1 + 2 * phones).

        StreamFailed for other shapes, or what are no log-probabilities; RuntimeError when it was not asked for.
        """

    def scored(self, scores: list[float]) -> None:
        """Answers a DecoderScoring: natural log-probabilities of the sentences."""

    def lm_scored(self, log_probs: list[float]) -> None:
        """Answers a PieceTree: natural log-probabilities of the pieces."""

    def punctuated(self, mark_probs: npt.NDArray[np.float32], case_probs: npt.NDArray[np.float32]) -> None:
        """Answers PunctuationUnits: (num_units, NUM_MARKS) and (num_units, NUM_CASES)."""

    def not_punctuated(self, reason: str) -> None:
        """The network for punctuation could not be run: the words are shown as they are recognized, and an error event
        says so, once."""

    def fail(self, reason: str) -> None:
        """The network could not be run, for `reason`: the stream is of no more use."""

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
        ]
    ]:
        """What happened since the last call: kind, text, start and end in seconds, words, how many of a partial's are
        stable, what ended the utterance of a final, and text and words as they are recognized."""

    @property
    def sample_offset(self) -> int:
        """Position of the next sample, in samples of 16 kHz, gaps included."""
    @property
    def num_wanted(self) -> int:
        """Audio that completes a chunk, in samples of 16 kHz; of no meaning while there is work."""
    @property
    def num_changes(self) -> int:
        """Calls of `change` that have taken effect."""
    @property
    def num_samples(self) -> int:
        """Of 16 kHz, since the last gap or end of an utterance that was asked for: of the segment."""
    @property
    def num_frames(self) -> int:
        """Encoder frames searched of the segment."""
    @property
    def num_features_kept(self) -> int:
        """Feature frames of the utterance under way."""
    @property
    def num_frames_kept(self) -> int:
        """Encoder frames of the utterance under way, kept for the decoder."""

@final
class Resampler:
    """Any rate to 16 kHz, piece by piece; the output does not depend on the pieces. Samples that are not finite count
    as 0."""

    def __init__(self, sample_rate: int) -> None:
        """ValueError outside [MIN_SAMPLE_RATE, MAX_SAMPLE_RATE]."""

    def accept(self, samples: _Samples) -> npt.NDArray[np.float32]:
        """(num_samples,) -> what is ready."""

    def finish(self) -> npt.NDArray[np.float32]:
        """The rest. Nothing may follow."""

ONNX_OPSET: int
"""Of the standard operators in a model file; part of format version 1."""

def read_onnx_properties(data: bytes) -> dict[str, str]:
    """The metadata of an .onnx file, read without ONNX Runtime.

    ValueError, saying where or why, unless the file is whole, of opset ONNX_OPSET, and holds its weights itself:
    nothing that it names outside itself is ever read. Where the file begins with the property "checksum", that must
    be the one of all bytes behind the property.
    """

def onnx_checksum(data: bytes) -> str:
    """16 hexadecimal digits (see csrc/onnx_file.h)."""

# Case and punctuation (csrc/text/punctuation.h).
NUM_WORD_FEATURES: int
"""Rows of the feature table whose sum stands for a word."""
NUM_WORD_FEATURE_ROWS: int
NUM_PAUSE_CLASSES: int
NUM_MARKS: int
"""none, comma, period, question mark"""
NUM_CASES: int
"""lower, capitalized, upper"""

def word_features(words: list[str]) -> npt.NDArray[np.int32]:
    """(num_words, NUM_WORD_FEATURES), each in [0, NUM_WORD_FEATURE_ROWS). Neither case nor digits' values matter."""

def special_features(unit: Literal["sentence", "continues", "end"]) -> npt.NDArray[np.int32]:
    """(NUM_WORD_FEATURES,) of a unit that is no word: before the first word of a text, or after its last one."""

def pause_class(pause_s: float) -> int:
    """Class in [0, NUM_PAUSE_CLASSES) of the pause before a word; of NaN, which stands for unknown, 0.

    ValueError for a negative pause.
    """

@final
class PunctuationUnits:
    """Work: a run of the network for case and punctuation."""

    @property
    def features(self) -> npt.NDArray[np.int64]:
        """(num_units, NUM_WORD_FEATURES)"""
    @property
    def pauses(self) -> npt.NDArray[np.int64]:
        """(num_units,), classes"""
    @property
    def first_word(self) -> int:
        """Unit of the first word."""
    @property
    def num_words(self) -> int: ...

@final
class PunctuationMetadata:
    """Metadata of a punctuation network."""

    def __init__(self, properties: dict[str, str]) -> None:
        """ValueError naming the entry that is damaged."""
    @property
    def look_ahead(self) -> int:
        """Words behind a word that its mark and case depend on: with as many behind it, they no longer change."""
    @property
    def left_context(self) -> int:
        """Words before a word that they depend on."""
    @property
    def mixed(self) -> dict[str, str]:
        """How words of mixed case are written, by their small letters."""

def punctuation_units(
    words: list[str], pauses_s: list[float] | None, *, continues: bool | None, complete: bool
) -> PunctuationUnits:
    """What the network reads for these words.

    Args:
        pauses_s: before each word, NaN where unknown; None for all unknown. That before the first word of all does not
            count.
        continues: whether the first word goes on with a sentence or begins one; None where words before are left out.
        complete: the speaker has ended behind the last word.
    ValueError for another number of pauses than words, or a negative one.
    """

def punctuate(
    words: list[str],
    mark_probs: npt.NDArray[np.float32],
    case_probs: npt.NDArray[np.float32],
    mixed: dict[str, str],
    *,
    continues: bool = False,
    complete: bool = True,
) -> list[str]:
    """The words as they are shown, one for each word given.

    Args:
        words: in small letters; one with a capital, a digit or a sign that is not an apostrophe keeps its letters.
        mark_probs: (num_words, NUM_MARKS) of the mark after each word.
        case_probs: (num_words, NUM_CASES).
        mixed: how words of mixed case are written, by their small letters.
        continues: the words go on with a sentence: the first one is not capitalized for its place.
        complete: the speaker has ended; otherwise the last word gets no mark.
    ValueError for probabilities of another number of words.
    """
