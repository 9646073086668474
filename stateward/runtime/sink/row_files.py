"""Rows that a task writes into files of their table, where it runs, instead of returning them to the driver.

A task returns its first rows of a table, packed (`output_rows`): most batches have no more, and the driver
writes those of all tasks into one file. The rows after them it writes into data files below the table's
folder, and returns the name of a list of these files. The driver adds the files of the results that it took
and the returned rows in one commit. Files of other attempts are in no commit; a vacuum removes them.
"""

from __future__ import annotations

import json
import uuid
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

import pyarrow as pa

from stateward.contract import storage
from stateward.runtime.api.tables import SHARED_TABLES, Table
from stateward.runtime.session import BATCH_ID_PROPERTY, QUERY_ID_PROPERTY
from stateward.runtime.sink.output_rows import KIND_FILES, cut, decode_rows, pack, with_marks

if TYPE_CHECKING:
    from deltalake.transaction import AddAction

RETURNED_BYTES = 32_000_000
"""Rows of a table that all tasks of a batch return to the driver (bytes in Arrow)."""
LEAST_RETURNED_BYTES = 256_000
"""Rows of a table that a task returns at least, however many tasks there are."""
# Rows of a file in Arrow, and what a task holds in memory; as Parquet about a quarter of it.
_FILE_BYTES = 64_000_000


class FileTarget(NamedTuple):
    """A table whose files tasks may write.

    Attributes:
        uri: The table.
        types: The types of its columns.
        partition_by: Its partition columns.
    """

    uri: str
    types: Mapping[str, pa.DataType]
    partition_by: tuple[str, ...]


@dataclass(frozen=True)
class RowFiles:
    """Which rows the tasks of a query write themselves. It is sent to them.

    Attributes:
        stream: Name of the stream.
        targets: The tables, by name; rows of others are returned.
        returned_bytes: The bytes of a table's rows that a task returns (Arrow).
    """

    stream: str = ""
    targets: Mapping[str, FileTarget] = field(default_factory=dict)
    returned_bytes: int = 0


