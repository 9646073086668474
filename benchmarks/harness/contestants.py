"""The contestants, and how a peer's program is started and its output read."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Protocol

import orjson

from benchmarks.harness.checkouts import Checkout, this_checkout
from benchmarks.harness.environments import PEERS, jars_of, python_of
from benchmarks.harness.oracle import Row
from benchmarks.peers.task import Task
from stateward.platform.jars.java import find_java

# Variants of every peer in a JVM, which by default has G1.
_JVM_OPTIONS = {"serial_gc": "-XX:+UseSerialGC", "parallel_gc": "-XX:+UseParallelGC"}


class RunError(RuntimeError):
    """A contestant failed."""


class Contestant(Protocol):
    """Something that turns the topic into sessions."""

    @property
    def name(self) -> str:
        """Name on the command line and in results."""

    @property
    def checkout(self) -> Checkout:
        """Where its code comes from."""

    @property
    def durability(self) -> str:
        """What survives a crash, for the table."""

    @property
    def needs_flush(self) -> bool:
        """Whether its topic ends with one record per user, since it has no timers for silent users."""

    def prepare(self, cache: Path) -> list[Path]:
        """Install what it needs, and return its JARs."""

    def start(self, task: Task) -> subprocess.Popen[bytes]:
        """Start it."""

    def committed_at(self, task: Task, process: subprocess.Popen[bytes]) -> float | None:
        """When its last row was committed, seconds since 1970; None while it is at work.

        Raises:
            RunError: it failed.
        """

    def first_committed_at(self, task: Task) -> float | None:
        """When its first rows or counts were committed, seconds since 1970; None when it is unknown."""

    def rows(self, task: Task) -> Iterator[Row]:
        """Its output."""


def _session(row: dict[str, Any]) -> Row:
    return row["user_id"], row["started_ms"], row["ended_ms"], row["event_count"]


@dataclass
class Peer:
    """A program in `peers/`, in an environment of its own; see the program for how it runs.

    Attributes:
        name: Its name.
        program: File in `peers/`.
        environment: Name of its environment.
        durability: What survives a crash, for the table.
        needs_flush: See `Contestant`.
        logic: Parameters that its task has beside those of all tasks.
        row_of: What the check knows of a row that it wrote.
    """

    name: str
    program: str
    environment: str
    durability: str
    needs_flush: bool = False
    logic: dict[str, Any] = field(default_factory=dict)
    row_of: Callable[[dict[str, Any]], Row] = _session
    _python: Path = field(default=Path(), init=False)

    @property
    def checkout(self) -> Checkout:
        """This one."""
        return this_checkout()

    def prepare(self, cache: Path) -> list[Path]:
        """Install its packages and JARs."""
        self._python = python_of(self.environment, cache)
        return jars_of(self.environment, cache)

    def start(self, task: Task) -> subprocess.Popen[bytes]:
        """Start its program."""
        environment = {**os.environ, "PYTHONPATH": str(PEERS.parents[1]), "JAVA_HOME": str(find_java())}
        options = [_JVM_OPTIONS[part] for part in task.variant.split("+") if part in _JVM_OPTIONS]
        if options:
            environment["JAVA_TOOL_OPTIONS"] = " ".join(options)
        environment["PATH"] = f"{self._python.parent}:{environment['PATH']}"
        task = replace(task, logic=self.logic)
        with log_of(task).open("wb") as log:
            return subprocess.Popen(
                [str(self._python), str(PEERS / self.program), str(task.save())],
                env=environment,
                cwd=task.folder,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    def committed_at(self, task: Task, process: subprocess.Popen[bytes]) -> float | None:
        """What the program reported before it ended."""
        code = process.poll()
        if code is None:
            return None
        if code != 0:
            raise RunError(f"{self.name}: exit {code}: {log_tail(task)}")
        return float(_result(task)["committed_at"])

    def first_committed_at(self, task: Task) -> float | None:
        """None: the programs report their last commit alone."""
        return None

    def rows(self, task: Task) -> Iterator[Row]:
        """Rows in files, or in the topic that the program named."""
        topic = _result(task)["output_topic"]
        lines = _topic_values(task, topic) if topic else _file_lines(task.output)
        for line in lines:
            yield self.row_of(orjson.loads(line))


PEER_LIST = (
    Peer("plain_loop", "plain_loop.py", "plain_loop", "none"),
    Peer("flink_sql", "flink_sql.py", "flink", "exactly once, files"),
    Peer("plain_spark", "plain_spark.py", "spark", "exactly once, files"),
    Peer("pyflink", "pyflink_process.py", "flink", "exactly once, files"),
    Peer("bytewax", "bytewax_sessions.py", "bytewax", "exactly once, files"),
    Peer("quix", "quix_sessions.py", "quix", "exactly once, Kafka", needs_flush=True),
)


def log_of(task: Task) -> Path:
    """Where a run's output and errors go."""
    return Path(task.folder) / "log.txt"


def log_tail(task: Task) -> str:
    """The end of a run's log."""
    path = log_of(task)
    return path.read_text(errors="replace")[-1500:] if path.exists() else "(no log)"


def _result(task: Task) -> dict[str, Any]:
    path = Path(task.folder) / "result.json"
    if not path.exists():
        raise RunError(f"{path.parent.name}: the program ended without a result: {log_tail(task)}")
    result: dict[str, Any] = json.loads(path.read_text())
    return result


def _file_lines(folder: Path) -> Iterator[bytes]:
    for path in sorted(folder.rglob("*")):
        # Hidden files are not committed yet: Flink's are in progress or pending.
        if path.is_file() and not any(part.startswith((".", "_")) for part in path.relative_to(folder).parts):
            with path.open("rb") as file:
                yield from file


def _topic_values(task: Task, topic: str) -> Iterator[bytes]:
    from confluent_kafka import Consumer, TopicPartition

    consumer = Consumer(
        {
            "bootstrap.servers": task.bootstrap_servers,
            "group.id": f"read-{topic}",
            "isolation.level": "read_committed",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
        }
    )
    partitions = consumer.list_topics(topic, timeout=10).topics[topic].partitions
    consumer.assign([TopicPartition(topic, number, 0) for number in partitions])
    at_end: set[int] = set()
    while len(at_end) < len(partitions):
        for message in consumer.consume(10_000, 1.0):
            partition, value = message.partition(), message.value()
            assert partition is not None
            if message.error() is not None:
                at_end.add(partition)
            elif value is not None:
                yield value
    consumer.close()
