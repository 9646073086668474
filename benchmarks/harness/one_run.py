"""A run of one contestant on a topic that is full, and the option `--peer` of the programs that have one."""

from __future__ import annotations

from argparse import ArgumentParser, ArgumentTypeError, Namespace
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import psutil

from benchmarks.harness.contestants import PEER_LIST, Peer
from benchmarks.harness.environments import emptied
from benchmarks.harness.fill import benchmark_broker, fill_topic
from benchmarks.harness.fraud_watch import FRAUD_NAMES, PYFLINK_FRAUD, FraudWatch, fraud_answer
from benchmarks.harness.measure import Entry, task_of
from benchmarks.harness.oracle import answer_of, expected
from benchmarks.harness.readers import Reader, reader_of
from benchmarks.harness.user_sessions import Stateward
from benchmarks.harness.workload import GAP_MS, Events, Workload, end_ms, generate
from tests.support.waiting import wait_until

_LAST_ROWS_S = 600.0
FLINK_PEERS = {one.name: one for one in (*PEER_LIST, PYFLINK_FRAUD) if one.environment == "flink"}


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
        records = self.workload.records(False) + self.workload.partitions
        wait_until(
            lambda: self.reader.has_every_row(records), _LAST_ROWS_S, "the last rows are committed", 0.5
        )

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


def contestant_of(given: Namespace) -> Entry:
    """Return what `--peer` names, or `user_sessions` from `--checkout`."""
    peer: Entry | None = given.peer
    return peer or stream_of(given, Stateward.name, "")


def stream_of(given: Namespace, name: str, variant: str) -> Entry:
    """Return a stream from `--checkout`, `stateward` or `fraud_watch`."""
    kind = FraudWatch if name == FraudWatch.name else Stateward
    return Entry(kind(given.checkout), variant)


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
    is_endless: bool = False,
) -> Iterator[Run]:
    """A contestant that reads a topic which is full; it ends with the block.

    Args:
        entry: A stream, or one of `FLINK_PEERS`.
        workload: What is in the topic.
        cache: For its folder, which is emptied first, and for environments of peers.
        bootstrap: A broker that may hold the topic already; None for one of its own, which ends with the
            block too.
        conf: For Spark.
        is_endless: Whether a peer does not end with the topic.
    """
    events = generate(workload)
    jars = entry.contestant.prepare(cache)
    folder = emptied(cache / "sustained")
    with _broker(bootstrap, cache / "kafka") as (address, broker_pid):
        fill_topic(address, workload, events)
        load_before = round(psutil.getloadavg()[0], 2)
        task = task_of(workload, end_ms(events), folder, address, entry.variant, jars=jars)
        task = replace(task, is_endless=is_endless)
        reader = reader_of(entry, task, conf)
        reader.start()
        try:
            yield Run(reader, workload, events, broker_pid, load_before)
        finally:
            reader.kill()


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
