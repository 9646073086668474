"""Proves a stream right on traffic whose outcome is known: every table, dead letter, late event and count."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from include.replay.pacing import Pacer
from include.replay.send import Sender
from include.spec import load_spec
from include.traffic.generate import Plan, Traffic
from include.traffic.records import Record, Slice
from spark_jobs.runtime.config import parse_config
from spark_jobs.truth.expected import Expected
from spark_jobs.truth.registry import truth_about
from tests.spark.launches import Launch
from tests.spark.oracle import difference, found_rows, in_order
from tests.waiting import wait_until

COUNTS = ("accepted", "dead", "late", "duplicates", "tick_records")
# After what the status says last: a kill comes anywhere in a batch, and not only behind its commit.
_LONGEST_PAUSE_S = 1.5
# The share of a part after which it is too late to find the driver at work.
_LATEST_KILL = 0.6
_PATIENCE_S = 300


class Traced:
    """Traffic for one stream on its way to the broker, of which the truth is kept.

    Args:
        launch: The stream, and the topic it reads.
        plan: What is made; its one topic is the one that the stream reads by its YAML.
    """

    def __init__(self, launch: Launch, plan: Plan) -> None:
        recorded_ms = int(time.time() * 1000)
        self._truth = truth_about(parse_config(launch.document(), "test"), recorded_ms)
        self._launch = launch
        self._traffic = Traffic(plan)
        self._sender = Sender(launch.broker.bootstrap, launch.topic)
        self._pacer = Pacer(None, time.monotonic, time.sleep)
        self._expected: Expected | None = None
        self.sent = 0

    def parts(self, count: int) -> list[list[Slice]]:
        """The first phase, cut into parts of about as many records each."""
        slices = list(self._traffic.slices())
        parts: list[list[Slice]] = [[] for _ in range(count)]
        share, made = sum(len(piece.records) for piece in slices) / count, 0
        for piece in slices:
            parts[min(count - 1, int(made / share))].append(piece)
            made += len(piece.records)
        return parts

    def send(self, slices: Iterable[Slice]) -> None:
        """Send slices as `stateward traffic` does."""
        for piece in slices:
            self._send(piece.records)

    def end(self) -> datetime:
        """Send the ticks that end the first phase; returns the largest event time."""
        (last,) = self._traffic.last_event.values()
        longest = load_spec(self._launch.stream.name).longest_timeout
        self._sender.send_ticks(last + longest, self._launch.partitions)
        return last

    def send_late(self) -> None:
        """Send the second phase."""
        self.send(self._traffic.late())

    def wrong(self) -> dict[str, Any]:
        """What of the output is not as expected; empty if nothing is."""
        expected = self._expected = self._expected or self._truth.finish()
        launch = self._launch
        wanted = {table: in_order(rows) for table, rows in expected.tables.items()}
        wrong = difference(found_rows(launch), wanted)
        for table, rows in (("dead_letters", expected.dead_letters), ("late_events", expected.late_events)):
            if found := _surplus_and_missing(launch.rows(table), rows):
                wrong[table] = found
        counts = {**expected.counts, "tick_records": launch.partitions}
        batches = launch.rows("batch_counts")
        counted = {name: sum(row[name] for row in batches) for name in COUNTS}
        if counted != counts:
            wrong["batch_counts"] = {"found": counted, "expected": counts}
        return wrong

    def row_counts(self) -> dict[str, int]:
        """How many rows each table has to have; after `wrong`."""
        assert self._expected is not None
        return {table: len(rows) for table, rows in self._expected.tables.items()}

    def _send(self, records: list[Record]) -> None:
        self._sender.send_records(((record.key, record.value) for record in records), self._pacer)
        for record in records:
            self._truth.see(record)
        self.sent += len(records)


def _surplus_and_missing(
    found: list[dict[str, Any]], wanted: list[dict[str, Any]]
) -> dict[str, list[str]] | None:
    names = list(wanted[0]) if wanted else []
    # As values: the same time is written differently by whoever made it.
    here = Counter(tuple(row[name] for name in names) for row in found)
    there = Counter(tuple(row.values()) for row in wanted)
    if here == there:
        return None
    return {
        "surplus": [str(row)[:300] for row in here - there][:3],
        "missing": [str(row)[:300] for row in there - here][:3],
    }


@dataclass
class Proof:
    """What came of it.

    Attributes:
        records: How many were sent, ticks aside.
        rows: By table how many rows were expected.
        kills: How often the driver was killed.
        kills_at_work: How often while records were waiting.
        seconds: How long it took.
        wrong: What was not as expected; empty if nothing was.
    """

    records: int = 0
    rows: dict[str, int] = field(default_factory=dict)
    kills: int = 0
    kills_at_work: int = 0
    seconds: float = 0.0
    wrong: dict[str, Any] = field(default_factory=dict)


class Driven:
    """A driver that is killed now and then, and started again.

    Args:
        launch: What it runs.
        batch: The most records it takes in a batch.
    """

    def __init__(self, launch: Launch, batch: int) -> None:
        self._launch = launch
        self._changes = {"max_records_per_batch": batch}
        self._number = 0
        self._driver: subprocess.Popen[bytes] = self._started()

    @property
    def run_id(self) -> str:
        """Of the launch that runs."""
        return f"run-{self._number}"

    def kill_once(self, consumed: int, pause_s: float) -> bool:
        """SIGKILL when so many records are consumed, and so many seconds later.

        Returns:
            Whether records were waiting then.
        """
        self.wait(f"{consumed} records are consumed", lambda status: (status["consumed"] or 0) >= consumed)
        threading.Event().wait(pause_s)
        at_work = bool(self._launch.status()["lag_records"])
        os.killpg(self._driver.pid, signal.SIGKILL)
        self._driver.wait()
        self._driver = self._started()
        return at_work

    def wait(self, what: str, reached: Callable[[dict[str, Any]], bool]) -> dict[str, Any]:
        """Wait for a status of this launch."""

        def look() -> dict[str, Any] | None:
            status = self._launch.status()
            return status if status.get("run_id") == self.run_id and reached(status) else None

        def told() -> str:
            return f"{what}: {self._launch.status()} {self._launch.log(self.run_id).read_text()[-2000:]}"

        return wait_until(look, _PATIENCE_S, told)

    def drain(self) -> None:
        """SIGTERM, and wait for its end."""
        self._driver.send_signal(signal.SIGTERM)
        assert self._driver.wait(120) == 0, self._launch.log(self.run_id).read_text()[-2000:]

    def start_again(self) -> None:
        """Start the next launch; after `drain`."""
        self._driver = self._started()

    def _started(self) -> subprocess.Popen[bytes]:
        self._number += 1
        return self._launch.start(self.run_id, **self._changes)


def prove(launch: Launch, plan: Plan, kills: int) -> Proof:
    """Play traffic to a driver that is killed at random moments while it is at work, and compare everything.

    Args:
        launch: The stream; its topic is new.
        plan: What is made; its seed decides the moments too.
        kills: How often the driver is killed.
    """
    began, rng, proof = time.monotonic(), random.Random(plan.seed), Proof()
    launch.broker.create_topic(launch.topic, launch.partitions)
    traced = Traced(launch, plan)
    parts = traced.parts(kills + 1)
    driven = Driven(launch, batch=max(200, plan.total // (6 * len(parts))))
    try:
        for part in parts:
            before = traced.sent
            traced.send(part)
            if proof.kills < kills:
                moment = before + int(rng.random() * _LATEST_KILL * (traced.sent - before))
                proof.kills_at_work += driven.kill_once(moment, rng.random() * _LONGEST_PAUSE_S)
                proof.kills += 1
        last = traced.end()
        driven.wait("the watermark passes the end", lambda status: is_beyond(status["watermark"], last))
        traced.send_late()
        driven.wait(
            "all is consumed and no state is left",
            lambda status: status["consumed"] == traced.sent and status["state_rows"] == 0,
        )
        driven.drain()
    finally:
        launch.kill_all()
    proof.wrong = traced.wrong()
    proof.records, proof.rows = traced.sent, traced.row_counts()
    proof.seconds = round(time.monotonic() - began, 1)
    return proof


def is_beyond(watermark: str | None, last: datetime) -> bool:
    """Whether the watermark of a status has passed an event."""
    return watermark is not None and datetime.fromisoformat(watermark) > last
