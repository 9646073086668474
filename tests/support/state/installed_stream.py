"""The checkpoint and tables of a stream after some batches, written without Spark."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Collection, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import CommitProperties, DeltaTable, WriterProperties, write_deltalake
from msgspec.structs import replace

from spark_jobs.device_lifecycle.declaration import JOB
from stateward.control.launchers.launch import resolved_configuration
from stateward.project.settings import Settings
from stateward.project.spec import load_spec
from stateward.runtime.api.config import Config, parse_config
from stateward.runtime.api.tables import DEAD_LETTERS, LATE_EVENTS, SHARED_TABLES, Table, arrow_schema
from stateward.runtime.checkpoint import generations
from stateward.runtime.checkpoint.checkpoint import Checkpoint
from stateward.runtime.sink.ledger import BatchCounts, Ledger
from stateward.runtime.sink.output_rows import COUNT_NAMES
from stateward.runtime.sink.table_commits import upsert
from stateward.state.operation.context import Context
from stateward.state.operation.journal import Journal
from stateward.state.operation.request import Request
from stateward.state.savepoints.savepoint_catalog import SavepointCatalog, stamp
from stateward.state.verbs.restore import RestoreVerb
from stateward.state.verbs.savepoint import SavepointVerb

STREAM = "device_lifecycle"
NOW = datetime(2026, 11, 22, 2, 45, tzinfo=UTC)
ALERTS, STATUS = (output.table for output in JOB.outputs)
SCHEMA_FILE = "state/0/_stateSchema/default/0_abc"
OPERATOR = "state/0/_metadata/v2/0"
TICKS = f"stateward-ticks-{STREAM}"


def quiet(step: str, state: str) -> None:
    """Take a step's report."""


class FakeKafka:
    """A cluster with fixed answers."""

    def __init__(self, end: int = 100) -> None:
        self.begins = {"device_readings": {0: 0, 1: 0}, TICKS: {0: 0}}
        self.ends = {"device_readings": {0: end, 1: end}, TICKS: {0: 77}}
        self.ids: dict[str, str] = {}

    def partitions(self, topic: str) -> int:
        return len(self.ends.get(topic, {}))

    def describe(self, topics: Collection[str]) -> dict[str, tuple[str, int]]:
        return {t: (self.ids.get(t, "1"), len(self.ends[t])) for t in topics if t in self.ends}

    def begin_offsets(self, topic: str, partitions: int) -> dict[int, int]:
        return self.begins.get(topic, {})

    def end_offsets(self, topic: str, partitions: int) -> dict[int, int]:
        return self.ends.get(topic, {})


