"""Configuration: frozen dataclasses with all settings, their defaults and ranges.

`asr.recipe` reads them from YAML. They are stored in every checkpoint and in the metadata of every exported file.
Durations of audio are in seconds (`_s`), chunks in encoder frames of 40 ms.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from reprlib import repr as limited_repr
from typing import TYPE_CHECKING, Any, ClassVar

MAX_PHONES = 127
"""Limit of the language model file and the search, which store a phone in 7 bits."""


class ConfigError(ValueError):
    """A configuration key or value that cannot be used."""


def shown(value: object) -> str:
    """A value for a message, of at most 200 characters."""
    return f"{limited_repr(value):.200}"


def _require(condition: bool, name: str, value: object, allowed: str) -> None:
    if not condition:
        raise ConfigError(f"{name} = {shown(value)} is not allowed: it must be {allowed}")


def _require_choice(name: str, value: str, choices: Sequence[str]) -> None:
    _require(value in choices, name, value, "one of " + ", ".join(choices))


def _require_least(config: object, section: str, least: int, *names: str) -> None:
    for name in names:
        _require(getattr(config, name) >= least, f"{section}.{name}", getattr(config, name), f"at least {least}")


@dataclass(frozen=True)
class ModelConfig:
    """Shape of the network. The same values rebuild it from a checkpoint or an exported file."""

    dim: int = 192
    """Width of encoder and decoder."""
    num_heads: int = 4
    encoder_layers: int = 10
    encoder_ff_dim: int = 768
    decoder_layers: int = 2
    decoder_ff_dim: int = 768
    subsampling_channels: int = 32
    """Channels of the two stride-2 convolutions, from 10 ms frames to 40 ms frames."""
    position: str = "rope"
    """rope | relative | sinusoidal | learned | none"""
    norm: str = "pre"
    """pre | post"""
    activation: str = "relu"
    """relu | gelu | swiglu"""
    dropout: float = 0.1
    running_mean: bool = False
    """Adapts to speaker and channel with a running mean of the features, an additional state (asr.model.speaker)."""
    condition_layers: tuple[int, ...] = ()
    """Self-conditioned CTC (Nozaki and Komatsu 2021): after these encoder layers, counted from 1, the layer's CTC
    posteriors are added to its output. Intermediate CTC is computed there; if empty, at the middle layer."""
    vocab_size: int = 0
    """Set from the tokenizer; 0 in a recipe."""
    phones: tuple[str, ...] = ()
    """Names of the phones of the second CTC head; set from `data.lexicon`."""

    def __post_init__(self) -> None:
        positive = ("num_heads", "encoder_layers", "encoder_ff_dim", "decoder_layers", "decoder_ff_dim")
        sizes = ("dim", *positive, "subsampling_channels")
        _require_least(self, "model", 1, *sizes)
        for name in sizes:
            most = 1000 if name.endswith("layers") else 65536
            _require(getattr(self, name) <= most, f"model.{name}", getattr(self, name), f"at most {most}")
        _require(
            self.dim % (4 * self.num_heads) == 0,
            "model.dim",
            self.dim,
            f"a multiple of {4 * self.num_heads}, 4 x num_heads",
        )
        _require_choice("model.position", self.position, ("rope", "relative", "sinusoidal", "learned", "none"))
        _require_choice("model.norm", self.norm, ("pre", "post"))
        _require_choice("model.activation", self.activation, ("relu", "gelu", "swiglu"))
        _require(0 <= self.dropout < 1, "model.dropout", self.dropout, "in [0, 1)")
        _require(
            all(1 <= layer < self.encoder_layers for layer in self.condition_layers),
            "model.condition_layers",
            self.condition_layers,
            f"layers from 1 to {self.encoder_layers - 1}: CTC reads the last one anyway",
        )
        _require_least(self, "model", 0, "vocab_size")
        _require(len(set(self.phones)) == len(self.phones), "model.phones", self.phones, "names, each once")
        _require(len(self.phones) <= MAX_PHONES, "model.phones", len(self.phones), f"at most {MAX_PHONES} names")


@dataclass(frozen=True)
class TokenizerConfig:
    kind: str = "bpe"
    """char | bpe | unigram | wordpiece"""
    vocab_size: int = 256
    """Number of tokens including the three special ones; char uses the characters of the text. Weights to start from
    keep their tokens, so both must be as in their training."""

    def __post_init__(self) -> None:
        _require_choice("tokenizer.kind", self.kind, ("char", "bpe", "unigram", "wordpiece"))
        _require(4 <= self.vocab_size <= 50_000, "tokenizer.vocab_size", self.vocab_size, "in [4, 50000]")


@dataclass(frozen=True)
class DataConfig:
    train: tuple[str, ...] = ()
    """Data sets written by `asr prepare` to train on; `path*0.5` uses a random half of it in each epoch."""
    valid: tuple[str, ...] = ()
    """Data sets to validate on."""
    noise: tuple[str, ...] = ()
    """Data sets of `asr prepare noise`, mixed with the speech beside synthesized noise."""
    rooms: str = ""
    """A folder of room impulse responses; empty: `num_rooms` simulated ones."""
    num_rooms: int = 500
    lexicon: str = ""
    """A dictionary from `asr lexicon make`, or "bundled", the pronunciations of the bundled language model; adds a
    second CTC head for phones. Empty: only the tokens of the text."""
    new_tokens: bool = False
    """Adds tokens for letters of `train` that the model of `train.init` lacks; their weights are random at first.
    False refuses such letters. Only for models with tokens of kind char."""
    valid_utterances: int = 200
    """Validation uses at most this many utterances, evenly spread over `valid`."""
    max_batch_s: float = 120.0
    """Maximum audio per batch, including padding; limits the memory."""
    min_utterance_s: float = 0.3
    max_utterance_s: float = 20.0
    """Longer utterances are excluded from training (and counted)."""
    curriculum_epochs: int = 0
    """Number of initial epochs that use only utterances of at most `curriculum_s`, without augmentation. On a small
    data set, short clean examples help CTC leave the plateau where it predicts only blanks."""
    curriculum_s: float = 6.0

    def __post_init__(self) -> None:
        _require(
            0 < self.min_utterance_s < self.max_utterance_s,
            "data.min_utterance_s",
            self.min_utterance_s,
            f"above 0 and below data.max_utterance_s = {self.max_utterance_s}",
        )
        _require(
            self.max_utterance_s <= self.max_batch_s,
            "data.max_utterance_s",
            self.max_utterance_s,
            f"at most data.max_batch_s = {self.max_batch_s}, otherwise the utterance fits in no batch",
        )
        _require(self.max_utterance_s <= 600, "data.max_utterance_s", self.max_utterance_s, "at most 600 s")
        _require(self.curriculum_s > 0, "data.curriculum_s", self.curriculum_s, "above 0")
        _require_least(self, "data", 0, "curriculum_epochs")
        _require_least(self, "data", 1, "valid_utterances", "num_rooms")


@dataclass(frozen=True)
class AugmentConfig:
    """What is drawn anew each time that an utterance is used: speed, position in time, room, noise, telephone line,
    voice, microphone, level, and the masks of SpecAugment (Park et al. 2019)."""

    speeds: tuple[float, ...] = (0.9, 0.95, 1.0, 1.05, 1.1)
    """Each batch has one of these speeds."""
    room_probability: float = 0.42
    """Probability of a room with noise, at 4 to 25 dB."""
    noise_probability: float = 0.3
    """Probability of noise without a room, at 15 to 45 dB; three times as high beside silence."""
    telephone_probability: float = 0.07
    """Probability of a telephone line: 300 to 3400 Hz, G.711."""
    noise_alone: float = 0.03
    """Number of rows of noise without words per row with words."""
    join_probability: float = 0.07
    """Probability of joining an utterance with one or two others, with pauses of 0.1 to 1 s."""
    offset_probability: float = 0.5
    """Probability of up to 0.64 s before the first word, so that words have any position relative to the chunks."""
    margin_probability: float = 0.55
    """Probability of 0.1 to 1.5 s before and after the words."""
    silence_probability: float = 0.05
    """Probability of a longer silence before or after the words."""
    max_silence_s: float = 5.0
    max_gain_db: float = 10.0
    """Largest random gain, up or down. CMVN is global, so the model learns quiet microphones from data."""
    max_frequency_warp: float = 0.08
    """Largest change of the vocal tract's length, up or down: 0.1 is 10 %."""
    max_response_db: float = 4.0
    """Largest gain, up or down, of the random microphone of an utterance."""
    mask_probability: float = 0.85
    """Probability of applying SpecAugment's masks to an utterance."""
    num_freq_masks: int = 2
    max_freq_bins: int = 20
    num_time_masks: int = 12
    max_time_frames: int = 35
    max_time_fraction: float = 0.15
    """Largest fraction of an utterance that time masks may cover."""

    def __post_init__(self) -> None:
        _require(
            bool(self.speeds)
            and all(0.5 <= speed <= 2 and math.isclose(round(1000 * speed), 1000 * speed) for speed in self.speeds),
            "augment.speeds",
            self.speeds,
            "factors in [0.5, 2] with at most three decimals",
        )
        limits = {"max_freq_bins": 80, "max_frequency_warp": 0.5, "max_silence_s": 60, "noise_alone": 1}
        for name, value in dataclasses.asdict(self).items():
            if name == "speeds":
                continue
            highest = 1 if name.endswith(("probability", "fraction")) else limits.get(name)
            allowed = "at least 0" if highest is None else f"in [0, {highest}]"
            _require(value >= 0 and (highest is None or value <= highest), f"augment.{name}", value, allowed)
        both = self.room_probability + self.telephone_probability
        _require(
            both <= 1, "augment.room_probability", self.room_probability, "at most 1 - augment.telephone_probability"
        )


