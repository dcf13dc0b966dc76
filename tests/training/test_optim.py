"""The optimizers: the effect of a step on each kind of parameter."""

import itertools
from copy import deepcopy
from dataclasses import replace

import pytest
import torch

from asr.config import ModelConfig, OptimConfig
from asr.model.model import AsrModel
from asr.training.optim import Muon, WeightAverage, build_optimizer, learning_rate, orthogonalize


@pytest.fixture
def model() -> AsrModel:
    torch.manual_seed(0)
    return AsrModel(
        ModelConfig(dim=32, num_heads=2, encoder_layers=2, encoder_ff_dim=64, decoder_layers=1, vocab_size=9)
    )


def fill_gradients(model: AsrModel) -> None:
    generator = torch.Generator().manual_seed(1)
    for parameter in model.parameters():
        parameter.grad = torch.randn(parameter.shape, generator=generator)


def changes(model: AsrModel, optimizer: torch.optim.Optimizer, found_inf: float = 0.0) -> dict[str, torch.Tensor]:
    before = {name: p.detach().clone() for name, p in model.named_parameters()}
    optimizer.found_inf = torch.tensor(found_inf)
    optimizer.step()
    return {name: p.detach() - before[name] for name, p in model.named_parameters()}


@pytest.mark.parametrize("shape", [(40, 24), (24, 40), (24, 24)])
def test_orthogonalize_keeps_singular_vectors_and_levels_singular_values(shape):
    torch.manual_seed(2)
    u, _, v = torch.linalg.svd(torch.randn(3, *shape), full_matrices=False)
    values = torch.logspace(0, -2.3, min(shape)).expand(3, -1)
    result = orthogonalize(u * values[:, None] @ v)
    levelled = u.mT @ result @ v.mT
    diagonal = levelled.diagonal(dim1=1, dim2=2)
    assert diagonal.min() > 0.6 and diagonal.max() < 1.3
    assert (levelled - torch.diag_embed(diagonal)).abs().max() < 0.1


def test_muon_takes_layer_matrices_and_adamw_the_rest(model):
    optimizer = build_optimizer(model, OptimConfig(kind="muon", lr=1e-2, weight_decay=0.0))
    reference = AsrModel(model.config)
    reference.load_state_dict(model.state_dict())
    fill_gradients(model)
    fill_gradients(reference)
    adamw = changes(reference, build_optimizer(reference, OptimConfig(lr=1e-2, weight_decay=0.0)))
    for name, change in changes(model, optimizer).items():
        if ".layers." in name and change.ndim == 2:
            size = change.shape[1] if name.endswith(("qkv.weight", "key_value.weight")) else change.shape[0]
            for part in change.split(size):  # q, k and v are orthogonalized separately
                singular = torch.linalg.svdvals(part) / (1e-2 * Muon.UPDATE_RMS * max(part.shape) ** 0.5)
                assert singular.quantile(0.1) > 0.6 and singular.max() < 1.4, name
        else:
            assert torch.equal(change, adamw[name]), name


def test_muon_goes_down_the_gradient(model):
    optimizer = build_optimizer(model, OptimConfig(kind="muon"))
    fill_gradients(model)
    for name, change in changes(model, optimizer).items():
        assert (change * model.get_parameter(name).grad).sum() < 0, name


def test_muon_looks_ahead_along_its_momentum(model):
    """Nesterov's step: the gradient plus the momentum, which already includes the gradient."""
    optimizer = build_optimizer(model, OptimConfig(kind="muon", lr=1e-2, weight_decay=0.0))
    name = "encoder.layers.0.feed_forward.up.weight"
    first, second = torch.randn(2, 64, 32, generator=torch.Generator().manual_seed(3))
    for gradient in (first, second):
        fill_gradients(model)
        model.get_parameter(name).grad = gradient
        change = changes(model, optimizer)[name]
    momentum = (0.05 * first).lerp(second, 0.05)
    expected = -1e-2 * Muon.UPDATE_RMS * 64**0.5 * orthogonalize(second.lerp(momentum, 0.95)[None])[0]
    assert torch.allclose(change, expected, atol=1e-4)


def test_muon_decays_weights(model):
    optimizer = build_optimizer(model, OptimConfig(kind="muon", lr=0.1, weight_decay=0.5))
    name = "encoder.layers.0.feed_forward.up.weight"
    before = model.get_parameter(name).detach().clone()
    for parameter in model.parameters():
        parameter.grad = torch.zeros_like(parameter)
    assert torch.allclose(changes(model, optimizer)[name], -0.05 * before, atol=1e-7)


