"""The ranges of activations, for int8 products with one scale for all rows (see asr.export.quantize).

They are recorded for the products of the layers. The magnitudes of rows after a norm vary little: the largest is about
twice most others. Rows after the attention are means of such products, and hidden units are one product away.
"""

from __future__ import annotations

import wave
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx

import asr
from asr._core import Fbank
from asr.export.parity import Case, speech_like
from asr.features import SUBSAMPLING
from asr.model.model import AsrModel
from asr.runtime.onnx_session import open_session

SAMPLE = Path(asr.__file__).parent / "samples" / "sample.wav"
AFTER_LAYERS = ("attention.out.", "feed_forward.down.")
"""In the names of matrices whose rows come from an attention or an activation."""
MARGIN = 1.25
"""Range of an activation relative to the maximum in the examples; larger values are clipped."""

Array = npt.NDArray[Any]


def ranges_in_layers(
    graph: onnx.ModelProto, model: AsrModel, run: Callable[[Any, Array, Case], object], case: Case
) -> dict[str, float]:
    """The range of the rows of each product in the layers that follow a norm, an attention or an activation, by name.

    Products of the CTC heads are excluded, so that non-finite rows remain visible in the results.

    run: steps a session of `graph` through features (1, T, 80) with the chunks of a case (`run_zipformer`).
    case: gives the chunk and the left context.
    """
    norms = {node.output[0] for node in graph.graph.node if node.op_type == "LayerNormalization"}
    names = {
        rows
        for rows, weight in constant_products(graph)
        if (rows in norms and "ctc." not in weight) or any(name in weight for name in AFTER_LAYERS)
    }
    recorder = Recorder(graph, names)
    advance = SUBSAMPLING * case.chunk_size
    for features in _examples(model):
        features = np.resize(features, (max(len(features), 2 * advance), features.shape[1]))  # repeats a short one
        num_chunks = len(features) // advance - 1
        run(recorder, features[None], case._replace(batch_size=1, num_chunks=num_chunks))
    return recorder.ranges()


def constant_products(graph: onnx.ModelProto) -> list[tuple[str, str]]:
    """The names of the rows and of the matrix of each product with a constant matrix."""
    constants = {tensor.name for tensor in graph.graph.initializer}
    products = (node for node in graph.graph.node if node.op_type == "MatMul")
    return [(node.input[0], node.input[1]) for node in products if node.input[1] in constants]


class Recorder:
    """An ONNX Runtime session that records the largest magnitude of inner values."""

    def __init__(self, graph: onnx.ModelProto, names: Iterable[str]) -> None:
        """names: names of the inner values."""
        self.largest = dict.fromkeys(sorted(names), 1e-12)
        probe = onnx.ModelProto()
        probe.CopyFrom(graph)
        probe.graph.output.extend(onnx.helper.make_empty_tensor_value_info(name) for name in names)
        self._session = open_session(probe.SerializeToString(), "the exported graph", "cpu", 1)

    def get_inputs(self) -> list[Any]:
        return self._session.get_inputs()

    def get_outputs(self) -> list[Any]:
        return [output for output in self._session.get_outputs() if output.name not in self.largest]

    def run(self, outputs: Sequence[str] | None, feeds: Mapping[str, Array]) -> list[Array]:
        outputs = [output.name for output in self.get_outputs()] if outputs is None else outputs
        values = self._session.run([*outputs, *self.largest], feeds)
        for name, value in zip(self.largest, values[len(outputs) :], strict=True):
            self.largest[name] = max(self.largest[name], float(np.abs(value).max(initial=0.0)))
        return values[: len(outputs)]

    def ranges(self) -> dict[str, float]:
        """The range of each inner value, keyed by name."""
        return {name: MARGIN * value for name, value in self.largest.items()}


def _examples(model: AsrModel) -> Iterator[Array]:
    """Features (T, 80) float32 of the bundled speech sample, and of noise at the level of the training data."""
    with wave.open(str(SAMPLE)) as file:
        samples = np.frombuffer(file.readframes(file.getnframes()), np.int16)
    fbank = Fbank()
    fbank.accept_waveform(samples)
    fbank.input_finished()
    yield fbank.get_frames(0, fbank.num_frames_ready)
    yield from speech_like(model, Case(2, 16, 0, 12), seed=0)[0]