@dataclass(frozen=True)
class ChunkConfig:
    """Distribution of the chunk mask, drawn for each batch (dynamic chunk training, Zhang et al. 2020)."""

    full_probability: float = 0.4
    """Probability of full context."""
    sizes: tuple[int, ...] = (4, 8, 16, 32)
    left_contexts: tuple[int, ...] = (32, 64, 128, -1)
    """Encoder frames before the chunk; -1 for all."""

    def __post_init__(self) -> None:
        _require(0 <= self.full_probability <= 1, "chunk.full_probability", self.full_probability, "in [0, 1]")
        _require(all(s >= 1 for s in self.sizes), "chunk.sizes", self.sizes, "frames of at least 1")
        _require(all(c >= -1 for c in self.left_contexts), "chunk.left_contexts", self.left_contexts, "-1 or more")
        _require(
            self.full_probability == 1 or bool(self.sizes and self.left_contexts),
            "chunk.sizes",
            self.sizes,
            "non-empty (as left_contexts), unless chunk.full_probability is 1",
        )


@dataclass(frozen=True)
class LossConfig:
    ctc_weight: float = 0.3
    """Loss = ctc_weight * CTC + (1 - ctc_weight) * cross-entropy of the decoder."""
    intermediate_ctc_weight: float = 0.3
    """Share of `model.condition_layers`, or of the middle layer, in the CTC loss (Lee and Watanabe 2021)."""
    phone_weight: float = 0.5
    """Share of the phone head in the loss, if `data.lexicon` is set."""
    denominator_weight: float = 0.0
    """Weight of the sum over all phone sequences (asr.model.denominator) in the loss of the phone head; 0: CTC only."""
    label_smoothing: float = 0.1
    scheduled_sampling: float = 0.0
    """Probability of feeding the decoder its own prediction instead of the true token."""
    cr_ctc_weight: float = 0.0
    """Weight of the consistency between two augmented views (CR-CTC, Yao et al. 2024); 0: one view."""

    @property
    def num_views(self) -> int:
        """Number of augmented views of each utterance in a batch."""
        return 2 if self.cr_ctc_weight > 0 else 1

    def __post_init__(self) -> None:
        for name in (each.name for each in dataclasses.fields(self) if each.name != "cr_ctc_weight"):
            _require(0 <= getattr(self, name) <= 1, f"loss.{name}", getattr(self, name), "in [0, 1]")
        _require_least(self, "loss", 0, "cr_ctc_weight")


