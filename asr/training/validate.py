"""Validation during training: greedy word error rate at full context, 640 ms and 320 ms."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from asr.data.speech import Clip, batches_by_length
from asr.evaluation.wer import WordErrors, count_errors
from asr.features import ENCODER_FRAME_MS
from asr.lexicon.phones import PhoneTokenizer
from asr.model.model import AsrModel
from asr.runtime.search import decode
from asr.tokenizer import Tokenizer

VALIDATION_CHUNKS = (("full", 0), *((f"{ENCODER_FRAME_MS * size}ms", size) for size in (16, 8)))
"""Name and chunk size in encoder frames; with chunks, the left context is 64 frames, 2.56 s."""

LEFT_CONTEXT = 64


@torch.no_grad()
def validate(
    model: AsrModel,
    tokenizer: Tokenizer,
    clips: Sequence[Clip],
    max_batch_s: float,
    device: torch.device,
    phone_tokenizer: PhoneTokenizer | None = None,
) -> dict[str, WordErrors]:
    """Word errors of `model` on `clips` for each of VALIDATION_CHUNKS, in batches of similar length.

    For a model with a phone head these are phone errors, because its words come from a search with a lexicon.
    """
    errors = {name: WordErrors() for name, _ in VALIDATION_CHUNKS}
    for batch in batches_by_length(clips, max_batch_s):
        matrices = [clip.features() for clip in batch]
        features = torch.nn.utils.rnn.pad_sequence(matrices, batch_first=True)
        num_frames = torch.tensor([len(matrix) for matrix in matrices])
        references = [clip.text for clip in batch]
        if phone_tokenizer is not None:
            references = [phone_tokenizer.decode(phone_tokenizer.encode(text)) for text in references]
        for name, chunk_size in VALIDATION_CHUNKS:
            log_probs, encoder_out, lengths = model(
                features.to(device), num_frames.to(device), chunk_size, LEFT_CONTEXT
            )
            if phone_tokenizer is not None:
                log_probs = model.phone_log_probs(encoder_out)
            rows = zip(log_probs.cpu().numpy(), lengths.tolist(), strict=True)
            units = tokenizer if phone_tokenizer is None else phone_tokenizer
            hypotheses = [units.decode(decode(row[:length], "greedy").tokens) for row, length in rows]
            errors[name] += count_errors(references, hypotheses)
    return errors
