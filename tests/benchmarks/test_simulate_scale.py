"""benchmarks/simulate_scale.py: the simulation agrees with what can be calculated by hand."""

from __future__ import annotations

import argparse
import random

import numpy as np
import pytest
from support.benchmark_module import load_benchmark

scale = load_benchmark("simulate_scale")
ARGS = argparse.Namespace(max_batch=32, seconds=20.0, limit_ms=300.0, hop_ms=2.0)


def test_stream_alone_waits_only_for_its_own_chunk() -> None:
    costs = scale.Costs(3.0, 1.0, 2.0, 0.1, 1.0)
    assert scale.delays_s(1, costs, 32, 20.0, random.Random(1)) == pytest.approx(0.005)


def test_chunks_that_wait_together_are_one_run(monkeypatch: pytest.MonkeyPatch) -> None:
    costs = scale.Costs(100.0, 10.0, 0.0, 0.0, 0.0)
    generator = random.Random(1)
    monkeypatch.setattr(generator, "uniform", lambda low, high: 0.1)
    assert scale.delays_s(3, costs, 32, 0.64, generator) == pytest.approx(0.12)
    assert scale.delays_s(3, costs, 2, 0.64, generator) == pytest.approx([0.11, 0.11, 0.21])


def test_every_stream_has_one_of_evenly_loaded_replicas() -> None:
    loads = scale.assign(3200, 50, random.Random(1))
    assert sum(loads) == 3200 and max(loads) <= 64 + 4


def test_replicas_are_as_many_as_cores_in_use() -> None:
    costs = scale.Costs(6.4, 6.4, 0.0, 0.0, 0.0)  # no gain from batches: a core handles at most 100 streams
    replicas = scale.fewest_replicas(1000, costs, ARGS)
    assert 10 < replicas <= 14
    assert scale.p99_ms(1000, replicas, costs, ARGS)[0] < 300 <= scale.p99_ms(1000, 10, costs, ARGS)[0]
    assert np.isclose(scale.p99_ms(1, 1, costs, ARGS)[0], 6.4)


def test_limit_below_one_streams_time_is_refused() -> None:
    costs = scale.Costs(299.0, 1.0, 0.0, 0.0, 0.0)
    assert scale.fewest_replicas(1, costs, ARGS) == 1  # without a second replica, Ray takes no time
    with pytest.raises(SystemExit, match=r"--limit-ms 300 cannot be met: a stream alone takes 301\.0 ms"):
        scale.fewest_replicas(10, costs, ARGS)