def row_files(
    stream: str,
    tables: Iterable[tuple[Table, str]],
    *,
    returned: Collection[str],
    checkpoint_uri: str,
    tasks: int,
) -> RowFiles:
    """Which rows the tasks of a query write.

    Rows of a table with a current row per key are merged by the driver, so they are returned. A table on a
    local disk is written by tasks only if they have that disk, as they do if the checkpoint is on one.

    Args:
        stream: Name of the stream.
        tables: The tables that its tasks fill, and their URIs.
        returned: Names of tables whose rows the driver needs, to send them to Kafka.
        checkpoint_uri: The checkpoint.
        tasks: The number of tasks of a batch.
    """
    from deltalake import DeltaTable

    has_disk = storage.local_path(checkpoint_uri) is not None
    targets = {}
    for table, uri in tables:
        if table.current_by or table.name in returned or (storage.local_path(uri) and not has_disk):
            continue
        opened = DeltaTable(uri)
        types = {one.name: one.type for one in pa.schema(opened.schema())}
        targets[table.name] = FileTarget(uri, types, tuple(opened.metadata().partition_columns))
    return RowFiles(stream, targets, max(LEAST_RETURNED_BYTES, RETURNED_BYTES // tasks))


class TaskRows:
    """The rows of one task; without files all of them are returned.

    Args:
        files: Which rows the task writes.
    """

    def __init__(self, files: RowFiles | None = None) -> None:
        self._files = files or RowFiles()
        self._bytes: Counter[str] = Counter()
        self._open: dict[str, _TableFiles] = {}

    def parts(self, table: Table, rows: pa.Table) -> Iterator[tuple[str, int, bytes]]:
        """What the task returns for rows with the table's `row_schema`.

        Yields:
            ``kind, rows, data``, as `output_rows` says; nothing without rows.

        Raises:
            OSError: A file cannot be written.
        """
        if not rows.num_rows:
            return
        if (files := self._files_for(table, rows.nbytes)) is not None:
            yield KIND_FILES, rows.num_rows, files.take(rows)
            return
        for piece in cut(rows):
            yield table.name, piece.num_rows, pack(piece)

    def packed(self, table: Table, number: int, data: bytes) -> tuple[str, int, bytes]:
        """The same for rows that are packed."""
        if (files := self._files_for(table, len(data))) is not None:
            return KIND_FILES, number, files.take(decode_rows(data))
        return table.name, number, data

    def close(self) -> None:
        """Write what is left, and the lists of the files; without it the driver refuses the result.

        Raises:
            OSError: A file cannot be written.
        """
        for files in self._open.values():
            files.close()

    def _files_for(self, table: Table, size: int) -> _TableFiles | None:
        """The files for the next rows of a table; None if they are to be returned."""
        if table.name not in self._open:
            target = self._files.targets.get(table.name)
            self._bytes[table.name] += size
            if target is None or self._bytes[table.name] <= self._files.returned_bytes:
                return None
            self._open[table.name] = _TableFiles(table, target, self._files.stream)
        return self._open[table.name]


class _TableFiles:
    """The files of one table that one task writes, and the list of them.

    A task cannot know which of its rows are the last, and its last call returns nothing to the driver. So it
    returns the name of the list with all rows, and writes the list when it closes.
    """

    def __init__(self, table: Table, target: FileTarget, stream: str) -> None:
        self._table = table
        self._target = target
        self._marks = _marks(stream) if table in SHARED_TABLES else {}
        self._list = f"part-{uuid.uuid4()}.files.json"
        self._rows: list[pa.Table] = []
        self._bytes = 0
        self._written: list[AddAction] = []

    def take(self, rows: pa.Table) -> bytes:
        """Add rows; returns where they are listed."""
        whole = with_marks(self._table, rows, self._marks)
        types = self._target.types
        self._rows.append(whole.cast(pa.schema([(name, types[name]) for name in whole.schema.names])))
        self._bytes += rows.nbytes
        if self._bytes >= _FILE_BYTES:
            self._write()
        return json.dumps({"table": self._table.name, "list": self._list}).encode()

    def close(self) -> None:
        self._write()
        # On another host than the driver's, which syncs its own disks only.
        storage.sync_disks((self._target.uri,))
        actions = [asdict(one) for one in self._written]
        storage.write_passing(f"{self._target.uri}/{self._list}", json.dumps({"files": actions}))

    def _write(self) -> None:
        # Not at the top: most tasks write no file.
        from stateward.runtime.delta.data_files import write_data_files

        if self._rows:
            rows, self._rows, self._bytes = pa.concat_tables(self._rows), [], 0
            self._written += write_data_files(self._target.uri, rows, self._target.partition_by)


def _marks(stream: str) -> dict[str, Any]:
    """The values by which the rows of a shared table are marked, those of the running batch."""
    from pyspark import TaskContext

    context = TaskContext.get()
    assert context is not None  # only a task of Spark has a plan with shared tables
    generation, batch = map(context.getLocalProperty, (QUERY_ID_PROPERTY, BATCH_ID_PROPERTY))
    return {"stream": stream, "generation": generation, "batch_id": int(str(batch))}


class WrittenFiles(NamedTuple):
    """The files that the tasks of a batch have written for one table.

    Attributes:
        rows: The number of rows in them.
        actions: What the commit adds.
        lists: Their lists.
    """

    rows: int = 0
    actions: tuple[AddAction, ...] = ()
    lists: tuple[str, ...] = ()

    def forget_lists(self) -> None:
        """Remove the lists after the commit; a vacuum removes those that stay."""
        for uri in self.lists:
            with suppress(OSError):
                storage.delete(uri)


def written_files(
    stream: str, returned: Iterable[tuple[int, bytes]], uris: Mapping[str, str]
) -> dict[str, WrittenFiles]:
    """The files of a batch, by table.

    Args:
        stream: Name of the stream.
        returned: ``rows, data`` of the parts of kind `KIND_FILES`.
        uris: The tables, by name.

    Raises:
        OSError: A list cannot be read, or its files do not have the rows that the task wrote.
    """
    from deltalake.transaction import AddAction

    expected: Counter[tuple[str, str]] = Counter()
    for number, data in returned:
        where = json.loads(data)
        expected[where["table"], where["list"]] += number
    found: dict[str, WrittenFiles] = defaultdict(WrittenFiles)
    for (table, name), number in expected.items():
        uri = f"{uris[table]}/{name}"
        listed = (storage.read_json(uri) or {"files": []})["files"]
        rows = sum(json.loads(one["stats"])["numRecords"] for one in listed)
        if rows != number:
            raise OSError(
                f"stream {stream}, table {table}: expected files with {number} rows in {uri}, which a task "
                f"has written, found {rows}. The batch runs again. If it happens again, check that executors "
                "and driver see the same storage."
            )
        actions = tuple(AddAction(**one) for one in listed)
        before = found[table]
        found[table] = WrittenFiles(before.rows + rows, before.actions + actions, (*before.lists, uri))
    return dict(found)
