"""The model: encoder, CTC heads, attention decoder, and their joint loss.

`step` is the function that all other implementations also compute: step(features, cache) -> (log_probs, cache').
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from asr.config import LossConfig, ModelConfig
from asr.lexicon.phones import num_phone_tokens
from asr.model.ctc import ctc_loss
from asr.model.decoder import IGNORE_ID, Decoder, append_eos, shift_right
from asr.model.denominator import Denominator
from asr.model.encoder import Cache, Encoder
from asr.model.masks import length_mask


class Losses(NamedTuple):
    """Scalar float32 each, per token of the batch."""

    total: Tensor
    ctc: Tensor
    attention: Tensor
    consistency: Tensor
    phone_ctc: Tensor


class Step(NamedTuple):
    """The result of `AsrModel.step` for a chunk of c encoder frames."""

    log_probs: Tensor
    """(N, c, vocab_size) float32"""
    encoder_out: Tensor
    """(N, c, dim)"""
    cache: Cache
    phone_log_probs: Tensor | None
    """(N, c, 1 + 2 x phones) float32; only with a phone head"""


class AsrModel(nn.Module):
    """Joint CTC/attention model (Watanabe et al. 2017) with a streaming encoder."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        if config.vocab_size < 4:
            raise ValueError(f"model.vocab_size {config.vocab_size} must be at least 4: take it from the tokenizer")
        self.config = config
        self.encoder = Encoder(config)
        self.ctc = nn.Linear(config.dim, config.vocab_size)
        self.decoder = Decoder(config)
        self.phone_ctc = nn.Linear(config.dim, num_phone_tokens(config.phones)) if config.phones else None

    def forward(
        self, features: Tensor, num_frames: Tensor, chunk_size: int = 0, left_context: int = -1
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Whole utterances: (N, T, 80), (N,) -> log_probs (N, T // 4, V), encoder_out, lengths (N,)."""
        encoder_out, lengths, _ = self.encoder(self.ctc, features, num_frames, ((chunk_size, left_context),))
        return self.ctc(encoder_out).float().log_softmax(-1), encoder_out, lengths

    def step(self, features: Tensor, num_valid: Tensor, cache: Cache) -> Step:
        """One chunk: (N, 4c + 3, 80) float32, (N,) int64 valid feature frames, and the cache before it."""
        rows, new = self.encoder.step(self.ctc, features, num_valid, cache)
        shape = (features.shape[0], -1)
        log_probs = self.ctc(rows).float().log_softmax(-1).unflatten(0, shape)
        phones = None if self.phone_ctc is None else self.phone_log_probs(rows).unflatten(0, shape)
        encoder_out = rows.unflatten(0, shape)
        return Step(log_probs, encoder_out, self.encoder.next_cache(cache, num_valid, new), phones)

    def phone_log_probs(self, encoder_out: Tensor) -> Tensor:
        """Output of the phone head: encoder_out (N, T, dim) -> log_probs (N, T, 1 + 2 x phones) float32.

        Token ids are those of asr.lexicon.PhoneTokenizer. Raises ValueError for a model without phones.
        """
        if self.phone_ctc is None:
            raise ValueError("this model has no phone head: train one with data.lexicon")
        return self.phone_ctc(encoder_out).float().log_softmax(-1)

    def losses(
        self,
        features: Tensor,
        num_frames: Tensor,
        targets: Tensor,
        target_lengths: Tensor,
        config: LossConfig,
        chunks: Sequence[tuple[int, int]] = ((0, -1),),
        num_tokens: Tensor | None = None,
        phones: Tensor | None = None,
        phone_lengths: Tensor | None = None,
        denominator: Denominator | None = None,
    ) -> Losses:
        """The training losses of a batch.

        Args:
            features: (N, T, 80) float32; with CR-CTC the second half of the batch is another augmented view of the
                first half.
            num_frames: (N,) int64; targets: (N, U) int64 padded with IGNORE_ID; target_lengths: (N,) int64
            chunks: chunk size and left context of each view. They may differ between the views of CR-CTC; the view with
                less context then learns from the other.
            num_tokens: scalar, divisor of the sums over the batch. Default: the tokens of this batch, at least one per
                utterance; in data-parallel training the mean over all processes.
            phones: (N, P) int64 phone tokens, padded with IGNORE_ID, of a model with a phone head;
                phone_lengths: (N,) int64
            denominator: its logarithm is added to the loss of the phone head, with weight `denominator_weight`
        """
        encoder_out, lengths, inner = self.encoder(self.ctc, features, num_frames, chunks)
        scale = 1.0 / (target_lengths.clamp(min=1).sum() if num_tokens is None else num_tokens).clamp(min=1)
        log_probs = self.ctc(encoder_out).float().log_softmax(-1)
        ctc = ctc_loss(log_probs, lengths, targets, target_lengths)
        share = config.intermediate_ctc_weight
        if share > 0:
            inner_log_probs = (logits.float().log_softmax(-1) for logits in inner)
            inner_ctc = sum(ctc_loss(p, lengths, targets, target_lengths) for p in inner_log_probs) / len(inner)
            ctc = (1.0 - share) * ctc + share * inner_ctc
        attention = self._attention_loss(encoder_out, lengths, targets, target_lengths, config)
        consistency = consistency_loss(log_probs, lengths) if config.cr_ctc_weight > 0 else torch.zeros_like(ctc)
        phone_ctc = torch.zeros_like(ctc)
        if phones is not None and phone_lengths is not None:
            phone_log_probs = self.phone_log_probs(encoder_out)
            phone_ctc = ctc_loss(phone_log_probs, lengths, phones, phone_lengths)
            if denominator is not None:
                phone_ctc = phone_ctc + config.denominator_weight * denominator(phone_log_probs, lengths)
            if config.cr_ctc_weight > 0:
                consistency = consistency + consistency_loss(phone_log_probs, lengths)
        ctc, attention, consistency, phone_ctc = (x * scale for x in (ctc, attention, consistency, phone_ctc))
        joint = config.ctc_weight * ctc + (1.0 - config.ctc_weight) * attention
        if phones is not None:
            joint = (1.0 - config.phone_weight) * joint + config.phone_weight * phone_ctc
        return Losses(joint + config.cr_ctc_weight * consistency, ctc, attention, consistency, phone_ctc)

    def _attention_loss(
        self,
        encoder_out: Tensor,
        lengths: Tensor,
        targets: Tensor,
        target_lengths: Tensor,
        config: LossConfig,
    ) -> Tensor:
        tokens = shift_right(targets)
        expected = append_eos(targets, target_lengths)
        if config.scheduled_sampling > 0:
            # Parallel scheduled sampling (Mihaylova and Martins 2019): a first pass predicts, some predictions
            # replace the true history, and the second pass is trained on it.
            with torch.no_grad():
                guess = self.decoder(tokens, encoder_out, lengths).argmax(-1)
            replace = torch.rand(guess.shape, device=guess.device) < config.scheduled_sampling
            tokens = torch.cat((tokens[:, :1], torch.where(replace, guess, expected.clamp(min=0))[:, :-1]), dim=1)
        logits = self.decoder(tokens, encoder_out, lengths)
        return F.cross_entropy(
            logits.float().transpose(1, 2),
            expected,
            ignore_index=IGNORE_ID,
            label_smoothing=config.label_smoothing,
            reduction="sum",
        )


def consistency_loss(log_probs: Tensor, lengths: Tensor) -> Tensor:
    """CR-CTC (Yao et al. 2024): symmetric KL divergence between two views; the target view has no gradient.

    Args:
        log_probs: (2N, T, V) float32, view one and view two of the same utterances in the two halves.
        lengths: (2N,) int64
    Returns:
        scalar, the sum over frames and both directions. Like the CTC loss of both views, it is later divided by the
        tokens of both.
    """
    swapped = torch.cat(log_probs.chunk(2)[::-1]).detach()
    divergence = (swapped.exp() * (swapped - log_probs)).sum(-1)
    return torch.where(length_mask(lengths, log_probs.shape[1]), divergence, 0.0).sum()


def with_vocab(config: ModelConfig, vocab_size: int) -> ModelConfig:
    """`config` with a vocabulary of `vocab_size` tokens."""
    return dataclasses.replace(config, vocab_size=vocab_size)
