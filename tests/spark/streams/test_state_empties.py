"""Every path ends in removal: after the longest timeout, and ticks alone, nothing is left in the state."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from stateward.runtime.keyed.newest_states import keyed_state
from tests.support.full import ci_full
from tests.support.kafka.broker import RunningBroker
from tests.support.spark.launches import FRAUD_WATCH, USER_SESSIONS, Launch, Stream
from tests.support.spark.running_query import running

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

START = datetime(2024, 3, 1, tzinfo=UTC)
DAY = timedelta(hours=24)

# The first key of each is kept longest.
# A session may ask for a gap of a day, the longest there is; others end after half an hour.
VIEWS = [
    {"event_id": "1", "user_id": "patient", "event_type": "view", "timeout_s": 86_400},
    {"event_id": "2", "user_id": "usual", "event_type": "view"},
]
# A review lasts a day from the second event on; who is only watched is forgotten after half an hour.
PAYMENTS = [
    {"event_id": "1", "account_id": "flagged", "kind": "transaction", "amount": 5000},
    {"event_id": "2", "account_id": "flagged", "kind": "review_confirmed"},
    {"event_id": "3", "account_id": "watched", "kind": "transaction", "amount": 1},
]


@pytest.mark.parametrize(
    ("stream", "events"),
    [
        pytest.param(USER_SESSIONS, VIEWS, id="user_sessions", marks=ci_full),
        pytest.param(FRAUD_WATCH, PAYMENTS, id="fraud_watch"),
    ],
)
def test_after_the_longest_timeout_no_key_is_left(
    stream: Stream, events: list[dict[str, Any]], tmp_path: Path, broker: RunningBroker, spark: SparkSession
) -> None:
    launch = Launch(tmp_path, broker, f"empties-{stream.name}", partitions=1, stream=stream)
    broker.create_topic(launch.topic, 1)
    # All at the same time, which is what the first watermark is then short of.
    launch.send([(b"k", json.dumps({**event, "event_time": START.isoformat()}).encode()) for event in events])

    def kept() -> set[str]:
        return {row["key"] for row in keyed_state(spark, launch.uri("checkpoint")).collect()}

    with running(launch, spark) as query:
        query.settle()
        keys = [event[stream.job.key.name] for event in events]
        assert kept() == set(keys)
        query.tick(START + DAY - timedelta(milliseconds=1))
        assert kept() == {keys[0]}
        query.tick(START + DAY)
        assert kept() == set()
        assert query.state_rows() == 0
