"""Recipes: a YAML file of sections and keys, with `section.key=value` overrides, read into the dataclasses of its task.

An unknown key is an error that names the nearest known one.
"""

from __future__ import annotations

import contextlib
import dataclasses
import difflib
import math
import os
import typing
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml

from asr.config import Config, ConfigError, Recipe, shown
from asr.neural_lm.config import NeuralLmRecipe
from asr.punctuation.config import PunctuationRecipe

TASKS: dict[str, type[Recipe]] = {each.task: each for each in (Config, NeuralLmRecipe, PunctuationRecipe)}
"""What `asr train` trains: the values of `task`."""
RECIPES = Path(__file__).parent / "recipes"
"""Folder of the bundled recipes."""

T = typing.TypeVar("T")


class _UniqueKeys(yaml.SafeLoader):
    """PyYAML silently takes the last of equal keys, which YAML 1.2 (section 3.2.1.3) forbids."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        seen: set[str] = set()
        for key, _ in node.value:
            if isinstance(key, yaml.ScalarNode) and key.value in seen:
                message = f"the key {shown(key.value)} is in this section twice"
                raise yaml.constructor.ConstructorError(None, None, message, key.start_mark)
            seen.add(str(key.value))
        return super().construct_mapping(node, deep)


def from_dict(cls: type[T], values: Mapping[str, Any], where: str = "") -> T:
    """Builds the frozen dataclass `cls` from plain values. Raises ConfigError for an unknown key or a wrong type."""
    if not isinstance(values, Mapping):
        raise ConfigError(f"{where or 'the configuration'} must be a mapping of keys, not {type(values).__name__}")
    hints = typing.get_type_hints(cls)
    known = {f.name for f in dataclasses.fields(cls)}  # type: ignore[arg-type]
    kwargs = {}
    for key, value in values.items():
        name = f"{where}.{key}" if where else str(key)
        if key not in known:
            raise ConfigError(f"unknown key {name!r}{_nearest(str(key), known, where)}")
        hint = hints[key]
        is_section = isinstance(hint, type) and dataclasses.is_dataclass(hint)
        kwargs[key] = from_dict(hint, value, name) if is_section else _convert(name, value, hint)
    return cls(**kwargs)


def recipe_of(values: Mapping[str, Any]) -> Recipe:
    """A recipe from its plain values, of the class of its task; without `task` that of a recognizer."""
    task = values.get("task", Config.task) if isinstance(values, Mapping) else Config.task
    if task not in TASKS:
        raise ConfigError(f"task = {shown(task)} is not allowed: it must be one of {', '.join(TASKS)}")
    return from_dict(TASKS[task], values)


def network_config(values: Mapping[str, Any]) -> Config:
    """A stored configuration; only its network and its tokens if its training has keys of another version."""
    try:
        return from_dict(Config, values)
    except ConfigError:
        return from_dict(Config, {name: values[name] for name in ("model", "tokenizer")})


def load_config(source: str | Path, overrides: Sequence[str] = ()) -> Config:
    """Like `load_recipe`, for a recognizer. Raises ConfigError for another task."""
    recipe = load_recipe(source, overrides)
    if not isinstance(recipe, Config):
        raise ConfigError(f"{source} is a recipe for {recipe.task}, not for {Config.task}")
    return recipe


def load_recipe(source: str | Path, overrides: Sequence[str] = ()) -> Recipe:
    """Reads a YAML file or a bundled recipe, and applies `section.key=value` overrides."""
    path = Path(source)
    if not path.is_file() and (RECIPES / f"{source}.yaml").is_file():
        path = RECIPES / f"{source}.yaml"
    if not path.is_file():
        names = ", ".join(sorted(p.stem for p in RECIPES.glob("*.yaml")))
        raise ConfigError(f"no configuration file {str(source)!r}, and no bundled recipe of that name ({names})")
    what = f"{path} is not a YAML file"
    try:
        values = yaml.load(path.read_text(encoding="utf-8"), _UniqueKeys) or {}
        if not isinstance(values, dict):
            raise ConfigError(f"{path} must contain sections of keys, not a single {type(values).__name__}")
        for override in overrides:
            key, separator, text = override.partition("=")
            if not separator or not key:
                raise ConfigError(f"{override!r} is not an override: write section.key=value")
            what = f"the value of {override!r} is not YAML"
            _set(values, key.split("."), yaml.load(text, _UniqueKeys) if text else "", key)  # empty: no text, not None
    except (yaml.YAMLError, UnicodeDecodeError, RecursionError) as error:
        raise ConfigError(f"{what}: {error}") from error
    return recipe_of(values)


def _set(values: dict[str, Any], keys: list[str], value: Any, name: str) -> None:
    for key in keys[:-1]:
        values = values.setdefault(key, {})
        if not isinstance(values, dict):
            raise ConfigError(f"{name}: {key} is not a section")
    values[keys[-1]] = value


def _nearest(key: str, known: set[str], where: str) -> str:
    close = difflib.get_close_matches(key, known, n=1, cutoff=0.4)
    if not close:
        return f"; known keys: {', '.join(sorted(known))}"
    return f"; did you mean {(f'{where}.{close[0]}' if where else close[0])!r}?"


def _convert(name: str, value: Any, hint: Any) -> Any:
    """Converts `value` to the field's type, without guessing: 1 is a float, "1" is not; unquoted 1e-3 in YAML is.

    A text that begins with "~" is a path: a shell does not expand it in `train.output=~/run`.
    """
    if typing.get_origin(hint) is tuple:
        items = () if value == "" else (value,) if isinstance(value, (str, int, float)) else value
        if not isinstance(items, (list, tuple)):
            raise ConfigError(f"{name} = {shown(value)} must be a list")
        args = typing.get_args(hint)
        if args[-1] is Ellipsis:
            return tuple(_convert(name, item, args[0]) for item in items)
        if len(items) != len(args):
            raise ConfigError(f"{name} = {shown(value)} must be a list of {len(args)} values")
        return tuple(_convert(name, item, arg) for item, arg in zip(items, args, strict=True))
    if hint is float and isinstance(value, (int, str)) and not isinstance(value, bool):
        with contextlib.suppress(ValueError, OverflowError):  # YAML 1.1 reads 1e-3 as a string
            value = float(value)
    if isinstance(value, float) and not math.isfinite(value):
        raise ConfigError(f"{name} = {shown(value)} must be finite")
    if not isinstance(value, hint) or (hint is not bool and isinstance(value, bool)):
        raise ConfigError(f"{name} = {shown(value)} must be of type {hint.__name__}, not {type(value).__name__}")
    return os.path.expanduser(value) if isinstance(value, str) else value