@dataclass(frozen=True)
class OptimConfig:
    """AdamW (Loshchilov and Hutter 2019) or Muon (Jordan et al. 2024)."""

    kind: str = "adamw"
    """adamw | muon (for the matrices of the layers; AdamW for the rest, with the same learning rate)"""
    lr: float = 1e-3
    schedule: str = "cosine"
    """noam (inverse square root) | linear | cosine | constant; each after a linear warm-up"""
    cooldown: float = 0.0
    """Share of the training, at its end, in which the rate also falls linearly to zero: with schedule constant, a run
    can be made longer until then (Hu et al. 2024, "MiniCPM")."""
    warmup_steps: int = 1000
    betas: tuple[float, float] = (0.9, 0.98)
    weight_decay: float = 0.01
    max_grad_norm: float = 5.0
    ema_decay: float = 0.999
    """Decay of the moving average of the weights, which is validated and exported."""

    def __post_init__(self) -> None:
        _require_choice("optim.kind", self.kind, ("adamw", "muon"))
        _require_choice("optim.schedule", self.schedule, ("noam", "linear", "cosine", "constant"))
        _require(0 <= self.cooldown <= 1, "optim.cooldown", self.cooldown, "in [0, 1]")
        _require(self.lr > 0, "optim.lr", self.lr, "above 0")
        _require_least(self, "optim", 0, "warmup_steps", "weight_decay")
        _require(all(0 <= beta < 1 for beta in self.betas), "optim.betas", self.betas, "two numbers in [0, 1)")
        _require(self.max_grad_norm > 0, "optim.max_grad_norm", self.max_grad_norm, "above 0")
        _require(0 <= self.ema_decay < 1, "optim.ema_decay", self.ema_decay, "in [0, 1)")


