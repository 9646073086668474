"""Simulates a power loss: syncs of a folder are recorded, and unsynced changes are dropped.

Python's and deltalake's files are both seen, for it is the folder that is looked at: before each sync takes
effect, all that is in it is there only in memory, unless an earlier sync has put it on the disk.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from stateward.contract import storage

Survives = Callable[[Path], bool]


@dataclass
class View:
    """A possible content of the folder after a power loss.

    Attributes:
        when: The sync before which the power failed.
        how: The unsynced changes that survived.
        files: Content by path; a torn one is empty.
        folders: Their paths.
    """

    when: str
    how: str
    files: dict[Path, bytes] = field(default_factory=dict)
    folders: list[Path] = field(default_factory=list)

    def put(self, folder: Path) -> None:
        """Make it."""
        folder.mkdir(parents=True)
        for path in self.folders:
            (folder / path).mkdir()
        for path, content in self.files.items():
            (folder / path).write_bytes(content)


class Disk:
    """A folder on a disk that loses unsynced changes.

    Args:
        root: The folder; its current content is on the disk.
    """

    def __init__(self, root: Path) -> None:
        self._root = root
        self._content: dict[int, bytes] = {}
        self._names: dict[Path, dict[str, int]] = {}
        self.views: list[View] = []
        self.last: list[View] = []
        self._sync_all()

    def record(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Record from now on."""
        fsync, sync_disk = os.fsync, storage.sync_disk

        def one(handle: int) -> None:
            path = Path(f"/proc/self/fd/{handle}").readlink()
            if path.is_relative_to(self._root):
                self.look(f"fsync {path.relative_to(self._root)}")
                self._sync(path)
            fsync(handle)

        def whole(path: str) -> None:
            self.look(f"sync for {path}")
            self._sync_all()
            sync_disk(path)

        monkeypatch.setattr(os, "fsync", one)
        monkeypatch.setattr(storage, "sync_disk", whole)

    def look(self, when: str) -> None:
        """Note what would be left now: all of it in ``last``, and in ``views`` what has not been seen yet."""
        self.last = []
        # The number of a removed file may be reused.
        there = {path.stat().st_ino for path in self._root.rglob("*")}
        there.update(*(names.values() for names in self._names.values()))
        self._content = {inode: content for inode, content in self._content.items() if inode in there}
        for how, survives in (
            ("only what was synced", None),
            ("every name", lambda path: False),
            ("every name, and commits whole", lambda path: path.suffix == ".json"),
        ):
            view = View(when, how)
            self._collect(self._root, view, survives)
            self.last.append(view)
            if not any((view.files, view.folders) == (seen.files, seen.folders) for seen in self.views):
                self.views.append(view)

    def _sync_all(self) -> None:
        for path in (self._root, *self._root.rglob("*")):
            self._sync(path)

    def _sync(self, path: Path) -> None:
        if path.is_dir():
            self._names[path] = {one.name: one.stat().st_ino for one in path.iterdir()}
        else:
            self._content[path.stat().st_ino] = path.read_bytes()

    def _collect(self, folder: Path, view: View, survives: Survives | None) -> None:
        for path, inode in self._entries(folder, everything=survives is not None):
            place = path.relative_to(self._root)
            if path.is_dir():
                view.folders.append(place)
                self._collect(path, view, survives)
            elif survives is not None and survives(path):
                view.files[place] = path.read_bytes()
            else:
                view.files[place] = self._content.get(inode, b"")

    def _entries(self, folder: Path, *, everything: bool) -> Iterator[tuple[Path, int]]:
        names = self._names.get(folder, {})
        if everything:
            names = {one.name: one.stat().st_ino for one in folder.iterdir()}
        for name, inode in sorted(names.items()):
            yield folder / name, inode
