"""The networks' work for streams: what `asr._core.Stream` asks for, computed for one or many streams in one run."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from asr import _core
from asr.runtime.network import Array

if TYPE_CHECKING:
    from asr.streaming.recognizer import Recognizer
    from asr.streaming.stream import Stream


@dataclass(frozen=True, eq=False)
class Work:
    """A run of a network that `stream` waits for: `work`, with the networks of `recognizer`."""

    stream: Stream
    recognizer: Recognizer
    work: _core.Work

    @property
    def kind(self) -> Hashable:
        """Work of equal kind can be computed together."""
        if not self.work.has_batch:
            return id(self.stream)
        use, shapes = self.work.state, tuple(array.shape for array in self.inputs.values())
        return id(self.recognizer.onnx), self.work.network, use and use.left_context, shapes

    @cached_property
    def inputs(self) -> dict[str, Array]:
        """The inputs of the graph by name. On a GPU, which takes as long for one utterance as for many, they are padded
        so that more work is of one kind."""
        inputs, size = self.work.inputs, self.work.padded_size
        if size and self.recognizer.onnx.provider != "cpu":
            name, array = next(iter(inputs.items()))
            inputs[name] = np.pad(array, ((0, 0), (0, size - array.shape[1]), (0, 0)))
        return inputs


def compute(batch: Sequence[Work]) -> None:
    """Does the work of `batch`, all of one `kind`, in one run of the network, and answers the streams.

    Never raises: a stream whose encoder failed raises in its next call.
    """
    first = batch[0]
    try:
        network = first.recognizer.network(first.work.network)
        uses = [(work.stream, use) for work in batch if (use := work.work.state)]
        before = [network.state_before(use, stream.states.get(use.slot)) for stream, use in uses]
        inputs = first.inputs
        if len(batch) > 1:
            inputs = {name: np.concatenate([work.inputs[name] for work in batch]) for name in inputs}
        found, state = network.run(inputs, list(first.work.outputs), network.stacked(before) if before else ())
        for (stream, use), after in zip(uses, network.split(state, len(batch)) if before else [], strict=True):
            stream.keep(use, after)
    except Exception as error:
        for work in batch:
            work.stream.not_answered(error)
        return
    for index, work in enumerate(batch):
        outputs = found
        if work.work.has_batch:  # without the padding
            shapes = work.work.outputs.values()
            outputs = [array[index : index + 1, : shape[1]] for array, shape in zip(found, shapes, strict=True)]
        work.stream.answer(outputs)
