"""Plots: the common style, word error rate against latency, scores against the amount of training."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from asr.files import replacing

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Point = tuple[int | None, float]
"""Chunk in milliseconds (None: the whole utterance) and word error rate (0.1 is 10 %)."""


def new_axes(width: float, height: float) -> tuple[Figure, Axes]:
    """Returns a figure with this size in inches, which needs no display, and its axes."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.colors import TABLEAU_COLORS
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, height), dpi=150, layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.add_subplot()
    axes.grid(alpha=0.3)
    # Ten curve styles. Later curves are narrower and every second one is dashed, so that identical curves stay visible.
    axes.set_prop_cycle(
        color=list(TABLEAU_COLORS.values()),
        linestyle=["-", "--"] * 5,
        linewidth=[4.5, 3.5, 2.5, 1.5, 1.0] * 2,
        markersize=[10.0, 8.5, 7.0, 5.5, 4.0] * 2,
    )
    return figure, axes


def plot_wer(curves: Mapping[str, Sequence[Point]], path: str | Path, title: str) -> None:
    """Writes a PNG with one line per named curve; full context is a separate point at the right."""
    chunks = sorted({chunk for points in curves.values() for chunk, _ in points}, key=lambda c: (c is None, c or 0))
    place = {chunk: index for index, chunk in enumerate(chunks)}
    figure, axes = new_axes(7, 4.5)
    for name, points in curves.items():
        ordered = sorted(points, key=lambda point: place[point[0]])
        axes.plot([place[c] for c, _ in ordered], [100 * rate for _, rate in ordered], marker="o", label=name)
    axes.set_xticks(range(len(chunks)), ["full" if chunk is None else str(chunk) for chunk in chunks])
    axes.set_xlabel("chunk in ms (the longest wait before audio is recognized)")
    axes.set_ylabel("word error rate in %")
    axes.set_title(title)
    if curves:
        axes.legend()
    with replacing(path) as part:
        figure.savefig(part, format="png")


def plot_scores(curves: Mapping[str, Sequence[tuple[float, float]]], path: Path, amount: str, score: str) -> None:
    """Writes a PNG with a line per named curve of (amount of training, score)."""
    figure, axes = new_axes(7, 4.5)
    for name, points in curves.items():
        axes.plot(*zip(*points, strict=True), marker="o", label=name)
    axes.set_xlabel(amount)
    axes.set_ylabel(score)
    if all(value > 0 for points in curves.values() for _, value in points):
        axes.set_yscale("log")
    axes.yaxis.set_major_formatter("{x:g}")
    axes.yaxis.set_minor_formatter("{x:g}")
    axes.legend()
    with replacing(path) as part:
        figure.savefig(part, format="png")
