"""A training step launches few kernels and never waits: a small network would keep a GPU idle between them."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
import torch
from support.benchmark_module import load_benchmark
from support.clips import LETTERS, speech_of
from support.launches import gpu_launches
from support.synth import hum
from torch._subclasses.fake_tensor import FakeTensorMode

from asr.config import AugmentConfig, Config, DataConfig, LossConfig
from asr.data.speech import Speech
from asr.model.denominator import Denominator
from asr.model.model import AsrModel, with_vocab
from asr.recipe import load_config
from asr.training.batches import Batches
from asr.training.plans import Plan, Planner
from asr.training.sounds import Noise, read_rooms

MOST = 3000
BUNDLED = ["loss.denominator_weight=0.4", "loss.cr_ctc_weight=0.1", "train.precision=bf16"]
CPU, GPU = torch.device("cpu"), torch.device("cuda")
golden = load_benchmark("golden_losses")


@pytest.mark.parametrize("kind", ["adamw", "muon"])
def test_a_step_of_the_bundled_size(monkeypatch: pytest.MonkeyPatch, kind: str) -> None:
    """The number does not depend on the audio in the batch."""
    monkeypatch.setattr(golden, "NUM_ROWS", 1)
    launches = gpu_launches(monkeypatch)
    config = load_config("finetune", [*BUNDLED, f"optim.kind={kind}"])
    assert config.model.encoder_layers == 14
    learns, counts = golden.learner(config, CPU), []
    for step, seconds in ((1, 1.0), (2, 1.0), (3, 2.0)):  # the first creates the state of the optimizer
        monkeypatch.setattr(golden, "ROW_S", seconds)
        batch = golden.batch_of(config, CPU)
        launches.counts.clear()
        with launches:
            learns([batch], step)
        counts.append(launches.total)
    assert counts[1] == counts[2] <= MOST
    assert launches.counts["_denominator_forward"] == 1 and launches.counts["_ctc_backward"] == 4


def test_making_a_batch_never_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    """A tensor without values cannot be read on the host."""
    launches = gpu_launches(monkeypatch)
    for module in ("batches", "plans"):
        monkeypatch.setattr(f"asr.training.{module}.on_device", lambda x, device: x.to(device, non_blocking=True))
    speech = speech_of(*(hum(1.0, seed=seed) for seed in range(4)), texts=("AB", "BACK", "A", "CAB"))
    config = Config(
        data=DataConfig(max_batch_s=20),
        augment=AugmentConfig(room_probability=0.5, telephone_probability=0.5, noise_probability=1.0, speeds=(0.9,)),
        loss=LossConfig(cr_ctc_weight=0.1),
    )
    noise, rooms = Noise(None, 1), read_rooms("", 2, num_jobs=1, seed=1)
    planner = Planner(speech, np.ones(4), noise, len(rooms), config)
    plan = planner.plan(0, 0, planner.epoch(0)[0])
    assert plan.num_rooms and plan.num_lines
    monkeypatch.setattr(Plan, "seconds", 1.0)  # of the plan on the host
    gathered = batches_on(CPU, speech, noise, rooms, config).gather(plan)
    with FakeTensorMode(allow_non_fake_inputs=True):
        batches = batches_on(GPU, speech, noise, rooms, config)
        with launches:
            batch = batches(gathered)
    assert batch.features.device.type == batch.targets.device.type == "cuda"
    assert not launches.copies and 0 < launches.total < 700


def batches_on(device: torch.device, speech: Speech, noise: Noise, rooms: np.ndarray, config: Config) -> Batches:
    return Batches(speech, noise, rooms, config, LETTERS, None, device)


@torch.no_grad()
@pytest.mark.parametrize("position", ["rope", "learned"])
def test_losses_never_wait(monkeypatch: pytest.MonkeyPatch, position: str) -> None:
    launches = gpu_launches(monkeypatch)
    config = load_config("finetune", [*golden.SCALED, *BUNDLED, f"model.position={position}"])
    given = [x for x in golden.batch_of(config, CPU) if isinstance(x, torch.Tensor)]
    phones = tuple(f"p{number}" for number in range(golden.NUM_PHONES))
    with FakeTensorMode(allow_non_fake_inputs=True), GPU:
        model = AsrModel(with_vocab(dataclasses.replace(config.model, phones=phones), 30))
        speech, phones_of, chunks = [x.to(GPU) for x in given[:4]], [x.to(GPU) for x in given[4:]], [(0, -1), (16, 64)]
        denominator = Denominator([], golden.NUM_PHONES)
        with launches:
            losses = model.losses(*speech, config.loss, chunks, None, *phones_of, denominator)
    assert losses.total.device.type == "cuda"
    assert not launches.copies and launches.total > 100


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
def test_a_step_on_a_gpu_never_waits() -> None:
    config = load_config("finetune", [*golden.SCALED, *BUNDLED])
    learns, batch = golden.learner(config, GPU), golden.batch_of(config, GPU)
    learns([batch], 1)  # compiles
    torch.cuda.set_sync_debug_mode("error")
    try:
        learns([batch], 2)
    finally:
        torch.cuda.set_sync_debug_mode("default")
