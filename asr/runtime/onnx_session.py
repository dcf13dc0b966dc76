"""Sessions of ONNX Runtime: opening and running them, and the errors when that fails.

Imports ONNX Runtime only when a session is opened.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from contextlib import redirect_stdout
from io import StringIO
from typing import Any, NamedTuple

from asr._core import read_onnx_properties
from asr.runtime.metadata import EXPORT_AGAIN
from asr.text import printable

PROVIDERS: dict[str, tuple[str, dict[str, str]]] = {
    "cpu": ("CPUExecutionProvider", {}),
    # A batch is of any size: cuDNN must not try all its algorithms on each new one. Rounding to TensorFloat-32 would
    # make a stream's numbers depend on whom it shares a batch with.
    "cuda": ("CUDAExecutionProvider", {"cudnn_conv_algo_search": "HEURISTIC", "use_tf32": "0"}),
}

INSTALL = (
    "pip install 'onnxruntime-gpu[cuda,cudnn]', then pip install --force-reinstall --no-deps onnxruntime-gpu "
    "(it shares a folder with onnxruntime, and what is installed last runs)"
)


Tensors = dict[str, tuple[str, list[int | str]]]
"""Type, as ONNX Runtime spells it, and shape of each tensor by its name; a name stands for a size that is free."""


class Signature(NamedTuple):
    """Inputs and outputs of a graph, in order."""

    inputs: Tensors
    outputs: Tensors


class ModelError(ValueError):
    """A file that is not a usable model, or a way of running it that this machine does not have."""


def open_session(data: bytes, name: str, provider: str, num_threads: int, arena: bool = True) -> Any:
    """The session of an ONNX file's bytes. `name` is what errors call it; ModelError where it cannot be had.

    arena: with memory of its own, which it takes in blocks of a doubling size and keeps.
    """
    import onnxruntime

    wanted, settings = PROVIDERS[provider]
    if wanted not in onnxruntime.get_available_providers():
        raise ModelError(f"this ONNX Runtime has no {wanted}: {INSTALL}, or use provider cpu")
    if provider == "cuda":
        # CUDA from pip is outside the search path of the loader. Messages are dropped; the error is raised below.
        with redirect_stdout(StringIO()):
            getattr(onnxruntime, "preload_dlls", lambda: None)()  # since 1.21
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = num_threads
    options.inter_op_num_threads = 1
    options.log_severity_level = 4  # what goes wrong is raised, not printed
    # It takes one block for each run, as long as the utterance: blocks of many lengths leave gaps, 10 MB in an hour.
    options.enable_mem_pattern = False
    options.enable_cpu_mem_arena = arena
    # Threads that wait for the next chunk must sleep, or a live process burns its cores in between.
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    options.add_session_config_entry("session.inter_op.allow_spinning", "0")
    options.add_session_config_entry("session.load_model_format", "ONNX")  # what it has been read as
    try:
        # Its fallback prints, and tries a damaged file twice.
        session = onnxruntime.InferenceSession(data, options, providers=[(wanted, settings)], enable_fallback=0)
        _ = [node.name for node in (*session.get_inputs(), *session.get_outputs())]  # which may be no UTF-8
        session._model_bytes = None  # else it keeps the file, to be opened again with other providers
    except Exception as error:  # ONNX Runtime raises its own kinds, RuntimeError, and more on odd bytes
        raise _failure(f"{name} is damaged", error) from error
    if wanted not in session.get_providers():  # it falls back to the CPU without an error
        raise ModelError(
            f"ONNX Runtime could not start {wanted}: the driver, or libraries of CUDA or cuDNN that match it, are "
            f"missing: see nvidia-smi, then {INSTALL}, or use provider cpu"
        )
    return session


def read_properties(data: bytes, name: str) -> dict[str, str]:
    """The metadata of an ONNX file's bytes, called `name`. ModelError where the file is damaged."""
    try:
        return read_onnx_properties(data)
    except UnicodeDecodeError as error:
        raise ModelError(f"{name} is damaged: its metadata is not UTF-8; {EXPORT_AGAIN}") from error
    except ValueError as error:
        raise ModelError(f"{name} is damaged, or no model of asr-stream: {error}; {EXPORT_AGAIN}") from error


def check_signature(session: Any, name: str, expected: Signature) -> None:
    """ModelError unless the session called `name` takes and gives what is `expected`."""
    # Inputs that have a default in the graph are listed apart.
    inputs, outputs = [*session.get_inputs(), *session.get_overridable_initializers()], session.get_outputs()
    found = [[node.name for node in nodes] for nodes in (inputs, outputs)]
    if found != [list(tensors) for tensors in expected]:
        takes, gives = (printable(", ".join(names)) for names in found)
        raise ModelError(
            f"{name} is no model of asr-stream: its graph takes {takes} and gives {gives}; expected "
            f"{', '.join(expected.inputs)} and {', '.join(expected.outputs)}. `asr export` writes one"
        )
    for node in (*inputs, *outputs):
        kind, shape = (expected.inputs | expected.outputs)[node.name]
        # The name of a free size does not matter.
        sizes, wanted = ([size if isinstance(size, int) else "" for size in each] for each in (node.shape, shape))
        if (node.type, sizes) != (kind, wanted):
            raise ModelError(
                f"{name} is damaged: its {node.name} is {printable(f'{node.type} {node.shape}')}, by its metadata "
                f"it must be {kind} {shape}; {EXPORT_AGAIN}"
            )


def run(session: Any, outputs: Sequence[str], feeds: dict[str, Any], name: str) -> Any:
    try:
        return session.run(outputs, feeds)
    except Exception as error:  # the arrays have been checked: it is the graph, or the machine
        raise cannot_run(name, error) from error


def cannot_run(name: str, error: Exception) -> ModelError:
    return _failure(f"{name} cannot be run", error)


def _failure(what: str, error: Exception) -> ModelError:
    """The error of a failed run: of the GPU, which can fail with any file, or else of the file."""
    gpu = re.search(r"\b(CUDA|CUDNN|CUBLAS) failure -?\d+: [^;]*", str(error))
    if gpu:
        return ModelError(f"the GPU cannot be used: {printable(gpu[0].strip())}; see nvidia-smi, or use provider cpu")
    return ModelError(f"{what}: ONNX Runtime says {_reason(error)}; {EXPORT_AGAIN}")


def _reason(error: Exception) -> str:
    first = (str(error).splitlines() or [type(error).__name__])[0]
    # Its kind, and the line of the source with its function: "[ONNXRuntimeError] : 1 : FAIL : /a/b.cc:256 f(int) ".
    first = re.sub(r"^\[ONNXRuntimeError\] : \d+ : \w+ : (/\S+\.(cc|h):\d+ .*?\) (?=\S))?", "", first)
    return f"{printable(first):.200}"
