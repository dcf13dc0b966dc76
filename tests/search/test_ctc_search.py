"""CTC searches compared with the definition of CTC, and their streaming behavior."""

import math

import numpy as np
import pytest

from asr._core import CtcGreedySearch, CtcPrefixBeamSearch, Hypothesis

Search = CtcGreedySearch | CtcPrefixBeamSearch


def same(a: Hypothesis, b: Hypothesis) -> bool:
    fields = ("tokens", "log_prob", "start_frames", "end_frames", "confidences")
    return all(getattr(a, field) == getattr(b, field) for field in fields)


def searches() -> list[Search]:
    return [CtcGreedySearch(), CtcPrefixBeamSearch()]


@pytest.mark.parametrize("search", searches())
def test_confidence_is_the_geometric_mean_over_the_token(search: Search) -> None:
    search.advance(np.log(np.array([[0.1, 0.9], [0.4, 0.6], [0.99, 0.01]], np.float32)))
    (hypothesis,) = search.hypotheses()
    assert hypothesis.tokens == [1]
    assert hypothesis.end_frames == [2]
    assert hypothesis.confidences == pytest.approx([math.sqrt(0.9 * 0.6)], abs=1e-6)


@pytest.mark.parametrize("search", searches())
@pytest.mark.parametrize(
    ("bad", "error"),
    [
        (np.zeros((1, 5), np.float32), ValueError),
        (np.zeros(4, np.float32), ValueError),
        (np.zeros((4, 1), np.float32).T[:, ::2], ValueError),
        (np.zeros((1, 4)), TypeError),
        ([[0.0] * 4], TypeError),
    ],
)
def test_bad_chunks_are_refused_and_not_used(search: Search, bad: object, error: type[Exception]) -> None:
    search.advance(np.log(np.array([[0.01, 0.97, 0.01, 0.01]], np.float32)))
    before = search.hypotheses()[0]
    num_frames = search.num_frames
    with pytest.raises(error):
        search.advance(bad)  # type: ignore[arg-type]
    assert search.num_frames == num_frames
    assert same(search.hypotheses()[0], before)


def test_options_are_checked() -> None:
    for options in ({"beam_size": 0}, {"beam_size": 1025}, {"max_tokens_per_frame": -1}):
        with pytest.raises(ValueError, match=next(iter(options))):
            CtcPrefixBeamSearch(**options)
    for search in searches():
        with pytest.raises(ValueError, match="num_best"):
            search.hypotheses(0)
