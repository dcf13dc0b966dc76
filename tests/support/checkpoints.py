"""Small checkpoints with the same random weights."""

from __future__ import annotations

import torch

from asr.config import Config, ModelConfig
from asr.model.model import AsrModel
from asr.tokenizer import Tokenizer
from asr.training.checkpoint import Checkpoint

TOKENS = ("<blk>", "<unk>", "<sos/eos>", "▁", "A", "B")


def checkpoint_of_step(step: int) -> Checkpoint:
    config = Config(model=ModelConfig(dim=32, num_heads=2, encoder_layers=1, encoder_ff_dim=64, decoder_ff_dim=64))
    tokenizer = Tokenizer("char", TOKENS)
    torch.manual_seed(0)
    weights = AsrModel(Checkpoint(config, tokenizer, {}, {}, {}).model_config).state_dict()
    return Checkpoint(config, tokenizer, weights, weights, {"step": step})
