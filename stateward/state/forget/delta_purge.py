"""Removes what Delta keeps of rows that left a table: old files, and their statistics in the log.

VACUUM by age would take the history of every other row as well. So only the files go in which the key is; the
log keeps all its versions, without the statistics of these files. A version that had one of them cannot be
read any more.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.parquet as pq
from deltalake import DeltaTable

from stateward.contract.privacy.erasing import ERASED
from stateward.contract.storage import filesystem_at, sync_disks, write_bytes
from stateward.state.files.checkpoint_copy import crc_path
from stateward.state.forget.delta_rows import Rule
from stateward.state.forget.subject import Subject

_LOG = "_delta_log"
_COMMIT = re.compile(r"(\d{20})\.json")
_CHECKPOINT = re.compile(r"(\d{20})\.checkpoint(?:\.[\w-]+)*\.(?:parquet|json)")
_OTHERS = re.compile(r"\d{20}\.(?:crc|\d{20}\.compacted\.json)")
_PATH = re.compile(r'"path":"((?:[^"\\\\]|\\\\.)+)"')
_COUNT = "numRecords"
_YOUNG = timedelta(hours=1)
# Writers cut longer texts in statistics.
_LONGEST_IN_STATS = 32
_ROWS_AT_ONCE = 8192


@dataclass(frozen=True)
class Purged:
    """What was removed.

    Attributes:
        files: Data files.
        log_entries: Entries of the log that were changed or removed.
    """

    files: int = 0
    log_entries: int = 0


class _Folder:
    """The files of a table.

    Args:
        uri: The table.
    """

    def __init__(self, uri: str) -> None:
        self.uri = uri.rstrip("/")
        self.fs, self.root = filesystem_at(self.uri)

    def paths(self, under: str = "") -> list[str]:
        root = f"{self.root}/{under}".rstrip("/")
        if not self.fs.exists(root):
            return []
        return sorted(str(path)[len(self.root) + 1 :] for path in self.fs.find(root))

    def read(self, path: str) -> bytes:
        content: bytes = self.fs.cat_file(f"{self.root}/{path}")
        return content

    def is_young(self, path: str) -> bool:
        """Whether a file was written within the last hour."""
        modified: datetime = self.fs.modified(f"{self.root}/{path}")
        return datetime.now(UTC) - modified.astimezone(UTC) < _YOUNG

    def replace(self, path: str, content: bytes) -> None:
        """Replace a file; a reader sees the old one or the new one."""
        self.remove(crc_path(path))
        write_bytes(f"{self.uri}/{path}", content, durable=False)

    def remove(self, path: str) -> None:
        for one in (path, crc_path(path)):
            if self.fs.exists(f"{self.root}/{one}"):
                self.fs.rm_file(f"{self.root}/{one}")


def purge(uri: str, subject: Subject, rule: Rule) -> Purged:
    """Remove old files with the key and all that the log says of it; idempotent.

    Call it after the rows have left the table, and while nothing writes new files that have the key.

    Args:
        uri: The table.
        subject: The key.
        rule: Which rows are the key's.
    """
    folder = _Folder(uri)
    gone = _remove_files(folder, DeltaTable(uri), rule)
    entries = _clean_log(folder, gone, subject)
    sync_disks([uri])
    return Purged(len(gone), entries)


def _remove_files(folder: _Folder, table: DeltaTable, rule: Rule) -> set[str]:
    """Remove the files with the key that are not in the current version; returns their paths."""
    actions = pa.table(table.get_add_actions())
    current = {unquote(path) for path in actions.column("path").to_pylist()}
    committed = _committed(folder)
    gone: set[str] = set()
    for path in folder.paths():
        name = unquote(path)
        if not path.endswith(".parquet") or path.startswith(f"{_LOG}/") or name in current:
            continue
        # A young file that is in no commit yet may be one that is being written.
        if (name in committed or not folder.is_young(path)) and _is_hit(folder, path, rule):
            folder.remove(path)
            gone.add(name)
    return gone


def _committed(folder: _Folder) -> set[str]:
    """Paths of all files that an entry of the log names."""
    texts = (folder.read(path).decode() for path in folder.paths(_LOG) if _COMMIT.search(path))
    return {unquote(path) for text in texts for path in _PATH.findall(text)}


def _is_hit(folder: _Folder, path: str, rule: Rule) -> bool:
    # The values of partition columns are in the path, and not in the file.
    parts = [unquote(part).partition("=") for part in path.split("/")[:-1]]
    known = {name: value for name, _, value in parts if name in rule.columns}
    with folder.fs.open(f"{folder.root}/{path}", "rb") as file:
        parquet = pq.ParquetFile(file)
        names = [name for name in parquet.schema_arrow.names if name in rule.columns]
        nothing = dict.fromkeys(rule.columns)
        return any(
            rule.is_hit({**nothing, **row, **known})
            for batch in parquet.iter_batches(batch_size=_ROWS_AT_ONCE, columns=names)
            for row in batch.to_pylist()
        )


def _clean_log(folder: _Folder, gone: Collection[str], subject: Subject) -> int:
    """Remove statistics of files that are gone, and whatever has the key; returns the number of entries."""
    changed = 0
    checkpoints = []
    for path in folder.paths(_LOG):
        name = path.rpartition("/")[2]
        if _CHECKPOINT.fullmatch(name):
            checkpoints.append(path)
        elif _COMMIT.fullmatch(name):
            text = folder.read(path).decode()
            if (cleaned := cleaned_commit(text, gone, subject)) != text:
                folder.replace(path, cleaned.encode())
                changed += 1
        elif _OTHERS.fullmatch(name) and _concerns(_parsed(folder.read(path).decode()), gone, subject):
            folder.remove(path)
            changed += 1
    if stale := [path for path in checkpoints if _is_stale(folder, path, gone, subject)]:
        # The newest version has none of it, and the table is opened from its checkpoint from now on.
        table = DeltaTable(folder.uri)
        table.create_checkpoint()
        stale = [path for path in stale if f"/{table.version():020d}." not in path]
        for path in stale:
            folder.remove(path)
    return changed + len(stale)


def _is_stale(folder: _Folder, path: str, gone: Collection[str], subject: Subject) -> bool:
    if path.endswith(".json"):
        return _concerns(_parsed(folder.read(path).decode()), gone, subject)
    with folder.fs.open(f"{folder.root}/{path}", "rb") as file:
        batches = pq.ParquetFile(file).iter_batches(batch_size=_ROWS_AT_ONCE)
        return any(_concerns(batch.to_pylist(), gone, subject) for batch in batches)


def cleaned_commit(text: str, gone: Collection[str], subject: Subject) -> str:
    """Return an entry of a Delta log without statistics of some files, and without a key.

    Args:
        text: The entry, an action a line.
        gone: Paths of the files.
        subject: The key.
    """
    return "".join(f"{_cleaned(line, gone, subject)}\n" for line in text.splitlines())


def _cleaned(line: str, gone: Collection[str], subject: Subject) -> str:
    action = _parsed(line)
    if not isinstance(action, dict) or not _concerns(action, gone, subject):
        return line
    for found in action.values():
        if found.get("stats"):
            stats = json.loads(found["stats"])
            found["stats"] = json.dumps({_COUNT: stats[_COUNT]} if _COUNT in stats else {})
        if parameters := found.get("operationParameters"):
            found["operationParameters"] = {
                name: ERASED if _concerns(value, (), subject) else value for name, value in parameters.items()
            }
    return json.dumps(action, separators=(",", ":"))


def _concerns(found: Any, gone: Collection[str], subject: Subject) -> bool:
    """Whether a value of a log has the key in one of its texts, or describes a file that is gone."""
    if isinstance(found, dict):
        path, stats = found.get("path"), found.get("stats")
        if stats and isinstance(path, str) and unquote(path) in gone and _has_limits(stats):
            return True
        return any(_concerns(one, gone, subject) for one in found.values())
    if isinstance(found, list | tuple):
        return any(_concerns(one, gone, subject) for one in found)
    if not isinstance(found, str):
        return False
    inner = _parsed(found) if found[:1] in '{["' else None
    if isinstance(inner, dict | list):
        return _concerns(inner, gone, subject)
    start = subject.key[:_LONGEST_IN_STATS]
    is_cut = len(subject.key) > len(start) and found.startswith(start)
    return is_cut or subject.is_in_text(found)


def _has_limits(stats: str) -> bool:
    found = _parsed(stats)
    return isinstance(found, dict) and bool(found.keys() - {_COUNT})


def _parsed(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return None
