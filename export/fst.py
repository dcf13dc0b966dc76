"""Weighted transducers as arrays, in OpenFst's `const` format: tropical weights, 16 bytes per arc, 20 per state."""

from __future__ import annotations

import struct
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

Ints = npt.NDArray[np.int64]
Costs = npt.NDArray[np.float32]

EPSILON = 0
"""The label of an arc that reads or writes nothing."""
MAGIC, VERSION, EXPANDED = 2125659606, 2, 1
_STATE = np.dtype(
    [("final", "<f4"), ("first", "<u4"), ("arcs", "<u4"), ("in_epsilons", "<u4"), ("out_epsilons", "<u4")]
)
_ARC = np.dtype([("reads", "<i4"), ("writes", "<i4"), ("cost", "<f4"), ("target", "<i4")])


@dataclass(frozen=True)
class Fst:
    """A transducer whose costs are negative natural logarithms of probabilities."""

    source: Ints
    """(A,): the state that each arc leaves."""
    reads: Ints
    """(A,): input labels."""
    writes: Ints
    """(A,): output labels."""
    cost: Costs
    """(A,)"""
    target: Ints
    """(A,): the state that each arc leads to."""
    final: Costs
    """(S,): cost of ending in each state; inf if the state is not final."""
    start: int = 0

    @property
    def num_states(self) -> int:
        return len(self.final)

    @property
    def num_arcs(self) -> int:
        return len(self.source)

    def write(self, path: Path) -> None:
        """Raises OSError."""
        order = np.lexsort((self.writes, self.reads, self.source))
        arcs = np.empty(self.num_arcs, _ARC)
        for name in ("reads", "writes", "cost", "target"):
            arcs[name] = getattr(self, name)[order]
        states = np.empty(self.num_states, _STATE)
        states["final"] = self.final
        states["arcs"] = np.bincount(self.source, minlength=self.num_states)
        states["first"] = np.cumsum(states["arcs"]) - states["arcs"]
        for side, labels in (("in_epsilons", self.reads), ("out_epsilons", self.writes)):
            states[side] = np.bincount(self.source[labels == EPSILON], minlength=self.num_states)
        names = b"".join(struct.pack("<i", len(name)) + name for name in (b"const", b"standard"))
        counts = struct.pack("<iiQqqq", VERSION, 0, EXPANDED, self.start, self.num_states, self.num_arcs)
        with path.open("wb") as file:
            file.write(struct.pack("<i", MAGIC) + names + counts)
            file.write(states.tobytes())
            file.write(arcs.tobytes())

    @classmethod
    def read(cls, path: Path) -> Fst:
        """Reads a file of this format without symbol tables, as written by `write` and kaldifst."""
        data = path.read_bytes()
        at = 4
        for _ in range(2):
            at += 4 + struct.unpack_from("<i", data, at)[0]
        *_, start, num_states, num_arcs = struct.unpack_from("<iiQqqq", data, at)
        at += struct.calcsize("<iiQqqq")
        states = np.frombuffer(data, _STATE, num_states, at)
        arcs = np.frombuffer(data, _ARC, num_arcs, at + states.nbytes)
        source = np.repeat(np.arange(num_states), states["arcs"])
        reads, writes, target = (arcs[name].astype(np.int64) for name in ("reads", "writes", "target"))
        return cls(source, reads, writes, arcs["cost"].copy(), target, states["final"].copy(), start)

    def trimmed(self) -> Fst:
        """A copy without unreachable states."""
        reached = np.zeros(self.num_states, bool)
        reached[self.start] = True
        while not reached[new := self.target[reached[self.source]]].all():
            reached[new] = True
        place = np.cumsum(reached) - 1
        kept = reached[self.source]
        arcs = (self.reads[kept], self.writes[kept], self.cost[kept], place[self.target[kept]])
        return Fst(place[self.source[kept]], *arcs, self.final[reached], int(place[self.start]))
