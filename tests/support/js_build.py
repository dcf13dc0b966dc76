"""The npm package built for the tests, in js/: once for all of them."""

from __future__ import annotations

import functools
from pathlib import Path

from support.c_build import ROOT, lock, run

JS = ROOT / "js"


@functools.cache
def packages() -> Path:
    """The folder js/, with the packages from npm."""
    with lock("npm"):
        run("make", "node_modules/.package-lock.json", cwd=JS)
    return JS


@functools.cache
def core() -> Path:
    """The same, with the C++ core as WebAssembly."""
    with lock("js_core"):
        run("make", "--jobs", "2", "core", cwd=packages())
    return JS


def page(folder: Path, *options: str | Path) -> Path:
    """The page, built in `folder`: the one in js/page would change below another process that builds it."""
    run("node", "web/build.mjs", *map(str, options), "--output", str(folder), cwd=core())
    return folder
