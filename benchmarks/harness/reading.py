"""One contestant that reads a topic which is full, followed while it reads: a stream's driver, or a peer.

Of the peers those of Flink: it commits the offsets that a checkpoint covers to the consumer group, which says
how far it is, and goes on from its newest checkpoint when it is started again.
"""

from __future__ import annotations

import os
import signal
import subprocess
from argparse import ArgumentParser, ArgumentTypeError, Namespace
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any, Protocol

import lmdb
import psutil

from benchmarks.harness.contestants import PEER_LIST, Contestant, Peer
from benchmarks.harness.fill import benchmark_broker, fill_topic
from benchmarks.harness.folders import emptied
from benchmarks.harness.fraud_watch import FRAUD_NAMES, PYFLINK_FRAUD, FraudWatch, fraud_answer
from benchmarks.harness.measure import Entry, task_of
from benchmarks.harness.oracle import answer_of, expected
from benchmarks.harness.user_sessions import Stateward
from benchmarks.harness.workload import GAP_MS, Events, Workload, end_ms, generate
from benchmarks.peers.task import Task
from stateward.contract.names import BATCH_COUNTS
from tests.support.spark.launches import Launch
from tests.support.waiting import wait_until

_ASK_S = 10.0
_LAST_ROWS_S = 600.0
FLINK_PEERS = {one.name: one for one in (*PEER_LIST, PYFLINK_FRAUD) if one.environment == "flink"}


class Reader(Protocol):
    """A contestant with its task.

    Attributes:
        process: What was started last.
    """

    process: subprocess.Popen[bytes]

    @property
    def contestant(self) -> Contestant:
        """What reads."""

    @property
    def task(self) -> Task:
        """What it reads, and where it writes."""

    def start(self) -> None:
        """Start it, from where it was when it was killed."""

    def kill(self) -> None:
        """End all of its processes with SIGKILL."""

    def delivered(self) -> int:
        """Records up to its last commit."""

    def commits(self) -> list[float]:
        """When each batch was committed, seconds since 1970; empty if only `delivered` shows it."""

    def live_keys(self) -> int:
        """Keys that have a state; 0 if the contestant does not tell."""


@dataclass
class DriverReader:
    """The driver of a stream.

    Attributes:
        launch: Its installation.
        conf: Settings of Spark.
    """

    contestant: Stateward
    task: Task
    launch: Launch
    conf: Mapping[str, str] = field(default_factory=dict)
    process: subprocess.Popen[bytes] = field(init=False)

    def start(self) -> None:
        """Start the driver."""
        self.process = self.contestant.start_in(self.launch, self.task, self.conf)

    def kill(self) -> None:
        """End the driver with its workers."""
        self.launch.kill_all()

    def delivered(self) -> int:
        """Records that its status counts."""
        return int(self.launch.status().get("delivered") or 0)

    def commits(self) -> list[float]:
        """From the ledger."""
        logs = (Path(self.task.folder) / "tables" / BATCH_COUNTS / "_delta_log").glob("*.json")
        return sorted(log.stat().st_mtime for log in logs)

    def live_keys(self) -> int:
        """Entries of the copies, which are the keys with a state and one more for each bucket."""
        live = 0
        for data in (Path(self.task.folder) / "cache").rglob("data.mdb"):
            with lmdb.open(str(data.parent), readonly=True, lock=False, max_dbs=2) as copy:
                if copy.stat()["entries"]:
                    keys = copy.open_db(b"keys", create=False)
                    with copy.begin(keys) as transaction:
                        live += transaction.stat(keys)["entries"]
        return live


@dataclass
class FlinkReader:
    """A peer in Flink."""

    contestant: Peer
    task: Task
    process: subprocess.Popen[bytes] = field(init=False)
    _asked: Any = field(default=None, init=False)

    def start(self) -> None:
        """Start its program, from the newest checkpoint if there is one."""
        done = (Path(self.task.folder) / "checkpoints").glob("*/chk-*/_metadata")
        newest = max(done, key=lambda file: file.stat().st_mtime, default=None)
        self.process = self.contestant.start(
            replace(self.task, restore_uri=f"file://{newest.parent}" if newest else "")
        )

    def kill(self) -> None:
        """End the program and the JVM that it has started."""
        with suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait(timeout=30)
        if self._asked is not None:
            self._asked.close()
            self._asked = None

    def delivered(self) -> int:
        """The offsets that its consumer group has committed."""
        from confluent_kafka import Consumer, TopicPartition

        if self._asked is None:
            self._asked = Consumer(
                {"bootstrap.servers": self.task.bootstrap_servers, "group.id": self.task.group}
            )
        topic = [TopicPartition(self.task.topic, number) for number in range(self.task.partitions)]
        return sum(max(0, one.offset) for one in self._asked.committed(topic, timeout=_ASK_S))

    def commits(self) -> list[float]:
        """Flink deletes the checkpoints before the last one."""
        return []

    def live_keys(self) -> int:
        """Flink does not tell."""
        return 0


