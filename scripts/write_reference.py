"""Updates the pages of docs/reference that are made from the code: python scripts/write_reference.py

python.md is made from docstrings, command_line.md from the parsers. The text between two markers, <!-- <NAME> ... -->
and <!-- </NAME> -->, is replaced. The options of recognition have their own page, which write_options.py updates.
"""

from __future__ import annotations

import argparse
import importlib
import inspect
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from write_options import ROOT, between

from asr.options import OPTIONS

COMMAND = "python scripts/write_reference.py"

PYTHON: dict[str, dict[str, str]] = {
    "recognizer": {"asr.Recognizer": "stream with_options warnings chunk_size left_context"},
    "stream": {"asr.streaming.Stream": "accept_waveform events finish end_utterance gap change sample_offset"},
    "events": {
        "asr.streaming.Event": "to_dict",
        "asr.streaming.Partial": "",
        "asr.streaming.Final": "",
        "asr.streaming.Alternative": "",
        "asr.streaming.Gap": "",
        "asr.streaming.Error": "",
        "asr.runtime.search.Word": "",
    },
    "audio": {
        "asr.streaming.Microphone": "read_into read close sample_rate",
        "asr.streaming.list_devices": "",
        "asr.streaming.audio.microphone.InputDevice": "",
        "asr.streaming.audio.microphone.Block": "",
        "asr.streaming.MicrophoneError": "",
        "asr.streaming.read_blocks": "",
        "asr.streaming.AudioFileError": "",
    },
    "alignment": {
        "asr.align": "",
        "asr.streaming.alignment.Alignment": "missing",
        "asr.streaming.alignment.AlignedWord": "",
        "asr.streaming.alignment.Phone": "",
    },
    "models": {
        "asr.runtime.onnx_model.bundled_model": "",
        "asr.runtime.onnx_model.OnnxModel": "",
        "asr.runtime.onnx_model.ModelError": "",
        "asr.lm.packed.load_lm": "",
        "asr.runtime.punctuation.Punctuation": "__call__",
    },
    "text": {"asr.text.detokenize": "", "asr.text.TextNormalizer": "__call__"},
}
"""The documented names by section of the page, each with its documented members."""

NOT_CONSTRUCTED = {"asr.streaming.Stream"}
"""Classes whose objects come from a method, so their page shows no constructor."""


def lookup(path: str) -> Any:
    module, _, name = path.rpartition(".")
    return getattr(importlib.import_module(module), name)


def annotation(value: Any) -> str:
    forward = getattr(value, "__forward_arg__", None)  # of a NamedTuple
    return value if isinstance(value, str) else forward or inspect.formatannotation(value)


def parameter(each: inspect.Parameter) -> str:
    stars: dict[object, str] = {each.VAR_POSITIONAL: "*", each.VAR_KEYWORD: "**"}
    text = stars.get(each.kind, "") + each.name
    if each.annotation is not each.empty and each.kind is not each.VAR_KEYWORD:
        text += f": {annotation(each.annotation)}"
    if each.default is each.empty:
        return text
    default = f'"{each.default}"' if isinstance(each.default, str) else str(each.default)
    return f"{text} = {'...' if callable(each.default) else default}"


def signature(name: str, called: Callable[..., Any]) -> str:
    """Python code; long ones have a line for each parameter. Private parameters and `self` are left out."""
    found = inspect.signature(called)
    parts: list[str] = []
    for each in found.parameters.values():
        if each.name != "self" and not each.name.startswith("_"):
            if each.kind is each.KEYWORD_ONLY and "*" not in parts and not any(part[:1] == "*" for part in parts):
                parts.append("*")
            parts.append(parameter(each))
    returned = "" if found.return_annotation is found.empty else annotation(found.return_annotation)
    ending = f" -> {returned}" if returned not in ("", "None") else ""
    line = f"{name}({', '.join(parts)}){ending}"
    return line if len(line) <= 100 else "\n".join([f"{name}(", *(f"    {part}," for part in parts), f"){ending}"])


def markdown(docstring: str) -> Iterator[str]:
    """The docstring with its parameters, `name: text` or those below `Args:`, as a list."""
    sections = re.compile(r"^(?:Args|Returns):\n((?:    .*\n?)+)", re.M)
    listing = False
    for line in sections.sub(lambda found: f"\n{inspect.cleandoc(found[1])}\n\n", docstring).splitlines():
        if item := re.match(r"(\w+(?:, \w+)*): ", line):
            if not listing:
                yield ""
            listing = True
            yield f"- `{item[1]}`: {line[item.end() :]}"
        elif listing and line.startswith("    "):
            yield f"  {line.strip()}"
        else:
            if listing and line:
                yield ""
            listing = False
            yield line


