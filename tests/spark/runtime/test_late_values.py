"""Late events on a real broker: each has the raw value of its record, whatever made it late."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.support.kafka.broker import RunningBroker
from tests.support.spark.launches import USER_SESSIONS, Launch
from tests.support.spark.running_query import running

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

NOW = datetime.now(UTC).replace(microsecond=0)


def record(event_id: str, user: str, seconds: int) -> tuple[bytes, bytes]:
    at = NOW + timedelta(seconds=seconds)
    fields = {"event_id": event_id, "user_id": user, "event_type": "view", "event_time": at.isoformat()}
    return user.encode(), json.dumps(fields).encode()


def test_an_event_below_the_floor_of_its_key_keeps_its_raw_value(
    tmp_path: Path, broker: RunningBroker, spark: SparkSession
) -> None:
    launch = Launch(tmp_path, broker, "late-values", partitions=2)
    broker.create_topic(launch.topic, 2)
    late = [record(f"late-{number}", "u", number) for number in range(3)]
    with running(launch, spark, logic={**USER_SESSIONS.logic, "max_held_events": 2}) as query:
        launch.send(record(f"e{number}", "u", 10 + number) for number in range(5))
        query.query.processAllAvailable()
        others = [record(f"o{number}", f"v{number}", 0) for number in range(50)]
        launch.send([*others, late[0]], partition=0)
        launch.send([late[1], *others[:1], late[2]], partition=1)
        query.query.processAllAvailable()
        counted = query.counted()

    assert (counted["late"], counted["bounds"]["below_floor"]) == (3, 3)
    rows = sorted(launch.rows("late_events"), key=lambda row: row["event_id"])
    assert [(row["event_id"], row["value"]) for row in rows] == [
        (json.loads(value)["event_id"], value) for _, value in late
    ]
