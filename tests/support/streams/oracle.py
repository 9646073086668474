"""What a stream's tables should hold, by the oracle or by the truth about traffic, and what they do hold."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from typing import Any

from proof.truth.expected import StreamTruth
from proof.truth.keyed_truth import rows_of_table
from proof.truth.registry import truth_about
from stateward.project.project import Project
from stateward.runtime.api.config import parse_config
from stateward.runtime.api.key_logic import replay_oracle
from stateward.testing.declarations import config_of
from tests.support.spark.launches import Launch

STREAMS = {
    "user_sessions": "user_events",
    "user_activity": "user_activity",
    "fraud_watch": "payments",
    "device_lifecycle": "device_readings",
    "intrusion_patterns": "security_events",
    "event_windows": "user_events",
    "payment_auth_join": "payments",
    "session_windows": "user_events",
}
"""By stream its topic: those by event time."""

RECORDED_MS = 1_800_000_000_000

Rows = list[dict[str, Any]]


def expected_rows(launch: Launch, events: Iterable[tuple[str, Any]]) -> dict[str, Rows]:
    """By table the rows of all events, given with their keys: seen at once and in order."""
    logic = launch.stream.job.logic(parse_config(launch.document(), "test"))
    by_key: dict[str, list[Any]] = defaultdict(list)
    for key, event in events:
        by_key[key].append(event)
    return of_tables(
        launch, [row for key, found in by_key.items() for row in replay_oracle(logic, key, found)]
    )


def of_tables(launch: Launch, rows: list[tuple[Any, ...]]) -> dict[str, Rows]:
    """By table the rows of an oracle, as the table has them."""
    return {output.table.name: in_order(rows_of_table(output, rows)) for output in launch.stream.job.outputs}


def found_rows(launch: Launch) -> dict[str, Rows]:
    """By table of the stream the rows that are there."""
    return {table: in_order(launch.rows(table)) for table in launch.stream.tables}


def difference(found: dict[str, Rows], expected: dict[str, Rows]) -> dict[str, Any]:
    """Tables that are not as expected, with a few of the rows that make the difference; empty if none is."""
    differences = {}
    for table, wanted in expected.items():
        if found[table] != wanted:
            here, there = ({str(row) for row in rows} for rows in (found[table], wanted))
            differences[table] = {
                "found and expected": (len(found[table]), len(wanted)),
                "surplus": [row for row in found[table] if str(row) not in there][:3],
                "missing": [row for row in wanted if str(row) not in here][:3],
            }
    return differences


def in_order(rows: Rows) -> Rows:
    """The rows in an order that depends on them alone."""
    return sorted(rows, key=lambda row: str(list(row.values())))


def truth_of(stream: str) -> StreamTruth:
    """What finds out the truth about a stream."""
    return truth_about(config_of(stream), RECORDED_MS)


def declared_fields(stream: str) -> set[str]:
    """Names of the fields that a stream reads."""
    return {field.name for field in Project.imported().declaration(stream).fields(config_of(stream))}
