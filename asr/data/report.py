"""The report of `asr prepare` on a data set: hours, lengths, letters that are missing, and what was refused."""

from __future__ import annotations

import unicodedata
from collections import Counter
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.console import Console

    from asr.data.prepare import PrepareResult
    from asr.text import TextNormalizer


def print_report(result: PrepareResult, console: Console, normalizer: TextNormalizer) -> None:
    """Hours, speakers, lengths, characters outside the alphabet and refusals, for a person."""
    from rich.markup import escape
    from rich.table import Table

    summary = result.summary
    console.print(
        f"[bold]{escape(str(result.manifest))}[/]: {summary.num_utterances} utterances, "
        f"{summary.hours:.2f} hours, {len(summary.speakers)} speakers, {summary.num_words} words"
        + (f"; {summary.num_without_speaker} without speaker" if summary.num_without_speaker else "")
        + (f"; {summary.num_without_words} without words" if summary.num_without_words else ""),
        soft_wrap=True,
    )
    console.print("length in seconds, utterances")
    bins: Counter[int] = Counter()
    for seconds, count in summary.length_histogram.items():
        bins[seconds - seconds % 2] += count
    for start in range(0, max(bins) + 1, 2):
        bar = "█" * round(40 * bins[start] / max(bins.values()))
        console.print(f"{start:4d}-{start + 2:<3d} {bins[start]:7d} {bar}", highlight=False)
    if result.outside:
        table = Table("character", "name", "times", title="outside the alphabet", title_justify="left")
        for character, count in result.outside.most_common(20):
            table.add_row(escape(repr(character)), unicodedata.name(character, "?").lower(), str(count))
        console.print(table)
    if result.refusals:
        table = Table("reason", "utterances", "for example", title="refused", title_justify="left")
        table.columns[2].overflow = "fold"
        for reason, count in Counter(r.reason for r in result.refusals).most_common():
            examples = [r for r in result.refusals if r.reason == reason][:3]
            lines = "\n".join(f"{r.id}: {r.detail}" if r.detail else r.id for r in examples)
            table.add_row(reason, str(count), escape(lines))
        console.print(table)
        if hint := normalizer.suggestion(result.outside):
            console.print(hint.removeprefix("; "), soft_wrap=True, markup=False, highlight=False)
