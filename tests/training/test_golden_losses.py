"""The first losses of every recipe equal the recorded ones, which reveals any change in training."""

from __future__ import annotations

import json

import pytest
from support.benchmark_module import load_benchmark

golden = load_benchmark("golden_losses")
RECORDED = json.loads(golden.GOLDEN.read_text())


def test_every_recipe_is_recorded() -> None:
    assert sorted(RECORDED) == golden.recipes()


@pytest.mark.parametrize(
    ("recipe", "precision"), [*((recipe, "fp32") for recipe in RECORDED), ("librispeech-960h", "bf16")]
)
def test_losses_are_those_that_are_recorded(recipe: str, precision: str) -> None:
    found = {recipe: golden.losses(recipe, precision, "cpu")}
    assert not golden.differences(found, {recipe: RECORDED[recipe]}, golden.TOLERANCE[precision])
    assert found[recipe][-1] < 0.99 * found[recipe][0], "the optimizer counts"


def test_first_step_with_another_loss_is_named() -> None:
    recorded = {"tiny": [2.0] * golden.STEPS, "other": []}
    found = {"tiny": [2.0] * 7 + [2.1] * (golden.STEPS - 7)}
    assert golden.differences(found, recorded, 0.06) == ["other: only on one side"]
    named = golden.differences(found, recorded, 0.04)[1]
    assert named == "tiny: 13 of 20 losses differ, the first at step 8: 2.10000, not 2.00000"
