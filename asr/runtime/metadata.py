"""Metadata of an exported model: the schema that export writes and every runtime reads.

It is in the `metadata_props` of the .onnx file (the "custom metadata map" of ONNX Runtime in every language), as flat
strings: numbers in decimal, booleans as `true` and `false`, tokens one per line, objects as JSON. So one file is all
that an app needs.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from functools import cached_property
from typing import Any

from asr import _core
from asr._core import CALIBRATION, FORMAT_VERSION, StateTensor
from asr.features import (
    FEATURE_OVERLAP,
    FRAME_LENGTH_S,
    FRAME_SHIFT_S,
    HIGH_FREQ_HZ,
    LOW_FREQ_HZ,
    NUM_MEL_BINS,
    PREEMPHASIS,
    SAMPLE_RATE,
    SUBSAMPLING,
    WINDOW,
)
from asr.lexicon.phones import num_phone_tokens

MODEL_TYPE = "asr_stream"
QUANTIZATIONS = ("none", "int8")

EXPORT_AGAIN = "get the file again, or write it again with `asr export`"
"""The remedy for a file that cannot be used."""


class MetadataError(ValueError):
    """Metadata is missing, damaged or of another version."""


def _calibration(key: str) -> tuple[float, ...]:
    return tuple(CALIBRATION[key].values())


@dataclass(frozen=True)
class ModelMetadata:
    """All that a runtime must know besides the graph. Sizes are in encoder frames of 40 ms."""

    tokens: tuple[str, ...]
    """Spelling of every token id: 0 is the CTC blank; "▁" marks the beginning of a word (see asr.text)."""
    num_layers: int
    """Layers of the encoder."""
    dim: int
    """Width of the encoder: the last axis of `encoder_out`."""
    states: tuple[str, ...] = ()
    """The tensors that a stream carries between encoder steps, each in the form of `StateTensor`: name, type, and
    sizes, with N for the batch and C for the left context."""
    default_chunk_size: int = 16
    default_left_context: int = 64
    phones: tuple[str, ...] = ()
    """Names of the phones of `phone_log_probs`. Its token ids are 0 for the CTC blank, 1 + 2i for phone i at the
    beginning of a word, and 2 + 2i for phone i inside a word. Empty for a model without phones."""
    rescore_ctc_weight: float = 0.7
    """The score of a hypothesis is weight * CTC log-probability + (1 - weight) * decoder score. Tuned for the bundled
    models on `dev`, like asr.runtime.search.LmWeights."""
    quantization: str = "none"
    """none | int8"""
    license: str = ""
    """SPDX identifier of the weights' license; empty if not stated."""
    language: str = ""
    """Language of the model, a BCP 47 code such as "en" or "de-CH"; empty if not stated."""
    confidence_with_lm: tuple[float, ...] = _calibration("confidence_with_lm")
    """bias, least, mean: the log odds that a word is right are bias + least * its least certain token + mean * the mean
    of its tokens. csrc/calibration.h describes this and the next 7; the defaults are those of the bundled models."""
    confidence_without_lm: tuple[float, ...] = _calibration("confidence_without_lm")
    confidence_with_phones: tuple[float, ...] = _calibration("confidence_with_phones")
    confidence_with_posteriors: tuple[float, ...] = _calibration("confidence_with_posteriors")
    """bias, least, mean, posterior; the last is the factor of the log odds of the word's posterior."""
    endpoint_with_punctuation: tuple[float, ...] = _calibration("endpoint_with_punctuation")
    """base_s, per_nat_s, per_log_odds_s, few_words_s, per_pause: the silence that ends an utterance."""
    endpoint_without_punctuation: tuple[float, ...] = _calibration("endpoint_without_punctuation")
    lm_weights: tuple[float, ...] = _calibration("lm_weights")
    """Defaults of the options lm_weight, lm_word_bonus, lm_oov_penalty, lm_prior_weight."""
    neural_lm_weights: tuple[float, ...] = _calibration("neural_lm_weights")
    """weight, word_bonus: of the neural language model in a search without n-grams. Files without one of these eight
    have the values of the bundled models."""
    cmvn_mean: tuple[float, ...] = ()
    """(num_mel_bins,), for information: the graph contains the normalization."""
    cmvn_std: tuple[float, ...] = ()
    config: dict[str, Any] = field(default_factory=dict)
    """The configuration that the model was trained with."""
    training: dict[str, Any] = field(default_factory=dict)
    """Summary of the training: steps, hours of audio, last error rates of words or of phones, data."""

    # The front end and the strides, as defined in asr.features.
    sample_rate: int = SAMPLE_RATE
    num_mel_bins: int = NUM_MEL_BINS
    frame_length_ms: float = FRAME_LENGTH_S * 1000
    frame_shift_ms: float = FRAME_SHIFT_S * 1000
    low_freq: float = LOW_FREQ_HZ
    high_freq: float = HIGH_FREQ_HZ
    preemphasis: float = PREEMPHASIS
    window: str = WINDOW
    snip_edges: bool = False
    remove_dc_offset: bool = True
    dither: float = 0.0
    subsampling: int = SUBSAMPLING
    """Feature frames per encoder frame."""
    feature_overlap: int = FEATURE_OVERLAP
    """A chunk of c frames takes subsampling * c + feature_overlap feature frames; the next chunk starts subsampling * c
    frames later."""

    def __post_init__(self) -> None:
        _ = self.core  # checks what every runtime reads
        _require(self.quantization in QUANTIZATIONS, "quantization", self.quantization, f"one of {QUANTIZATIONS}")
        for name in ("cmvn_mean", "cmvn_std"):
            value, size = getattr(self, name), self.num_mel_bins
            _require(len(value) in (0, size), name, f"{len(value)} numbers", f"0 or {size}")
            _require(all(map(math.isfinite, value)), name, value, "finite numbers")

    @cached_property
    def core(self) -> _core.ModelMetadata:
        """As the C++ core reads it. Raises MetadataError for a value that it refuses."""
        try:
            return _core.ModelMetadata(self.to_properties())
        except ValueError as error:
            raise MetadataError(str(error)) from error

    @property
    def state_tensors(self) -> tuple[StateTensor, ...]:
        """`states`, parsed."""
        return tuple(StateTensor(row) for row in self.states)

    @property
    def vocab_size(self) -> int:
        return len(self.tokens)

    @property
    def num_phone_tokens(self) -> int:
        """Size of the last axis of `phone_log_probs`; 0 without phones."""
        return num_phone_tokens(self.phones) if self.phones else 0

    def to_properties(self) -> dict[str, str]:
        """The strings for `metadata_props`."""
        values = {"model_type": MODEL_TYPE, "format_version": str(FORMAT_VERSION)}
        for f in fields(self):
            values[f.name] = _CODECS[str(f.type)][0](getattr(self, f.name))
        return values

    @staticmethod
    def from_properties(properties: Mapping[str, str]) -> ModelMetadata:
        """Inverse of `to_properties`; ignores unknown keys.

        Raises MetadataError, with the key and what to do, if one is missing, damaged or of another version.
        """
        found = properties.get("model_type")
        if found != MODEL_TYPE:
            raise MetadataError(
                f"metadata key model_type is {found!r}, not {MODEL_TYPE!r}: this is not an asr-stream model; "
                "`asr export` writes one"
            )
        version = properties.get("format_version")
        if version != str(FORMAT_VERSION):
            raise MetadataError(
                f"metadata key format_version is {version!r}; this release reads {FORMAT_VERSION}: "
                "update asr-stream, or write the file again with this release's `asr export`"
            )
        values: dict[str, Any] = {}
        for f in fields(ModelMetadata):
            text = properties.get(f.name)
            if text is None and f.name in CALIBRATION:
                continue
            if text is None:
                raise MetadataError(f"metadata key {f.name} is missing: {EXPORT_AGAIN}")
            try:
                values[f.name] = _CODECS[str(f.type)][1](text)
            except (ValueError, RecursionError) as error:
                raise MetadataError(f"metadata key {f.name} is damaged ({text!r:.60}): {EXPORT_AGAIN}") from error
        return ModelMetadata(**values)


