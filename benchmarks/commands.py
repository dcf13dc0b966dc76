"""Counts false spoken commands in sentences without commands: python benchmarks/commands.py FILE...

FILE: sentences, one per line, or a TSV with a column `text`, such as dev.tsv. Their marks are removed, and there are no
pauses, which would make an ambiguous word a command.
"""

from __future__ import annotations

import argparse
import csv
import re
from collections.abc import Iterator
from pathlib import Path

from asr._core import TextFormatter, text_options


def sentences(path: Path) -> Iterator[list[str]]:
    """The words of each sentence, in lower case."""
    with open(path, encoding="utf-8", newline="") as file:
        rows = (row["text"] for row in csv.DictReader(file, delimiter="\t")) if path.suffix == ".tsv" else file
        for text in rows:
            if words := re.findall("[a-z']+", text.lower().replace("’", "'")):
                yield words


def obeyed(formatter: TextFormatter, words: list[str]) -> bool:
    """Whether a command was recognized in the words."""
    formatter.reset()
    formatter.final([(word, float(i), i + 1.0, 0.9) for i, word in enumerate(words)])
    shown = [word[0].lower() for word in formatter.shown()[0]]
    return shown != words


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter, allow_abbrev=False
    )
    parser.add_argument("files", nargs="+", type=Path, metavar="FILE")
    parser.add_argument("--examples", type=int, default=20, metavar="N", help="sentences to print (default 20)")
    args = parser.parse_args()
    options = text_options(formatted=False, language="en", commands=True)
    assert options is not None
    formatter = TextFormatter(options)
    for path in args.files:
        num_words = num_sentences = 0
        found = []
        for words in sentences(path):
            num_words += len(words)
            num_sentences += 1
            if obeyed(formatter, words):
                found.append(" ".join(words))
        print(f"{path.name}: {len(found)} of {num_sentences} sentences, {num_words} words")
        for text in found[: args.examples]:
            print(f"  {text}")


if __name__ == "__main__":
    main()
