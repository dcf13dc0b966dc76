"""The report of `asr prepare`: hours, lengths, missing letters, and refused utterances."""

from __future__ import annotations

import unicodedata
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from asr.command import counted
from asr.tables import UTTERANCES, Refusal

if TYPE_CHECKING:
    from rich.console import Console

    from asr.text import NormalizedText, TextNormalizer


@dataclass
class Summary:
    """Statistics of a data set. Durations in seconds."""

    num_utterances: int = 0
    duration_s: float = 0.0
    num_words: int = 0
    speakers: set[str] = field(default_factory=set)
    num_without_speaker: int = 0
    num_without_words: int = 0
    # utterances by whole seconds of length, rounded down
    length_histogram: Counter[int] = field(default_factory=Counter)

    def add(self, duration_s: float, text: str, speaker: str | None) -> None:
        self.num_utterances += 1
        self.duration_s += duration_s
        self.num_words += len(text.split())
        self.num_without_words += not text.split()
        self.length_histogram[int(duration_s)] += 1
        if speaker is None:
            self.num_without_speaker += 1
        else:
            self.speakers.add(speaker)


@dataclass
class PrepareResult:
    """The result for one data set: what was kept, what was refused and why, and what the texts have besides words.

    former_tables: names of tables in `folder` that were made from a former data set, and still name its samples.
    """

    folder: Path
    summary: Summary
    refusals: list[Refusal] = field(default_factory=list)
    outside: Counter[str] = field(default_factory=Counter)
    noise_tags: Counter[str] = field(default_factory=Counter)
    former_tables: list[str] = field(default_factory=list)

    def add_text(self, text: NormalizedText) -> None:
        """Counts the characters outside the alphabet, and the noise tags."""
        self.outside.update(text.outside)
        self.noise_tags.update(text.noise_tags)


def print_report(result: PrepareResult, console: Console, normalizer: TextNormalizer) -> None:
    """Prints hours, speakers, lengths, characters outside the alphabet, noise tags and refusals."""
    from rich.markup import escape
    from rich.table import Table

    summary = result.summary
    console.print(
        f"[bold]{escape(str(result.folder))}[/]: {counted(summary.num_utterances, 'utterance')}, "
        f"{_length(summary.duration_s)}, {counted(len(summary.speakers), 'speaker')}, "
        f"{counted(summary.num_words, 'word')}"
        + (f"; {summary.num_without_speaker} without speaker" if summary.num_without_speaker else "")
        + (f"; {summary.num_without_words} without words" if summary.num_without_words else ""),
        soft_wrap=True,
    )
    if result.former_tables:
        console.print(
            f"of the former data set: {', '.join(result.former_tables)}; make them again from {UTTERANCES}",
            soft_wrap=True,
            markup=False,
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
    if result.noise_tags:
        done = {"drop": "left out", "strip": "removed from the text", "keep": "kept as text"}[normalizer.noise_tags]
        table = Table("tag", "times", title=f"noise tags and cut-off words, {done}", title_justify="left")
        for tag, count in result.noise_tags.most_common(20):
            table.add_row(escape(tag), str(count))
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


def _length(duration_s: float) -> str:
    """Formats a duration in hours, or in a smaller unit if it is below one hour."""
    for unit_s, unit in ((3600, "hours"), (60, "minutes")):
        if duration_s >= unit_s:
            return f"{duration_s / unit_s:.2f} {unit}"
    return f"{duration_s:.1f} seconds"
