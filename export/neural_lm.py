"""The neural language model as an .onnx file: traced over trees of tokens, stored in int8, compared with PyTorch."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import cast

import numpy as np
import onnx
import torch
from onnx.helper import make_node
from onnx.numpy_helper import from_array, to_array
from torch import Tensor, nn

from asr._core import NEURAL_LM_INPUTS, NEURAL_LM_OUTPUTS, NEURAL_LM_TYPE, NEURAL_LM_VERSION
from asr.export.graph import ExportError, output_path, trace
from asr.export.parity import hold
from asr.export.quantize import halve, quantize, replace_nodes
from asr.export.write import with_checksum
from asr.files import replacing
from asr.model.layers import block_slices
from asr.neural_lm.config import INTERPOLATION, LM_WEIGHT
from asr.neural_lm.model import NeuralLm, NeuralLmLayer
from asr.runtime.neural_lm import NeuralLmFile
from asr.training.checkpoint import Checkpoint

MAX_ERROR = 2e-3
"""float32 stored as float16: maximum absolute difference of a log-probability."""
MAX_INT8_ERROR = 0.1
"""int8: mean absolute difference of a log-probability of likely tokens."""
NUM_BLOCKS = 8
"""See `NeuralLmGraph`."""


@dataclass(frozen=True)
class NeuralLmReport:
    path: Path
    size: int
    """Bytes of the file."""
    error: float
    """Difference of log-probabilities from PyTorch: the maximum; for int8, the mean."""


class NeuralLmGraph(nn.Module):
    """(T,) int64 pieces, parents, depths and ends -> (T,) log-probability of each piece given its parent.

    Attention scores and logits are computed in blocks of nodes, one after another, which halves the memory of a run and
    takes no more time.
    """

    def __init__(self, model: NeuralLm) -> None:
        super().__init__()
        self.model = model
        for layer in cast("list[NeuralLmLayer]", model.layers):
            layer.self_attention.num_blocks = NUM_BLOCKS

    def forward(self, pieces: Tensor, parents: Tensor, depths: Tensor, ends: Tensor) -> Tensor:
        num_nodes = pieces.shape[0]  # `len` would fix it while tracing
        place = torch.arange(num_nodes)
        mask = (place[None, :] <= place[:, None]) & (place[:, None] < ends[None, :])  # ancestors, in preorder
        given = self.model.hidden(pieces[None], depths, mask[None])[0, parents]
        return torch.cat([self._log_probs(given[rows], pieces[rows]) for rows in block_slices(num_nodes, NUM_BLOCKS)])

    def _log_probs(self, hidden: Tensor, pieces: Tensor) -> Tensor:
        logits = hidden @ self.model.embedding.weight.T
        return logits.log_softmax(-1).gather(1, pieces[:, None])[:, 0]


def export_neural_lm(
    checkpoint: Checkpoint,
    path: str | Path,
    *,
    int8: bool = False,
    share: float = INTERPOLATION,
    weight: float = LM_WEIGHT,
    license: str = "",
) -> NeuralLmReport:
    """Writes the weights of `checkpoint` as one file; replaces a file only if the new one agrees with PyTorch.

    share, weight: see csrc/search/neural_lm.h.
    Raises ExportError if the file differs, ValueError for a share or weight out of range, OSError from writing.
    """
    if not (0 <= share <= 1 and 0 <= weight <= 10):
        raise ValueError(f"share {share} must be in [0, 1], weight {weight} in [0, 10]")
    output: Path = output_path(path)
    model: NeuralLm = checkpoint.network()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.copy_(parameter.half().float())
    example = tuple(torch.from_numpy(each) for each in example_tree(model.config.num_pieces))
    dims = {0: "T"}
    graph = trace(NeuralLmGraph(model), example, (dims,) * 4, (dims,), NEURAL_LM_INPUTS, NEURAL_LM_OUTPUTS)
    if int8:
        graph = _gathered_from_int8(quantize(_transposed(graph)))
    onnx.helper.set_model_props(
        graph,
        {
            "model_type": NEURAL_LM_TYPE,
            "format_version": str(NEURAL_LM_VERSION),
            "pieces": "\n".join(checkpoint.required_tokenizer.tokens),
            "share": str(share),
            "weight": str(weight),
            "license": license,
            "quantization": "int8" if int8 else "none",
            "config": json.dumps(asdict(model.config)),
            "training": json.dumps(checkpoint.summary()),
        },
    )
    with replacing(output, durable=True) as part:
        part.write_bytes(with_checksum(halve(graph)))
        error = _difference(model, NeuralLmFile(part), int8)
        size = part.stat().st_size
        hold([("error of log-probabilities", error, MAX_INT8_ERROR if int8 else MAX_ERROR)], int8)
    return NeuralLmReport(output, size, error)


def example_tree(num_pieces: int, num_nodes: int = 60) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """A fixed random tree: pieces, parents, depths, ends."""
    random = np.random.default_rng(0)
    pieces = random.integers(3, num_pieces, num_nodes)
    pieces[0] = 2
    parents, depths = np.zeros(num_nodes, np.int64), np.zeros(num_nodes, np.int64)
    ends = np.arange(1, num_nodes + 1)
    path = [0]  # from the root to the previous node
    for node in range(1, num_nodes):
        del path[1 + int(random.integers(max(0, len(path) - 4), len(path))) :]
        parents[node], depths[node] = path[-1], len(path)
        ends[path] = node + 1
        path.append(node)
    return pieces, parents, depths, ends


def _difference(model: NeuralLm, file: NeuralLmFile, int8: bool) -> float:
    errors = []
    for num_nodes in (2, 60, 300):
        tree = example_tree(model.config.num_pieces, num_nodes)
        with torch.no_grad():
            expected = NeuralLmGraph(model)(*(torch.from_numpy(each) for each in tree)).numpy()
        errors.append(np.abs(file.log_probs(*tree) - expected)[1:])
    every = np.concatenate(errors)
    return float(every.mean() if int8 else every.max())


def _transposed(graph: onnx.ModelProto) -> onnx.ModelProto:
    """Adds a transposed copy of the embedding table as a constant for the output layer."""
    tensors = {tensor.name: tensor for tensor in graph.graph.initializer}
    added, nodes = [], []
    for node in graph.graph.node:
        if node.op_type == "Transpose" and node.input[0] in tensors:
            added.append(from_array(np.ascontiguousarray(to_array(tensors[node.input[0]]).T), node.output[0]))
        else:
            nodes.append(node)
    replace_nodes(graph, nodes, added)
    return graph


def _gathered_from_int8(graph: onnx.ModelProto) -> onnx.ModelProto:
    """Reads embeddings from the int8 output matrix, so that the file stores the table once."""
    tensors = {tensor.name: tensor for tensor in graph.graph.initializer}
    nodes = []
    for node in graph.graph.node:
        if node.op_type != "Gather" or node.input[0] not in tensors or len(tensors[node.input[0]].dims) != 2:
            nodes.append(node)
            continue
        transposed = f"{node.input[0]}.T"  # so named by `trace`; other matrices may have the same shape
        quantized, scale = f"{transposed}_quantized", f"{transposed}_scale"
        if quantized not in tensors:
            raise ExportError(f"the table {node.input[0]} has no matrix {quantized} in int8")
        out = node.output[0]
        nodes += [
            make_node("Gather", [quantized, node.input[1]], [f"{out}_small"], axis=1),
            make_node("Cast", [f"{out}_small"], [f"{out}_float"], to=onnx.TensorProto.FLOAT),
            make_node("Gather", [scale, node.input[1]], [f"{out}_scale"]),
            make_node("Mul", [f"{out}_float", f"{out}_scale"], [f"{out}_columns"]),  # (dim, N, T) x (N, T)
            make_node("Transpose", [f"{out}_columns"], [out], perm=[1, 2, 0]),
        ]
    replace_nodes(graph, nodes, [])
    return graph
