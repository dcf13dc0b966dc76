"""Atomic files: written under a temporary name, renamed when complete."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path


def part_of(path: Path) -> Path:
    """The temporary path of `path`."""
    return path.with_name(f"{path.name}.part")


def require_folder(path: Path) -> None:
    """Raises ValueError if the parent folder of `path` does not exist, or `path` is a folder itself."""
    if not path.parent.is_dir():
        raise ValueError(f"there is no folder {path.parent} to write {path.name} into")
    if path.is_dir():
        raise ValueError(f"{path} is a folder; name the file to write in it")


@contextlib.contextmanager
def replacing(path: str | Path, durable: bool = False) -> Iterator[Path]:
    """Yields `<path>.part` to write to: it is renamed to `path` at the end, or removed if an exception is raised.

    A reader of `path` finds its former content or all of the new one, whatever happens to this process; if the process
    is killed, the part stays. durable: this also holds after a loss of power. An OSError without a file name gets
    `path` as its name.
    """
    path = Path(path)
    part = part_of(path)
    try:
        yield part
        if durable:
            _sync(part)
        os.replace(part, path)
    except OSError as error:
        if error.filename is None:  # for example if the disk is full
            error.filename = str(path)
        raise
    finally:
        with contextlib.suppress(OSError):
            part.unlink(missing_ok=True)


def _sync(path: Path) -> None:
    """Flushes `path` to the disk. Raises OSError."""
    descriptor = os.open(path, os.O_RDWR)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
