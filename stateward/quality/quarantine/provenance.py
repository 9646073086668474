"""Where a row came from: its commit, the batch that wrote it with its Kafka offsets, and its key's events.

A commit of the stream carries the transaction of its batch. A commit without one was made by another program.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any
from urllib.parse import unquote

from stateward.quality.quarantine.batch_offsets import BatchOffsets
from stateward.quality.tables.table_log import Commit, read_commits

EventsOf = Callable[[Sequence[Mapping[str, Any]]], Mapping[str, Any]]
"""From rows with their `row_hash` to their events by `row_hash`."""

_AT_A_TIME = 500
_MOST_NAMED = 10
_LOOK_BACK = 10_000


class Origins:
    """Finds where rows of one table at one version came from.

    Args:
        uri: the table.
        table: its name.
        commits: those of the validated range, in order.
        batches: which offsets the stream's batches have read.
        events: the events of rows.
    """

    def __init__(
        self, uri: str, table: str, commits: Sequence[Commit], batches: BatchOffsets, events: EventsOf
    ) -> None:
        self._uri = uri
        self._table = table
        self._commits = list(commits)
        self._batches = batches
        self._events = events

    def of_files(self, paths: Iterable[str]) -> dict[str, str]:
        """Return by path of each data file the commit that added it, as JSON."""
        wanted = {path: _name(path) for path in paths}
        found: dict[str, Commit] = {}
        commits: Sequence[Commit] = self._commits
        while commits:
            for commit in commits:
                names = [_name(file.path) for file in commit.added] + [
                    _name(path) for path in commit.rewritten
                ]
                found.update(dict.fromkeys(names, commit))
            if set(wanted.values()) <= set(found):
                break
            commits = self._before(commits[0].version)
        unknown = json.dumps({"says": "brought by a commit that the table's log no longer holds"})
        return {
            path: self._described(found[name]) if name in found else unknown for path, name in wanted.items()
        }

    def of_rows(self, rows: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
        """Return the known events of some rows, by `row_hash`."""
        return dict(self._events(rows)) if rows else {}

    def of_table(self) -> str:
        """Return which commits changed the table, as JSON, for a finding without rows.

        Commits of other programs come first. Only the newest of each kind are listed.
        """
        foreign = [commit for commit in self._commits if commit.generation is None]
        own = [commit for commit in self._commits if commit.generation is not None]
        named = [*foreign[-_MOST_NAMED:], *own[-1:]]
        document = {
            "commits": [json.loads(self._described(commit)) for commit in named],
            "commits_of_the_stream": len(own),
            "commits_of_others": len(foreign),
            "events": None,
        }
        return json.dumps(document)

    def _before(self, version: int) -> list[Commit]:
        """The commits before a version; none when the log no longer has them, or they are too far back."""
        newest = self._commits[-1].version
        if version == 0 or newest - version > _LOOK_BACK:
            return []
        return read_commits(self._uri, self._table, max(0, version - _AT_A_TIME), version - 1)

    def _described(self, commit: Commit) -> str:
        found: dict[str, Any] = {
            "version": commit.version,
            "at": commit.at.isoformat(timespec="milliseconds").replace("+00:00", "Z"),
            "operation": commit.operation,
        }
        if commit.generation is None or commit.batch_id is None:
            found["says"] = _origin_of(commit)
            return json.dumps(found)
        offsets = self._batches.of(commit.generation, commit.batch_id)
        found |= {"generation": commit.generation, "batch_id": commit.batch_id, "offsets": offsets}
        found["says"] = f"written by batch {commit.batch_id} of the stream" + (
            "" if offsets is not None else "; what it read of Kafka is no longer on record"
        )
        return json.dumps(found)


def _origin_of(commit: Commit) -> str:
    if commit.rewritten and not commit.added:
        return f"only put together from older files ({commit.operation}); who wrote the row is not on record"
    return f"written by another program: {commit.operation or 'a commit without a name'}, not by the stream"


def _name(path: str) -> str:
    # Names of data files are unique, and their folders are spelled in more than one way.
    return unquote(path).rpartition("/")[2]
