"""ONNX Runtime sessions: opens and runs them, and converts their errors.

Imports ONNX Runtime only when a session is opened.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from contextlib import redirect_stdout
from io import StringIO
from typing import Any, NamedTuple

from asr._core import read_onnx_properties
from asr.cores import num_cores
from asr.runtime.metadata import EXPORT_AGAIN
from asr.text import printable

PROVIDERS: dict[str, tuple[str, dict[str, str]]] = {
    "cpu": ("CPUExecutionProvider", {}),
    # Batch sizes vary, so cuDNN must not benchmark all its algorithms for each. With TensorFloat-32, a stream's numbers
    # would depend on its batch.
    "cuda": ("CUDAExecutionProvider", {"cudnn_conv_algo_search": "HEURISTIC", "use_tf32": "0"}),
}

INSTALL = (
    "pip install 'onnxruntime-gpu[cuda,cudnn]', then pip install --force-reinstall --no-deps onnxruntime-gpu "
    "(it shares a folder with onnxruntime, and the package installed last is used)"
)


Tensors = dict[str, tuple[str, list[int | str]]]
"""Type, as spelled by ONNX Runtime, and shape of each tensor, keyed by name; a string in a shape is a dynamic size."""


class Signature(NamedTuple):
    """Inputs and outputs of a graph, in order."""

    inputs: Tensors
    outputs: Tensors


class ModelError(ValueError):
    """A file is not a usable model, or this machine cannot run it as requested."""


def check_session_options(provider: str, num_threads: int) -> None:
    """Raises ModelError for a value out of range."""
    if provider not in PROVIDERS:
        raise ModelError(f"provider {provider!r} is not known: choose one of {', '.join(PROVIDERS)}")
    if num_threads < 0:
        raise ModelError(f"num_threads {num_threads} must be at least 0 (0: all cores)")


def open_session(data: bytes, name: str, provider: str, num_threads: int, arena: bool = True) -> Any:
    """A session for the bytes of an ONNX file. `name` is used in error messages. Raises ModelError on failure.

    arena: whether to use an arena, which allocates blocks of doubling size and keeps them; see `run`.
    """
    import onnxruntime

    wanted, settings = PROVIDERS[provider]
    if wanted not in onnxruntime.get_available_providers():
        raise ModelError(f"this ONNX Runtime has no {wanted}: {INSTALL}, or use provider cpu")
    if provider == "cuda":
        # The loader does not find CUDA from pip by itself. Its messages are dropped, because a failure raises an error
        # below.
        with redirect_stdout(StringIO()):
            getattr(onnxruntime, "preload_dlls", lambda: None)()  # since 1.21
    options = onnxruntime.SessionOptions()
    # For 0, ONNX Runtime would count the cores of the machine, and pin threads to cores that containers may not use.
    options.intra_op_num_threads = num_threads or num_cores()
    options.inter_op_num_threads = 1
    options.log_severity_level = 4  # errors are raised, not printed
    # Memory patterns would allocate one block per run, as long as the utterance: many sizes leave gaps, 10 MB in an
    # hour.
    options.enable_mem_pattern = False
    options.enable_cpu_mem_arena = arena
    # Threads that wait for the next chunk must sleep, or a live process keeps its cores busy.
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    options.add_session_config_entry("session.inter_op.allow_spinning", "0")
    options.add_session_config_entry("session.load_model_format", "ONNX")  # the file was checked as ONNX
    try:
        # Disabled because the fallback of InferenceSession prints, and opens a damaged file twice.
        session = onnxruntime.InferenceSession(data, options, providers=[(wanted, settings)], enable_fallback=0)
        _ = [node.name for node in (*session.get_inputs(), *session.get_outputs())]  # fails for invalid UTF-8
        session._model_bytes = None  # needed only to open it again with other providers
    except Exception as error:  # ONNX Runtime raises its own types, RuntimeError and others
        if "max supported IR version" in str(error):
            raise ModelError(
                f"{name} needs a newer ONNX Runtime than {onnxruntime.__version__}: pip install -U onnxruntime"
            ) from error
        raise _failure(f"{name} is damaged", error) from error
    if wanted not in session.get_providers():  # ONNX Runtime silently falls back to the CPU
        raise ModelError(
            f"ONNX Runtime could not start {wanted}: the driver, or libraries of CUDA or cuDNN that match it, are "
            f"missing: see nvidia-smi, then {INSTALL}, or use provider cpu"
        )
    return session


def read_properties(data: bytes, name: str) -> dict[str, str]:
    """The metadata of an ONNX file's bytes. Raises ModelError, with `name`, for a damaged file."""
    try:
        return read_onnx_properties(data)
    except UnicodeDecodeError as error:
        raise ModelError(f"{name} is damaged: its metadata is not UTF-8; {EXPORT_AGAIN}") from error
    except ValueError as error:
        raise ModelError(f"{name} is damaged, or not an asr-stream model: {error}; {EXPORT_AGAIN}") from error


