"""Caches of many streams in the memory of the device that runs the network: on a GPU they never cross the bus.

Each stream owns a row of the arena. A step gathers the rows of its streams into one buffer, runs the network from that
into a second one, and scatters the second back to the rows: three runs bound to memory that stays where it is
(ONNX Runtime's IoBinding). Only features cross on the way in, and on the way out probabilities and the frames
that the decoder attends to.
"""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from asr.features import SUBSAMPLING

FIRST_ROWS = 16
ZEROS = 0
"""The row that all streams begin from, and none owns."""

_KINDS = ("key", "value")
_FLOAT, _INT64 = 1, 7  # onnx.TensorProto.DataType
_Buffers = list[Any]
"""OrtValues (num_rows, num_layers, left_context, dim) float32: keys, values."""


class Row:
    """A stream's cache: its row in the arena, and the number of encoder frames so far. Each step changes it.

    The row is released when this object is garbage-collected.
    """

    def __init__(self, arena: CacheArena, index: int) -> None:
        self.arena = arena
        self.index = index
        self.num_frames = 0


class CacheArena:
    """Rows for streams of one left context. For use by any thread; one step is run at a time."""

    def __init__(self, network: Any, open_graph: Callable[[bytes], Any], device: str, shape: Sequence[int]) -> None:
        """network: the session of the step function; open_graph: makes a session on the same device, "cpu" or "cuda".

        shape: (num_layers, left_context, dim) of a row. Memory grows with the streams that there are at a time.
        """
        from onnxruntime import OrtValue

        self._network = network
        names = [node.name for node in network.get_outputs()]
        self._reported = [name for name in names if not name.startswith("new_")]
        self._gather, self._scatter = open_graph(_gather_graph()), open_graph(_scatter_graph())
        self._device = device
        self._shape = tuple(shape)
        self._lock = threading.Lock()
        first = (FIRST_ROWS, *shape)
        self._rows = [OrtValue.ortvalue_from_numpy(np.zeros(first, np.float32), device, 0) for _ in _KINDS]
        self._free = list(range(FIRST_ROWS - 1, ZEROS, -1))
        self._incoming, self._outgoing = self._allocate(1), self._allocate(1)

    def begin(self) -> Row:
        """A row for a stream that begins."""
        with self._lock:
            if not self._free:
                self._grow()
            row = Row(self, self._free.pop())
        weakref.finalize(row, self._free.append, row.index)
        return row

    def step(
        self, features: npt.NDArray[np.float32], num_valid: npt.NDArray[np.int64], rows: Sequence[Row]
    ) -> list[npt.NDArray[np.float32]]:
        """One chunk of the streams of `rows`, all of them different: the outputs of `OnnxModel.step` but the cache."""
        size = len(rows)
        with self._lock:
            if size > _num_rows(self._incoming):
                room = 1 << (size - 1).bit_length()
                self._incoming, self._outgoing = self._allocate(room), self._allocate(room)
            self._read([row.index if row.num_frames else ZEROS for row in rows])
            binding = self._network.io_binding()
            binding.bind_cpu_input("x", np.ascontiguousarray(features))
            binding.bind_cpu_input("num_valid", num_valid)
            binding.bind_cpu_input("num_frames", np.array([row.num_frames for row in rows], np.int64))
            for name in self._reported:
                binding.bind_output(name, "cpu")
            for kind, incoming, outgoing in zip(_KINDS, self._incoming, self._outgoing, strict=True):
                binding.bind_input(f"{kind}_cache", *self._place(incoming, size))
                binding.bind_output(f"new_{kind}_cache", *self._place(outgoing, size))
            _run(self._network, binding)
            outputs = [value.numpy() for value in binding.get_outputs()[: len(self._reported)]]
            self._write(self._rows, [row.index for row in rows], self._outgoing)
            for row, valid in zip(rows, num_valid.tolist(), strict=True):
                row.num_frames += valid // SUBSAMPLING
        return outputs

    def _grow(self) -> None:
        num_old = _num_rows(self._rows)
        rows = self._allocate(2 * num_old)
        self._write(rows, range(num_old), self._rows)
        self._rows = rows
        self._free += range(2 * num_old - 1, num_old - 1, -1)

    def _read(self, indices: Sequence[int]) -> None:
        binding = self._gather.io_binding()
        binding.bind_cpu_input("indices", np.array(indices, np.int64))
        for kind, rows, incoming in zip(_KINDS, self._rows, self._incoming, strict=True):
            binding.bind_input(f"{kind}_rows", *self._place(rows))
            binding.bind_output(f"{kind}_batch", *self._place(incoming, len(indices)))
        _run(self._gather, binding)

    def _write(self, into: _Buffers, indices: Sequence[int], batch: _Buffers) -> None:
        """Rows `indices` of `into` become those of `batch`. Input and output share memory: no other row is copied."""
        binding = self._scatter.io_binding()
        binding.bind_cpu_input("indices", np.array(indices, np.int64)[:, None])
        for kind, rows, new in zip(_KINDS, into, batch, strict=True):
            place = self._place(rows)
            binding.bind_input(f"{kind}_rows", *place)
            binding.bind_input(f"{kind}_batch", *self._place(new, len(indices)))
            binding.bind_output(f"new_{kind}_rows", *place)
        _run(self._scatter, binding)

    def _allocate(self, num_rows: int) -> _Buffers:
        """Memory of any content: what is read has been written."""
        from onnxruntime import OrtValue

        shape = [num_rows, *self._shape]
        return [OrtValue.ortvalue_from_shape_and_type(shape, np.float32, self._device, 0) for _ in _KINDS]

    def _place(self, buffer: Any, num_rows: int | None = None) -> tuple[str, int, type[np.float32], list[int], int]:
        """The first `num_rows` of a buffer, or all, as IoBinding names them."""
        shape = [buffer.shape()[0] if num_rows is None else num_rows, *self._shape]
        return self._device, 0, np.float32, shape, buffer.data_ptr()


