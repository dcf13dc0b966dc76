"""The neural language model at run time: an ONNX file of `asr export` that scores a tree of word pieces."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import numpy.typing as npt

from asr._core import NEURAL_LM_INPUTS, NEURAL_LM_OUTPUTS, NeuralLmMetadata, PieceTree
from asr.runtime.metadata import EXPORT_AGAIN, MetadataError
from asr.runtime.onnx_session import ModelError, open_session, read_properties, run


def bundled_neural_lm() -> Path | None:
    """The bundled neural language model of English; None if the package was built without it."""
    path = Path(__file__).parents[1] / "models" / "english.neural.onnx"
    return path if path.is_file() else None


class NeuralLmFile:
    """A neural language model file. Immutable: any number of streams may share one."""

    def __init__(self, path: str | Path, num_threads: int = 1) -> None:
        """Reads a file. Raises ModelError or MetadataError if it cannot be used, OSError if it cannot be read."""
        self._name = str(path)
        data = Path(path).read_bytes()
        properties = read_properties(data, self._name)
        try:
            self.metadata = NeuralLmMetadata(properties)
        except ValueError as error:
            raise MetadataError(f"{self._name}: {error}") from error
        self._session = open_session(data, self._name, "cpu", num_threads)
        nodes = (self._session.get_inputs(), self._session.get_outputs())
        found, wanted = [tuple(node.name for node in each) for each in nodes], [NEURAL_LM_INPUTS, NEURAL_LM_OUTPUTS]
        if found != wanted:
            raise ModelError(f"{self._name} has the inputs and outputs {found}, not {wanted}: {EXPORT_AGAIN}")

    def score(self, tree: PieceTree) -> npt.NDArray[np.float32]:
        """Answers the work of a stream: (num_nodes,)."""
        return self.log_probs(tree.pieces, tree.parents, tree.depths, tree.ends)

    def log_probs(self, *tree: npt.NDArray[np.generic]) -> npt.NDArray[np.float32]:
        """tree: pieces, parents, depths and ends of the nodes, (T,) int64 each, see csrc/search/neural_lm.h."""
        # Without an arena, because the buffers of a long utterance would leave gaps of tens of megabytes in the heap.
        inputs = dict(zip(NEURAL_LM_INPUTS, tree, strict=True))
        (scores,) = run(self._session, NEURAL_LM_OUTPUTS, inputs, self._name, shrink=True)
        if scores.shape != tree[0].shape:
            raise ModelError(f"{self._name} gives an output whose shape does not match its input: {EXPORT_AGAIN}")
        found: npt.NDArray[np.float32] = np.minimum(scores, 0.0)
        return found
