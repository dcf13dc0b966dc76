"""Atomic files, which are written under a temporary name and renamed when complete; names of files."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator, Sequence
from pathlib import Path


def part_of(path: Path) -> Path:
    """The temporary path of `path`."""
    return path.with_name(f"{path.name}.part")


def distinct_names(paths: Sequence[str], option: str) -> list[str]:
    """Distinct names for the files or folders: their last parts without .tsv, with as many parent folders as needed.

    option: what named them. Raises ValueError if it names one twice."""
    parts = [(*p.parts[:-1], p.name.removesuffix(".tsv")) for p in (Path(x).absolute() for x in paths)]
    for depth in range(1, max(map(len, parts)) + 1):
        names = ["/".join(part[-depth:]) for part in parts]
        if len(set(names)) == len(names):
            return names
    raise ValueError(f"{option} names the same file or folder more than once: {' '.join(paths)}")


def require_folder(path: Path, *inputs: str | Path) -> None:
    """Raises ValueError unless `replacing` can write `path`: its folder exists and can be written, and `path` is not a
    folder, a device or one of the files `inputs`."""
    if not path.parent.is_dir():
        raise ValueError(f"there is no folder {path.parent} to write {path.name} into")
    if path.is_dir():
        raise ValueError(f"{path} is a folder; name the file to write in it")
    _refuse_special(path)
    if not os.access(path.parent, os.W_OK):
        raise ValueError(f"the folder {path.parent} cannot be written: Permission denied")
    if any(os.path.exists(each) and path.exists() and path.samefile(each) for each in inputs):
        raise ValueError(f"{path} is also an input, which would be replaced; name another file to write")


def _refuse_special(path: Path) -> None:
    if path.exists() and not path.is_file() and not path.is_dir():
        raise ValueError(f"{path} is a device or a pipe; name a file to write")


@contextlib.contextmanager
def replacing(path: str | Path, durable: bool = False) -> Iterator[Path]:
    """Yields `<path>.part` to write to: it is renamed to `path` at the end, or removed if an exception is raised.

    A reader of `path` finds its former content or all of the new one, whatever happens to this process; if the process
    is killed, the part stays. durable: this also holds after a loss of power. If `path` is a link, the file that it
    points to is replaced. An OSError without a file name gets `path` as its name. Raises ValueError for a device or a
    pipe, which a rename would remove.
    """
    _refuse_special(Path(path))
    target = Path(os.path.realpath(path))
    part = part_of(target)
    try:
        with naming(path):
            yield part
            if durable:
                _sync(part)
            os.replace(part, target)
    finally:
        with contextlib.suppress(OSError):
            part.unlink(missing_ok=True)


@contextlib.contextmanager
def naming(path: str | Path) -> Iterator[None]:
    """An OSError without a file name, for example if the disk is full, gets `path` as its name."""
    try:
        yield
    except OSError as error:
        if error.filename is None and error.errno is not None:
            error.filename = str(path)
        raise


def _sync(path: Path) -> None:
    """Flushes `path` to the disk. Raises OSError."""
    descriptor = os.open(path, os.O_RDWR)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
