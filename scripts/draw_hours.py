"""Draws docs/images/hours.png: phone errors against hours of audio in batches, from the table in docs/lab/tried.md."""

from __future__ import annotations

import re
import sys
from collections import defaultdict
from pathlib import Path

from asr.evaluation.plots import new_axes

ROOT = Path(__file__).parent.parent
PAGE, IMAGE = ROOT / "docs" / "lab" / "tried.md", ROOT / "docs" / "images" / "hours.png"
TABLE = re.compile(r"^\| hours of speech \|.*\n(?:\|.*\n)+", re.M)


def curves(text: str) -> dict[str, list[tuple[float, float]]]:
    """(hours in batches, phone errors in %) by the size of the network, for the rows with 30 hours of speech."""
    table = TABLE.search(text)
    assert table, f"{PAGE} has no table of hours of speech"
    head, _, *rows = ([cell.strip() for cell in line.split("|")[1:-1]] for line in table[0].splitlines())
    found = defaultdict(list)
    for speech, hours, *errors in rows:
        for size, error in zip(head[2:], errors, strict=True):
            if speech == "30" and error:
                found[f"{size.removesuffix(' parameters')} parameters"].append((float(hours), float(error)))
    return {name: sorted(points) for name, points in found.items() if len(points) > 2}


def main() -> int:
    figure, axes = new_axes(7, 4.5)
    for name, points in curves(PAGE.read_text()).items():
        axes.plot(*zip(*points, strict=True), marker="o", label=name)
    axes.loglog()
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_major_formatter("{x:g}")
        axis.set_minor_formatter("{x:g}")
    axes.set_xlabel("hours of audio seen, from 30 hours of speech")
    axes.set_ylabel("phone error rate on dev in %")
    axes.legend()
    figure.savefig(IMAGE)
    return 0


if __name__ == "__main__":
    sys.exit(main())
