"""CTC searches compared with the definition of CTC, and their streaming behavior."""

import itertools
import math

import numpy as np
import pytest

from asr._core import CtcGreedySearch, CtcPrefixBeamSearch, Hypothesis

Search = CtcGreedySearch | CtcPrefixBeamSearch


def random_log_probs(num_frames: int, vocab_size: int, seed: int, sharpness: float = 2.0) -> np.ndarray:
    logits = np.random.default_rng(seed).normal(0, sharpness, (num_frames, vocab_size))
    return (logits - np.log(np.exp(logits).sum(1, keepdims=True))).astype(np.float32)


def certain(tokens: list[int], vocab_size: int = 4) -> np.ndarray:
    """Rows that give each token in turn a posterior of 0.97."""
    rows = np.full((len(tokens), vocab_size), np.log(0.03 / (vocab_size - 1)), np.float32)
    rows[np.arange(len(tokens)), tokens] = np.log(0.97)
    return rows


def same(a: Hypothesis, b: Hypothesis) -> bool:
    fields = ("tokens", "log_prob", "start_frames", "end_frames", "confidences")
    return all(getattr(a, field) == getattr(b, field) for field in fields)


def searches() -> list[Search]:
    return [CtcGreedySearch(), CtcPrefixBeamSearch()]


@pytest.mark.parametrize("seed", range(12))
def test_beam_search_sums_over_all_alignments(seed: int) -> None:
    num_frames, vocab_size = 1 + seed % 6, 3 + seed % 2
    log_probs = random_log_probs(num_frames, vocab_size, seed)
    expected: dict[tuple[int, ...], float] = {}
    for path in itertools.product(range(vocab_size), repeat=num_frames):
        tokens = tuple(token for token, _ in itertools.groupby(path) if token)
        log_prob = sum(float(log_probs[t, token]) for t, token in enumerate(path))
        expected[tokens] = expected.get(tokens, 0.0) + math.exp(log_prob)
    search = CtcPrefixBeamSearch(beam_size=1024)
    search.advance(log_probs)
    hypotheses = search.hypotheses(1024)
    assert len(hypotheses) == min(1024, len(expected))
    assert [h.log_prob for h in hypotheses] == sorted((h.log_prob for h in hypotheses), reverse=True)
    for hypothesis in hypotheses:
        assert hypothesis.log_prob == pytest.approx(math.log(expected[tuple(hypothesis.tokens)]), abs=1e-9)


def test_beam_finds_what_greedy_misses() -> None:
    # The best path is blank, blank; the best text is "1" (0.4 * 0.4 + 2 * 0.6 * 0.4).
    log_probs = np.log(np.array([[0.6, 0.4], [0.6, 0.4]], np.float32))
    greedy, beam = searches()
    greedy.advance(log_probs)
    beam.advance(log_probs)
    assert greedy.hypotheses()[0].tokens == []
    best, second = beam.hypotheses(2)
    assert (best.tokens, second.tokens) == ([1], [])
    assert best.log_prob == pytest.approx(math.log(0.64), abs=1e-6)


@pytest.mark.parametrize("search", searches())
def test_repeats_survive_with_their_times(search: Search) -> None:
    search.advance(certain([0, 1, 0, 1, 1, 0, 0, 1, 2, 0]))
    best = search.hypotheses()[0]
    assert best.tokens == [1, 1, 1, 2]
    assert best.start_frames == [1, 3, 7, 8]
    assert best.end_frames == [2, 5, 8, 9]
    assert best.confidences == pytest.approx([0.97] * 4, abs=1e-5)
    assert search.num_trailing_blanks == 1


@pytest.mark.parametrize("search", searches())
def test_confidence_is_the_geometric_mean_over_the_token(search: Search) -> None:
    search.advance(np.log(np.array([[0.1, 0.9], [0.4, 0.6], [0.99, 0.01]], np.float32)))
    (hypothesis,) = search.hypotheses()
    assert hypothesis.tokens == [1]
    assert hypothesis.end_frames == [2]
    assert hypothesis.confidences == pytest.approx([math.sqrt(0.9 * 0.6)], abs=1e-6)


@pytest.mark.parametrize("kind", [CtcGreedySearch, CtcPrefixBeamSearch])
def test_cuts_do_not_matter(kind: type[CtcGreedySearch] | type[CtcPrefixBeamSearch]) -> None:
    log_probs = random_log_probs(200, 30, seed=3)
    whole = kind()
    whole.advance(log_probs)
    expected = whole.hypotheses(8)
    random = np.random.default_rng(4)
    for _ in range(30):
        search = kind()
        for piece in np.split(log_probs, np.sort(random.integers(0, 201, random.integers(1, 50)))):
            search.advance(piece)
            search.hypotheses(2)
        got = search.hypotheses(8)
        assert len(got) == len(expected)
        assert all(map(same, got, expected))


@pytest.mark.parametrize("search", searches())
def test_reset_begins_an_utterance_and_frames_go_on(search: Search) -> None:
    search.advance(certain([0, 1, 0]))
    search.reset()
    (hypothesis,) = search.hypotheses()
    assert (hypothesis.tokens, hypothesis.log_prob) == ([], 0.0)
    assert (search.num_frames, search.num_trailing_blanks) == (3, 0)
    search.advance(certain([0, 0]))
    assert (search.num_frames, search.num_trailing_blanks) == (5, 2)
    search.advance(certain([1, 2]))
    (hypothesis,) = search.hypotheses()
    # The 1 before the reset is not the 1 after it.
    assert (hypothesis.tokens, hypothesis.start_frames) == ([1, 2], [5, 6])


@pytest.mark.parametrize("search", searches())
def test_silence_gives_the_empty_hypothesis(search: Search) -> None:
    assert search.hypotheses(4)[0].tokens == []
    search.advance(certain([0] * 10))
    assert search.hypotheses()[0].tokens == []
    assert search.num_trailing_blanks == 10
    search.advance(np.zeros((0, 4), np.float32))
    assert search.num_frames == 10


@pytest.mark.parametrize("search", searches())
@pytest.mark.parametrize(
    ("bad", "error"),
    [
        (np.full((1, 4), np.nan, np.float32), ValueError),
        (np.full((1, 4), -np.inf, np.float32), ValueError),
        (np.array([[3.0, -1.0, 0.5, 2.0]], np.float32), ValueError),  # logits
        (np.zeros((1, 5), np.float32), ValueError),
        (np.zeros(4, np.float32), ValueError),
        (np.zeros((4, 1), np.float32).T[:, ::2], ValueError),
        (np.zeros((1, 4)), TypeError),
        ([[0.0] * 4], TypeError),
    ],
)
def test_bad_chunks_are_refused_and_not_used(search: Search, bad: object, error: type[Exception]) -> None:
    search.advance(certain([1]))
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
