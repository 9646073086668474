"""What reads a topic and is followed while it reads: a stream's driver, or a peer.

The peers are those of Flink. It commits the offsets that a checkpoint covers to the consumer group, which
says how far it is, and goes on from its newest checkpoint when it is started again.
"""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Protocol

from benchmarks.harness.contestants import Contestant, Peer
from benchmarks.harness.measure import Entry
from benchmarks.harness.user_sessions import Stateward
from benchmarks.peers.task import Task
from stateward.contract.names import BATCH_COUNTS
from tests.support.spark.launches import Launch

_ASK_S = 10.0


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

    def has_every_row(self, records: int) -> bool:
        """Return whether the rows of the whole topic, which has so many records, are committed."""


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
        """As its status counts them."""
        return int(self.launch.status().get("state_keys") or 0)

    def has_every_row(self, records: int) -> bool:
        """Once a batch at the end's watermark is committed."""
        return self.contestant.committed_at(self.task, self.process) is not None


@dataclass
class FlinkReader:
    """A peer in Flink."""

    contestant: Peer
    task: Task
    process: subprocess.Popen[bytes] = field(init=False)
    _asked: Any = field(default=None, init=False)
    _known: int = field(default=0, init=False)

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
        """The offsets that its consumer group has committed, as far as the broker has said."""
        from confluent_kafka import Consumer, KafkaException, TopicPartition

        if self._asked is None:
            self._asked = Consumer(
                {"bootstrap.servers": self.task.bootstrap_servers, "group.id": self.task.group}
            )
        topic = [TopicPartition(self.task.topic, number) for number in range(self.task.partitions)]
        # The first question of a new broker may come before it has a coordinator.
        with suppress(KafkaException):
            self._known = sum(max(0, one.offset) for one in self._asked.committed(topic, timeout=_ASK_S))
        return self._known

    def commits(self) -> list[float]:
        """Flink deletes the checkpoints before the last one."""
        return []

    def live_keys(self) -> int:
        """Flink does not tell."""
        return 0

    def has_every_row(self, records: int) -> bool:
        """Once the job has ended, or, if it is endless, once a checkpoint shows all."""
        if not self.task.is_endless:
            return self.contestant.committed_at(self.task, self.process) is not None
        if self.delivered() < records or not self.shows_all():
            return False
        self.task.finish(time.time())
        return True

    def shows_all(self) -> bool:
        """Return whether no file is in progress or waits for its checkpoint: such files are hidden."""
        names = [file.name for file in self.task.output.rglob("*") if file.is_file()]
        return bool(names) and not any(name.startswith((".", "_")) for name in names)


def reader_of(entry: Entry, task: Task, conf: Mapping[str, str] | None = None) -> Reader:
    """Return the reader of a task; it is not started."""
    contestant = entry.contestant
    if isinstance(contestant, Peer):
        return FlinkReader(contestant, task)
    assert isinstance(contestant, Stateward)
    return DriverReader(contestant, task, contestant.launch_of(task), conf or {})
