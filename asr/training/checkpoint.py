"""Checkpoints: one file with the whole state of a training run, which an interruption never damages.

A checkpoint is written under a temporary name, synced, and renamed. It is loaded with `weights_only=True`, so an
untrusted file cannot run code.
"""

from __future__ import annotations

import dataclasses
import re
import zipfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

import torch
from torch import Tensor

from asr.config import Config, Recipe, TokenizerConfig
from asr.files import replacing
from asr.recipe import recipe_of
from asr.tokenizer import Tokenizer
from asr.training.exported import BUNDLED, load_exported
from asr.training.pretrained import ERROR_RATES, CheckpointError, Pretrained, check_weights
from asr.training.task import build_network, task_class

FORMAT_VERSION = 1
_NAME = re.compile(r"checkpoint-(\d+)\.pt")


@dataclass
class Checkpoint:
    config: Recipe
    tokenizer: Tokenizer | None
    """None for a task without tokens."""
    weights: dict[str, Tensor]
    """The weights as trained."""
    average: dict[str, Tensor]
    """Their moving average, which is evaluated and exported."""
    training: dict[str, Any]
    """State for resuming (optimizer, position in the data) and a summary of the training so far."""
    extra: dict[str, Any] = field(default_factory=dict)
    """Plain values of the task; see `asr.training.task.Task`."""

    @property
    def required_tokenizer(self) -> Tokenizer:
        """Raises CheckpointError for a task without a tokenizer."""
        if self.tokenizer is None:
            raise CheckpointError(f"a checkpoint of {self.config.task} has no tokenizer")
        return self.tokenizer

    @property
    def phones(self) -> tuple[str, ...]:
        """Names of the phones of a recognizer's phone head; empty without one."""
        return self.config.model.phones if isinstance(self.config, Config) else ()

    def of(self, recipe: type[Recipe], path: str | Path) -> Checkpoint:
        """This checkpoint. Raises CheckpointError with `path`, its file, if it belongs to another task."""
        if not isinstance(self.config, recipe):
            raise CheckpointError(f"{path} is a checkpoint of {self.config.task}, not of {recipe.task}")
        return self

    def network(self) -> Any:
        """The network of its task with the moving average, in evaluation mode."""
        network = build_network(self.config, self.tokenizer)
        network.load_state_dict(self.average)
        return network.eval()

    def pretrained(self, path: str | Path = "the checkpoint") -> Pretrained:
        """The moving average of a recognizer, with the summary of its training.

        Raises CheckpointError with `path`, its file, for another task or a damaged summary.
        """
        config = cast(Config, self.of(Config, path).config)
        return Pretrained(config, self.required_tokenizer, self.average, self.summary(path))

    def summary(self, path: str | Path = "the checkpoint") -> dict[str, Any]:
        """A summary of the training, for exported files. Raises CheckpointError with `path` if it is damaged."""
        try:
            unit = task_class(self.config).unit.name
            scores = {
                ERROR_RATES.get(each["name"], each["name"].lower().replace(" ", "_")): {
                    str(key): round(float(value), 4) for key, value in each["values"].items()
                }
                for each in self.training.get("history", [])[-1:]
            }
            return {
                "steps": int(self.training.get("step", 0)),
                unit: round(float(self.training.get(unit, 0.0)), 2),
                **scores,
                "data": [Path(name).name for name in self.config.data.train],
                "torch": torch.__version__.split("+")[0],
            }
        except (AttributeError, LookupError, RuntimeError, TypeError, ValueError) as error:
            raise CheckpointError(
                f"the summary of the training in {path} is damaged ({error}): take another checkpoint of the run"
            ) from error

    def save(self, path: Path) -> None:
        """Writes atomically: `path` has its former content or all of the new one. Raises OSError on failure."""
        values = {"format_version": FORMAT_VERSION, **vars(self), "config": self.config.to_dict()}
        values["tokenizer"] = self.tokenizer and self.tokenizer.to_dict()
        write_values(path, values)

    @staticmethod
    def load(path: str | Path) -> Checkpoint:
        """Reads a checkpoint. Raises CheckpointError with the file and the reason."""
        values = read_values(path)
        if not isinstance(values, dict) or "format_version" not in values:
            raise CheckpointError(f"{path} is not a checkpoint of `asr train`")
        if (found := values.pop("format_version")) != FORMAT_VERSION:
            raise CheckpointError(f"{path} has checkpoint format {found!r}; this version reads format {FORMAT_VERSION}")
        try:
            values["config"] = recipe_of(values["config"])
            values["tokenizer"] = values["tokenizer"] and Tokenizer.from_dict(values["tokenizer"])
            checkpoint = Checkpoint(**values)
            checkpoint.check()
        except (AttributeError, KeyError, RuntimeError, TypeError, ValueError) as error:
            reason = str(error).splitlines()[0]
            raise CheckpointError(f"{path} is not an asr-stream checkpoint, or it is damaged: {reason}") from error
        return checkpoint

    def save_step(self, folder: Path, keep: int) -> None:
        """Saves the checkpoint of its step in the folder of a run and keeps only the newest `keep` checkpoints.

        At any moment the folder has a complete newest checkpoint. Only one process may write at a time.
        """
        self.save(checkpoint_path(folder, self.training["step"]))
        for old in checkpoints(folder)[:-keep]:
            old.unlink()
        for part in folder.glob("*.pt.part"):  # left by a killed process
            part.unlink()

    def check(self) -> None:
        """Raises ValueError if the parts do not fit together."""
        task_class(self.config)  # imports modules, some of which make tensors
        with torch.device("meta"):  # shapes without memory
            network = build_network(self.config, self.tokenizer)
        for weights in (self.weights, self.average):
            check_weights(weights, network)
        if not isinstance(self.training, dict) or not isinstance(self.extra, dict):
            raise ValueError("the state of its training is not a dictionary")