class Installed:
    """`device_lifecycle` in a folder; existing files are kept.

    Args:
        folder: Everything is in it.
    """

    def __init__(self, folder: Path) -> None:
        settings = Settings(home=folder, data=f"file://{folder}/data")
        document = resolved_configuration(load_spec(STREAM), settings, "run-1")
        self.folder = folder
        self.config: Config = replace(parse_config(document, "test"), bootstrap_servers="none:1")
        self.document = document
        self.catalog = SavepointCatalog(STREAM, f"file://{folder}/data/savepoints/{STREAM}")
        self.kafka = FakeKafka()
        if not self.path.exists():
            for table in (*SHARED_TABLES, ALERTS, STATUS):
                table.create(self.config.tables[table.name])
            self.begin(self.generation.uri, "query-1")

    @property
    def generation(self) -> generations.Generation:
        """The current one."""
        return generations.current(self.config.checkpoint_uri)

    @property
    def path(self) -> Path:
        """The current checkpoint."""
        return Path(self.generation.uri.removeprefix("file://"))

    @property
    def checkpoint(self) -> Checkpoint:
        return Checkpoint(self.generation.uri)

    def begin(self, uri: str, query_id: str) -> None:
        folder = Path(uri.removeprefix("file://"))
        self.put(folder / "metadata", json.dumps({"id": query_id}))
        self.put(folder / ".metadata.crc", "crc")
        self.put(folder / SCHEMA_FILE, "\0\2v3\0schema")
        operator = {
            "operatorInfo": {"operatorName": "transformWithStateInPySparkExec"},
            "stateStoreInfo": [
                {
                    "storeName": "default",
                    "numPartitions": 2,
                    "stateSchemaFilePaths": [f"file:{folder}/{SCHEMA_FILE}"],
                }
            ],
        }
        self.put(folder / OPERATOR, f"v2\n{json.dumps(operator)}")
        self.put(folder / "state/0/_metadata/v2/.0.crc", "crc")
        initial = {"device_readings": {"0": 0, "1": 0}, TICKS: {"0": 0}}
        self.put(folder / "sources/0/0", json.dumps(initial))

    def put(self, file: Path, text: str) -> None:
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)

    def plan(self, batch: int) -> None:
        """What Spark writes before a batch."""
        times = {
            "batchWatermarkMs": batch * 1000,
            "batchTimestampMs": 5000,
            "conf": {"spark.sql.shuffle.partitions": "2"},
        }
        source = json.dumps(
            {"device_readings": {"0": 10 * (batch + 1), "1": 3 * (batch + 1)}, TICKS: {"0": batch + 1}}
        )
        self.put(self.path / "offsets" / str(batch), f"v1\n{json.dumps(times)}\n{source}")
        self.put(self.path / "offsets" / f".{batch}.crc", "crc")

    def run(self, batch: int, stream: str = STREAM, epoch: int = 1) -> None:
        """Complete one batch: a row for every table, and a new state."""
        self.plan(batch)
        query_id = str(self.checkpoint.query_id())
        self.append(ALERTS, {"device_id": f"d{batch}"})
        row = self.rows_of(STATUS, {"device_id": "d", "runtime_ms": batch})
        table = DeltaTable(self.uri(STATUS))
        upsert(table, row, STATUS.current_by, WriterProperties(), CommitProperties())
        marks = {"stream": stream, "generation": query_id, "batch_id": batch}
        self.append(DEAD_LETTERS, {**marks, "topic": "device_readings", "offset": batch})
        self.append(LATE_EVENTS, {**marks, "event_id": f"late {batch}"})
        counts = dict.fromkeys(COUNT_NAMES, 0) | {"accepted": 11, "dead": 1, "late": 1, "records": 13}
        ledger = Ledger(self.config.tables["batch_counts"], stream, query_id, self.checkpoint.earlier())
        ledger.append(BatchCounts(batch, counts, {"rows": 2}, 1000), epoch, "run-1")
        for partition in (0, 1):
            self.put(self.path / f"state/0/{partition}/{batch + 1}.changelog", f"state after {batch}")
        self.put(self.path / "commits" / str(batch), 'v1\n{"nextBatchWatermarkMs":1}')

    def others_write(self) -> None:
        """Rows of another stream in the shared tables."""
        marks = {"stream": "other", "generation": "query-1", "batch_id": 9}
        for table in SHARED_TABLES:
            self.append(table, marks)

    def uri(self, table: Table) -> str:
        return self.config.tables[table.name]

    def rows_of(self, table: Table, row: dict[str, Any]) -> pa.Table:
        return pa.Table.from_pylist([row], schema=arrow_schema(table))

    def append(self, table: Table, row: dict[str, Any]) -> None:
        write_deltalake(self.uri(table), self.rows_of(table, row), mode="append")

    def rows(self) -> dict[str, list[dict[str, Any]]]:
        """All rows of the tables, without the time of their write."""
        found = {}
        for name, uri in self.config.tables.items():
            rows = DeltaTable(uri).to_pyarrow_table().to_pylist()
            plain = [{key: row[key] for key in row.keys() - {"committed_at"}} for row in rows]
            found[name] = sorted(plain, key=lambda row: json.dumps(row, sort_keys=True, default=str))
        return found

    def totals(self) -> dict[str, int]:
        """What the status of the current generation would say."""
        query_id = str(self.checkpoint.query_id())
        ledger = Ledger(self.config.tables["batch_counts"], STREAM, query_id, self.checkpoint.earlier())
        return ledger.totals(10**9)

    def context(
        self,
        verb: str,
        operation: str,
        arguments: dict[str, Any],
        *,
        dry_run: bool = False,
        now: datetime = NOW,
        check: Callable[[], int] = lambda: 1,
    ) -> Context:
        """What a verb works with under the stream's lease; no request is written."""
        data = f"file://{self.folder}/data"
        request = Request(
            operation=operation,
            verb=verb,
            arguments=arguments,
            dry_run=dry_run,
            takes_lease=True,
            needs_spark=False,
            config=self.config,
            yaml="stream: device_lifecycle\n",
            launched_uri=f"{data}/none.json",
            savepoints_uri=f"{data}/savepoints/{STREAM}",
            raw_uri=f"{data}/tables/raw_events",
            folder_uri=f"{data}/operations/{operation}",
        )
        return Context(
            request=request,
            generation=self.generation,
            catalog=self.catalog,
            journal=Journal(f"{data}/operations/{operation}.json", lambda: NOW),
            report=quiet,
            clock=lambda: now,
            spark=lambda: pytest.fail("no Spark is needed"),
            kafka=lambda: self.kafka,
            check=check,
        )

    def savepoint(self, now: datetime = NOW, *, dry_run: bool = False) -> Mapping[str, Any]:
        arguments = {"reason": "before an upgrade"}
        return (
            SavepointVerb(self.context("savepoint", stamp(now), arguments, dry_run=dry_run, now=now))
            .run()
            .data
        )

    def restore(
        self,
        savepoint: str | None = stamp(NOW),
        *,
        operation: str = "op-1",
        dry_run: bool = False,
        check: Callable[[], int] = lambda: 1,
    ) -> Mapping[str, Any]:
        arguments = {"savepoint": savepoint}
        return (
            RestoreVerb(self.context("restore", operation, arguments, dry_run=dry_run, check=check))
            .run()
            .data
        )


def two_batches_and_one_after_a_savepoint(made: Installed) -> None:
    """Two batches, a savepoint, a batch more, and another stream that has written before and after it."""
    made.run(0)
    made.others_write()
    made.run(1)
    made.savepoint()
    made.run(2)
    made.others_write()


class Stage:
    """An installation that is prepared once and is as it was then whenever it is asked for.

    Always in the same folder, for a savepoint has the places of the tables in it.
    """

    def __init__(self, folder: Path, prepare: Callable[[Installed], None]) -> None:
        self._work, self._kept = folder / "work", folder / "kept"
        self.installed = Installed(self._work)
        prepare(self.installed)
        shutil.copytree(self._work, self._kept)

    def fresh(self) -> Installed:
        shutil.rmtree(self._work)
        shutil.copytree(self._kept, self._work)
        self.installed = Installed(self._work)
        return self.installed
