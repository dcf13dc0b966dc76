"""The neural language model at run time: an ONNX file of `asr export` that scores a tree of word pieces."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import numpy.typing as npt

from asr._core import NEURAL_LM_INPUTS, NEURAL_LM_OUTPUTS, NeuralLmMetadata
from asr.runtime.network import open_file
from asr.runtime.onnx_session import Signature

SIGNATURE = Signature(
    {name: ("tensor(int64)", ["T"]) for name in NEURAL_LM_INPUTS},
    {name: ("tensor(float)", ["T"]) for name in NEURAL_LM_OUTPUTS},
)


def bundled_neural_lm() -> Path | None:
    """The bundled neural language model of English; None if the package was built without it."""
    path = Path(__file__).parents[1] / "models" / "english.neural.onnx"
    return path if path.is_file() else None


class NeuralLmFile:
    """A neural language model file. Immutable: any number of streams may share one."""

    def __init__(self, path: str | Path, num_threads: int = 1) -> None:
        """Reads a file. Raises ModelError or MetadataError if it cannot be used, OSError if it cannot be read."""
        # Without an arena, because the buffers of a long utterance would leave gaps of tens of megabytes in the heap.
        self.network, self.metadata, _ = open_file(
            path, NeuralLmMetadata, lambda _: SIGNATURE, num_threads=num_threads, shrink=True
        )

    def log_probs(self, *tree: npt.NDArray[np.generic]) -> npt.NDArray[np.float32]:
        """The log-probability of each node given its ancestors, (T,).

        tree: pieces, parents, depths and ends of the nodes, (T,) int64 each, see csrc/search/neural_lm.h.
        """
        return self.network.run(dict(zip(NEURAL_LM_INPUTS, tree, strict=True)), NEURAL_LM_OUTPUTS)[0][0]
