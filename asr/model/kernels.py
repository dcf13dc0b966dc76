"""Triton kernels for a GPU: the sums over paths of CTC and of the denominator, with their gradients.

A program computes one utterance, frame by frame, because PyTorch would launch dozens of kernels for each frame, and its
own CTC waits for the device. The states of a frame are elements of one block, each of which sums over its predecessors;
they exchange their values through memory, so that barriers separate writing from reading. Lengths are not specialized:
Triton would compile one form for multiples of 16, and one for other lengths.

This module is imported only for tensors on a GPU; in tests, Triton's interpreter runs it on a CPU.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

from asr.model.masks import length_mask
from asr.tokenizer import BLANK_ID


def denominator(log_probs: Tensor, lengths: Tensor, arcs: Tensor, end: Tensor) -> tuple[Tensor, Tensor]:
    """The log of the sum over all sequences, a scalar, and its gradient, (N, T, V) float32.

    log_probs: (N, T, V); lengths: (N,) int64; arcs, end: of asr.model.denominator.Denominator.
    """
    num_rows, num_frames, num_tokens = log_probs.shape
    num_phones = end.shape[1]
    num_states = num_tokens * num_phones
    probs = log_probs.float().exp().contiguous()
    label, blank = (probs.new_empty(num_rows, num_frames + 1, num_states) for _ in range(2))
    exchanged, scales = probs.new_empty(num_rows, 2 * num_states), probs.new_empty(num_rows, num_frames)
    totals, finals = (probs.new_empty(num_rows) for _ in range(2))
    ends = end.t().contiguous()
    sizes = {"num_tokens": num_tokens, "num_phones": num_phones, "block": triton.next_power_of_2(num_states)}
    options = {"num_warps": 16, "num_stages": 1}
    states = (label, blank, exchanged, scales)
    _denominator_forward[(num_rows,)](
        probs, lengths, arcs.contiguous(), ends, *states, totals, finals, num_frames, **sizes, **options
    )
    _denominator_backward[(num_rows,)](
        probs, lengths, arcs.permute(2, 1, 0).contiguous(), ends, *states, finals, num_frames, **sizes, **options
    )
    occupancy = label[:, 1:].unflatten(2, (num_phones, num_tokens)).sum(2)
    occupancy[..., BLANK_ID] = blank[:, 1:].sum(2)
    return totals.sum(), torch.where(length_mask(lengths, num_frames)[:, :, None], occupancy, 0.0)


def ctc(log_probs: Tensor, lengths: Tensor, targets: Tensor, target_lengths: Tensor) -> tuple[Tensor, Tensor]:
    """The sum of the CTC losses and its gradient, (N, T, V) float32; zero for a row too short for its target.

    log_probs: (N, T, V); lengths: (N,) int64; targets: (N, U) int64, padded with any valid id; target_lengths: (N,).
    """
    log_probs, targets = log_probs.float().contiguous(), targets.contiguous()
    num_rows, num_frames, num_tokens = log_probs.shape
    num_states = 2 * targets.shape[1] + 1
    alpha, exchanged = log_probs.new_empty(num_rows, num_frames, num_states), log_probs.new_empty(num_rows, num_states)
    totals = log_probs.new_empty(num_rows)
    inputs = (log_probs, lengths, targets, target_lengths, alpha)
    sizes = (num_frames, num_tokens, targets.shape[1])
    options = {"blank": BLANK_ID, "block": triton.next_power_of_2(num_states), "num_warps": 4, "num_stages": 1}
    _ctc_forward[(num_rows,)](*inputs, totals, *sizes, **options)
    _ctc_backward[(num_rows,)](*inputs, totals, exchanged, *sizes, **options)
    is_counted = length_mask(lengths, num_frames)[:, :, None] & totals.isfinite()[:, None, None]
    occupancy = torch.where(is_counted & length_mask(2 * target_lengths + 1, num_states)[:, None], alpha, 0.0)
    tokens = torch.full((num_rows, num_states), BLANK_ID, device=targets.device)
    tokens[:, 1::2] = targets
    gradient = torch.zeros_like(log_probs).scatter_add_(2, tokens[:, None].expand(alpha.shape), -occupancy)
    return torch.where(totals.isfinite(), -totals, 0.0).sum(), gradient


@triton.jit(do_not_specialize=["num_frames"])
def _denominator_forward(
    probs, lengths, arcs, ends, label_of, blank_of, exchanged, scales, totals, finals, num_frames,
    num_tokens: tl.constexpr, num_phones: tl.constexpr, block: tl.constexpr,
):  # fmt: skip
    """State `state` has the last token `token` and the phone before it, `phone`; its frames are those of the original
    in asr.model.denominator. exchanged: the sum of the label and the blank of each state, then the blanks alone."""
    row = tl.program_id(0).to(tl.int64)
    num_states: tl.constexpr = num_tokens * num_phones
    state = tl.arange(0, block)
    valid = state < num_states
    token, phone = state % num_tokens, state // num_tokens
    probs += row * num_frames * num_tokens
    label_of += row * (num_frames + 1) * num_states
    blank_of += row * (num_frames + 1) * num_states
    exchanged += row * 2 * num_states
    length = tl.load(lengths + row).to(tl.int32)
    label = tl.zeros([block], tl.float32)
    blank = tl.where(state == 0, 1.0, 0.0)
    log_sum = 0.0
    t = 0
    while t < length:  # the interpreter has no `range` of a tensor
        tl.store(exchanged + state, label + blank, mask=valid)
        tl.store(exchanged + num_states + state, blank, mask=valid)
        tl.debug_barrier()
        new = label
        for member in tl.static_range(2):  # a phone has two tokens, except phone 0, which has token 0
            last = 2 * phone - 1 + member
            known = valid & (last >= 0)
            # The same token may repeat only after a blank.
            source = exchanged + last + tl.where(last == token, num_states, 0)
            arc = arcs + last * num_phones * num_tokens + token
            for before in range(num_phones):
                weight = tl.load(arc + before * num_tokens, mask=known, other=0.0)
                new += weight * tl.load(source + before * num_tokens, mask=known, other=0.0)
        blank = (label + blank) * tl.load(probs + t * num_tokens)
        label = new * tl.load(probs + t * num_tokens + token, mask=valid, other=0.0)
        scale = tl.sum(label + blank, axis=0)
        label = label / scale
        blank = blank / scale
        log_sum += tl.log(scale)
        tl.store(scales + row * num_frames + t, scale)
        tl.store(label_of + (t + 1) * num_states + state, label, mask=valid)
        tl.store(blank_of + (t + 1) * num_states + state, blank, mask=valid)
        tl.debug_barrier()
        t += 1
    final = tl.sum((label + blank) * tl.load(ends + state, mask=valid, other=0.0), axis=0)
    tl.store(finals + row, final)
    tl.store(totals + row, log_sum + tl.log(final))


@triton.jit(do_not_specialize=["num_frames"])
def _denominator_backward(
    probs, lengths, arcs, ends, label_of, blank_of, exchanged, scales, finals, num_frames,
    num_tokens: tl.constexpr, num_phones: tl.constexpr, block: tl.constexpr,
):  # fmt: skip
    """Replaces each frame of label_of and blank_of by the occupancy of the states. arcs: with the next token first.
    exchanged: what follows if a token is written next, as (token, phone), so that neighbors read neighbors."""
    row = tl.program_id(0).to(tl.int64)
    num_states: tl.constexpr = num_tokens * num_phones
    state = tl.arange(0, block)
    valid = state < num_states
    token, phone = state % num_tokens, state // num_tokens
    probs += row * num_frames * num_tokens
    label_of += row * (num_frames + 1) * num_states
    blank_of += row * (num_frames + 1) * num_states
    exchanged += row * 2 * num_states
    length = tl.load(lengths + row).to(tl.int32)
    after_label = tl.load(ends + state, mask=valid, other=0.0) / tl.load(finals + row)
    after_blank = after_label
    t = length - 1
    while t >= 0:
        label = label_of + (t + 1) * num_states + state
        blank = blank_of + (t + 1) * num_states + state
        tl.store(label, tl.load(label, mask=valid, other=0.0) * after_label, mask=valid)
        tl.store(blank, tl.load(blank, mask=valid, other=0.0) * after_blank, mask=valid)
        written = after_label * tl.load(probs + t * num_tokens + token, mask=valid, other=0.0)
        tl.store(exchanged + token * num_phones + phone, written, mask=valid)
        tl.debug_barrier()
        of_phone = exchanged + (token + 1) // 2
        others = tl.zeros([block], tl.float32)
        for following in range(num_tokens):
            value = tl.load(of_phone + following * num_phones, mask=valid, other=0.0)
            weight = tl.load(arcs + following * num_states + state, mask=valid, other=0.0)
            others += tl.where(following == token, 0.0, value * weight)
        again = tl.load(of_phone + token * num_phones, mask=valid, other=0.0)
        again = again * tl.load(arcs + token * num_states + state, mask=valid, other=0.0)
        others += after_blank * tl.load(probs + t * num_tokens)
        scale = tl.load(scales + row * num_frames + t)
        after_label = (others + written) / scale
        after_blank = (others + again) / scale
        tl.debug_barrier()
        t -= 1


@triton.jit
def _log_sum(a, b, c):
    largest = tl.maximum(tl.maximum(a, b), c)
    largest = tl.where(largest == float("-inf"), 0.0, largest)
    return tl.log(tl.exp(a - largest) + tl.exp(b - largest) + tl.exp(c - largest)) + largest


@triton.jit(do_not_specialize=["num_frames", "num_tokens", "max_target"])
def _ctc_forward(
    log_probs, lengths, targets, target_lengths, alpha, totals, num_frames, num_tokens, max_target,
    blank: tl.constexpr, block: tl.constexpr,
):  # fmt: skip
    """alpha: the log of the sum over the paths up to each frame and state. States are blank, first token, blank, ..."""
    row = tl.program_id(0).to(tl.int64)
    num_states = 2 * max_target + 1
    state = tl.arange(0, block)
    log_probs += row * num_frames * num_tokens
    alpha += row * num_frames * num_states
    target = targets + row * max_target + state // 2
    length = tl.load(lengths + row).to(tl.int32)
    last = 2 * tl.load(target_lengths + row).to(tl.int32)
    valid, is_token = state <= last, state % 2 == 1
    token = tl.load(target, mask=valid & is_token, other=blank)
    skips = valid & is_token & (state > 1)  # the blank between different tokens
    skips = skips & (token != tl.load(target - 1, mask=skips, other=blank))
    here = tl.load(log_probs + token, mask=valid & (state < 2), other=float("-inf"))
    t = 1
    while t < length:
        tl.store(alpha + (t - 1) * num_states + state, here, mask=valid)
        tl.debug_barrier()
        before = alpha + (t - 1) * num_states + state
        one = tl.load(before - 1, mask=valid & (state > 0), other=float("-inf"))
        two = tl.load(before - 2, mask=skips, other=float("-inf"))
        here = _log_sum(here, one, two)
        here += tl.load(log_probs + t * num_tokens + token, mask=valid, other=float("-inf"))
        t += 1
    tl.store(alpha + (length - 1) * num_states + state, here, mask=valid & (length > 0))
    here = tl.where(valid & (state >= last - 1), here, float("-inf"))
    largest = tl.max(here, axis=0)
    total = tl.log(tl.sum(tl.exp(here - tl.where(largest == float("-inf"), 0.0, largest)), axis=0)) + largest
    tl.store(totals + row, tl.where(length > 0, total, tl.where(last == 0, 0.0, float("-inf"))))


@triton.jit(do_not_specialize=["num_frames", "num_tokens", "max_target"])
def _ctc_backward(
    log_probs, lengths, targets, target_lengths, alpha, totals, exchanged, num_frames, num_tokens, max_target,
    blank: tl.constexpr, block: tl.constexpr,
):  # fmt: skip
    """Replaces alpha by the occupancy of each frame and state."""
    row = tl.program_id(0).to(tl.int64)
    num_states = 2 * max_target + 1
    state = tl.arange(0, block)
    log_probs += row * num_frames * num_tokens
    alpha += row * num_frames * num_states
    exchanged += row * num_states
    target = targets + row * max_target + state // 2
    length = tl.load(lengths + row).to(tl.int32)
    last = 2 * tl.load(target_lengths + row).to(tl.int32)
    valid, is_token = state <= last, state % 2 == 1
    token = tl.load(target, mask=valid & is_token, other=blank)
    skips = valid & is_token & (state + 2 <= last)
    skips = skips & (token != tl.load(target + 1, mask=skips, other=blank))
    total = tl.load(totals + row)
    after = tl.where(valid & (state >= last - 1), 0.0, float("-inf"))  # the paths after this frame
    t = length - 1
    while t >= 0:
        here = alpha + t * num_states + state
        occupancy = tl.exp(tl.load(here, mask=valid, other=float("-inf")) + after - total)
        tl.store(here, occupancy, mask=valid)
        after += tl.load(log_probs + t * num_tokens + token, mask=valid, other=float("-inf"))
        tl.store(exchanged + state, after, mask=valid)
        tl.debug_barrier()
        one = tl.load(exchanged + state + 1, mask=valid & (state < last), other=float("-inf"))
        two = tl.load(exchanged + state + 2, mask=skips, other=float("-inf"))
        after = _log_sum(after, one, two)
        tl.debug_barrier()
        t -= 1