def write_values(path: Path, values: dict[str, Any]) -> None:
    """Writes a PyTorch file atomically, and syncs it. Raises OSError on failure."""
    try:
        with replacing(path, durable=True) as part, open(part, "wb") as file:
            torch.save(values, file)
    except (OSError, RuntimeError) as error:  # PyTorch reports a full disk as RuntimeError
        cause = error.__context__ if isinstance(error.__context__, OSError) else error
        raise OSError(f"cannot write {path}: {getattr(cause, 'strerror', None) or error}") from error


def read_values(path: str | Path) -> Any:
    """The values of a PyTorch file. Raises CheckpointError, with its name, if it is not one or is damaged."""
    try:
        with zipfile.ZipFile(path) as archive:
            damaged = archive.testzip()  # PyTorch writes checksums but does not check them
    except OSError as error:
        raise CheckpointError(f"cannot read checkpoint {path}: {error.strerror or error}") from error
    except Exception as error:  # zipfile raises many types for damaged files
        raise CheckpointError(f"{path} is not a checkpoint, or it is damaged: {error}") from error
    if damaged:
        raise CheckpointError(f"{path} is damaged: {damaged} in it does not have the checksum that was written")
    try:
        return torch.load(path, map_location="cpu", weights_only=True)
    except OSError as error:
        raise CheckpointError(f"cannot read checkpoint {path}: {error.strerror or error}") from error
    except Exception:  # torch.load raises many types, some with the advice to run the code in the file
        raise CheckpointError(
            f"{path} is not a checkpoint of asr-stream, or it is damaged: it must hold only tensors and plain "
            "values, because other objects of Python could run code when they are read"
        ) from None


def task_of(source: str | Path) -> str:
    """The task of a checkpoint or of the folder of a run, for the choice of its reader, which reports errors."""
    try:
        values = torch.load(resolve(source), map_location="cpu", weights_only=True, mmap=True)
        return str(values["config"].get("task", Config.task))
    except Exception:  # also for files that are no checkpoints, such as weights of a recognizer
        return Config.task


def checkpoints(folder: Path) -> list[Path]:
    """The checkpoints of a training run, oldest first."""
    found = [(int(match[1]), path) for path in folder.glob("checkpoint-*.pt") if (match := _NAME.fullmatch(path.name))]
    return [path for _, path in sorted(found)]


def checkpoint_path(folder: Path, step: int) -> Path:
    return folder / f"checkpoint-{step}.pt"


def resolve(path: str | Path) -> Path:
    """A checkpoint file, or the newest one in the folder of a training run (`best.pt` if it exists)."""
    path = Path(path)
    if not path.is_dir():
        return path
    if (path / "best.pt").is_file():
        return path / "best.pt"
    found = checkpoints(path)
    if not found:
        raise CheckpointError(f"{path} has no checkpoint")
    return found[-1]


