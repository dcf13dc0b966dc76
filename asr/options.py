"""The options of recognition, from the table in csrc/options.h: their texts for command lines and documentation.

`python -m asr.options --write` updates the files generated from the table: docs/reference/options.md, the types of
JavaScript and Python, and the comments of the C header.
"""

from __future__ import annotations

import argparse
import re
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path

from asr._core import OPTIONS, Option

ROOT = Path(__file__).parent.parent
COMMAND = "python -m asr.options --write"


def flag(name: str) -> str:
    """The command-line name of an option."""
    return f"--{name.replace('_', '-')}"


def default(option: Option) -> str:
    """The default value as text for users."""
    value = str(option.default).lower() if option.type in ("flag", "choice") else f"{option.default:g}"
    return f"the model file's, usually {value}" if option.of_model else value


def described(option: Option) -> str:
    """The help text of an option on one line."""
    allowed = "" if option.type in ("flag", "choice") else f"; {option.allowed}"
    return f"{option.doc}{allowed}; default: {default(option)}"


def docs_table() -> Iterator[str]:
    yield "| option | values | default | |"
    yield "| --- | --- | --- | --- |"
    for option in OPTIONS.values():
        yield f"| `{option.name}` | {option.allowed.removeprefix('in ')} | {default(option)} | {option.doc} |"


def camel_case(name: str) -> str:
    return re.sub("_([a-z])", lambda letter: letter[1].upper(), name)


def comment(opening: str, text: str) -> list[str]:
    """Wraps `text` as a C or JavaScript comment."""
    end = "\N{NO-BREAK SPACE}*/"  # not on a line by itself
    lines = textwrap.wrap(f"{opening} {text}{end}", 118, initial_indent="  ", subsequent_indent="   * ")
    return [line.replace(end, " */") for line in lines]


def javascript_fields() -> Iterator[str]:
    for option in OPTIONS.values():
        types = {"flag": "boolean", "choice": " | ".join(f'"{choice}"' for choice in option.choices)}
        yield from comment("/**", described(option))
        yield f"  {camel_case(option.name)}?: {types.get(option.type, 'number')};"


def python_fields() -> Iterator[str]:
    types = {"flag": "bool", "choice": "str", "number": "float"}
    for option in OPTIONS.values():
        yield f"    {option.name}: {types.get(option.type, 'int')} | None"


def with_comments(header: str) -> str:
    """The C header with a comment before each field."""
    for option in OPTIONS.values():
        text = described(option) + (f"; asr_{option.name}" if option.choices else "")
        field = re.compile(rf"(  /\*(?:(?!\*/).)*\*/\n)?(?=  (?:int32_t|double) {option.name};)", re.DOTALL)
        header = field.sub("\n".join(comment("/*", text)) + "\n", header, count=1)
    return header


def between(text: str, lines: Iterator[str]) -> str:
    """Replaces the text between two markers in `text` with `lines`."""
    marked = r"(<options>[^\n]*\n).*?([^\n]*</options>)"
    return re.sub(marked, lambda mark: "".join((mark[1], *(f"{line}\n" for line in lines), mark[2])), text, flags=re.S)


WRITTEN = {
    "docs/reference/options.md": lambda text: between(text, docs_table()),
    "js/src/index.d.ts": lambda text: between(text, javascript_fields()),
    "asr/_core.pyi": lambda text: between(text, python_fields()),
    "csrc/include/asr_stream/options.h": with_comments,
}
"""Files of the source tree, and the function that updates their text."""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--write", action="store_true", help="update the files; otherwise they are only listed")
    write, stale = parser.parse_args().write, []
    for name, update in WRITTEN.items():
        text = (ROOT / name).read_text(encoding="utf-8")
        if (new := update(text)) != text:
            stale.append(name)
            if write:
                (ROOT / name).write_text(new, encoding="utf-8")
    print("\n".join(f"{name} {'was' if write else 'is'} out of date" for name in stale))
    return int(bool(stale) and not write)


if __name__ == "__main__":
    sys.exit(main())
