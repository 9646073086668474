"""What tests of `inspect` and `explain` share: records at known minutes, and a look at what came of them."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

from spark_jobs.runtime.config import Config, parse_config
from spark_jobs.state.explain import Explanation, explain
from spark_jobs.state.inspect import Inspection, inspect
from spark_jobs.state.measures import Variable
from tests.kafka_broker import RunningBroker
from tests.spark.launches import MINUTE_MS, Launch, Stream
from tests.spark.running import Running

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

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
    launch = Launch(folder, broker, f"inspect-{stream.name}", stream=stream, **fields)
    broker.create_topic(launch.topic, launch.partitions)
    broker.create_topic(launch.document()["tick_topic"], 1)
    return launch


def looked_at(spark: SparkSession, launch: Launch, **options: Any) -> Inspection:
    name = launch.stream.name
    return inspect(
        spark, launch.uri("checkpoint"), name, job=launch.stream.job, config=config_of(launch), **options
    )


def explained(spark: SparkSession, launch: Launch, key: str, **options: Any) -> Explanation:
    name = launch.stream.name
    return explain(
        spark, launch.uri("checkpoint"), name, key, job=launch.stream.job, config=config_of(launch), **options
    )


def config_of(launch: Launch) -> Config:
    return parse_config(launch.document(), "test")


def variable(found: Inspection, name: str, operator_id: int | None = None) -> Variable:
    (one,) = (v for v in found.variables if v.name == name and operator_id in (None, v.operator_id))
    return one


def settled(query: Running, watermark: datetime) -> None:
    """Take in everything that was sent, then move the watermark."""
    query.query.processAllAvailable()
    query.tick(watermark)
