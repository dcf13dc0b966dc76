"""`asr train RECIPE --trial N`: memory, speed and the time of all steps, measured on the device of this machine."""

from __future__ import annotations

import dataclasses
import tempfile
import time
from itertools import islice

from rich.console import Console

from asr.config import Recipe
from asr.training.batches import ahead
from asr.training.cost import memory_gb, peak_flops, synchronize
from asr.training.train import Trainer, memory_named

WARMUP = 3
"""Steps before the time is measured."""


def trial(config: Recipe, num_steps: int, console: Console) -> int:
    """Takes `num_steps` steps, of which the first has the largest batch. Saves nothing."""
    with tempfile.TemporaryDirectory(prefix="asr-train-") as folder, memory_named(config):
        train = dataclasses.replace(config.train, output=folder)
        run(Trainer(dataclasses.replace(config, train=train), False, console), num_steps)
    return 0


def run(trainer: Trainer, num_steps: int) -> None:
    """The steps of a trial, each of one batch, and what they say about all steps."""
    task, job, config = trainer.task, trainer.job, trainer.config.train
    seconds, amounts = 0.0, []
    for step, own in enumerate(ahead(islice(task.trial(), num_steps)), 1):
        began = time.monotonic()
        trainer.learner([task.batch(each) for each in own.gathered], step)
        synchronize(job.device)
        if step > WARMUP:
            seconds += time.monotonic() - began
            amounts.append(own.amount)
    speed = sum(amounts) / max(seconds, 1e-9)
    peak = peak_flops(job.device, trainer.learner.precision)
    total = sum(amounts) / max(len(amounts), 1) * job.batches_per_step * config.max_steps
    job.print(
        f"{memory_gb(job.device):.1f} GB; {speed:,.3g}{task.unit.speed}, {speed * task.flops_per_unit / peak:.0%} of "
        f"the {peak / 1e12:.3g} TFLOP/s that the device multiplies in {trainer.learner.precision}\n"
        f"all {config.max_steps} steps: {total / task.unit.size:,.1f} {task.unit.shown}, "
        f"{total / max(speed, 1e-9) / 3600:.1f} h"
    )
