"""The folders in which Great Expectations works: those of the storage, or copies whose changes are published.

On a local disk it works in place, one validation at a time. On other storage each validation works in a
temporary folder, and validations of several hosts publish at the same time: results and pages have names of
their own, and the index, which they share, is built again until it has all of them.
"""

from __future__ import annotations

import logging
import tempfile
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar

from filelock import FileLock

from stateward.contract import storage

_LOCK_TIMEOUT_S = 120
_CONTEXT, _DOCS = "gx", "docs"
_INDEX = f"{_DOCS}/index.html"
_HALF = ".tmp"
# Pages have their styles inside, and what describes the context is written by each validation.
_PUBLISHED = (f"{_CONTEXT}/masks", f"{_CONTEXT}/expectations/", f"{_CONTEXT}/validations/", f"{_DOCS}/")
_NOT_PUBLISHED = (f"{_DOCS}/static/", _INDEX)
# An object store answers slowly.
_AT_ONCE = 8
_MOST_TRIES = 20

_LOG = logging.getLogger(__name__)
_One = TypeVar("_One")


class ReportFolders:
    """Folders on a local disk, written in place.

    Attributes:
        context_dir: The folder of the results.
        docs_dir: The folder of the pages.
    """

    def __init__(self, context_dir: Path, docs_dir: Path) -> None:
        self.context_dir = context_dir
        self.docs_dir = docs_dir

    def publish(self, build_index: Callable[[], None]) -> None:
        """Publish what was written.

        Args:
            build_index: Builds the index again, from the results in the folder.
        """


class CopiedFolders(ReportFolders):
    """Folders on other storage, as copies: results whole, and of pages only their names.

    Args:
        root: The folder with the copies.
        docs_uri: The folder of the pages on the storage; that of the results lies beside it.
    """

    def __init__(self, root: Path, docs_uri: str) -> None:
        super().__init__(root / _CONTEXT, root / _DOCS)
        self._root = root
        self._uris = {_CONTEXT: f"{_beside(docs_uri)}/{_CONTEXT}", _DOCS: docs_uri.rstrip("/")}
        self._published: dict[str, bytes | None] = {}

    def fetch(self) -> bool:
        """Copy what others have published since, and remove what they have removed; tell whether they did."""
        present = self._listed()
        added, removed = present - self._published.keys(), self._published.keys() - present
        _each(self._fetch, added)
        for path in removed:
            (self._root / path).unlink(missing_ok=True)
            del self._published[path]
        return bool(added or removed)

    def publish(self, build_index: Callable[[], None]) -> None:
        """Publish what was written, results before their pages, and the index after all."""
        written = {path: content for path, content in self._written() if content != self._published.get(path)}
        # What was removed locally is old, or had less masked than today.
        _each(self._remove, [path for path in self._published if not (self._root / path).exists()])
        for is_wanted in (_is_result, _is_page):
            _each(self._put, [(path, content) for path, content in written.items() if is_wanted(path)])
        for _ in range(_MOST_TRIES):
            if self.fetch():
                build_index()
            storage.write_bytes(self._uri_of(_INDEX), (self._root / _INDEX).read_bytes())
            if self._listed() == self._published.keys():
                return
        _LOG.warning("the index of Data Docs at %s may miss the newest validations", self._uris[_DOCS])

    def _listed(self) -> set[str]:
        # Pages first: a page that is there had its result before it.
        folders = (_DOCS, _CONTEXT)
        paths = [f"{one}/{path}" for one in folders for path in storage.sizes_below(self._uris[one])]
        return {path for path in paths if _is_published(path)}

    def _written(self) -> Iterator[tuple[str, bytes]]:
        for file in sorted(self._root.rglob("*")):
            path = file.relative_to(self._root).as_posix()
            # A page that was not fetched is empty here.
            if file.is_file() and _is_published(path) and (content := file.read_bytes()):
                yield path, content

    def _fetch(self, path: str) -> None:
        content = None
        if _is_result(path) and (content := storage.read_bytes(self._uri_of(path))) is None:
            return  # removed meanwhile
        (self._root / path).parent.mkdir(parents=True, exist_ok=True)
        (self._root / path).write_bytes(content or b"")
        self._published[path] = content

    def _put(self, written: tuple[str, bytes]) -> None:
        path, content = written
        storage.write_bytes(self._uri_of(path), content)
        self._published[path] = content

    def _remove(self, path: str) -> None:
        storage.delete(self._uri_of(path))
        del self._published[path]

    def _uri_of(self, path: str) -> str:
        folder, _, rest = path.partition("/")
        return f"{self._uris[folder]}/{rest}"


@contextmanager
def report_folders(docs_uri: str) -> Iterator[ReportFolders]:
    """Open the folders for one validation.

    Args:
        docs_uri: The folder of Data Docs; that of the results lies beside it.

    Raises:
        filelock.Timeout: Another validation writes in place, for minutes.
        OSError: The storage cannot be read.
    """
    if (path := storage.local_path(docs_uri)) is not None:
        folders = ReportFolders(Path(path).parent / _CONTEXT, Path(path))
        folders.context_dir.mkdir(parents=True, exist_ok=True)
        # Streams share the folder. A second writer would overwrite the index and the context's files.
        with FileLock(str(folders.context_dir / ".lock"), timeout=_LOCK_TIMEOUT_S):
            yield folders
        return
    with tempfile.TemporaryDirectory(prefix="stateward-data-docs-") as folder:
        copied = CopiedFolders(Path(folder), docs_uri)
        copied.context_dir.mkdir()
        copied.fetch()
        yield copied


def _beside(uri: str) -> str:
    return uri.rstrip("/").rpartition("/")[0]


def _each(act: Callable[[_One], None], some: Iterable[_One]) -> None:
    with ThreadPoolExecutor(_AT_ONCE) as pool:
        for _ in pool.map(act, some):
            pass


def _is_published(path: str) -> bool:
    return path.startswith(_PUBLISHED) and not path.startswith(_NOT_PUBLISHED) and not path.endswith(_HALF)


def _is_result(path: str) -> bool:
    return path.startswith(_CONTEXT)


def _is_page(path: str) -> bool:
    return path.startswith(_DOCS)
