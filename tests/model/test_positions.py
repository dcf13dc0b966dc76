"""Position encodings, compared with their definitions."""

from __future__ import annotations

import math

import pytest
import torch

from asr.model.positions import MAX_RELATIVE_DISTANCE, Positions, rotate, sinusoids


def test_sinusoids_have_wavelengths_up_to_ten_thousand() -> None:
    found = sinusoids(torch.tensor([0, 1, 250]), 4)
    for row, position in zip(found.tolist(), (0.0, 1.0, 250.0), strict=True):
        slow = position / 100  # 10000 ** -(1 / 2)
        assert row == pytest.approx([math.sin(position), math.sin(slow), math.cos(position), math.cos(slow)], abs=1e-4)


def test_a_rotary_score_is_that_of_complex_numbers() -> None:
    """A head's pairs of numbers are complex numbers, each rotated by its own frequency per frame, at any time."""
    dim, num_slots = 8, 40
    positions = Positions("rope", dim, num_heads=1)
    query, key = torch.randn(2, dim, generator=torch.Generator().manual_seed(0))
    start = 900_000  # ten hours
    rotation = positions.rotation(start + torch.arange(num_slots)[None], query)
    assert rotation is not None
    rows = torch.stack((query, key))[None, :, None].expand(-1, -1, num_slots, -1)
    queries, keys = rotate(rows, rotation)[0]
    scores = queries @ keys.T
    q, k = (torch.complex(*x.view(2, dim // 2)) for x in (query, key))
    for i, j in ((0, 0), (5, 5), (39, 0), (3, 17)):
        turn = [(j - i) * 10_000 ** (-pair / 4) for pair in range(4)]
        expected = (q.conj() * k * torch.polar(torch.ones(4), torch.tensor(turn))).real.sum() / math.sqrt(dim)
        assert float(scores[i, j]) == pytest.approx(float(expected), abs=1e-4)


def test_relative_bias_depends_on_distance_to_a_limit() -> None:
    positions = Positions("relative", 8, num_heads=2)
    table = torch.randn(2, 2 * MAX_RELATIVE_DISTANCE + 1, generator=torch.Generator().manual_seed(0))
    positions.relative_bias.data = table
    mask = torch.ones(1, 1, 3, 150, dtype=torch.bool)
    mask[..., 1, 7] = False
    bias = positions.bias(mask)
    assert bias.shape == (1, 2, 3, 150) and bool((bias[0, :, 1, 7] == float("-inf")).all())
    for query, slot in ((0, 147), (0, 149), (2, 149), (2, 21), (2, 20), (1, 0)):  # the queries are slots 147 to 149
        distance = max(slot - (147 + query), -MAX_RELATIVE_DISTANCE)
        assert torch.equal(bias[0, :, query, slot], table[:, MAX_RELATIVE_DISTANCE + distance])