@pytest.mark.parametrize("kind", ["adamw", "muon"])
def test_nonfinite_gradient_changes_nothing(model, kind):
    optimizer = build_optimizer(model, OptimConfig(kind=kind, lr=1e-2))
    fill_gradients(model)
    changes(model, optimizer)
    before = deepcopy(optimizer.state_dict())
    for parameter in model.parameters():
        parameter.grad.fill_(float("nan"))
    assert all(torch.equal(c, torch.zeros_like(c)) for c in changes(model, optimizer, found_inf=1.0).values())
    other = AsrModel(model.config)
    other.load_state_dict(model.state_dict())
    undisturbed = build_optimizer(other, OptimConfig(kind=kind, lr=1e-2))
    undisturbed.load_state_dict(before)
    fill_gradients(model)
    fill_gradients(other)
    expected = changes(other, undisturbed)
    assert all(torch.equal(change, expected[name]) for name, change in changes(model, optimizer).items())


def test_learning_rate_schedules() -> None:
    for schedule in ("noam", "linear", "cosine"):
        config = OptimConfig(lr=1.0, warmup_steps=10, schedule=schedule)
        rates = [learning_rate(config, step, 100) for step in range(1, 101)]
        assert rates[4] == pytest.approx(0.5) and max(rates) == rates[9] == pytest.approx(1.0)
        assert all(a > b for a, b in itertools.pairwise(rates[9:]))
        assert rates[54] == pytest.approx((10 / 55) ** 0.5 if schedule == "noam" else 0.5)  # half of the way down
    assert rates[99] == pytest.approx(0, abs=1e-6)
    assert learning_rate(OptimConfig(lr=1.0, warmup_steps=0, schedule="noam"), 4, 100) == pytest.approx(0.5)
    assert learning_rate(OptimConfig(lr=1.0, warmup_steps=10, schedule="noam"), 40, 100) == pytest.approx(0.5)


def test_constant_rate_cools_down_at_the_end() -> None:
    config = OptimConfig(lr=1.0, warmup_steps=10, schedule="constant", cooldown=0.2)
    rates = [learning_rate(config, step, 100) for step in range(1, 101)]
    assert rates[:10] == pytest.approx([step / 10 for step in range(1, 11)]) and set(rates[9:80]) == {1.0}
    assert rates[80:] == pytest.approx([1 - step / 20 for step in range(20)])
    longer = [learning_rate(config, step, 1000) for step in range(1, 101)]
    assert longer[:80] == rates[:80] and set(longer[80:]) == {1.0}, "it can be made longer until then"
    plain = OptimConfig(lr=1.0, warmup_steps=10, schedule="constant")
    assert learning_rate(plain, 100, 100) == 1.0
    for schedule in ("noam", "linear", "cosine"):
        before, after = (OptimConfig(lr=1.0, schedule=schedule, cooldown=cooldown) for cooldown in (0.0, 0.2))
        assert learning_rate(after, 1080, 1200) == pytest.approx(learning_rate(before, 1080, 1200) * 121 / 240)


@pytest.mark.parametrize(("schedule", "half"), [("linear", 0.5), ("cosine", 0.5), ("constant", 1), ("noam", 0.5**0.5)])
def test_rate_falls_with_the_clock_of_a_training_by_time(schedule: str, half: float) -> None:
    config = OptimConfig(lr=1.0, warmup_steps=10, schedule=schedule, cooldown=0.25)
    assert learning_rate(config, 5, 10**6, 0.0) == pytest.approx(0.5), "warm-up counts steps"
    assert learning_rate(config, 20, 10**6, 0.5) == pytest.approx(half, abs=1e-3)
    late = learning_rate(config, 20, 10**6, 0.9)
    assert late == pytest.approx(learning_rate(replace(config, cooldown=0.0), 20, 10**6, 0.9) * 0.4, abs=1e-4)
    assert learning_rate(config, 20, 10**6, 1.0) == pytest.approx(0)


def test_weight_average_follows_the_weights() -> None:
    model = torch.nn.Linear(1, 1, bias=False)
    average = WeightAverage(model, 0.4)
    expected = average.weights["weight"].clone()
    for decay in (2 / 11, 3 / 12, 4 / 13, 5 / 14, 0.4, 0.4):  # short at first
        with torch.no_grad():
            model.weight += 1
        average.update(model)
        expected = decay * expected + (1 - decay) * model.weight.detach()
        assert torch.allclose(average.weights["weight"], expected)


@pytest.mark.parametrize("kind", ["adamw", "muon"])
def test_biases_and_norms_do_not_decay(kind: str) -> None:
    model = AsrModel(ModelConfig(dim=8, num_heads=2, encoder_layers=1, decoder_layers=1, vocab_size=5))
    groups = build_optimizer(model, OptimConfig(kind=kind, weight_decay=0.1, betas=(0.8, 0.7))).param_groups
    assert {group["betas"] for group in groups} == {(0.8, 0.7)}
    decays = {id(p): group["weight_decay"] for group in groups for p in group["params"]}
    for name, parameter in model.named_parameters():
        assert decays.pop(id(parameter)) == (0.1 if parameter.ndim >= 2 else 0.0), name
    assert not decays