def documented(path: str, members: str) -> Iterator[str]:
    """A heading, the signature and the docstring of a name, then those of its members."""
    found, name = lookup(path), path.rpartition(".")[2]
    is_class = inspect.isclass(found)
    is_error = is_class and issubclass(found, Exception)
    yield f"### {name}\n"
    shown = f"from {path.rpartition('.')[0]} import {name}"
    if not is_error and path not in NOT_CONSTRUCTED:
        shown += f"\n\n{signature(name, found)}"
    yield f"```python\n{shown}\n```\n"
    text = doc(found)
    for option in OPTIONS if path == "asr.Recognizer" else ():
        text = re.sub(rf"^{option}: .*\n", "", text, flags=re.M)
    yield from markdown(text)
    yield ""
    if is_class and "__init__" in vars(found) and path not in NOT_CONSTRUCTED and not hasattr(found, "__match_args__"):
        own = doc(found.__init__)
        if own and not own.startswith("Initialize self"):
            yield from markdown(own)
            yield ""
    for member in members.split():
        value = inspect.getattr_static(found, member)
        is_call = member == "__call__"
        yield f"#### {f'Call of a {name}' if is_call else f'{name}.{member}'}\n"
        if not isinstance(value, property):
            called = re.findall("[A-Z][a-z]+", name)[-1].lower() if is_call else member
            yield f"```python\n{signature(called, value)}\n```\n"
        own = doc(value)
        if own and own != "Call self as a function.":
            yield from markdown(own)
            yield ""


def doc(value: Any) -> str:
    return inspect.getdoc(value) or ""


def python_section(names: dict[str, str]) -> str:
    lines = (line for path, members in names.items() for line in documented(path, members))
    return "\n" + re.sub(r"\n{3,}", "\n\n", "\n".join(lines)).strip() + "\n\n"


def options(parser: argparse.ArgumentParser) -> str:
    """A table for each group of options, with their help."""
    lines: list[str] = []
    formatter = parser._get_formatter()
    for group in parser._action_groups:
        hidden = {"help", "version", *OPTIONS}
        actions = [each for each in group._group_actions if each.dest not in hidden]
        if not actions:
            continue
        lines += ["", f"**{group.title}**", "", "| option | |", "|---|---|"]
        for action in actions:
            shown = [f"`{each}`" for each in action.option_strings]
            if action.option_strings and action.nargs != 0:
                metavar = formatter._get_default_metavar_for_optional(action)
                shown[-1] = f"`{action.option_strings[-1]} {formatter._format_args(action, metavar)}`"
            text = " ".join(formatter._expand_help(action).split()) if action.help else ""
            lines.append(f"| {', '.join(shown) or f'`{action.metavar or action.dest}`'} | {escaped(text)} |")
    return "\n".join(lines) + "\n\n"


def escaped(text: str) -> str:
    return text.replace("|", r"\|").replace("<", r"\<")


def parser_of(module: str) -> argparse.ArgumentParser:
    found: argparse.ArgumentParser = importlib.import_module(module).new_parser()
    return found


WRITTEN: dict[str, dict[str, Callable[[], str]]] = {
    "python": {name: lambda names=names: python_section(names) for name, names in PYTHON.items()},  # type: ignore[misc]
    "command_line": {
        "asr-stream": lambda: options(parser_of("asr.streaming.terminal.arguments")),
        "serve": lambda: options(parser_of("asr.streaming.server.cli")),
    },
}
"""The marked parts of each page, and what makes their text."""


def page(name: str) -> Path:
    return ROOT / "docs" / "reference" / f"{name}.md"


def updated(name: str) -> str:
    """The text of a page with the present content of its marked parts."""
    text = page(name).read_text(encoding="utf-8")
    for part, made in WRITTEN[name].items():
        text = between(text, part, made())
    return text


def main() -> None:
    for name in WRITTEN:
        old = page(name).read_text(encoding="utf-8")
        if (new := updated(name)) != old:
            page(name).write_text(new, encoding="utf-8")
            print(f"docs/reference/{name}.md was out of date")


if __name__ == "__main__":
    main()
