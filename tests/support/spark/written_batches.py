"""Tables as a stream writes them, batch by batch with `batch_counts`, without the stream."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
from deltalake import CommitProperties, DeltaTable, Transaction, write_deltalake

from stateward.quality.validation.request import Request
from stateward.runtime.api.tables import BATCH_COUNTS, Table, arrow_schema
from tests.support.spark.launches import CHECKOUT

GENERATION = "g1"


@dataclass
class Written:
    """One table of one stream, and the `batch_counts` beside it, in a folder of its own.

    Attributes:
        home: The folder.
        table: Its shape.
        stream: The stream that is said to write it.
    """

    home: Path
    table: Table
    stream: str
    _batches: int = field(default=0, init=False)

    def __post_init__(self) -> None:
        self.table.create(self.uri)
        if self.table != BATCH_COUNTS:
            BATCH_COUNTS.create(self.uri_of("batch_counts"))

    @property
    def uri(self) -> str:
        return self.uri_of(self.table.name)

    def uri_of(self, table: str) -> str:
        return f"file://{self.home}/tables/{table}"

    @property
    def version(self) -> int:
        return int(DeltaTable(self.uri).version())

    def batch(self, rows: pa.Table | Sequence[Mapping[str, Any]], **counts: Any) -> int:
        """Write the rows as the stream's next batch, and count them; return the table's version."""
        packed = rows if isinstance(rows, pa.Table) else pa.Table.from_pylist(list(rows), schema=self.schema)
        write_deltalake(
            self.uri,
            packed,
            mode="append",
            commit_properties=CommitProperties(
                app_transactions=[Transaction(f"{GENERATION}:{self.table.name}", self._batches)]
            ),
        )
        if self.table != BATCH_COUNTS:
            counted = {"rows_out": packed.num_rows, **counts}
            by_table = json.dumps({self.table.name: counted["rows_out"]})
            self.count(batch_id=self._batches, **{"rows_by_table": by_table, **counted})
        self._batches += 1
        return self.version

    def lost(self, **counts: Any) -> None:
        """Count the stream's next batch, whose rows have not come into the table."""
        self.count(batch_id=self._batches, **counts)
        self._batches += 1

    def count(self, **row: Any) -> None:
        """Write a row of `batch_counts`."""
        given = {"stream": self.stream, "generation": GENERATION, "committed_at": datetime.now(UTC), **row}
        packed = pa.Table.from_pylist([given], schema=arrow_schema(BATCH_COUNTS))
        write_deltalake(self.uri_of("batch_counts"), packed, mode="append")

    @property
    def schema(self) -> pa.Schema:
        return arrow_schema(self.table)

    def request(self, run_id: str, first: int | None = None, last: int | None = None) -> Request:
        """What to validate: a range of versions, or what is due."""
        return Request(
            table_uri=self.uri,
            table=self.table.name,
            stream=self.stream,
            from_version=first,
            to_version=last,
            suite_file=CHECKOUT / "include" / "quality" / f"{self.table.name}.yaml",
            results_uri=self.uri_of("quality_results"),
            docs_uri=f"file://{self.home}/docs",
            run_id=run_id,
        )