def check_signature(session: Any, name: str, expected: Signature) -> None:
    """Raises ModelError unless the session `name` has the `expected` inputs and outputs."""
    # Inputs with a default in the graph are listed separately.
    inputs, outputs = [*session.get_inputs(), *session.get_overridable_initializers()], session.get_outputs()
    found = [[node.name for node in nodes] for nodes in (inputs, outputs)]
    if found != [list(tensors) for tensors in expected]:
        takes, gives = (printable(", ".join(names)) for names in found)
        raise ModelError(
            f"{name} is not an asr-stream model: its graph takes {takes} and gives {gives}; expected "
            f"{', '.join(expected.inputs)} and {', '.join(expected.outputs)}. `asr export` writes one"
        )
    for node in (*inputs, *outputs):
        kind, shape = (expected.inputs | expected.outputs)[node.name]
        # The name of a dynamic size does not matter.
        sizes, wanted = ([size if isinstance(size, int) else "" for size in each] for each in (node.shape, shape))
        if (node.type, sizes) != (kind, wanted):
            raise ModelError(
                f"{name} is damaged: its {node.name} is {printable(f'{node.type} {node.shape}')}, by its metadata "
                f"it must be {kind} {shape}; {EXPORT_AGAIN}"
            )


def run(session: Any, outputs: Sequence[str], feeds: dict[str, Any], name: str, *, shrink: bool = False) -> Any:
    """The arrays of `outputs`. shrink: whether the session's arena gives its memory back afterwards."""
    options = None
    if shrink:
        import onnxruntime

        options = onnxruntime.RunOptions()
        options.add_run_config_entry("memory.enable_memory_arena_shrinkage", "cpu:0")
    try:
        return session.run(outputs, feeds, options)
    except Exception as error:  # the arrays were checked, so the graph or the machine is at fault
        raise cannot_run(name, error) from error


def cannot_run(name: str, error: Exception) -> ModelError | MemoryError:
    return _failure(f"{name} cannot be run", error)


def _failure(what: str, error: Exception) -> ModelError | MemoryError:
    """The error for a failed run: too little memory or a GPU failure, which can happen with any file, or otherwise a
    damaged file."""
    if isinstance(error, MemoryError) or re.search(r"bad_alloc|Failed to allocate memory", str(error)):
        return MemoryError("there is not enough memory for the network")
    gpu = re.search(r"\b(CUDA|CUDNN|CUBLAS) failure -?\d+: [^;]*", str(error))
    if gpu:
        return ModelError(f"the GPU cannot be used: {printable(gpu[0].strip())}; see nvidia-smi, or use provider cpu")
    return ModelError(f"{what}: ONNX Runtime says {_reason(error)}; {EXPORT_AGAIN}")


def _reason(error: Exception) -> str:
    first = (str(error).splitlines() or [type(error).__name__])[0]
    # Removes the kind of error and the source location: "[ONNXRuntimeError] : 1 : FAIL : /a/b.cc:256 f(int) ".
    first = re.sub(r"^\[ONNXRuntimeError\] : \d+ : \w+ : (/\S+\.(cc|h):\d+ .*?\) (?=\S))?", "", first)
    return f"{printable(first):.200}"
