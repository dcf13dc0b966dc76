"""A trainer made from the arguments of `asr train`."""

from __future__ import annotations

from rich.console import Console

from asr.recipe import load_config
from asr.training.train import Trainer


def new_trainer(arguments: list[str]) -> Trainer:
    return Trainer(load_config(arguments[1], arguments[2:]), False, Console())
