"""The release check finds errors. test_dist.py tests each packaged file."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
import release
from support.c_build import ROOT, run

import asr


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """The files that state the version, with a date in the changelog, committed and tagged."""
    for name in release.VERSIONS:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, tmp_path / name)
    edit(tmp_path / "CHANGELOG.md", "not yet released", "2030-12-31")
    author = ("-c", "user.name=test", "-c", "user.email=test@test")
    for command in (("init", "-q"), ("add", "."), ("commit", "-q", "-m", "All"), ("tag", f"v{asr.__version__}")):
        run("git", "-C", str(tmp_path), *author, *command)
    return tmp_path


def edit(path: Path, former: str, new: str) -> None:
    path.write_text(path.read_text().replace(former, new, 1))


def wrong(checkout: Path, *, rehearsal: bool = False) -> list[str]:
    checks: tuple[Callable[..., list[str]], ...] = (release.wrong_versions, release.wrong_commit)
    return [problem for check in checks for problem in check(checkout, rehearsal=rehearsal)]


def test_a_tagged_commit_is_ready(checkout: Path) -> None:
    assert wrong(checkout) == []


@pytest.mark.parametrize("name", [name for name in release.VERSIONS if name != "asr/__init__.py"])
def test_another_version_is_found(name: str, checkout: Path) -> None:
    edit(checkout / name, asr.__version__, "9.9.9")
    assert f"{name} has version 9.9.9, and asr/__init__.py {asr.__version__}" in wrong(checkout, rehearsal=True)


def test_the_tag_is_that_of_the_commit(checkout: Path) -> None:
    run("git", "-C", str(checkout), "tag", "-d", f"v{asr.__version__}")
    assert wrong(checkout) == [f"the commit has no tag v{asr.__version__}: git tag v{asr.__version__}"]
    assert wrong(checkout, rehearsal=True) == []


def test_a_release_has_a_date_and_nothing_uncommitted(checkout: Path) -> None:
    edit(checkout / "CHANGELOG.md", "2030-12-31", "not yet released")
    date, changed = wrong(checkout)
    assert "'not yet released'" in date and "M CHANGELOG.md" in changed
    assert wrong(checkout, rehearsal=True) == [changed]


def test_missing_and_broken_files_are_named(tmp_path: Path) -> None:
    package = tmp_path / f"asr-stream-{asr.__version__}.tgz"
    package.write_bytes(b"no package")
    problems = list(release.wrong_files(tmp_path, asr.__version__))
    assert [package.name in problem for problem in problems] == [False, False, True, False]
    assert all("make dist" in problem for problem in problems if package.name not in problem)


def test_bytes_that_differ_are_named(tmp_path: Path) -> None:
    one, other = tmp_path / "one", tmp_path / "other"
    for folder in (one, other):
        folder.mkdir()
        (folder / "same").write_bytes(b"1")
        (folder / "differs").write_text(folder.name)
    (other / "more").touch()
    differs, more = release.other_bytes(one, other)
    assert "two builds of differs differ" in differs and "one of two builds has no more" in more
