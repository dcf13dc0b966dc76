"""Updates the files generated from the table of options in csrc/options.h: python scripts/write_options.py

These are docs/reference/options.md, and the types of JavaScript and Python.
"""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterator
from pathlib import Path

from asr.options import OPTIONS, default, described

ROOT = Path(__file__).parents[1]
COMMAND = "python scripts/write_options.py"


def docs_table() -> Iterator[str]:
    yield "| option | values | default | |"
    yield "| --- | --- | --- | --- |"
    for option in OPTIONS.values():
        yield f"| `{option.name}` | {option.allowed.removeprefix('in ')} | {default(option)} | {option.doc} |"


def camel_case(name: str) -> str:
    return re.sub("_([a-z])", lambda letter: letter[1].upper(), name)


def comment(text: str) -> list[str]:
    """Wraps `text` as a JavaScript comment."""
    end = "\N{NO-BREAK SPACE}*/"  # not on a line by itself
    lines = textwrap.wrap(f"/** {text}{end}", 118, initial_indent="  ", subsequent_indent="   * ")
    return [line.replace(end, " */") for line in lines]


def javascript_fields() -> Iterator[str]:
    for option in OPTIONS.values():
        choices = [f'"{choice}"' for choice in option.choices if choice != "joint"]  # JavaScript lacks this search
        types = {"flag": "boolean", "choice": " | ".join(choices), "list": "string[]"}
        names = re.compile("|".join(rf"\b{name}\b" for name in OPTIONS if "_" in name))
        yield from comment(names.sub(lambda name: camel_case(name[0]), described(option)))
        yield f"  {camel_case(option.name)}?: {types.get(option.type, 'number')};"


def python_fields() -> Iterator[str]:
    types = {"flag": "bool", "choice": "str", "number": "float", "list": "str | Path | Sequence[str]"}
    for option in OPTIONS.values():
        yield f"    {option.name}: {types.get(option.type, 'int')} | None"


def between(text: str, part: str, content: str) -> str:
    """Replaces the lines between the markers <part> and </part>. Raises ValueError unless `text` has them once."""
    marked = re.compile(rf"(<{part}>[^\n]*\n).*?([^\n]*</{part}>)", re.S)
    text, count = marked.subn(lambda mark: mark[1] + content + mark[2], text)
    if count != 1:
        raise ValueError(f"there are {count} parts <{part}>; there must be 1")
    return text


def with_options(text: str, lines: Iterator[str]) -> str:
    return between(text, "options", "".join(f"{line}\n" for line in lines))


WRITTEN = {
    "docs/reference/options.md": lambda text: with_options(text, docs_table()),
    "js/src/index.d.ts": lambda text: with_options(text, javascript_fields()),
    "asr/_core.pyi": lambda text: with_options(text, python_fields()),
}
"""Files of the source tree, and the function that updates their text."""


def main() -> None:
    for name, update in WRITTEN.items():
        text = (ROOT / name).read_text(encoding="utf-8")
        if (new := update(text)) != text:
            (ROOT / name).write_text(new, encoding="utf-8")
            print(f"{name} was out of date")


if __name__ == "__main__":
    main()
