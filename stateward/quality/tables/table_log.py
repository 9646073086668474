"""The commits of a range of versions: what each did, and which files hold the rows that the range added.

Delta's log is read directly, because its protocol is public and stable. Delta's change feed would have to be
enabled for each table before the first row, and its history has neither files nor transactions.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any
from urllib.parse import unquote

from stateward.contract import storage
from stateward.contract.privacy.forgotten import MARK, OF_KEY

MOST_COMMITS = 10_000
"""In a longer range only the newest commits are read, and its rows are those of the whole table."""
REMOVAL = "REMOVAL"
"""The operation of a commit that removed rows on purpose: of a forgotten key, or beyond `max_age`."""

_AT_ONCE = 16


@dataclass(frozen=True)
class AddedFile:
    """A file that a commit added.

    Attributes:
        path: below the table's folder.
        rows: number of rows; None when the writer recorded none.
        is_whole: whether all of its rows are in the table; a deletion vector removes some.
    """

    path: str
    rows: int | None
    is_whole: bool = True


@dataclass(frozen=True)
class Commit:
    """One version of a table.

    Attributes:
        at: when it was committed, by the writer's clock, UTC.
        generation: the streaming query that wrote it as one of its batches; None for any other writer.
        batch_id: the batch.
        added: files with new rows.
        removed: paths of files whose rows were removed or replaced.
        rewritten: paths of files with rows that were in the table before, as OPTIMIZE writes them.
        new_schema: whether it changed columns or properties of the table.
        forgets: whether it removed the rows of a forgotten key. The files that it added hold rows from
            before, and those that it removed are gone.
    """

    version: int
    at: datetime
    operation: str
    parameters: dict[str, str]
    metrics: dict[str, str]
    generation: str | None
    batch_id: int | None
    added: tuple[AddedFile, ...]
    removed: tuple[str, ...]
    rewritten: tuple[str, ...]
    new_schema: bool
    forgets: bool = False

    @property
    def rows_added(self) -> int:
        """Rows in the files it added, as far as the writer recorded them."""
        return sum(file.rows or 0 for file in self.added)


def read_commits(table_uri: str, table: str, first: int, last: int) -> list[Commit]:
    """Return the commits of the versions `first` to `last`, in order.

    At most the newest `MOST_COMMITS`, and none before one that is no longer in the log.

    Args:
        table_uri: the table.
        table: its name, by which a stream marks its commits.
        first: the first version wanted.
        last: the last one.
    """
    versions = range(max(first, last - MOST_COMMITS + 1), last + 1)
    uris = [f"{table_uri.rstrip('/')}/_delta_log/{version:020d}.json" for version in versions]
    with ThreadPoolExecutor(_AT_ONCE) as pool:
        texts = list(pool.map(storage.read_text, uris))
    found: list[Commit] = []
    for version, text in zip(reversed(versions), reversed(texts), strict=True):
        if text is None:
            break
        found.append(parse_commit(version, table, text))
    return found[::-1]


def parse_commit(version: int, table: str, text: str) -> Commit:
    """Read one entry of a Delta log."""
    actions = [json.loads(line) for line in text.splitlines() if line.strip()]
    info = _first(actions, "commitInfo") or {}
    generation, batch_id = _batch(actions, table)
    removal = str(info.get(MARK, ""))
    adds = [action["add"] for action in actions if action.get("add")]
    removes = [action["remove"] for action in actions if action.get("remove")]
    return Commit(
        version=version,
        at=datetime.fromtimestamp(int(info.get("timestamp", 0)) / 1000, UTC),
        operation=REMOVAL if removal else str(info.get("operation", "")),
        parameters=_texts(info.get("operationParameters")),
        metrics=_texts(info.get("operationMetrics")),
        generation=generation,
        batch_id=batch_id,
        added=() if removal else tuple(_file(add) for add in adds if add.get("dataChange", True)),
        removed=()
        if removal
        else tuple(unquote(one["path"]) for one in removes if one.get("dataChange", True)),
        rewritten=tuple(unquote(add["path"]) for add in adds if removal or not add.get("dataChange", True)),
        new_schema=_first(actions, "metaData") is not None,
        forgets=removal == OF_KEY,
    )


def brought(commits: Iterable[Commit]) -> tuple[AddedFile, ...] | None:
    """Return the files with the rows that the commits added and did not remove again.

    Returns:
        None when they cannot be distinguished from older rows: some were changed after OPTIMIZE mixed them,
        or a key was forgotten among them.
    """
    files: dict[str, AddedFile] = {}
    rewritten: set[str] = set()
    for commit in commits:
        if commit.forgets:
            return None
        for path in commit.removed:
            if path in rewritten:
                return None
            files.pop(path, None)
        if not all(file.is_whole for file in commit.added):
            return None
        files.update({file.path: file for file in commit.added})
        rewritten.update(commit.rewritten)
    return tuple(files.values())


def _file(add: dict[str, Any]) -> AddedFile:
    stats = json.loads(add["stats"]) if add.get("stats") else {}
    return AddedFile(unquote(add["path"]), stats.get("numRecords"), add.get("deletionVector") is None)


def _batch(actions: list[dict[str, Any]], table: str) -> tuple[str | None, int | None]:
    for action in actions:
        generation, _, name = str((action.get("txn") or {}).get("appId", "")).rpartition(":")
        if generation and name == table:
            return generation, int(action["txn"]["version"])
    return None, None


def _first(actions: list[dict[str, Any]], kind: str) -> dict[str, Any] | None:
    return next((action[kind] for action in actions if action.get(kind)), None)


def _texts(values: object) -> dict[str, str]:
    found = values if isinstance(values, dict) else {}
    return {
        str(name): value if isinstance(value, str) else json.dumps(value) for name, value in found.items()
    }
