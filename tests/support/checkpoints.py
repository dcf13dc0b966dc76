"""Small checkpoints with the same random weights."""

from __future__ import annotations

import torch

from asr.config import Config, ModelConfig
from asr.tokenizer import Tokenizer
from asr.training.checkpoint import Checkpoint
from asr.training.task import build_network

TOKENS = ("<blk>", "<unk>", "<sos/eos>", "▁", "A", "B")


def checkpoint_of_step(step: int, phones: tuple[str, ...] = ()) -> Checkpoint:
    sizes = {"dim": 32, "num_heads": 2, "encoder_layers": 1, "encoder_ff_dim": 64, "decoder_ff_dim": 64}
    config = Config(model=ModelConfig(**sizes, phones=phones))
    tokenizer = Tokenizer("char", TOKENS)
    torch.manual_seed(0)
    weights = build_network(config, tokenizer).state_dict()
    return Checkpoint(config, tokenizer, weights, weights, {"step": step, "audio_hours": 1.5})
