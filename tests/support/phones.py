"""A random model with a phone head and a letter head, and a language model with pronunciations in its phones."""

from __future__ import annotations

from pathlib import Path

from conftest import TOKENS, export_tiny

from support.arpa import UNIGRAMS, packed

PHONES = ("AA", "B", "K")
PRONUNCIATIONS = {"A": [["AA"]], "AB": [["AA", "B"], ["B", "AA"]], "BACK": [["B", "AA", "K"]], "B": [["B"], ["K"]]}


def write_phone_model(folder: Path) -> Path:
    """Writes phones.onnx and phones.lm, the language model, into `folder`; returns it."""
    import torch

    from asr.config import ModelConfig
    from asr.lm.packed import with_pronunciations
    from asr.model.model import AsrModel

    torch.manual_seed(5)
    sizes = {"dim": 32, "num_heads": 2, "encoder_layers": 2, "encoder_ff_dim": 64, "decoder_layers": 1}
    config = ModelConfig(**sizes, decoder_ff_dim=64, subsampling_channels=4, vocab_size=len(TOKENS), phones=PHONES)
    model = AsrModel(config).eval()
    for parameter in model.parameters():
        parameter.data += 0.2 * torch.randn_like(parameter)
    model.encoder.set_cmvn(torch.full((80,), -9.0), torch.full((80,), 3.0))
    export_tiny(model, folder / "phones.onnx")
    words = packed((*UNIGRAMS, "-1.0 BACK -0.1"), ("-0.2 <s> AB", "-0.3 A BACK"))
    (folder / "phones.lm").write_bytes(with_pronunciations(words, list(PHONES), PRONUNCIATIONS))
    return folder
