"""The CTC loss, and the form of losses that compute their gradient together with their value."""

from __future__ import annotations

from collections.abc import Callable
from importlib.util import find_spec

import torch
import torch.nn.functional as F
from torch import Tensor

from asr.tokenizer import BLANK_ID


def ctc_loss(log_probs: Tensor, lengths: Tensor, targets: Tensor, target_lengths: Tensor) -> Tensor:
    """CTC (Graves et al. 2006), summed over the batch; zero for an utterance too short for its transcript.

    On a GPU, PyTorch's operator reads lengths on the host and copies them back, and so waits for the device six times.

    Args:
        log_probs: (N, T, V) float32, of a log-softmax.
        lengths: (N,) int64; targets: (N, U) int64, with any padding; target_lengths: (N,) int64
    Returns:
        scalar float32
    """
    targets = targets.clamp(min=0)
    if has_kernels(log_probs):
        from asr.model import kernels

        return with_gradient(log_probs, lambda x: kernels.ctc(x, lengths, targets, target_lengths))
    return F.ctc_loss(
        log_probs.transpose(0, 1),
        targets,
        lengths,
        target_lengths,
        blank=BLANK_ID,
        reduction="sum",
        zero_infinity=True,
    )


def has_kernels(tensor: Tensor) -> bool:
    """Whether asr.model.kernels computes the sums over paths of this tensor: PyTorch comes with Triton on Linux."""
    return tensor.is_cuda and find_spec("triton") is not None


def with_gradient(x: Tensor, compute: Callable[[Tensor], tuple[Tensor, Tensor]]) -> Tensor:
    """The value of `compute`, which returns it together with its gradient, as a differentiable function of x."""
    value: Tensor = _WithGradient.apply(x, compute)
    return value


class _WithGradient(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x: Tensor, compute: Callable[[Tensor], tuple[Tensor, Tensor]]) -> Tensor:
        with torch.autocast(x.device.type, enabled=False):
            value, gradient = compute(x.detach().float())
        ctx.save_for_backward(gradient)
        return value

    @staticmethod
    def backward(ctx, gradient: Tensor) -> tuple[Tensor, None]:
        (slope,) = ctx.saved_tensors
        return gradient * slope, None
