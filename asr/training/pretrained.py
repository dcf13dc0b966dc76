"""A trained network to start from, average, evaluate or export: the result of a training run.

It is one .safetensors file, which contains neither code nor the optimizer's state. Its header has the configuration,
the tokens, a summary of the training, the license and a checksum as JSON.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save
from torch import Tensor, nn

from asr.config import Config, ModelConfig
from asr.files import replacing
from asr.model.model import AsrModel, with_vocab
from asr.recipe import network_config
from asr.tokenizer import Tokenizer

FORMAT_VERSION = 1
HEADER = "asr_stream"
"""The metadata entry with the header as JSON."""
ERROR_RATES = {"WER": "wer", "PER": "phone_error_rate"}
"""Keys of the last error rates in the summary of a training: word errors, or phone errors if the model has phones."""


class CheckpointError(ValueError):
    """A file does not contain trained weights."""


@dataclass(frozen=True)
class Pretrained:
    config: Config
    """The configuration of its training."""
    tokenizer: Tokenizer
    weights: dict[str, Tensor]
    """Keyed as in `AsrModel.state_dict`, float32."""
    training: dict[str, Any] = field(default_factory=dict)
    """Summary of the training, also in exported models: `steps`, `audio_hours`, one of ERROR_RATES, `data`, `torch`."""
    license: str = ""
    """The license of the weights, an SPDX identifier."""

    @property
    def phones(self) -> tuple[str, ...]:
        """Names of the phones of its phone head; empty without one."""
        return self.config.model.phones

    @property
    def model_config(self) -> ModelConfig:
        return with_vocab(self.config.model, self.tokenizer.vocab_size)

    def model(self) -> AsrModel:
        """The network in evaluation mode."""
        model = AsrModel(self.model_config)
        model.load_state_dict(self.weights)
        return model.eval()

    def check(self) -> None:
        """Raises ValueError unless the weights are those of the network."""
        with torch.device("meta"):  # shapes without memory
            network = AsrModel(self.model_config)
        check_weights(self.weights, network)

    def save(self, path: Path) -> None:
        """Writes a .safetensors file atomically, in float16 if that is exact. Raises OSError."""
        stored = {}
        for name, value in self.weights.items():
            half = value.half()
            stored[name] = (half if torch.equal(half.float(), value) else value).contiguous()
        header = {
            "format_version": FORMAT_VERSION,
            "config": self.config.to_dict(),
            "tokenizer": self.tokenizer.to_dict(),
            "training": self.training,
            "license": self.license,
        }
        header["checksum"] = _checksum(header, stored)
        data = save(stored, {HEADER: json.dumps(header)})  # a single entry, because the order of several is not fixed
        with replacing(path, durable=True) as part:
            part.write_bytes(data)

    @staticmethod
    def load(path: Path) -> Pretrained:
        """Reads a .safetensors file. Raises CheckpointError with its name and the reason."""
        try:
            with safe_open(path, "pt") as file:
                header = json.loads((file.metadata() or {}).get(HEADER, "{}"))
                stored = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
        except OSError as error:
            raise CheckpointError(f"cannot read weights {path}: {error.strerror or error}") from error
        except (SafetensorError, ValueError, RecursionError) as error:
            raise CheckpointError(f"{path} is not an asr-stream safetensors file, or it is damaged: {error}") from error
        try:
            if header.pop("format_version", None) != FORMAT_VERSION:
                raise ValueError(f"this version reads weights of format {FORMAT_VERSION}")
            if header.pop("checksum", None) != _checksum(header, stored):
                raise ValueError("it is damaged: its checksum does not match its content")
            loaded = Pretrained(
                network_config(header["config"]),
                Tokenizer.from_dict(header["tokenizer"]),
                {name: value.float() for name, value in stored.items()},
                dict(header["training"]),
                str(header["license"]),
            )
            loaded.check()
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            raise CheckpointError(f"{path} has no usable asr-stream weights: {error}") from error
        return loaded


def _checksum(header: dict[str, Any], tensors: dict[str, Tensor]) -> str:
    """SHA-256 over the header without `format_version` and `checksum`, and over the tensors."""
    kept = {name: header[name] for name in sorted(header.keys() - {"format_version"})}
    digest = hashlib.sha256(json.dumps(kept).encode())
    for name in sorted(tensors):
        digest.update(f"{name} {tensors[name].dtype} {tuple(tensors[name].shape)}".encode())
        digest.update(tensors[name].numpy().tobytes())
    return digest.hexdigest()


def check_weights(weights: dict[str, Tensor], network: nn.Module) -> None:
    """Raises ValueError unless `weights` are finite and exactly those of `network`, whose values do not matter."""
    expected = {name: value.shape for name, value in network.state_dict().items()}
    odd = sorted({name for name, _ in expected.items() ^ {name: w.shape for name, w in weights.items()}.items()})
    if odd:
        raise ValueError(f"weights that do not match its configuration: {', '.join(odd[:3])}")
    if damaged := [name for name, value in weights.items() if not value.isfinite().all()]:
        raise ValueError(
            f"weights that are not finite numbers, in {', '.join(damaged[:3])}: take an earlier checkpoint, and "
            "continue with a lower optim.lr"
        )


def with_new_tokens(pretrained: Pretrained, letters: Iterable[str]) -> Pretrained:
    """The same model with these letters as additional tokens, whose weights are random.

    Raises ValueError for a model whose tokens are not letters.
    """
    tokenizer = pretrained.tokenizer
    if tokenizer.kind != "char":
        raise ValueError(f"data.new_tokens adds letters, but the model of train.init writes {tokenizer.kind} tokens")
    tokenizer = Tokenizer("char", (*tokenizer.tokens, *letters))
    weights = AsrModel(with_vocab(pretrained.config.model, tokenizer.vocab_size)).state_dict()
    for name, value in pretrained.weights.items():
        weights[name][tuple(map(slice, value.shape))] = value  # existing tokens come first
    return replace(pretrained, tokenizer=tokenizer, weights=weights)


def with_new_layers(pretrained: Pretrained, num_layers: int) -> Pretrained:
    """The same function computed by an encoder of `num_layers` layers, at least as many as it has.

    The new layers are spread evenly above the last of `condition_layers`, which keep their numbers. Each is a copy of
    the layer below it with zero output projections, so that it adds nothing until it is trained (Chen et al. 2016,
    "Net2Net").
    Raises ValueError for post-norm, where new layers would change the function.
    """
    shape = pretrained.config.model
    if shape.norm != "pre":
        raise ValueError(f"model.norm is {shape.norm!r}: only an encoder with model.norm=pre can grow new layers")
    fixed = max(shape.condition_layers, default=0)
    had, wanted = shape.encoder_layers - fixed, num_layers - fixed
    kept = {*range(fixed), *(fixed + (layer + 1) * wanted // had - 1 for layer in range(had))}
    prefix = "encoder.layers."
    weights = {name: value for name, value in pretrained.weights.items() if not name.startswith(prefix)}
    source = -1
    for new in range(num_layers):
        added = new not in kept
        source += not added
        old = f"{prefix}{max(source, 0)}."
        for name in [name for name in pretrained.weights if name.startswith(old)]:
            silent = added and name.removeprefix(old).startswith(("attention.out.", "feed_forward.down."))
            value = pretrained.weights[name]
            weights[f"{prefix}{new}.{name.removeprefix(old)}"] = torch.zeros_like(value) if silent else value.clone()
    grown = replace(pretrained.config, model=replace(shape, encoder_layers=num_layers))
    return replace(pretrained, config=grown, weights=weights)
