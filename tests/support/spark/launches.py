"""Launches of a stream for tests: configuration, input, output, and the driver as a process."""

from __future__ import annotations

import gzip
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from confluent_kafka import Producer
from deltalake import DeltaTable

from stateward.control.launchers.launch import DRIVER_CONF
from stateward.control.launchers.local_jvm import local_jvm_conf
from stateward.project.project import Project
from stateward.project.spec import load_spec
from stateward.runtime.api.any_job import writing
from stateward.runtime.api.record_fields import TICK_KEY
from stateward.runtime.api.tables import SHARED_TABLES
from stateward.runtime.checkpoint import generations
from tests.support.kafka.broker import RunningBroker
from tests.support.waiting import PATIENCE_S, wait_until

CHECKOUT = Path(__file__).resolve().parents[3]
JARS = CHECKOUT / "jars" / "spark"
REAL_EVENTS = CHECKOUT / "data" / "web_events.jsonl.gz"
MINUTE_MS = 60_000
HOUR_MS = 60 * MINUTE_MS


@dataclass(frozen=True)
class Stream:
    """What a launch has to know of a stream.

    Attributes:
        name: The stream; its code is ``spark_jobs/<name>``.
        tables: Its own tables.
        logic: Its parameters, those of ``include/streams/<name>.yaml``.
    """

    name: str
    tables: tuple[str, ...]
    logic: Mapping[str, Any]

    @property
    def job(self) -> Any:
        return writing(Project.imported().declaration(self.name), self.tables)

    @property
    def in_full(self) -> Stream:
        """The stream with all of its optional tables."""
        return replace(self, tables=(*self.tables, *(one.table.name for one in self.job.optional_outputs)))


def stream(name: str) -> Stream:
    """What a launch has to know of a stream of the project."""
    spec = load_spec(name)
    return Stream(name, tuple(spec.tables), spec.logic.config())


EVENT_WINDOWS = stream("event_windows")
PAYMENT_AUTH_JOIN = stream("payment_auth_join")
USER_SESSIONS = stream("user_sessions")
FRAUD_WATCH = stream("fraud_watch")
USER_ACTIVITY = stream("user_activity")
INTRUSION_PATTERNS = stream("intrusion_patterns")
ACTION_COUNTS = stream("action_counts")
DEVICE_LIFECYCLE = stream("device_lifecycle")
RAW_EVENTS = stream("raw_events")
SESSION_WINDOWS = stream("session_windows")


# The optimising compiler pays after minutes, and most drivers of tests do not live that long.
FOR_SECONDS = {
    **DRIVER_CONF,
    "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -XX:+ExitOnOutOfMemoryError",
}