@dataclass(frozen=True)
class Run:
    """What is measured.

    Attributes:
        reader: What reads; it has been started.
        workload: What is in the topic.
        events: The same, event by event.
        broker_pid: The broker's process.
        load_before: The machine's load average before the reader was started.
    """

    reader: Reader
    workload: Workload
    events: Events
    broker_pid: int
    load_before: float

    def wait_for_last_row(self) -> None:
        """Wait until the whole topic has its rows."""
        reader = self.reader
        committed = partial(reader.contestant.committed_at, reader.task)
        wait_until(lambda: committed(reader.process), _LAST_ROWS_S, "the last rows are committed")

    def is_right(self) -> bool:
        """Return whether the output is what the events amount to."""
        name = self.reader.contestant.name
        answer = fraud_answer(self.events) if name in FRAUD_NAMES else expected(self.events, GAP_MS)
        return answer_of(self.reader.contestant.rows(self.reader.task)) == answer


def add_peer(parser: ArgumentParser) -> None:
    """Add the option `--peer` of the programs that measure one contestant."""
    parser.add_argument(
        "--peer",
        type=_peer,
        metavar="NAME[=VARIANT]",
        help=f"measure a peer instead: {', '.join(FLINK_PEERS)}",
    )


def _peer(text: str) -> Entry:
    name, _, variant = text.partition("=")
    if name not in FLINK_PEERS:
        raise ArgumentTypeError(f"{name!r} is none of {', '.join(FLINK_PEERS)}")
    return Entry(FLINK_PEERS[name], variant)


def contestant_of(given: Namespace, stream: str = Stateward.name) -> Entry:
    """Return what `--peer` names, or a stream from `--checkout`."""
    peer: Entry | None = getattr(given, "peer", None)
    if peer:
        return peer
    kind = FraudWatch if stream == FraudWatch.name else Stateward
    return Entry(kind(given.checkout), getattr(given, "variant", ""))


def about(entry: Entry) -> dict[str, Any]:
    """What each result says of its contestant; `peer` is empty for a stream."""
    is_peer = isinstance(entry.contestant, Peer)
    return {**entry.contestant.checkout.origin(), "peer": entry.name if is_peer else ""}


@contextmanager
def running(
    entry: Entry,
    workload: Workload,
    cache: Path,
    *,
    bootstrap: str | None = None,
    conf: Mapping[str, str] | None = None,
) -> Iterator[Run]:
    """A contestant that reads a topic which is full; it ends with the block.

    Args:
        entry: A stream, or one of `FLINK_PEERS`.
        workload: What is in the topic.
        cache: For its folder, which is emptied first, and for environments of peers.
        bootstrap: A broker that may hold the topic already; None for one of its own, which ends with the
            block too.
        conf: For Spark.
    """
    events = generate(workload)
    jars = entry.contestant.prepare(cache)
    folder = emptied(cache / "sustained")
    with _broker(bootstrap, cache / "kafka") as (address, broker_pid):
        fill_topic(address, workload, events)
        load_before = round(psutil.getloadavg()[0], 2)
        task = task_of(workload, end_ms(events), folder, address, entry.variant, jars=jars)
        reader = reader_of(entry, task, conf)
        reader.start()
        try:
            yield Run(reader, workload, events, broker_pid, load_before)
        finally:
            reader.kill()


def reader_of(entry: Entry, task: Task, conf: Mapping[str, str] | None = None) -> Reader:
    """Return the reader of a task; it is not started."""
    contestant = entry.contestant
    if isinstance(contestant, Peer):
        return FlinkReader(contestant, task)
    assert isinstance(contestant, Stateward)
    return DriverReader(contestant, task, contestant.launch_of(task), conf or {})


@contextmanager
def _broker(bootstrap: str | None, folder: Path) -> Iterator[tuple[str, int]]:
    if bootstrap is None:
        with benchmark_broker(folder) as broker:
            assert broker.process is not None
            yield broker.bootstrap, broker.process.pid
        return
    port = int(bootstrap.rpartition(":")[2])
    listeners = [
        c for c in psutil.net_connections("tcp") if c.status == "LISTEN" and c.laddr and c.laddr.port == port
    ]
    assert listeners, f"nothing listens at {bootstrap}"
    assert listeners[0].pid is not None, f"the process that listens at {bootstrap} is not to be seen"
    yield bootstrap, listeners[0].pid
