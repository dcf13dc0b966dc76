"""Makes tiny.onnx and tiny.decoder.onnx: a small random network whose CTC head is fitted to the tests' conversation.

    PYTHONPATH=tests python tests/support/make_tiny.py

Needs PyTorch; most tests that read the file do not. tests/export/test_export.py says when it must be made again.
"""

from __future__ import annotations

from pathlib import Path

import torch
import torch.nn.functional as F
from conftest import TOKENS, three_utterances

from asr.config import Config, ModelConfig, TokenizerConfig
from asr.export.write import export_model
from asr.features import fbank
from asr.model.model import AsrModel
from asr.tokenizer import Tokenizer
from asr.training.pretrained import Pretrained

PATH = Path(__file__).with_name("tiny.onnx")


@torch.no_grad()
def fitted() -> AsrModel:
    """Only the CTC head is fitted, by least squares: blank in silence, otherwise a token that depends on the sound;
    every fourth token is a word boundary."""
    torch.manual_seed(3)
    model = AsrModel(
        ModelConfig(
            dim=64,
            num_heads=4,
            encoder_layers=3,
            encoder_ff_dim=128,
            decoder_layers=1,
            decoder_ff_dim=128,
            subsampling_channels=8,
            vocab_size=len(TOKENS),
        )
    ).eval()
    model.encoder.set_cmvn(torch.full((80,), -9.0), torch.full((80,), 3.0))
    for parameter in model.parameters():
        parameter.add_(0.05 * torch.randn_like(parameter))
    features = fbank(three_utterances())[None]
    hidden = model(features, torch.tensor([features.shape[1]]), 16, 64)[1][0]
    sound = features[0, 3::4][: len(hidden)]
    kinds = ((sound - sound.mean(0)) @ torch.randn(80, len(TOKENS) - 3)).argmax(1)
    kinds[kinds % 4 == 0] = 0
    target = F.one_hot(kinds + 3, len(TOKENS)).float()
    target[sound.mean(1) < -14.0] = torch.eye(len(TOKENS))[0]
    inputs = torch.cat((hidden, torch.ones(len(hidden), 1)), 1)
    ridge = 1e-2 * torch.eye(inputs.shape[1])
    solution = 12.0 * torch.linalg.solve(inputs.T @ inputs + ridge, inputs.T @ target)
    model.ctc.weight.copy_(solution[:-1].T)
    model.ctc.bias.copy_(solution[-1])
    return model


if __name__ == "__main__":
    model = fitted()
    config = Config(model=model.config, tokenizer=TokenizerConfig(kind="char"))
    export_model(Pretrained(config, Tokenizer("char", TOKENS), model.state_dict()), PATH, language="en")
