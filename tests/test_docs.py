"""The docs, the help and the messages name only existing options, commands, settings, files, pages and headings."""

from __future__ import annotations

import argparse
import ast
import functools
import importlib
import re
import shlex
from collections.abc import Iterator
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import get_type_hints

import pytest

from asr import cli
from asr.config import Config
from asr.recipe import TASKS
from asr.streaming.server import cli as server
from asr.streaming.terminal import arguments
from asr.streaming.terminal import cli as terminal

ROOT = Path(__file__).parent.parent
PAGES = [ROOT / "README.md", ROOT / "CHANGELOG.md", *sorted((ROOT / "docs").rglob("*.md"))]
SOURCES = [path for folder in ("asr", "export", "streaming") for path in sorted((ROOT / folder).rglob("*.py"))]
FOLDERS = "asr|benchmarks|csrc|docs|examples|export|js|scripts|streaming|tests|web"
OPTION = re.compile(r"(?<![\w-])--[a-z][a-z-]*[a-z]\b")
OF_OTHERS = {
    *(
        "--array",
        "--end-tail-padding",
        "--force-reinstall",
        "--max-restarts",
        "--nnodes",
        "--no-deps",
        "--rdzv-conf",
    ),
    *("--use-fake-ui-for-media-stream", "--write"),
    "--workers",  # mentioned as an option that does not exist
}
"""Options of other programs that pages and messages name."""

pages = pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))


def options_of(parser: argparse.ArgumentParser) -> set[str]:
    """The options of a command and of its subcommands."""
    found = set(parser._option_string_actions)
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            found.update(*(options_of(each) for each in action.choices.values()))
    return found


@functools.cache
def options_of_command(name: str) -> set[str]:
    """name: `asr-stream`, `asr-stream serve`, `asr COMMAND`, or the path of a benchmark or script."""
    if name == "asr-stream":
        return options_of(arguments.new_parser())
    if name == "asr-stream serve":
        return options_of(server.new_parser())
    if name == "asr-stream toggle":
        return {"--help"}
    if name.startswith("asr "):
        parser = argparse.ArgumentParser()
        importlib.import_module(cli.COMMANDS[name[4:]][0]).add_arguments(parser)
        return options_of(parser)
    text = (ROOT / name).read_text(encoding="utf-8")
    shared = [f"benchmarks/{module}.py" for module in re.findall(r"^(?:from|import) (\w+)", text, re.M)]
    return {"--help", *OPTION.findall(text)}.union(
        *(options_of_command(path) for path in shared if (ROOT / path).exists())
    )


@functools.cache
def all_options() -> frozenset[str]:
    names = ["asr-stream", "asr-stream serve", *(f"asr {name}" for name in cli.COMMANDS)]
    names += [str(path.relative_to(ROOT)) for path in (ROOT / "benchmarks").glob("*.py")]
    return frozenset().union(*map(options_of_command, names))


def blocks(text: str, *kinds: str) -> list[str]:
    return [code for kind, code in re.findall(r"^```(\w*)\n(.*?)^```$", text, re.M | re.S) if kind in kinds]


def spans(text: str) -> list[str]:
    """The text between single backticks, with line breaks as spaces."""
    without_blocks = re.sub(r"^```.*?^```$", "", text, flags=re.M | re.S)
    return [" ".join(span.split()) for span in re.findall(r"(?<!`)`([^`]+)`(?!`)", without_blocks)]


def commands(text: str) -> Iterator[list[str]]:
    """The words of each of our commands in shell blocks and in code spans."""
    lines = [line for block in blocks(text, "sh") for line in block.replace("\\\n", " ").splitlines()]
    for line in (*lines, *spans(text)):
        for part in re.split(r"\s[|&;]+\s", line):
            try:
                words = shlex.split(part, comments=True)
            except ValueError:  # part of a multi-line string
                continue
            while words and re.match(r"\w+=|sudo$|exec$", words[0]):
                words.pop(0)
            if words and words[0] in ("asr", "asr-stream", "python", "make"):
                yield words


def settings() -> set[str]:
    """`model.dim` and all other settings of training runs."""
    found = set()
    for kind in TASKS.values():
        for name, hint in get_type_hints(kind).items():
            found |= {f"{name}.{each.name}" for each in fields(hint)} if is_dataclass(hint) else set()
    return found


