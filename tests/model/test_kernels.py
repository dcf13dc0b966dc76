"""The sums over paths, on a CPU and in the kernels of a GPU, compared with a sum over every path in float64."""

from __future__ import annotations

import itertools
from collections.abc import Callable

import pytest
import torch
from support.interpreted import interpreted
from torch import Tensor

from asr.model.ctc import ctc_loss
from asr.model.denominator import Denominator

NUM_TOKENS, NUM_FRAMES = 5, 4
DENOMINATOR = Denominator([[1, 2, 4], [3, 4, 4, 1], [1, 2], [3, 2, 2]], 2)
LENGTHS = torch.tensor([4, 1, 3, 4, 4, 2])
# Repeats, empty, longer than the frames with and without the blank between repeats.
TARGETS = [[3, 4], [1], [2, 2], [], [1, 1, 1], [1, 2, 3]]
Result = tuple[Tensor, Tensor]


def logits() -> Tensor:
    return torch.randn(len(LENGTHS), NUM_FRAMES, NUM_TOKENS, generator=torch.Generator().manual_seed(3)).mul(2)


def padded_targets() -> tuple[Tensor, Tensor]:
    targets = torch.full((len(TARGETS), 3), -1)
    for row, tokens in enumerate(TARGETS):
        targets[row, : len(tokens)] = torch.tensor(tokens, dtype=torch.int64)
    return targets, torch.tensor([len(tokens) for tokens in TARGETS])


def sum_over_paths(log_probs: Tensor, weight: Callable[[list[int]], float]) -> Tensor:
    """The log of the sum of the paths of (T, V) log-probabilities, each with the weight of its tokens; -inf if none."""
    paths = list(itertools.product(range(NUM_TOKENS), repeat=len(log_probs)))
    weights = [weight([token for token, _ in itertools.groupby(path) if token]) for path in paths]
    chosen = [(path, w) for path, w in zip(paths, weights, strict=True) if w > 0]
    if not chosen:
        return log_probs.new_tensor(float("-inf"))
    index = torch.tensor([path for path, _ in chosen])
    scores = log_probs[torch.arange(len(log_probs)), index].sum(1)
    return (scores + log_probs.new_tensor([w for _, w in chosen]).log()).logsumexp(0)


def trigram(tokens: list[int]) -> float:
    product, before, last = 1.0, 0, 0
    for token in tokens:
        product *= float(DENOMINATOR.arcs[last, before, token])
        before, last = (last + 1) // 2, token
    return product * float(DENOMINATOR.end[last, before])


def denominator_by_hand(log_probs: Tensor) -> Tensor:
    rows = zip(log_probs, LENGTHS.tolist(), strict=True)
    return torch.stack([sum_over_paths(row[:n], trigram) for row, n in rows]).sum()


def ctc_by_hand(log_probs: Tensor) -> Tensor:
    rows = zip(log_probs, LENGTHS.tolist(), TARGETS, strict=True)
    found = [sum_over_paths(row[:n], lambda tokens, wanted=wanted: tokens == wanted) for row, n, wanted in rows]
    return -torch.stack([each for each in found if each.isfinite()]).sum()


def slope(loss: Callable[[Tensor], Tensor], dtype: torch.dtype = torch.float32) -> Result:
    """The loss, and its gradient with respect to the logits."""
    x = logits().to(dtype).requires_grad_()
    value = loss(x.log_softmax(-1))
    (gradient,) = torch.autograd.grad(value, x)
    return value.detach().float(), gradient.float()


@pytest.fixture(scope="module")
def of_kernels() -> list[Result]:
    """denominator and CTC, with the gradient with respect to the logits."""
    log_probs = logits().log_softmax(-1)
    targets, target_lengths = padded_targets()
    results = interpreted(
        ("denominator", (log_probs, LENGTHS, DENOMINATOR.arcs, DENOMINATOR.end)),
        ("ctc", (log_probs, LENGTHS, targets.clamp(min=0), target_lengths)),
    )
    found = []
    for value, gradient in results:
        x = logits().requires_grad_()
        found.append((value, torch.autograd.grad(x.log_softmax(-1), x, gradient)[0]))
    return found


def test_denominator_is_the_sum_over_every_path(of_kernels: list[Result]) -> None:
    expected = slope(denominator_by_hand, torch.float64)
    for found in (slope(lambda x: DENOMINATOR(x, LENGTHS)), of_kernels[0]):
        torch.testing.assert_close(found, expected, rtol=1e-5, atol=1e-6)
    assert not expected[1][1, 1:].any(), "frames after the end"


def test_ctc_is_the_sum_over_the_paths_of_the_target(of_kernels: list[Result]) -> None:
    expected = slope(ctc_by_hand, torch.float64)
    for found in (slope(lambda x: ctc_loss(x, LENGTHS, *padded_targets())), of_kernels[1]):
        torch.testing.assert_close(found, expected, rtol=1e-5, atol=1e-6)
    assert not expected[1][4:].any(), "too short for the target"


@pytest.mark.parametrize(
    ("name", "sizes"),
    [
        ("_denominator_forward", {"num_tokens": 79, "num_phones": 40, "block": 4096}),
        ("_denominator_backward", {"num_tokens": 79, "num_phones": 40, "block": 4096}),
        ("_ctc_forward", {"blank": 0, "block": 512}),
        ("_ctc_backward", {"blank": 0, "block": 512}),
    ],
)
def test_kernels_compile_for_a_gpu(name: str, sizes: dict[str, int]) -> None:
    """Needs none: the compiler comes with Triton."""
    from triton.backends.compiler import GPUTarget
    from triton.compiler import ASTSource, compile

    from asr.model import kernels

    kernel = getattr(kernels, name)
    types = {argument: "*fp32" for argument in kernel.arg_names}
    types |= dict.fromkeys(types.keys() & {"lengths", "targets", "target_lengths"}, "*i64")
    types |= dict.fromkeys(types.keys() & {"num_frames", "num_tokens", "max_target"}, "i32")
    types |= dict.fromkeys(sizes, "constexpr")
    constants = {(kernel.arg_names.index(size),): value for size, value in sizes.items()}
    options = {"num_warps": 16 if "denominator" in name else 4, "num_stages": 1}
    source = ASTSource(kernel, {n: types[n] for n in kernel.arg_names}, constexprs=constants)
    compiled = compile(source, target=GPUTarget("cuda", 90, 32), options=options)
    assert compiled.asm["cubin"] and "bar.sync" in compiled.asm["ptx"], "states wait for each other"


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
def test_a_gpu_computes_what_a_cpu_does() -> None:
    generator = torch.Generator().manual_seed(4)
    large = Denominator([[1, 2, 4, 77, 3], [3, 78, 4, 4, 1]], 39)
    x = torch.randn(40, 120, 79, generator=generator).mul(3)
    lengths = torch.randint(60, 121, (40,), generator=generator)
    targets, target_lengths = torch.randint(1, 79, (40, 30), generator=generator), torch.arange(40) % 31
    results = []
    for device in ("cpu", "cuda"):
        own = x.to(device).requires_grad_()
        log_probs, rows = own.log_softmax(-1), lengths.to(device)
        for loss in (
            large.to(device)(log_probs, rows),
            ctc_loss(log_probs, rows, targets.to(device), target_lengths.to(device)),
        ):
            gradient = torch.autograd.grad(loss, own, retain_graph=True)[0]
            results.append((loss.detach().cpu(), gradient.cpu()))
    torch.testing.assert_close(results[2:], results[:2], rtol=1e-4, atol=1e-5)
