"""Events of another shape on Spark's own operators: the rows of the plain ones."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from stateward.project.project import Project
from stateward.runtime.api.config import Config
from stateward.runtime.api.record_fields import Field, document
from tests.support.full import ci_full
from tests.support.kafka.broker import RunningBroker
from tests.support.spark.launches import Launch, Stream
from tests.support.spark.running_query import COUNTS, running
from tests.support.streams.catalogue import Record
from tests.support.streams.native import LATENESS_MS, NATIVES, send
from tests.support.streams.oracle import difference, found_rows, of_tables
from tests.support.waiting import PATIENCE_S, wait_until

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

NATIVE = NATIVES[0]
PATHS = {"event_id": "id", "user_id": "user.id", "event_type": "event.type", "value": "event.value"}
QUIET = timedelta(days=1)


def shaped_fields(config: Config) -> tuple[Field, ...]:
    """The fields of the stream, nested, and its time in milliseconds."""
    plain = Project.imported().declaration(NATIVE.stream.name).fields(config)
    return tuple(
        replace(field, path="ts", unit="ms")
        if field.kind == "time"
        else replace(field, path=PATHS[field.name])
        for field in plain
    )


@dataclass(frozen=True)
class ShapedStream(Stream):
    """The stream with these fields."""

    @property
    def job(self) -> Any:
        return replace(super().job, fields=shaped_fields)


def shaped(record: Record, fields: tuple[Field, ...]) -> Record:
    """A record in the other shape; one that is no JSON as it is."""
    key, value = record
    try:
        found = json.loads(value or b"")
    except ValueError:
        return record
    found["event_time"] = round(datetime.fromisoformat(found["event_time"]).timestamp() * 1000)
    return key, json.dumps(document(fields, found)).encode()


@ci_full
def test_nested_events_with_a_time_in_milliseconds_have_the_rows_of_plain_ones(
    tmp_path: Path, broker: RunningBroker, spark: SparkSession
) -> None:
    stream = ShapedStream(NATIVE.stream.name, NATIVE.stream.tables, NATIVE.stream.logic)
    launch = Launch(tmp_path, broker, "shaped-events", stream=stream)
    sent = send(NATIVE, seed=3, keys=10, events_per_key=8)
    broker.create_topic(launch.topic, launch.partitions)
    with running(launch, spark, allowed_lateness_ms=LATENESS_MS) as query:
        fields = shaped_fields(query.config)
        launch.send([shaped(record, fields) for record in sent.records])
        query.settle()
        query.tick(sent.last + QUIET)
        wait_until(
            lambda: query.state_rows() == 0, PATIENCE_S, lambda: f"state is left: {query.query.lastProgress}"
        )
        counted = query.counted()
    assert [counted[name] for name in COUNTS] == [len(sent.events), sent.dead, 0, sent.duplicates]
    expected = of_tables(launch, NATIVE.oracle(sent.events, stream.logic))
    assert all(expected.values())
    assert difference(found_rows(launch), expected) == {}
