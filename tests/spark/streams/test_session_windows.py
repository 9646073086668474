"""Sessions by Spark's session window and by the stream's own logic, of the same topic: the same rows."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.support.full import ci_full
from tests.support.kafka.broker import RunningBroker
from tests.support.spark.launches import SESSION_WINDOWS, USER_SESSIONS, Launch, Stream, real_events
from tests.support.spark.running_query import running
from tests.support.streams.oracle import in_order

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

# A day after the last of the real page views.
END = datetime(2015, 5, 21, 21, 6, tzinfo=UTC)


@ci_full
def test_the_real_page_views_have_the_same_sessions_either_way(
    tmp_path: Path, broker: RunningBroker, spark: SparkSession
) -> None:
    events = real_events()
    topic = broker.create_topic("both-sessions", 3)

    def rows(stream: Stream) -> list[dict[str, Any]]:
        folder = tmp_path / stream.name
        folder.mkdir()
        launch = Launch(folder, broker, topic, stream=stream)
        with running(launch, spark, max_records_per_batch=3000) as query:
            query.settle()
            query.tick(END)
            assert query.counted()["accepted"] == len(events)
            query.drain()
        (table,) = stream.tables
        return launch.rows(table)

    Launch(tmp_path, broker, topic).send(events)
    windows, sessions = rows(SESSION_WINDOWS), rows(USER_SESSIONS)

    assert {row.pop("close_reason") for row in sessions} == {"TIMEOUT"}
    assert in_order(windows) == in_order(sessions)
    assert len(windows) == 3052
