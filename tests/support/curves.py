"""The curves that TensorBoard would show for a training run."""

from __future__ import annotations

from pathlib import Path


def curve(run: Path, name: str, kind: str = "train") -> dict[int, float]:
    """A curve that TensorBoard would show for a run, by step. kind: "train" or "valid"."""
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    events = EventAccumulator(str(run / "tensorboard")).Reload()
    return {event.step: event.value for event in events.Scalars(f"{kind}/{name}")}
