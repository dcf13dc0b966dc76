"""A random model that writes phones beside letters, and a language model that pronounces its words in them."""

from __future__ import annotations

from pathlib import Path

from conftest import TOKENS, export_tiny

PHONES = ("AA", "B", "K")
ARPA = """\\data\\
ngram 1=7
ngram 2=2

\\1-grams:
-99 <s> -0.2
-1.2 </s>
-2.0 <unk> -0.1
-0.6 A -0.3
-0.9 AB -0.2
-1.0 BACK -0.1
-1.5 B -0.1

\\2-grams:
-0.2 <s> AB
-0.3 A BACK

\\end\\
"""
PRONUNCIATIONS = {"A": [["AA"]], "AB": [["AA", "B"], ["B", "AA"]], "BACK": [["B", "AA", "K"]], "B": [["B"], ["K"]]}


def write_phone_model(folder: Path) -> tuple[Path, Path]:
    """The model file and that of the language model."""
    import torch

    from asr.config import ModelConfig
    from asr.lm.packed import pack, read_arpa, with_pronunciations
    from asr.model.model import AsrModel

    torch.manual_seed(5)
    sizes = {"dim": 32, "num_heads": 2, "encoder_layers": 2, "encoder_ff_dim": 64, "decoder_layers": 1}
    config = ModelConfig(**sizes, decoder_ff_dim=64, subsampling_channels=4, vocab_size=len(TOKENS), phones=PHONES)
    model = AsrModel(config).eval()
    for parameter in model.parameters():
        parameter.data += 0.2 * torch.randn_like(parameter)
    model.encoder.set_cmvn(torch.full((80,), -9.0), torch.full((80,), 3.0))
    export_tiny(model, folder / "phones.onnx")
    packed = with_pronunciations(pack(*read_arpa(iter(ARPA.splitlines()))), list(PHONES), PRONUNCIATIONS)
    (folder / "phones.lm").write_bytes(packed)
    return folder / "phones.onnx", folder / "phones.lm"
