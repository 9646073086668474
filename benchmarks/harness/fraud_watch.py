"""`fraud_watch` and its peer as contestants: arbitrary logic with state and timers, on the same topic.

Rows are reduced to the columns that the check knows: of an alert the account and the time, of a summary
the account, when it was opened and closed, and how many transactions it had.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

import numpy as np
from deltalake import DeltaTable

from benchmarks.harness.contestants import Peer
from benchmarks.harness.oracle import Answer, Row, answer_of
from benchmarks.harness.user_sessions import Stateward, all_ms
from benchmarks.harness.workload import Events, payment
from benchmarks.peers.task import Task
from spark_jobs.fraud_watch.machine import FraudMachine
from spark_jobs.fraud_watch.model import FraudAlert, FraudSettings, FraudSummary, PaymentEvent
from stateward.runtime.api.key_logic import replay_oracle
from tests.support.spark.launches import FRAUD_WATCH

_MICROS = 1_000_000
_MINUTE_MS = 60_000
# Short times, so that every case is closed at the end of the topic.
LOGIC: dict[str, Any] = {
    **FRAUD_WATCH.logic,
    "idle_ms": 5 * _MINUTE_MS,
    "review_ms": 30 * _MINUTE_MS,
    "safety_ms": 40 * _MINUTE_MS,
}


class FraudWatch(Stateward):
    """The stream `fraud_watch`."""

    name = "fraud_watch"
    stream = FRAUD_WATCH

    def logic(self, task: Task) -> dict[str, Any]:
        """`LOGIC`."""
        return LOGIC

    def rows(self, task: Task) -> Iterator[Row]:
        """Alerts and summaries."""
        launch = self.launch_of(task)
        for batch in _batches(launch.uri("tables", "fraud_alerts"), ["account_id", "raised_at"]):
            raised = all_ms(batch["raised_at"])
            yield from zip(batch["account_id"].to_pylist(), raised, raised, [0] * len(raised), strict=True)
        columns = ["account_id", "opened_at", "closed_at", "transaction_count"]
        for batch in _batches(launch.uri("tables", "fraud_summaries"), columns):
            times = all_ms(batch["opened_at"]), all_ms(batch["closed_at"])
            yield from zip(
                batch["account_id"].to_pylist(), *times, batch["transaction_count"].to_pylist(), strict=True
            )


def fraud_row(row: dict[str, Any]) -> Row:
    """What the check knows of an alert or a summary of the peer, whose fields are those of their classes."""
    if "alert_id" in row:
        return row["account_id"], row["raised_ms"], row["raised_ms"], 0
    return row["account_id"], row["opened_ms"], row["closed_ms"], row["transaction_count"]


PYFLINK_FRAUD = Peer(
    "pyflink_fraud", "pyflink_fraud.py", "flink", "exactly once, files", logic=LOGIC, row_of=fraud_row
)
FRAUD_NAMES = (FraudWatch.name, PYFLINK_FRAUD.name)


def _batches(uri: str, columns: list[str]) -> Iterator[Any]:
    yield from DeltaTable(uri).to_pyarrow_dataset().to_batches(columns=columns)


def fraud_answer(events: Events) -> Answer:
    """The same rows by the logic alone, account by account."""
    return answer_of(_rows(events))


def _rows(events: Events) -> Iterator[Row]:
    machine = FraudMachine(FraudSettings.of(LOGIC))
    order = np.argsort(events.users, kind="stable")
    users, times = events.users[order], events.times_ms[order]
    bounds = [0, *(np.flatnonzero(np.diff(users)) + 1).tolist(), len(users)]
    for begin, end in itertools.pairwise(bounds):
        account = f"u{int(users[begin]):08d}"
        numbers = order[begin:end].tolist()
        mine = [_event(number, at) for number, at in zip(numbers, times[begin:end].tolist(), strict=True)]
        for row in replay_oracle(machine, account, mine):
            if isinstance(row, FraudAlert):
                yield account, row.raised_ms, row.raised_ms, 0
            elif isinstance(row, FraudSummary):
                yield account, row.opened_ms, row.closed_ms, row.transaction_count


def _event(number: int, at_ms: int) -> PaymentEvent:
    kind, amount = payment(number)
    return PaymentEvent(f"e{number:010d}", at_ms, kind, amount * _MICROS)
