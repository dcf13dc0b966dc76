"""The pages of the reference that are made from the code are current and complete."""

from __future__ import annotations

import pytest
from write_reference import COMMAND, WRITTEN, markdown, options, page, parser_of, signature, updated

import asr
import asr.streaming


@pytest.mark.parametrize("name", WRITTEN)
def test_pages_made_from_the_code_are_current(name: str) -> None:
    assert updated(name) == page(name).read_text(encoding="utf-8"), f"run {COMMAND}"


def test_every_public_name_is_documented() -> None:
    text = page("python").read_text(encoding="utf-8")
    names = {*asr.streaming.__all__, *asr.__all__} - {"__version__"}
    assert {name for name in names if f"### {name}\n" not in text} == {"StreamFailed"}
    assert "`StreamFailed`" in text


def test_parameters_of_a_docstring_become_a_list() -> None:
    lines = markdown("Reads.\n\npath: a file,\n    or a folder.\nsize, rate: numbers.\nMore.\nArgs:\n    x: a number.")
    assert "\n".join(lines).split() == (
        "Reads. - `path`: a file, or a folder. - `size, rate`: numbers. More. - `x`: a number.".split()
    )


def test_a_signature_has_no_private_parameters() -> None:
    def call(self: object, path: str, *, size: int = 2, _shared: object = None, **options: int) -> str:
        raise NotImplementedError

    assert signature("call", call) == "call(path: str, *, size: int = 2, **options) -> str"


def test_a_page_of_options_has_the_help_of_each() -> None:
    text = options(parser_of("asr.streaming.server.cli"))
    assert "| `--port PORT` | " in text
    assert "chunk-ms" not in text  # has its own page
