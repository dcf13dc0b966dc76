"""Files that are complete or absent: written under a temporary name, renamed when complete."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path


def part_of(path: Path) -> Path:
    """The temporary path of `path`."""
    return path.with_name(f"{path.name}.part")


def require_folder(path: Path) -> None:
    """Raises ValueError where the folder that `path` is to be written into does not exist."""
    if not path.parent.is_dir():
        raise ValueError(f"there is no folder {path.parent} to write {path.name} into")


@contextlib.contextmanager
def replacing(path: str | Path, durable: bool = False) -> Iterator[Path]:
    """`<path>.part`, to be written within the `with`: it becomes `path` at the end, or goes where an exception ends it.

    Whoever opens `path` finds its former content or all of the new one, on one machine and whatever happens to this
    process; a kill leaves the part. durable: after a loss of power, too. An OSError without a file name gets `path` as
    its name.
    """
    path = Path(path)
    part = part_of(path)
    try:
        yield part
        if durable:
            _sync(part)
        os.replace(part, path)
    except OSError as error:
        if error.filename is None:  # a disk that is full names no file
            error.filename = str(path)
        raise
    finally:
        with contextlib.suppress(OSError):
            part.unlink(missing_ok=True)


def _sync(path: Path) -> None:
    """Flush `path` to the disk. Raises OSError."""
    descriptor = os.open(path, os.O_RDWR)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
