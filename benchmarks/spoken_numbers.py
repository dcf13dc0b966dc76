"""Numbers in digits compared with other packages: benchmarks/spoken_numbers.py FILE.tsv --prose /path/dev.tsv

FILE.tsv: lines of spoken and shown text separated by a tab, such as tests/text/english_numbers_published.tsv, or NeMo's
own cases, which use "~". An answer is right if it is the same number in another style: case, spaces, hyphens, commas
and leading zeros are ignored, "9 a.m." equals "09:00 am", and units may be spelled or symbols.
UNCHANGED.tsv: sentences, one per line, that must not change, such as tests/text/english_unchanged.tsv.
Prose, the column `text` of a TSV, has hardly any numbers: changes by a package are counted word by word, and a change
in a sentence without number words is an error. wetext and damga take part if they are installed.
"""

from __future__ import annotations

import argparse
import csv
import json
import re
import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from difflib import SequenceMatcher
from pathlib import Path

from rich.console import Console
from rich.table import Table

from asr._core import format_numbers

_WORDS = """
zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen seventeen eighteen
nineteen twenty thirty forty fifty sixty seventy eighty ninety hundred thousand million billion half quarter
first second third fourth fifth sixth seventh eighth ninth tenth
"""
NUMBER_WORDS = frozenset(_WORDS.split())
TITLES = ("mr.", "mrs.")
MONTHS = "january|february|march|april|may|june|july|august|september|october|november|december"
_SAME = (
    (r",", ""),
    (r"\.m\.", "m"),
    (r"(\d+) o'clock", r"\1:00"),
    (r"(?<![\d:])(\d{1,2}) (am|pm)\b", r"\1:00 \2"),
    (r"(?<![\d.])0+(?=\d:|\.\d)", ""),
    (r"(?<=\d) miles?\b", " mi"),
    (r"(?<=\d) hours?\b", " h"),
    (r"(?<=\d) (feet|foot)\b", " ft"),
    (r"(?<=\d) ounces?\b", " oz"),
    (r"\b(\d+) cents\b", r"$.\1"),
    ("\u00b5", "\u03bc"),
    (rf"\bthe (?=\d+(st|nd|rd|th)? (of )?({MONTHS}))", ""),
    (rf"(?<=\d)(st|nd|rd|th)(?= (of )?({MONTHS}))", ""),
    (rf"(?<=\d) of (?={MONTHS})", " "),
    (rf"((?:{MONTHS}) \d+)(st|nd|rd|th)\b", r"\1"),
    (r"-|(?<!\d) | (?!\d)", ""),  # "3 10" is not "310"
)


def same(text: str) -> str:
    """Normalizes differences of style."""
    text = text.lower()
    for pattern, replacement in _SAME:
        text = re.sub(pattern, replacement, text)
    return text


def read_cases(path: Path) -> list[tuple[str, str]]:
    """(spoken, shown) of each line that is not a comment."""
    rows = [
        re.split("[\t~]", line) for line in path.read_text(encoding="utf-8").splitlines() if not line.startswith("#")
    ]
    return [(row[0].strip(), row[1].strip()) for row in rows if len(row) == 2]


def read_unchanged(path: Path) -> list[str]:
    """The lines that are not comments."""
    return [line for line in path.read_text(encoding="utf-8").splitlines() if line and not line.startswith("#")]


def read_prose(path: Path) -> list[str]:
    """The column `text`, in lower case."""
    with path.open(encoding="utf-8", newline="") as file:
        return [row["text"].lower() for row in csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE)]


def packages() -> dict[str, Callable[[str], str]]:
    """The functions to compare, from spoken text in lower case to shown text."""
    found = {"asr-stream": lambda text: " ".join(token for token, _, _ in format_numbers(text.split()))}
    with suppress(ImportError):
        import wetext

        found["wetext"] = wetext.Normalizer(lang="en", operator="itn").normalize
    with suppress(ImportError):
        import damga

        found["damga"] = damga.InverseNormalizer(lang="en").normalize
    return found


def changes(before: str, after: str) -> list[tuple[list[str], list[str]]]:
    """The words that were changed. Titles are ignored because they are not numbers."""
    old, new = before.split(), after.lower().split()
    return [
        (old[i:j], new[k:n])
        for kind, i, j, k, n in SequenceMatcher(None, old, new, autojunk=False).get_opcodes()
        if kind != "equal" and not set(new[k:n]) <= set(TITLES)
    ]


def measure(
    convert: Callable[[str], str], cases: list[tuple[str, str]], unchanged: Sequence[str], prose: Iterable[str]
) -> dict[str, float]:
    """Shares of right, unchanged and broken lines, and the time taken."""
    row: dict[str, float] = {"cases": len(cases)}
    row["right"] = sum(same(convert(spoken)) == same(shown) for spoken, shown in cases) / max(1, len(cases))
    row["unchanged"] = sum(same(convert(text)) == same(text) for text in unchanged) / max(1, len(unchanged))
    num_words = num_changed = num_broken = 0
    began = time.process_time()
    for text in prose:
        found = changes(text, convert(text))
        num_words += len(text.split())
        num_changed += sum(len(old) for old, _ in found)
        num_broken += sum(len(old) for old, _ in found if not NUMBER_WORDS & set(old))
    took = time.process_time() - began
    row |= {"words": num_words, "changed": num_changed / max(1, num_words), "broken": num_broken / max(1, num_words)}
    return row | {"us_a_word": 1e6 * took / max(1, num_words)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("cases", type=Path, nargs="+", metavar="FILE")
    parser.add_argument("--unchanged", type=Path, metavar="FILE", help="sentences that must stay, one a line")
    parser.add_argument("--prose", type=Path, metavar="TSV", help="text with next to no numbers, in a column `text`")
    parser.add_argument("--show", action="store_true", help="print what is wrong, and what is changed in prose")
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args()
    cases = [case for path in args.cases for case in read_cases(path)]
    prose = read_prose(args.prose) if args.prose else []
    unchanged = read_unchanged(args.unchanged) if args.unchanged else []
    rows = {name: measure(convert, cases, unchanged, prose) for name, convert in packages().items()}
    if args.json:
        print(json.dumps(rows))
        return
    table = Table("", "right", "unchanged", "words of prose changed", "of them no number", "us a word")
    for name, row in rows.items():
        shares = (f"{100 * row[share]:.2f} %" for share in ("right", "unchanged", "changed", "broken"))
        table.add_row(name, *shares, f"{row['us_a_word']:.1f}")
    Console().print(table)
    if args.show:
        for name, convert in packages().items():
            for spoken, shown in cases:
                if same(answer := convert(spoken)) != same(shown):
                    print(f"{name}: {spoken} -> {answer}, not {shown}")
            for text in unchanged:
                if same(answer := convert(text)) != same(text):
                    print(f"{name}: {text} -> {answer}, which must stay")
            for text in prose:
                for old, new in changes(text, convert(text)):
                    print(f"{name}: {' '.join(old)} -> {' '.join(new)}")


if __name__ == "__main__":
    main()
