"""The sum over all phone sequences, compared with a sum over every path."""

from __future__ import annotations

import itertools
import math

import pytest
import torch
from torch import Tensor

from asr.model.denominator import Denominator

SEQUENCES = [[1, 2, 4], [3, 4, 4, 1], [1, 2], [3, 2, 2]]
NUM_TOKENS = 5


@pytest.fixture(scope="module")
def denominator() -> Denominator:
    return Denominator(SEQUENCES, 2)


def probability(denominator: Denominator, tokens: list[int]) -> float:
    """The score of a sequence under the trigram, read arc by arc."""
    product, before, last = 1.0, 0, 0
    for token in tokens:
        product *= float(denominator.arcs[last, before, token])
        before, last = (last + 1) // 2, token
    return product * float(denominator.end[last, before])


def log_sum_by_hand(denominator: Denominator, log_probs: Tensor) -> float:
    total = 0.0
    for path in itertools.product(range(NUM_TOKENS), repeat=len(log_probs)):
        tokens = [token for token, _ in itertools.groupby(path) if token != 0]
        acoustic = sum(float(row[token]) for row, token in zip(log_probs, path, strict=True))
        total += math.exp(acoustic) * probability(denominator, tokens)
    return math.log(total)


def test_the_sum_is_that_over_every_path(denominator: Denominator) -> None:
    torch.manual_seed(0)
    log_probs = torch.randn(3, 6, NUM_TOKENS).mul(2).log_softmax(-1)
    lengths = torch.tensor([6, 3, 1])
    expected = sum(log_sum_by_hand(denominator, row[:n]) for row, n in zip(log_probs, lengths.tolist(), strict=True))
    assert float(denominator(log_probs, lengths)) == pytest.approx(expected, rel=1e-5)


def test_the_gradient_is_the_slope_of_the_sum(denominator: Denominator) -> None:
    torch.manual_seed(1)
    log_probs = torch.randn(2, 5, NUM_TOKENS).log_softmax(-1).requires_grad_()
    lengths = torch.tensor([5, 3])
    (gradient,) = torch.autograd.grad(3.0 * denominator(log_probs, lengths), log_probs)
    assert gradient.sum(-1).tolist() == [pytest.approx([3.0] * 5, rel=1e-5), pytest.approx([3.0] * 3 + [0.0] * 2)]
    for index in itertools.product(range(2), range(5), range(NUM_TOKENS)):
        values = []
        for shift in (0.01, -0.01):
            shifted = log_probs.detach().clone()
            shifted[index] += shift
            values.append(3.0 * float(denominator(shifted, lengths)))
        assert float(gradient[index]) == pytest.approx((values[0] - values[1]) / 0.02, abs=2e-3), index


def test_the_trigram(denominator: Denominator) -> None:
    totals = denominator.arcs.sum(-1) + denominator.end
    assert torch.allclose(totals, torch.ones_like(totals))
    # Token 2 after phone 1 is followed by token 4 once and by the end twice; after any phone, by token 2 too.
    unigrams = {0: 5 / 21, 4: 4 / 21}  # each counted once more
    after_2 = {0: (2 + 3 * unigrams[0]) / 7, 4: (1 + 3 * unigrams[4]) / 7}
    assert float(denominator.end[2, 1]) == pytest.approx((2 + 2 * after_2[0]) / 5)
    assert float(denominator.arcs[2, 1, 4]) == pytest.approx((1 + 2 * after_2[4]) / 5)


def test_sequences_of_a_long_utterance_stay_finite(denominator: Denominator) -> None:
    torch.manual_seed(2)
    log_probs = torch.randn(1, 2000, NUM_TOKENS).mul(8).log_softmax(-1).requires_grad_()
    total = denominator(log_probs, torch.tensor([2000]))
    total.backward()
    assert total.isfinite() and log_probs.grad is not None and log_probs.grad.isfinite().all()
    assert torch.allclose(log_probs.grad.sum(-1), torch.ones(1, 2000), atol=1e-3)