@dataclass(frozen=True)
class TrainConfig:
    output: str = "runs/asr"
    seed: int = 1
    max_steps: int = 50_000
    minutes: float = 0.0
    """Above 0: training ends after this many minutes over all its sessions, in place of `max_steps`, and the learning
    rate falls with them."""
    batches_per_step: int = 0
    """Batches per optimizer step over all processes; 0: one per process. Equal numbers give equal training anywhere."""
    valid_every: int = 1000
    patience: int = 0
    """Training stops after this many validations without improvement; 0, or without `data.valid`: only at
    `max_steps`."""
    save_every: int = 200
    log_every: int = 20
    """Steps averaged into one point of the curves. Reading a value waits for the device, so not every step is read."""
    keep_checkpoints: int = 2
    precision: str = "bf16"
    """bf16 | fp32; bf16 computes in fp32 on a CPU without instructions for it."""
    device: str = "auto"
    """auto | cpu | cuda"""
    init: str = ""
    """Weights to start from, with a new optimizer: the folder of a run, a checkpoint, a .safetensors file, or
    "bundled", the model in the package."""

    def __post_init__(self) -> None:
        _require(0 <= self.seed < 2**63, "train.seed", self.seed, "in [0, 2^63)")
        _require_choice("train.precision", self.precision, ("bf16", "fp32"))
        _require_choice("train.device", self.device, ("auto", "cpu", "cuda"))
        _require_least(self, "train", 1, "max_steps", "valid_every", "save_every", "log_every", "keep_checkpoints")
        _require_least(self, "train", 0, "minutes", "patience", "batches_per_step")


@dataclass(frozen=True)
class Recipe:
    """What the recipes of all tasks have; the subclass of a task has the types of its sections.

    Attributes:
        TASK: the class of `asr.training.task.Task` that trains with it, as "module:class".
    """

    if TYPE_CHECKING:  # sections of the subclasses
        model: Any = None
        tokenizer: Any = None
        data: Any = None
    TASK: ClassVar[str]
    task: str = ""
    optim: OptimConfig = field(default_factory=OptimConfig)
    train: TrainConfig = field(default_factory=TrainConfig)

    @property
    def batch(self) -> tuple[str, float]:
        """The setting that limits the memory of a batch, and its value."""
        raise NotImplementedError

    def to_dict(self) -> dict[str, Any]:
        return dataclasses.asdict(self)


@dataclass(frozen=True)
class Config(Recipe):
    """The recipe of a recognizer."""

    TASK = "asr.training.recognizer:Recognizer"
    task: str = "recognizer"
    model: ModelConfig = field(default_factory=ModelConfig)
    tokenizer: TokenizerConfig = field(default_factory=TokenizerConfig)
    data: DataConfig = field(default_factory=DataConfig)
    augment: AugmentConfig = field(default_factory=AugmentConfig)
    chunk: ChunkConfig = field(default_factory=ChunkConfig)
    loss: LossConfig = field(default_factory=LossConfig)

    @property
    def batch(self) -> tuple[str, float]:
        return "data.max_batch_s", self.data.max_batch_s


@dataclass(frozen=True)
class TextData:
    """Text to train on, for the tasks that read text."""

    train: tuple[str, ...] = ()
    """Text files."""
    rows: int = 96
    """Rows of a batch."""
    length: int = 128
    """Length of a row, in word pieces or words."""

    def __post_init__(self) -> None:
        _require_least(self, "data", 1, "rows", "length")

    def require_text(self) -> None:
        """Raises ConfigError if there is no text to train on."""
        _require(bool(self.train), "data.train", list(self.train), "one text file or more")
