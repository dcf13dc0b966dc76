"""The version is stated in one place, or all places agree."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import release

import asr

ROOT = Path(__file__).parents[2]


def test_the_c_library_has_it(library: Any) -> None:
    assert library.c.asr_version().decode() == asr.__version__


def test_all_files_that_state_it_agree() -> None:
    assert release.versions(ROOT) == dict.fromkeys(release.VERSIONS, asr.__version__)
    lock = json.loads((ROOT / "js" / "package-lock.json").read_text())
    assert lock["packages"][""]["version"] == asr.__version__


def test_the_changelog_begins_with_its_date() -> None:
    first = re.search(r"^## .*", (ROOT / "CHANGELOG.md").read_text(), re.M)
    assert first and re.fullmatch(r"## \S+, (not yet released|20\d\d-\d\d-\d\d)", first[0])


def test_cmake_projects_get_an_error_naming_the_option() -> None:
    series = asr.__version__.rpartition(".")[0]
    for page in ("docs/guides/c_api.md", "tests/capi/consumer/CMakeLists.txt"):
        assert f"find_package(asr_stream {series} REQUIRED)" in (ROOT / page).read_text()