def _require(condition: bool, name: str, value: object, allowed: str) -> None:
    if not condition:
        raise MetadataError(f"metadata key {name} is {value!r:.60}, it must be {allowed}: {EXPORT_AGAIN}")


def _to_float(text: str) -> float:
    value = float(text)
    if not math.isfinite(value):
        raise ValueError(text)
    return value


def _to_bool(text: str) -> bool:
    if text not in ("true", "false"):
        raise ValueError(text)
    return text == "true"


def _to_floats(text: str) -> tuple[float, ...]:
    return tuple(_to_float(part) for part in text.split(",")) if text else ()


def _to_object(text: str) -> dict[str, Any]:
    value = json.loads(text, parse_float=_to_float, parse_constant=_to_float)  # NaN and Infinity are not JSON
    if not isinstance(value, dict):
        raise ValueError(text)
    return value


_NAMES = [field.name for field in fields(ModelMetadata)]
FRONT_END = tuple(_NAMES[_NAMES.index("sample_rate") :])
"""Fields whose only supported value is their default."""

# Conversion of a field of each type to a string and back.
_CODECS: dict[str, tuple[Callable[[Any], str], Callable[[str], Any]]] = {
    "int": (str, int),
    "float": (repr, _to_float),
    "bool": (lambda value: str(value).lower(), _to_bool),
    "str": (str, str),
    "tuple[str, ...]": ("\n".join, lambda text: tuple(text.split("\n")) if text else ()),
    "tuple[float, ...]": (lambda value: ",".join(map(repr, value)), _to_floats),
    "dict[str, Any]": (lambda value: json.dumps(value, ensure_ascii=False, allow_nan=False), _to_object),
}