@pytest.mark.parametrize(
    "command", ["asr-stream", "asr-stream serve", "asr-stream toggle", *map("asr {}".format, cli.COMMANDS)]
)
def test_help_fits_80_columns(
    command: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    program, *words = command.split()
    with pytest.raises(SystemExit):
        {"asr": cli, "asr-stream": terminal}[program].main([*words, "--help"])
    assert [line for line in capsys.readouterr().out.splitlines() if len(line) > 80] == []


@pages
def test_commands_and_their_options_exist(page: Path) -> None:
    targets = re.findall(r"^([\w-]+):", (ROOT / "Makefile").read_text(), re.M)
    for words in commands(page.read_text(encoding="utf-8")):
        program, *rest = words
        if program == "make":
            for target in rest:
                assert "=" in target or target in targets or rest[0] in ("-C", "js"), words
            continue
        if program == "python":
            if not rest or not rest[0].startswith(("benchmarks/", "scripts/")):
                continue
            name = rest[0]
        elif program == "asr":
            if not rest or rest[0].startswith("-"):
                continue
            assert rest[0] in cli.COMMANDS, words
            name = f"asr {rest[0]}"
        else:
            name = f"asr-stream {rest[0]}" if rest[:1] in (["serve"], ["toggle"]) else "asr-stream"
        given = {word for each in rest if OPTION.fullmatch(word := each.split("=")[0])}
        assert given <= options_of_command(name), words


@pages
def test_options_that_stand_alone_exist(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    named = {option for span in spans(text) if span.startswith("--") for option in OPTION.findall(span)}
    assert not named - all_options() - OF_OTHERS


@pages
def test_settings_of_a_training_exist(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    sections = "|".join(field.name for field in fields(Config))
    code = [*spans(text), *blocks(text, "sh")]
    named = {key for part in code for key in re.findall(rf"(?<![\w./-])((?:{sections})\.\w+)=", part)}
    named |= {span for span in spans(text) if re.fullmatch(rf"(?:{sections})\.[a-z_]+", span)}
    assert not {key for key in named if not key.endswith(".onnx")} - settings()


@pages
def test_files_of_the_source_tree_exist(page: Path) -> None:
    for span in spans(page.read_text(encoding="utf-8")):
        for word in span.split():
            if re.fullmatch(rf"(?:{FOLDERS})/[\w./-]*", word):
                assert (ROOT / word).exists() or re.match("js/(page|node_modules)", word), f"{page}: {word}"


@pages
def test_links_lead_to_pages_and_headings(page: Path) -> None:
    text = re.sub(r"^```.*?^```$", "", page.read_text(encoding="utf-8"), flags=re.M | re.S)
    for link in re.findall(r"\[[^\]]*\]\(([^)\s]+)\)", text):
        if link.startswith("http"):
            continue
        path, _, anchor = link.partition("#")
        target = page.parent / path if path else page
        assert target.exists(), link
        headings = re.findall(r"^#+ (.*)$", target.read_text(encoding="utf-8"), re.M) if anchor else []
        assert not anchor or anchor in {re.sub(r"[^\w\- ]", "", each.lower()).replace(" ", "-") for each in headings}, (
            link
        )


def test_every_image_is_shown() -> None:
    shown = {name for page in PAGES for name in re.findall(r"images/(\w+\.png)\)", page.read_text(encoding="utf-8"))}
    assert {path.name for path in (ROOT / "docs" / "images").iterdir()} == shown


@pytest.mark.parametrize("source", SOURCES, ids=lambda source: str(source.relative_to(ROOT)))
def test_messages_name_what_exists(source: Path) -> None:
    for node in ast.walk(ast.parse(source.read_text(encoding="utf-8"))):
        if not isinstance(node, ast.Constant) or not isinstance(node.value, str):
            continue
        for command in re.findall(r"`asr ([\w-]+)", node.value):
            assert command in cli.COMMANDS, f"line {node.lineno}: asr {command}"
        for path in re.findall(rf"(?<![\w/.])(?:{FOLDERS})/[\w./-]*\w\.(?:md|py|h|cc|yaml)\b", node.value):
            assert (ROOT / path).exists(), f"line {node.lineno}: {path}"
        if " " not in node.value:
            continue  # an argument of another program or of a parser
        unknown = set(OPTION.findall(node.value)) - all_options() - OF_OTHERS
        assert not unknown, f"line {node.lineno}: {unknown}"
