"""The denominator of sequence-discriminative training: the sum over every sequence of phone tokens.

LF-MMI (Povey et al. 2016) with the CTC topology, as in CTC-CRF (Xiang and Ou 2019): the weight of a sequence is the
network's probability times that of a trigram of phone tokens. The numerator is the CTC probability of the transcript
times its trigram probability, which is a constant, so the loss is the CTC loss plus the logarithm of this sum.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import torch
from torch import Tensor, nn

from asr.model.ctc import has_kernels, with_gradient
from asr.model.masks import length_mask
from asr.tokenizer import BLANK_ID


class Denominator(nn.Module):
    """A trigram of phone tokens, and the sum over all sequences under it.

    Its state is the last token and the phone before it, ignoring the word boundary. That halves the work; the last
    token still has its boundary.

    Attributes:
        arcs: (V, H, V) float32, the probability of the next token after the last token and the phone before it; 0 for
            blank. H = 1 + phones; phone 0 is the beginning of the utterance, as is token 0.
        end: (V, H) float32, the probability that the utterance ends there
    """

    arcs: Tensor
    end: Tensor

    def __init__(self, sequences: Iterable[Sequence[int]], num_phones: int) -> None:
        """Estimates the trigram, interpolated with Witten-Bell weights, from sequences of phone tokens."""
        super().__init__()
        probabilities = _witten_bell(_trigram_counts(sequences, num_phones))
        self.register_buffer("end", probabilities[..., BLANK_ID].clone(), persistent=False)
        probabilities[..., BLANK_ID] = 0.0
        self.register_buffer("arcs", probabilities, persistent=False)

    def forward(self, log_probs: Tensor, lengths: Tensor) -> Tensor:
        """log_probs (N, T, V) float32, lengths (N,) -> scalar, the log of the sum, summed over the batch."""
        compute = _forward_backward
        if has_kernels(log_probs):
            from asr.model.kernels import denominator as compute
        return with_gradient(log_probs, lambda x: compute(x, lengths, self.arcs, self.end))


def _forward_backward(log_probs: Tensor, lengths: Tensor, arcs: Tensor, end: Tensor) -> tuple[Tensor, Tensor]:
    """The log of the sum, a scalar, and its gradient, (N, T, V): forward-backward with a scale per frame (Rabiner
    1989). The gradient is the occupancy of each token.

    A state is the last token v and the phone h before it, (V, N, H). `label` holds states at a frame that outputs v,
    `blank` those at a later frame that outputs blank.
    """
    num_utterances, num_frames, num_tokens = log_probs.shape
    mask = length_mask(lengths, num_frames)
    probs = log_probs.exp() * mask[:, :, None]
    probs[..., BLANK_ID].masked_fill_(~mask, 1.0)  # frames after the end count as certain blanks
    frames = probs.permute(1, 2, 0).unsqueeze(-1)  # (T, V, N, 1)
    repeats = arcs.diagonal(dim1=0, dim2=2).t().unsqueeze(1)  # (V, 1, H), the same token may repeat only after a blank
    phone = (torch.arange(num_tokens, device=probs.device) + 1) // 2  # phone of each token

    label = probs.new_zeros(num_frames + 1, num_tokens, num_utterances, arcs.shape[1])
    blank = torch.zeros_like(label)
    blank[0, 0, :, 0] = 1.0
    scales = probs.new_ones(num_frames + 1, num_utterances)
    for t in range(num_frames):
        either = label[t] + blank[t]
        new = torch.bmm(either, arcs)  # (V, N, V): last token, utterance, next token
        new.diagonal(dim1=0, dim2=2).sub_((label[t] * repeats).sum(-1).t())
        by_phone = torch.cat((new[:1], new[1:].unflatten(0, (-1, 2)).sum(1)))  # (H, N, V)
        torch.mul(label[t] + by_phone.permute(2, 1, 0), frames[t], out=label[t + 1])
        torch.mul(either, frames[t, BLANK_ID], out=blank[t + 1])
        scales[t + 1] = (label[t + 1] + blank[t + 1]).sum((0, 2))
        label[t + 1] /= scales[t + 1].unsqueeze(-1)
        blank[t + 1] /= scales[t + 1].unsqueeze(-1)
    final = ((label[-1] + blank[-1]) * end.unsqueeze(1)).sum((0, 2))  # (N,)
    total = (scales.log().sum(0) + final.log()).sum()

    occupancy = torch.empty_like(frames[..., 0])  # (T, V, N)
    after_label = after_blank = (end.unsqueeze(1) / final[:, None]).expand_as(label[0])
    backwards = arcs.transpose(1, 2)
    for t in reversed(range(num_frames)):
        occupancy[t] = (label[t + 1] * after_label).sum(-1)
        occupancy[t, BLANK_ID] = (blank[t + 1] * after_blank).sum((0, 2))
        written = after_label * frames[t]  # (V, N, H): next token, utterance, phone of the last token
        following = written.permute(2, 1, 0)[phone]  # (V, N, V): last token, utterance, next token
        after_blank = torch.bmm(following, backwards) + after_blank * frames[t, BLANK_ID]
        again = following.diagonal(dim1=0, dim2=2).t().unsqueeze(-1) * repeats
        after_blank = after_blank / scales[t + 1].unsqueeze(-1)
        after_label = after_blank + (written - again) / scales[t + 1].unsqueeze(-1)
    return total, occupancy.permute(2, 0, 1) * mask[:, :, None]


def _trigram_counts(sequences: Iterable[Sequence[int]], num_phones: int) -> Tensor:
    """(V, H, V) float32: last token, phone before it, next token, where 0 is the end."""
    num_tokens = 1 + 2 * num_phones
    found: list[tuple[int, int, int]] = []
    for sequence in sequences:
        tokens = [BLANK_ID, BLANK_ID, *sequence, BLANK_ID]
        found += [(tokens[i - 1], (tokens[i - 2] + 1) // 2, tokens[i]) for i in range(2, len(tokens))]
    counts = torch.zeros(num_tokens, 1 + num_phones, num_tokens)
    if found:
        counts.index_put_(tuple(torch.tensor(found).t()), torch.ones(len(found)), accumulate=True)
    return counts


def _witten_bell(counts: Tensor) -> Tensor:
    """Probabilities over the last dimension of `counts`, interpolated with those of shorter histories (Witten and Bell
    1991): a history with n continuations of k kinds has weight n / (n + k)."""
    unigrams = counts.sum((0, 1)) + 1.0
    estimate = unigrams / unigrams.sum()
    for level in (counts.sum(1, keepdim=True), counts):
        kinds = (level > 0).sum(-1, keepdim=True).clamp(min=1)
        estimate = (level + kinds * estimate) / (level.sum(-1, keepdim=True) + kinds)
    return estimate
