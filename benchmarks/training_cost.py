"""What training a recipe costs, by calculation: python benchmarks/training_cost.py [RECIPE ...]

Runs a training step of one batch on tensors without content: counts the floating-point operations of forward and
backward, the bytes that backward needs, and the parameters. Attention counts as the fused kernel that a GPU runs,
which keeps its inputs and its output but not the scores. From that, for a GPU of given peak and utilization: memory,
and hours to the end of the recipe. Needs no GPU and takes seconds.
"""

from __future__ import annotations

import argparse
import math
from unittest import mock

import torch
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.utils.flop_counter import FlopCounterMode

from asr.config import Config, load_config
from asr.features import NUM_MEL_BINS
from asr.model import layers, model
from asr.model.model import AsrModel, with_vocab

UTTERANCE_S = 12.3
"""Mean of LibriSpeech's training utterances."""
TOKENS_PER_S = 5.0
"""Of speech at 2.7 words a second in 500 BPE units, rounded up."""
BYTES_PER_PARAMETER = 4 * 5
"""float32: weight, gradient, the two moments of AdamW, moving average"""


class FusedAttention(torch.autograd.Function):
    """Replaces the fused kernel: keeps for backward what that keeps, and nothing else."""

    @staticmethod
    def forward(ctx, query: Tensor, key: Tensor, value: Tensor) -> Tensor:  # type: ignore[no-untyped-def,override]
        out = torch.empty_like(query)
        ctx.save_for_backward(query, key, value, out)
        return out

    @staticmethod
    def backward(ctx, grad: Tensor) -> tuple[Tensor, ...]:  # type: ignore[no-untyped-def,override]
        return tuple(torch.empty_like(saved) for saved in ctx.saved_tensors[:3])


def one_step(config: Config, fused: bool) -> tuple[int, int, int]:
    """Parameters, bytes kept for backward and floating-point operations of one batch."""
    num_views = 2 if config.loss.cr_ctc_weight > 0 else 1
    batch = round(config.data.max_batch_s / UTTERANCE_S) * num_views
    num_tokens = round(UTTERANCE_S * TOKENS_PER_S)
    attend = (lambda q, k, v, bias: FusedAttention.apply(q, k, v)) if fused else layers.attend
    saved: dict[int, Tensor] = {}
    with (
        FakeTensorMode(),
        mock.patch.object(layers, "attend", attend),
        mock.patch.object(model, "_ctc_loss", lambda log_probs, *_: log_probs.sum()),
    ):
        network = AsrModel(with_vocab(config.model, config.tokenizer.vocab_size))
        own = {p.untyped_storage()._cdata for p in network.parameters()}

        def keep(tensor: Tensor) -> Tensor:
            saved[tensor.untyped_storage()._cdata] = tensor
            return tensor

        with (
            FlopCounterMode(display=False) as counter,
            torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor),
        ):
            with torch.autocast("cpu", torch.bfloat16):
                losses = network.losses(
                    torch.empty(batch, round(UTTERANCE_S * 100), NUM_MEL_BINS),
                    torch.full((batch,), round(UTTERANCE_S * 100)),
                    torch.ones(batch, num_tokens, dtype=torch.int64),
                    torch.full((batch,), num_tokens),
                    config.loss,
                    [(16, 64)] * num_views,
                )
            num_bytes = sum(t.untyped_storage().nbytes() for key, t in saved.items() if key not in own)
            losses.total.backward()
        return sum(p.numel() for p in network.parameters()), num_bytes, counter.get_total_flops()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("recipes", nargs="*", default=["tiny", "librispeech-100h", "librispeech-960h"])
    parser.add_argument("--peak", type=float, default=312.0, help="of the GPU in TFLOP/s, bf16 (default: 312, A100)")
    parser.add_argument("--utilization", type=float, default=0.4, help="share of the peak that is reached (0.4)")
    args = parser.parse_args()
    for recipe in args.recipes:
        config = load_config(recipe)
        parameters, num_bytes, _ = one_step(config, fused=True)
        _, _, flops = one_step(config, fused=False)
        audio_s = round(config.data.max_batch_s / UTTERANCE_S) * UTTERANCE_S
        state_gb = parameters * BYTES_PER_PARAMETER / 1e9
        steps = config.train.max_steps * max(config.train.batches_per_step, 1)
        hours = steps * flops / (args.peak * 1e12 * args.utilization) / 3600
        print(
            f"{recipe}: {parameters / 1e6:.1f} M parameters x {BYTES_PER_PARAMETER} bytes = {state_gb:.2f} GB; "
            f"a batch of {audio_s:.0f} s keeps {num_bytes / 1e9:.1f} GB ({num_bytes / audio_s / 1e6:.1f} MB a second "
            f"of audio); together {math.ceil(state_gb + num_bytes / 1e9)} GB\n"
            f"  {flops / 1e12:.2f} TFLOP a batch ({flops / audio_s / 1e9:.1f} GFLOP a second of audio) x {steps} "
            f"batches / ({args.utilization:g} x {args.peak:g} TFLOP/s) = {hours:.1f} hours; "
            f"{steps * audio_s / 3600:.0f} hours of audio"
        )


if __name__ == "__main__":
    main()
