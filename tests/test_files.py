"""A file that is being replaced keeps its old contents until the new ones are complete."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from asr.files import replacing, require_folder


def test_a_file_is_replaced_at_the_end(tmp_path: Path) -> None:
    path = tmp_path / "notes.v1.txt"
    path.write_text("former")
    with replacing(path) as part:
        part.write_text("new")
        assert path.read_text() == "former" and part.parent == tmp_path
    assert path.read_text() == "new" and list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize("durable", [True, False])
def test_durable_file_is_synced_before_its_rename(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, durable: bool
) -> None:
    calls: list[str] = []
    for name in ("fsync", "replace"):
        monkeypatch.setattr(os, name, lambda *_, name=name: calls.append(name))
    with replacing(tmp_path / "notes.txt", durable) as part:
        part.write_text("new")
    assert calls == (["fsync", "replace"] if durable else ["replace"])


def test_full_disk_is_an_error_naming_the_file(tmp_path: Path) -> None:
    path = tmp_path / "notes.txt"
    with pytest.raises(OSError, match="No space left") as caught, replacing(path) as part:
        part.write_text("half")
        Path("/dev/full").write_text("more")
    assert caught.value.filename == str(path)


@pytest.mark.parametrize("error", [OSError, KeyboardInterrupt])
def test_unfinished_file_leaves_the_former_one(tmp_path: Path, error: type[BaseException]) -> None:
    path = tmp_path / "notes.txt"
    path.write_text("former")
    with pytest.raises(error), replacing(path) as part:
        part.write_text("half")
        raise error
    assert path.read_text() == "former" and list(tmp_path.iterdir()) == [path]


def test_what_cannot_be_put_in_place_leaves_nothing(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    with pytest.raises(OSError, match="folder"), replacing(tmp_path / "folder") as part:
        part.write_text("new")
    assert [path.name for path in tmp_path.iterdir()] == ["folder"]


def test_a_folder_is_no_output_file(tmp_path: Path) -> None:
    """Otherwise the rename fails, after all of the work."""
    with pytest.raises(ValueError, match=f"{tmp_path} is a folder; name the file to write in it"):
        require_folder(tmp_path)


def test_a_link_keeps_pointing_to_the_file(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    target, link = tmp_path / "folder" / "model.lm", tmp_path / "link.lm"
    target.write_text("former")
    link.symlink_to(target)
    with replacing(link) as part:
        part.write_text("new")
    assert link.is_symlink() and target.read_text() == "new" and list(target.parent.iterdir()) == [target]


def test_devices_and_pipes_are_not_replaced(tmp_path: Path) -> None:
    pipe, link = tmp_path / "pipe", tmp_path / "stdout"
    os.mkfifo(pipe)
    link.symlink_to("/dev/null")
    for path in (pipe, link):
        message = f"{path} is a device or a pipe; name a file to write"
        with pytest.raises(ValueError, match=message):
            require_folder(path)
        with pytest.raises(ValueError, match=message), replacing(path):
            pass
    assert pipe.is_fifo() and link.is_symlink()


def test_an_input_is_no_output(tmp_path: Path) -> None:
    path, link = tmp_path / "text.txt", tmp_path / "link.txt"
    path.touch()
    link.symlink_to(path)
    require_folder(tmp_path / "new.lm", path, "cmudict")
    for output in (path, link):
        with pytest.raises(ValueError, match=f"{output} is also an input, which would be replaced; name another"):
            require_folder(output, tmp_path / "none.txt", path)


def test_a_folder_must_be_writable(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "access", lambda path, mode: (path, mode) != (tmp_path, os.W_OK))  # root may write anywhere
    with pytest.raises(ValueError, match=f"the folder {tmp_path} cannot be written"):
        require_folder(tmp_path / "new.lm")
