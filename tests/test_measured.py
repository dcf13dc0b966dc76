"""Numbers of the documentation come from result files and from the bundled models."""

from __future__ import annotations

import sys
from pathlib import Path

import measured
import pytest

ROOT = Path(__file__).parents[1]


@pytest.fixture
def page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The only page besides README.md, in a folder of its own."""
    (tmp_path / "docs").mkdir()
    (tmp_path / "README.md").write_text("no number\n")
    monkeypatch.setattr(measured, "ROOT", tmp_path)
    return tmp_path / "docs" / "page.md"


def run(monkeypatch: pytest.MonkeyPatch, *options: str) -> int:
    monkeypatch.setattr(sys, "argv", ["measured.py", *options])
    return measured.main()


def test_pages_have_the_measured_numbers(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(monkeypatch, "--check") == 0, capsys.readouterr().out
    card = (ROOT / "docs" / "model_card.md").read_text()
    assert len(measured.NUMBER.findall(card)) > 25


def test_a_number_is_replaced_by_the_measured_one(
    page: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    known = measured.numbers()["dev"]
    page.write_text("The error rate is 99.9<!--dev--> %, not 99.9 %.\n")
    assert run(monkeypatch, "--check") == 1
    assert f"docs/page.md: dev is {known}, not 99.9" in capsys.readouterr().out and "99.9<" in page.read_text()
    assert run(monkeypatch) == 0
    assert page.read_text() == f"The error rate is {known}<!--dev--> %, not 99.9 %.\n"
    assert run(monkeypatch, "--check") == 0


def test_an_unknown_number_is_refused(page: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    page.write_text("8<!--devil--> %\n")
    with pytest.raises(SystemExit, match=r"page\.md names 'devil'; known: dev, "):
        run(monkeypatch, "--check")


def test_every_result_file_has_its_command() -> None:
    assert {path.stem for path in measured.MEASURED.glob("*.json")} == measured.COMMANDS.keys()
