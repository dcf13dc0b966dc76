"""The attention decoder of a checkpoint in PyTorch, for step-by-step searches."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import torch

from asr.model.decoder import Decoder, DecoderCache


class TorchDecoder:
    """A `asr.runtime.joint_search.StepDecoder`."""

    def __init__(self, decoder: Decoder, device: torch.device) -> None:
        self._decoder = decoder
        self._device = device

    @torch.no_grad()
    def begin(self, encoder_out: npt.NDArray[np.float32]) -> DecoderCache:
        # Without audio the decoder attends to one frame of zeros.
        memory = encoder_out if len(encoder_out) else np.zeros((1, encoder_out.shape[1]), np.float32)
        return self._decoder.init_cache(torch.from_numpy(memory)[None].to(self._device))

    @torch.no_grad()
    def step(self, tokens: npt.NDArray[np.int64], cache: DecoderCache) -> tuple[npt.NDArray[np.float32], DecoderCache]:
        logits, cache = self._decoder.step(torch.from_numpy(tokens)[:, None].to(self._device), cache)
        return logits[:, 0].float().log_softmax(-1).cpu().numpy(), cache