def load_pretrained(source: str | Path) -> Pretrained:
    """Loads `source`: "bundled", a .safetensors file, a float32 .onnx file, a checkpoint, or the folder of a run (its
    best checkpoint).

    Raises CheckpointError if it is none of these.
    """
    path = BUNDLED if str(source) == "bundled" else resolve(source)
    if path.suffix == ".safetensors":
        return Pretrained.load(path)
    if path.suffix == ".onnx":
        return load_exported(path)
    return Checkpoint.load(path).pretrained(path)


def average_newest(folder: str | Path, count: int) -> Checkpoint:
    """The newest checkpoint of a run, with the mean of the weights of the run's newest `count` as its average.

    It averages the weights as trained (Vaswani et al. 2017); the mean of the moving averages would only lag more.
    Raises CheckpointError if there are fewer checkpoints, or if they differ in network or tokens, or if they are of
    another task.
    """
    folder = Path(folder)
    if not folder.is_dir():
        raise CheckpointError(f"{folder} is not the folder of a training run with checkpoints to average")
    found = checkpoints(folder)
    if not found:
        raise CheckpointError(f"{folder} has no checkpoint")
    if not 1 <= count <= len(found):
        raise CheckpointError(
            f"cannot average {count} checkpoints of {folder}, which has {len(found)}: "
            f"choose 1 to {len(found)}, or train with a larger train.keep_checkpoints"
        )
    newest = Checkpoint.load(found[-1]).of(Config, found[-1])
    mean = {name: value.clone() for name, value in newest.weights.items()}
    for number, path in enumerate(reversed(found[-count:-1]), 2):
        other = Checkpoint.load(path)
        check_same_network(other, newest, str(path), str(found[-1]))
        for name, value in other.weights.items():
            mean[name].lerp_(value, 1 / number)
    # Validation errors are dropped, because they were not measured for the mean.
    return dataclasses.replace(newest, average=mean, training={**newest.training, "history": []})


def check_same_network(
    other: Checkpoint | Pretrained, first: Checkpoint | Pretrained, path: str, first_path: str
) -> None:
    """Raises CheckpointError unless the weights of both can be averaged."""
    check_shape(other.config, first.config, path)
    if other.tokenizer != first.tokenizer or other.phones != first.phones:
        what = "tokens" if other.tokenizer != first.tokenizer else "phones"
        raise CheckpointError(f"{path} has different {what} than {first_path}: they cannot be averaged")


def check_tokens(tokenizer: Tokenizer, trained: TokenizerConfig, config: TokenizerConfig, source: str) -> None:
    """Raises CheckpointError if `config` describes other tokens than those of weights from `source`, `tokenizer`,
    which `trained` described."""
    kind = tokenizer.kind
    theirs = {"kind": kind} if kind == "char" else {"kind": kind, "vocab_size": trained.vocab_size}
    differing = {name: value for name, value in theirs.items() if getattr(config, name) != value}
    if differing:
        there = "; ".join(f"tokenizer.{n} is {v!r} there, {getattr(config, n)!r} here" for n, v in differing.items())
        keeping = " ".join(f"tokenizer.{name}={value}" for name, value in differing.items())
        raise CheckpointError(
            f"the weights of {source} have other tokens than this configuration: {there}. Keep theirs with "
            f"{keeping}, or train a new model in another train.output, without train.init"
        )


def check_shape(trained: Recipe, config: Recipe, source: str) -> None:
    """Raises CheckpointError if the weights belong to another network than `config` describes."""
    theirs, ours = trained.model, config.model
    differing = [
        f"model.{field.name} is {getattr(theirs, field.name)!r} there, {getattr(ours, field.name)!r} here"
        for field in dataclasses.fields(ours)
        if field.name not in ("dropout", "vocab_size", "phones", "num_pieces")
        and getattr(ours, field.name) != getattr(theirs, field.name)
        and not (field.name == "running_mean" and ours.running_mean)  # a missing running mean starts at zero
    ]
    if differing:
        raise CheckpointError(f"the weights of {source} do not fit this configuration: {'; '.join(differing)}")