@dataclass
class Launch:
    """One installation of one stream in a folder of its own.

    `prefix` stands before a driver's command; `checkout` has its code, Python and JARs.
    """

    folder: Path
    broker: RunningBroker
    topic: str
    partitions: int = 3
    driver_memory: str = "768m"
    stream: Stream = USER_SESSIONS
    buckets: int = 16
    driver_conf: Mapping[str, str] = field(default_factory=lambda: FOR_SECONDS)
    prefix: tuple[str, ...] = ()
    master: str = "local[2]"
    checkout: Path = CHECKOUT
    drivers: list[subprocess.Popen[bytes]] = field(default_factory=list)

    @property
    def table_names(self) -> tuple[str, ...]:
        return (*self.stream.tables, *(table.name for table in SHARED_TABLES))

    def uri(self, *parts: str) -> str:
        return "/".join((f"file://{self.folder}", *parts))

    @property
    def checkpoint(self) -> str:
        """The current generation's."""
        return generations.current(self.uri("checkpoint")).uri

    def document(self, run_id: str = "run-1", **changes: Any) -> dict[str, Any]:
        return {
            "version": 1,
            "stream": self.stream.name,
            "run_id": run_id,
            "bootstrap_servers": self.broker.bootstrap,
            "topic": self.topic,
            "topic_partitions": self.partitions,
            "create_topics": True,
            "tick_topic": f"stateward-ticks-{self.topic}",
            "starting_offsets": "earliest",
            "max_records_per_batch": 20000,
            "trigger_interval_ms": 500,
            "allowed_lateness_ms": 120_000,
            "not_before": "2000-01-01T00:00:00Z",
            "max_ahead_ms": 3_600_000,
            "max_record_bytes": 1_048_576,
            "tick": {"mode": "auto", "interval_ms": 1000},
            "clock": "event",
            "emission": "watermark",
            "timeout_jitter_ms": 0,
            "logic": dict(self.stream.logic),
            "state_partitions": 2,
            "state_buckets": self.buckets,
            "state_cache_dir": str(self.folder / "cache"),
            "spark_conf": {},
            "lease": {"uri": self.uri("leases"), "ttl_ms": 20_000, "renew_ms": 1000},
            "checkpoint_uri": self.uri("checkpoint"),
            "status_uri": self.uri("status.json"),
            "control_uri": self.uri("control.json"),
            "forgotten_uri": self.uri("forgotten"),
            "tables": {name: self.uri("tables", name) for name in self.table_names},
            **changes,
        }

    def start(self, run_id: str = "run-1", **changes: Any) -> subprocess.Popen[bytes]:
        """Start a driver with spark-submit, as the control plane does."""
        config = self.folder / f"{run_id}.config.json"
        config.write_text(json.dumps(self.document(run_id, **changes)))
        python, jars = checkout_python(self.checkout), self.checkout / "jars"
        spark_home = Path(python).parents[1] / "lib" / "python3.11" / "site-packages" / "pyspark"
        environment = {
            **os.environ,
            "PYTHONPATH": str(self.checkout),
            "PYSPARK_PYTHON": python,
            "PYSPARK_DRIVER_PYTHON": python,
            "SPARK_HOME": str(spark_home),
        }
        command = [
            *self.prefix,
            str(spark_home / "bin" / "spark-submit"),
            "--master",
            self.master,
            "--driver-memory",
            self.driver_memory,
        ]
        settings = {**self.driver_conf, **local_jvm_conf(jars, self.master, self.driver_conf)}
        command += [part for conf in settings.items() for part in ("--conf", "=".join(conf))]
        command += ["--jars", ",".join(str(jar) for jar in sorted((jars / "spark").glob("*.jar")))]
        command += [str(self.checkout / "stateward" / "driver.py"), f"file://{config}"]
        with self.log(run_id).open("ab") as log:
            # Spark's Python workers import first from the folder in which the driver was started.
            driver = subprocess.Popen(
                command,
                cwd=self.checkout,
                env=environment,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        self.drivers.append(driver)
        return driver

    def log(self, run_id: str) -> Path:
        return self.folder / f"{run_id}.log"

    def status(self) -> dict[str, Any]:
        path = self.folder / "status.json"
        return json.loads(path.read_text()) if path.exists() else {}

    def wait_for(self, what: str, timeout_s: float = PATIENCE_S, **expected: Any) -> dict[str, Any]:
        """Wait until the status has all the expected values."""

        def found() -> dict[str, Any] | None:
            status = self.status()
            return status if all(status.get(name) == value for name, value in expected.items()) else None

        return wait_until(found, timeout_s, lambda: f"{what}: expected {expected}, found {self.status()}")

    def send(self, records: Iterable[tuple[bytes | None, bytes | None]], partition: int | None = None) -> int:
        """Send (key, value) pairs, which stay in order within a partition, and return how many."""
        producer = Producer(
            {
                **self.broker.client,
                "bootstrap.servers": self.broker.bootstrap,
                "message.max.bytes": 8_000_000,
                # Without it a part that is tried again, as on a new topic, comes after what was sent later.
                "enable.idempotence": True,
            }
        )
        count = 0
        for key, value in records:
            producer.produce(
                self.topic, value=value, key=key, partition=-1 if partition is None else partition
            )
            producer.poll(0)
            count += 1
        assert producer.flush(60) == 0, "not every record was taken by the broker"
        return count

    def end_replay(self, time: str) -> None:
        for partition in range(self.partitions):
            self.send([(TICK_KEY.encode(), json.dumps({"tick": time}).encode())], partition)

    def rows(self, table: str) -> list[dict[str, Any]]:
        rows: list[dict[str, Any]] = DeltaTable(self.uri("tables", table)).to_pyarrow_table().to_pylist()
        return rows

    def kill_all(self) -> None:
        """SIGKILL to every driver that is left, with its workers."""
        for driver in self.drivers:
            if driver.poll() is None:
                os.killpg(driver.pid, signal.SIGKILL)
                driver.wait()


def checkout_python(checkout: Path) -> str:
    """The Python of a checkout: this process's own here, and that of `.venv` in another."""
    return sys.executable if checkout == CHECKOUT else str(checkout / ".venv" / "bin" / "python")


def real_events() -> list[tuple[bytes, bytes]]:
    """The 10,000 real page views, keyed by visitor."""
    with gzip.open(REAL_EVENTS, "rb") as lines:
        return [(json.loads(line)["user_id"].encode(), line.strip()) for line in lines]
