"""An open graph, with the state that it carries from one run to the next, on NumPy arrays.

What streams ask for (`asr._core.Work`) and everything else that runs a network goes through `Network`. Imports no
PyTorch.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from asr._core import StateTensor, StateUse, Work
from asr.runtime.metadata import EXPORT_AGAIN, MetadataError
from asr.runtime.onnx_session import (
    ModelError,
    Signature,
    Tensors,
    check_signature,
    open_session,
    read_properties,
    run,
)

Array = npt.NDArray[Any]
FloatArray = npt.NDArray[np.float32]
IntArray = npt.NDArray[np.int64]
State = tuple[Array, ...]
"""An array for each state of a network. Immutable: a run returns a new one."""


Metadata = TypeVar("Metadata")


def open_file(
    path: str | Path,
    new_metadata: Callable[[dict[str, str]], Metadata],
    signature: Callable[[Metadata], Signature],
    states: Callable[[Metadata], Iterable[StateTensor]] = lambda _: (),
    **session: Any,
) -> tuple[Network, Metadata, dict[str, str]]:
    """The network of a file with one, its metadata, and all properties of the file. session: see `Network`.

    Raises ModelError or MetadataError if the file cannot be used, OSError if it cannot be read.
    """
    name, data = str(path), Path(path).read_bytes()
    properties = read_properties(data, name)
    try:
        metadata = new_metadata(properties)
    except ValueError as error:
        raise MetadataError(f"{name}: {error}") from error
    network = Network(data, name, signature(metadata), states=states(metadata), **session)
    return network, metadata, properties


def tensors_of(states: Iterable[StateTensor]) -> Tensors:
    """The inputs of a graph that are states."""
    kinds = {"float32": "tensor(float)", "int64": "tensor(int64)"}
    return {state.name: (kinds[state.dtype], state.sizes) for state in states}


class Network:
    """A graph that is ready to run. Immutable; any number of threads may call it at once."""

    def __init__(
        self,
        data: bytes,
        name: str,
        signature: Signature,
        *,
        states: Iterable[StateTensor] = (),
        provider: str = "cpu",
        num_threads: int = 1,
        arena: bool = True,
        shrink: bool = False,
    ) -> None:
        """data: an ONNX file. name: for error messages. states: what the graph carries between its runs.

        arena, shrink: see `open_session` and `run`. Raises ModelError for a file that cannot be opened, and for other
        inputs and outputs than those of `signature`.
        """
        self.name = name
        self.states = tuple(states)
        self._shrink = shrink
        self._session = open_session(data, name, provider, num_threads, arena)
        check_signature(self._session, name, signature)

    def run(
        self, inputs: Mapping[str, Any], outputs: Sequence[str], state: State = ()
    ) -> tuple[list[FloatArray], State]:
        """The `outputs`, and the next state if the run has one. Raises ModelError, MemoryError."""
        states = [described.name for described in self.states] if state else []
        names = [*outputs, *(f"new_{name}" for name in states)]
        feeds = {**inputs, **dict(zip(states, state, strict=True))}
        found = run(self._session, names, feeds, self.name, shrink=self._shrink)
        return found[: len(outputs)], tuple(found[len(outputs) :])

    def answer(self, work: Work) -> list[FloatArray]:
        """The outputs for work without a state. Raises ModelError, also for an output of another shape."""
        found, _ = self.run(work.inputs, list(work.outputs))
        if [array.shape for array in found] != list(work.outputs.values()):
            raise ModelError(f"{self.name} gives an output whose shape does not match its input: {EXPORT_AGAIN}")
        return found

    def initial_state(self, batch_size: int, left_context: int) -> State:
        return tuple(np.zeros(state.shape(batch_size, left_context), state.dtype) for state in self.states)

    def state_before(self, use: StateUse, state: State | None) -> State:
        """The state with which a run begins. state: of the last run in the slot."""
        if use.begins:
            return self.initial_state(1, use.left_context)
        assert state is not None
        return self.selected(state, use.parents) if use.parents else state

    def selected(self, state: State, rows: Sequence[int] | npt.NDArray[np.integer]) -> State:
        """The rows of a batch, (M,) integers, in that order."""
        return tuple(
            array.take(rows, described.batch_axis) if described.batch_axis < array.ndim else array
            for array, described in zip(state, self.states, strict=True)
        )

    def stacked(self, states: Sequence[State]) -> State:
        """States of the same shapes as one batch."""
        if len(states) == 1:
            return states[0]
        each = zip(self.states, zip(*states, strict=True), strict=True)
        return tuple(np.concatenate(arrays, described.batch_axis) for described, arrays in each)

    def split(self, state: State, batch_size: int) -> list[State]:
        """Splits a batch. Each state is copied, so that it does not keep the memory of the others alive."""
        if batch_size == 1:
            return [state]
        return [self.selected(state, [index]) for index in range(batch_size)]
