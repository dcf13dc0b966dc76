"""Files that are whole or not there: written beside their name, renamed when complete."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path


@contextlib.contextmanager
def replacing(path: str | Path) -> Iterator[Path]:
    """`<path>.part`, to be written within the `with`: it becomes `path` at the end, or goes where an exception ends it.

    Whoever opens `path` finds its former content or all of the new one, on one machine and whatever happens to this
    process; a kill leaves the part. Losing power is another matter: sync what must survive that.
    """
    path = Path(path)
    part = path.with_name(f"{path.name}.part")
    try:
        yield part
        os.replace(part, path)
    finally:
        with contextlib.suppress(OSError):
            part.unlink(missing_ok=True)
