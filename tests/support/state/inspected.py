"""Shared by tests of `inspect` and `explain`: records at known minutes, and their results."""

from __future__ import annotations

import json
import uuid
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

from stateward.runtime.api.config import Config, parse_config
from stateward.runtime.api.state_step import PlainState, StateStep
from stateward.runtime.api.stream_job import StreamJob
from stateward.state.reader.measures import Variable
from stateward.state.verbs.explain import Explanation, explain
from stateward.state.verbs.inspect import Inspection, inspect
from tests.support.kafka.broker import RunningBroker
from tests.support.spark.launches import MINUTE_MS, Launch, Stream
from tests.support.spark.running_query import Running

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

FORMAT_2 = {"spark.sql.streaming.stateStore.checkpointFormatVersion": "2"}
START = datetime(2024, 3, 1, tzinfo=UTC)
START_MS = int(START.timestamp() * 1000)


def record(key_name: str, key: str, event_id: str, minute: int, **fields: Any) -> tuple[bytes, bytes]:
    document = {"event_id": event_id, key_name: key, "event_time": at(minute).isoformat(), **fields}
    return key.encode(), json.dumps(document).encode()


def at(minute: int) -> datetime:
    return START + timedelta(minutes=minute)


def ms(minute: int) -> int:
    return START_MS + minute * MINUTE_MS


def prepared(folder: Path, broker: RunningBroker, stream: Stream, **fields: Any) -> Launch:
    # The broker is shared by all tests of a worker, in whatever order.
    launch = Launch(folder, broker, f"inspect-{stream.name}-{uuid.uuid4().hex[:8]}", stream=stream, **fields)
    broker.create_topic(launch.topic, launch.partitions)
    return launch


def looked_at(spark: SparkSession, launch: Launch, **options: Any) -> Inspection:
    name = launch.stream.name
    options.setdefault("job", launch.stream.job)
    return inspect(spark, launch.uri("checkpoint"), name, config=config_of(launch), **options)


def explained(spark: SparkSession, launch: Launch, key: str, **options: Any) -> Explanation:
    name = launch.stream.name
    options.setdefault("job", launch.stream.job)
    return explain(spark, launch.uri("checkpoint"), name, key, config=config_of(launch), **options)


def later_release(job: StreamJob, *, whole: bool) -> StreamJob:
    """A declaration two versions on, with twice the gap in its states; unless whole, a step is missing."""
    of = job.state_version
    first, second = StateStep(of, "twice the gap", state=twice_the_gap), StateStep(of + 1, "as it is")
    return replace(job, state_version=of + 2, state_steps=(first, second) if whole else (second,))


def twice_the_gap(key: str, state: PlainState) -> PlainState:
    return {**state, "gap_ms": 2 * state["gap_ms"]}


def config_of(launch: Launch) -> Config:
    return parse_config(launch.document(), "test")


def variable(found: Inspection, name: str, operator_id: int | None = None) -> Variable:
    (one,) = (v for v in found.variables if v.name == name and operator_id in (None, v.operator_id))
    return one


def settled(query: Running, watermark: datetime) -> None:
    """Process everything sent, then move the watermark."""
    query.query.processAllAvailable()
    query.tick(watermark)