def _num_rows(buffers: _Buffers) -> int:
    return int(buffers[0].shape()[0])


def _run(session: Any, binding: Any) -> None:
    binding.synchronize_inputs()
    session.run_with_iobinding(binding)
    binding.synchronize_outputs()


def _gather_graph() -> bytes:
    nodes = [("Gather", [f"{kind}_rows", "indices"], f"{kind}_batch") for kind in _KINDS]
    return _graph(nodes, [f"{kind}_rows" for kind in _KINDS], indices_rank=1)


def _scatter_graph() -> bytes:
    nodes = [("ScatterND", [f"{kind}_rows", "indices", f"{kind}_batch"], f"new_{kind}_rows") for kind in _KINDS]
    return _graph(nodes, [f"{kind}_{what}" for kind in _KINDS for what in ("rows", "batch")], indices_rank=2)


def _graph(nodes: Sequence[tuple[str, Sequence[str], str]], floats: Sequence[str], indices_rank: int) -> bytes:
    """An ONNX file of `nodes`, (operator, inputs, output), on float tensors of four dimensions and int64 `indices`.

    Written here, field by field of onnx.proto3, because the package onnx is not there at run time.
    """
    graph = [_field(2, b"arena")]
    for operator, inputs, output in nodes:
        graph.append(_field(1, *(_field(1, name) for name in inputs), _field(2, output), _field(4, operator)))
    tensors = [(11, name, _FLOAT, 4) for name in floats] + [(11, "indices", _INT64, indices_rank)]
    tensors += [(12, output, _FLOAT, 4) for _, _, output in nodes]
    for field, name, dtype, rank in tensors:
        shape = _field(2, *[_field(1)] * rank)  # of any size
        graph.append(_field(field, _field(1, name), _field(2, _field(1, _number(1, dtype), shape))))
    # Opset 13: of a later ScatterND some releases of ONNX Runtime have none for CUDA, and would copy all to the host.
    return _number(1, 8) + _field(8, _number(2, 13)) + _field(7, *graph)


def _field(number: int, *parts: bytes | str) -> bytes:
    """A length-delimited field of a protobuf message."""
    content = b"".join(part.encode() if isinstance(part, str) else part for part in parts)
    low, high = len(content) & 0x7F, len(content) >> 7  # a varint; nothing here is as long as 2^14
    return bytes([number << 3 | 2, low | 0x80, high] if high else [number << 3 | 2, low]) + content


def _number(number: int, value: int) -> bytes:
    """A field with a number below 128."""
    return bytes([number << 3, value])
