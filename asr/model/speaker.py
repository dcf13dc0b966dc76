"""A running mean of the features, with which the encoder adapts to speaker and channel.

Cepstral mean normalization subtracts the mean of the utterance, or a running mean in a live stream (Kaldi's
`apply-cmvn-online`). Here two learned maps of the running mean are added, one to the features and one to the input of
the layers, where it serves as a speaker vector. Both maps are zero before training and change nothing.

Frames are weighted by their energy; otherwise pauses would dominate the mean. The weight of a frame is a power of its
energy, so a change of volume scales all weights by one factor. All frames of a chunk use the mean at the end of the
chunk.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from asr.features import NUM_MEL_BINS

SLOPE = 1.5
"""Exponent of a frame's weight per unit of its normalized level: speech has about 25 times the weight of pauses."""
MAX_LEVEL = 4.0
"""Frames above this level do not count: noise at full scale has level 3, so no valid recording exceeds it."""
PRIOR = 300.0
"""Weight of the mean of the training data, which is zero: that of about one second of speech."""
MEMORY = 3000.0
"""Feature frames after which a frame's weight has decayed to 1 / e: 30 s."""

NUM_SUMS = NUM_MEL_BINS + 1


class SpeakerMean(nn.Module):
    """Weighted sums of normalized features, and the maps of their mean."""

    def __init__(self, dim: int) -> None:
        super().__init__()
        self.to_features = nn.Linear(NUM_MEL_BINS, NUM_MEL_BINS, bias=False)
        self.to_layers = nn.Linear(NUM_MEL_BINS, dim, bias=False)
        for linear in (self.to_features, self.to_layers):
            nn.init.zeros_(linear.weight)

    @staticmethod
    def init_sums(batch_size: int, device: torch.device | str = "cpu") -> Tensor:
        """(batch_size, 81) float32: the sums before the first chunk."""
        return torch.zeros(batch_size, NUM_SUMS, device=device)

    @staticmethod
    def added(x: Tensor, num_valid: Tensor) -> Tensor:
        """The sums over the frames of a chunk.

        Args:
            x: (..., T, 80) float32, normalized features.
            num_valid: (...) int64, frames from the chunk's start to the end of the utterance: may be negative or above
                T.
        Returns:
            (..., 81) float32: for each bin the sum of weight times feature; last, the sum of the weights.
        """
        level = x.mean(-1)
        counts = (torch.arange(x.shape[-2], device=x.device) < num_valid[..., None]) & (level <= MAX_LEVEL)
        weight = torch.where(counts, (SLOPE * level.clamp(max=MAX_LEVEL)).exp(), 0.0)
        # One product per row of the batch: ONNX Runtime's sums over an axis depend on the batch.
        return (weight[..., None, :] @ F.pad(x, (0, 1), value=1.0)).squeeze(-2)

    @staticmethod
    def decay_after(num_frames: Tensor) -> Tensor:
        """The decay of a sum, float32, after `num_frames` feature frames."""
        return torch.exp(num_frames.float() / -MEMORY)

    @staticmethod
    def running(x: Tensor, num_valid: Tensor) -> Tensor:
        """K chunks (N, K, T, 80), with num_valid (N, K), as for `added` -> (N, K, 81): the sums at the end of each."""
        chunk = torch.arange(x.shape[1], device=x.device)
        age = (chunk[:, None] - chunk[None, :]) * x.shape[2]
        kept = SpeakerMean.decay_after(age.clamp(min=0)).tril()
        with torch.autocast(x.device.type, enabled=False):
            return kept @ SpeakerMean.added(x, num_valid)

    def forward(self, sums: Tensor) -> tuple[Tensor, Tensor]:
        """(..., 81) running sums -> addends of the features (..., 80) and of the layers' input (..., dim)."""
        mean = sums[..., :-1] / (sums[..., -1:] + PRIOR)
        return self.to_features(mean), self.to_layers(mean)
