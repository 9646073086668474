"""Stateward as a contestant: the driver of `user_sessions`, submitted as the control plane submits it.

`session_windows` computes the same rows with Spark's session window.
"""

from __future__ import annotations

import subprocess
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any, cast

from deltalake import DeltaTable

from benchmarks.harness.checkouts import Checkout, this_checkout
from benchmarks.harness.contestants import RunError
from benchmarks.harness.oracle import Row
from benchmarks.peers.task import Task
from stateward.contract.names import BATCH_COUNTS
from stateward.project.durations import to_ms
from stateward.project.spec import StreamSpec
from stateward.project.spec_health import Spark
from stateward.project.spec_kafka import Source
from stateward.project.spec_state import State
from tests.support.kafka.broker import RunningBroker
from tests.support.spark.launches import FOR_SECONDS, SESSION_WINDOWS, USER_SESSIONS, Launch

_RUN_ID = "bench"
# What is not part of the workload has the default of a stream's YAML.
_SOURCE, _STATE, _SPARK = Source(topic="events"), State(), Spark()
BATCH: dict[str, Any] = {
    "max_records_per_batch": _SOURCE.max_records_per_batch,
    "target_batch_ms": to_ms(_SOURCE.target_batch_duration),
}
_TRIGGER_MS = to_ms(StreamSpec.model_fields["trigger_interval"].default)

# The JVM's first compiler only, which a driver has to be launched with.
_C1 = "c1"
_STORE = "spark.sql.streaming.stateStore"
_PROVIDERS = "org.apache.spark.sql.execution.streaming"

# Settings of Spark that docs/tuning.md compares.
VARIANTS: dict[str, dict[str, str]] = {
    "": {},
    _C1: {},
    "snapshots": {f"{_STORE}.rocksdb.changelogCheckpointing.enabled": "false"},
    "format_2": {f"{_STORE}.checkpointFormatVersion": "2"},
    "unsafe_rows": {f"{_STORE}.encodingFormat": "unsaferow"},
    "chmod": {
        "spark.sql.streaming.checkpointFileManagerClass": (
            f"{_PROVIDERS}.checkpointing.FileContextBasedCheckpointFileManager"
        )
    },
}


@dataclass(frozen=True)
class _Address:
    """All that a launch needs of its broker."""

    bootstrap: str


class Stateward:
    """Ends like a replay: the end of the topic is passed on as a tick, and closes what is open.

    Args:
        checkout: Where the driver comes from; this one without it.
    """

    name = "stateward"
    durability = "exactly once, Delta Lake"
    needs_flush = False
    stream = USER_SESSIONS

    def __init__(self, checkout: Checkout | None = None) -> None:
        self.checkout = checkout or this_checkout()

    def prepare(self, cache: Path) -> list[Path]:
        """Nothing: it runs in the environment of its checkout."""
        return []

    def start(self, task: Task) -> subprocess.Popen[bytes]:
        """Start the driver; whoever measures it ends its process."""
        return self.start_in(self.launch_of(task), task)

    def start_in(
        self, launch: Launch, task: Task, conf: Mapping[str, str] | None = None
    ) -> subprocess.Popen[bytes]:
        """Start the driver as one of those that the launch ends.

        Args:
            launch: The launch of the task.
            task: Its variant is `batch_<records>`, for batches of so many that may last any time, or one of
                `VARIANTS`.
            conf: Settings of Spark.
        """
        is_size = task.variant.startswith("batch_")
        return launch.start(
            _RUN_ID,
            **({"max_records_per_batch": int(task.variant.removeprefix("batch_"))} if is_size else BATCH),
            spark_conf={**({} if is_size else VARIANTS[task.variant]), **(conf or {})},
            trigger_interval_ms=_TRIGGER_MS,
            allowed_lateness_ms=task.lateness_ms,
            tick={"mode": "record", "interval_ms": 1000},
            logic=self.logic(task),
            state_partitions=task.parallelism,
            state_buckets=_STATE.buckets,
        )

    def launch_of(self, task: Task) -> Launch:
        """The installation of a run."""
        broker = cast(RunningBroker, _Address(task.bootstrap_servers))
        conf = self.checkout.driver_conf
        return Launch(
            Path(task.folder),
            broker,
            task.topic,
            task.partitions,
            _SPARK.driver_memory,
            self.stream,
            driver_conf={**conf, **FOR_SECONDS} if task.variant == _C1 else conf,
            checkout=self.checkout.folder,
        )

    def logic(self, task: Task) -> dict[str, Any]:
        """The stream's parameters."""
        return {"gap_ms": task.gap_ms, "max_gap_ms": 86_400_000, "max_held_events": 10_000}

    def committed_at(self, task: Task, process: subprocess.Popen[bytes]) -> float | None:
        """The time of the last commit to the sessions, once a batch at the end's watermark is committed."""
        launch = self.launch_of(task)
        if process.poll() is not None:
            raise RunError(f"{self.name}: exit {process.returncode}: {_log_tail(launch)}")
        status = launch.status()
        if status.get("state") != "running" or _ms(status["watermark"]) < task.end_ms - task.lateness_ms:
            return None
        tables = [Path(task.folder) / "tables" / name for name in self.stream.tables]
        return max(log.stat().st_mtime for table in tables for log in (table / "_delta_log").glob("*.json"))

    def first_committed_at(self, task: Task) -> float | None:
        """The time of the first commit to the ledger that records a batch."""
        logs = sorted((Path(task.folder) / "tables" / BATCH_COUNTS / "_delta_log").glob("*.json"))
        return next((log.stat().st_mtime for log in logs if '"add"' in log.read_text()), None)

    def rows(self, task: Task) -> Iterator[Row]:
        """The table of sessions."""
        (name,) = self.stream.tables
        table = DeltaTable(self.launch_of(task).uri("tables", name))
        columns = ["user_id", "started_at", "ended_at", "event_count"]
        for batch in table.to_pyarrow_dataset().to_batches(columns=columns):
            started, ended = (all_ms(batch[name]) for name in ("started_at", "ended_at"))
            yield from zip(
                batch["user_id"].to_pylist(), started, ended, batch["event_count"].to_pylist(), strict=True
            )


class SessionWindows(Stateward):
    """The stream `session_windows`: Spark's own session window, from the same driver to the same sink."""

    name = "session_windows"
    stream = SESSION_WINDOWS

    def logic(self, task: Task) -> dict[str, Any]:
        """The stream's parameters."""
        return {"gap_ms": task.gap_ms}


def _ms(text: str | None) -> int:
    return int(datetime.fromisoformat(text).timestamp() * 1000) if text else 0


def all_ms(column: Any) -> list[int]:
    """Milliseconds since 1970 UTC of a column of timestamps."""
    import pyarrow

    return column.cast(pyarrow.timestamp("ms", "UTC")).cast(pyarrow.int64()).to_pylist()  # type: ignore[no-any-return]


def _log_tail(launch: Launch) -> str:
    return launch.log(_RUN_ID).read_text(errors="replace")[-1500:]
