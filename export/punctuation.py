"""The punctuation network as an .onnx file: traced, stored in int8, compared with PyTorch."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
import onnx
import torch
from torch import Tensor, nn

from asr._core import (
    PUNCTUATION_INPUTS,
    PUNCTUATION_OUTPUTS,
    PUNCTUATION_TYPE,
    PUNCTUATION_VERSION,
    punctuation_units,
)
from asr.export.graph import output_path, trace
from asr.export.parity import MAX_DIVERGENCE, hold
from asr.export.quantize import quantize
from asr.export.ranges import Recorder, constant_products
from asr.export.write import with_checksum
from asr.files import replacing
from asr.punctuation.model import Punctuator
from asr.runtime.punctuation import Punctuation
from asr.training.checkpoint import Checkpoint

MAX_ERROR = 1e-4
"""float32: largest absolute difference of a probability."""
MIN_AGREEMENT = 0.98
"""int8: share of words with the same mark and the same case."""


@dataclass(frozen=True)
class PunctuationReport:
    path: Path
    size: int
    """Bytes of the file."""
    num_words: int
    """Words that were compared with PyTorch."""
    max_error: float
    """Largest absolute difference of a probability."""
    divergence: float
    """Mean KL divergence in nats per word, of marks or cases, whichever is larger."""
    agreement: float
    """Share of words with the same mark and the same case."""


def export_punctuation(
    model: Punctuator, checkpoint: Checkpoint, path: str | Path, *, int8: bool = False, license: str = ""
) -> PunctuationReport:
    """Writes what `asr.punctuation.task.load` returns as one file; replaces a file only if the new one agrees with it.

    Raises ExportError if the file differs, OSError from writing.
    """
    output: Path = output_path(path)
    graph = punctuation_graph(model)
    if int8:
        graph = quantize(graph, _ranges(graph), tables=True)
    onnx.helper.set_model_props(
        graph,
        {
            "model_type": PUNCTUATION_TYPE,
            "format_version": str(PUNCTUATION_VERSION),
            "look_ahead": str(model.look_ahead),
            "left_context": str(model.left_context),
            "mixed_case": json.dumps(checkpoint.extra["mixed"], ensure_ascii=False),
            "license": license,
            "quantization": "int8" if int8 else "none",
            "config": json.dumps(asdict(model.config)),
            "training": json.dumps(checkpoint.summary()),
        },
    )
    with replacing(output, durable=True) as part:
        part.write_bytes(with_checksum(graph))
        return check(model, Punctuation(part), output, part.stat().st_size, int8)


class _Probabilities(nn.Module):
    def __init__(self, model: Punctuator) -> None:
        super().__init__()
        self.model = model

    def forward(self, features: Tensor, pauses: Tensor, num_units: Tensor) -> tuple[Tensor, Tensor]:
        return self.model.probabilities(features, pauses, num_units)


def punctuation_graph(model: Punctuator) -> onnx.ModelProto:
    """The float32 graph; the number of texts and of units is dynamic."""
    units = punctuation_units(["so", "it", "is"], None, continues=False, complete=True)
    example = tuple(torch.tensor(array).repeat_interleave(2, 0) for array in units.work.inputs.values())
    dims = {0: "N", 1: "T"}
    return trace(
        _Probabilities(model), example, (dims, dims, {0: "N"}), (dims, dims), PUNCTUATION_INPUTS, PUNCTUATION_OUTPUTS
    )


def check(model: Punctuator, runtime: Punctuation, path: Path, size: int, int8: bool) -> PunctuationReport:
    """Compares the file with PyTorch over texts of 1 to 80 words. Raises ExportError if they differ too much."""
    found, expected = [], []
    for words, pauses_s, continues, complete in example_texts():
        found.append(runtime.answer(words, pauses_s, continues=continues, complete=complete))
        expected.append(model.answer(words, pauses_s, continues=continues, complete=complete))
    error, divergence, agree = 0.0, 0.0, True
    for of_file, of_torch in zip(zip(*found, strict=True), zip(*expected, strict=True), strict=True):
        q, p = np.concatenate(of_file), np.concatenate(of_torch)
        error = float(np.maximum(error, np.abs(p - q).max()))  # `max` would drop NaN
        divergence = float(np.maximum(divergence, (p * (np.log(p + 1e-9) - np.log(q + 1e-9))).sum(-1).mean()))
        agree = agree & (p.argmax(-1) == q.argmax(-1))
    report = PunctuationReport(path, size, len(p), error, divergence, float(np.mean(agree)))
    if int8:
        bounds = [
            ("divergence of posteriors", divergence, MAX_DIVERGENCE),
            ("share of words with another mark or case", 1 - report.agreement, 1 - MIN_AGREEMENT),
        ]
    else:
        bounds = [("error", error, MAX_ERROR)]
    hold(bounds, int8)
    return report


SENTENCES = """
    good morning how did you sleep | i do not know what he wants but he will not leave
    mister smith went to paris in may | have you seen my new hat
    where is the letter that came on tuesday | she's right isn't she | of course we can meet again next week if you like
    the train to new york leaves at half past nine | okay let me see what we have here | it's john's turn so sit down
    after the war the family moved to england where they lived in a small house by the river | no thank you
    the committee which met on monday agreed that the price of bread sugar and coal had to fall | wait don't go
    he opened the door looked round and said well i never | what a night | yes i think that will work for the api
    when the rain stopped we walked along the shore talking of books of friends and of the years to come
    the university of cambridge was founded in the thirteenth century | did you call doctor brown or miss allen
    however nobody had told them about the bridge | in fact most of the data is wrong and we should say so
    why not | my dear sir i beg your pardon | there are three reasons first it is cheap second it is quick
    if that's true then who paid for it | the old man smiled and though he was tired began to sing
    thanks for having me | so you know i was like this is never going to happen and then it did
    the species is found in brazil peru and parts of mexico | tell me captain how far is it to the island
    bbc radio paid $25 at 9:30 | oh how lovely | she laughed but said nothing | london is older than you would guess
"""
Text = tuple[list[str], list[float] | None, bool, bool]


def example_texts() -> list[Text]:
    """A fixed random sequence of sentences, with and without pauses.

    One word in twenty consists of random letters. Words in random order would be a poor test: their marks are close to
    a tie even in PyTorch, and their activations have other ranges.
    """
    random = np.random.default_rng(0)
    sentences = [line.split() for line in SENTENCES.replace("|", "\n").strip().splitlines()]
    texts = []
    for i, num_words in enumerate((1, 2, 3, 5, 8, 13, 20, 33, 50, 80) * 4):
        order = random.permutation(len(sentences))
        words = [word for place in order for word in sentences[place]][:num_words]
        for place in np.flatnonzero(random.random(num_words) < 0.05):
            words[place] = "".join(random.choice(list("abcdefghijklmnopqrstuvwxyz"), 1 + random.integers(9)))
        pauses = None if i % 3 == 0 else [float(pause) for pause in random.exponential(0.2, num_words)]
        texts.append((words, pauses, i % 4 == 1, i % 5 != 2))
    return texts


def _ranges(graph: onnx.ModelProto) -> dict[str, float]:
    """Of all rows that are multiplied by a constant matrix. A partial has some twenty words, so computing a scale for
    each row would cost more than the products."""
    recorder = Recorder(graph, {rows for rows, _ in constant_products(graph)})
    for words, pauses_s, continues, complete in example_texts():
        units = punctuation_units(words, pauses_s, continues=continues, complete=complete)
        recorder.run(None, units.work.inputs)
    return recorder.ranges()
