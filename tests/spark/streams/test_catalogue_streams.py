"""Each stream of the catalogue on a real broker: its tables are the oracle's answer, row for row."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.support.full import ci_full
from tests.support.kafka.broker import RunningBroker
from tests.support.spark.launches import Launch
from tests.support.spark.running_query import COUNTS, running
from tests.support.streams.catalogue import LIVES, QUIET, Life, send
from tests.support.streams.oracle import difference, expected_rows, found_rows

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark


@pytest.mark.parametrize(
    "life",
    [
        pytest.param(life, marks=() if number == 0 else ci_full, id=life.stream.name)
        for number, life in enumerate(LIVES)
    ],
)
def test_the_tables_are_the_oracles_answer_and_the_state_empties(
    life: Life, tmp_path: Path, broker: RunningBroker, spark: SparkSession
) -> None:
    launch = Launch(tmp_path, broker, f"catalogue-{life.stream.name}", stream=life.stream)
    sent = send(life, seed=3, keys=150, events_per_key=12)
    broker.create_topic(launch.topic, launch.partitions)
    half = len(sent.records) // 2
    with running(launch, spark) as query:
        # In two parts, so that the watermark moves while states are open.
        launch.send(sent.records[:half])
        query.settle()
        launch.send(sent.records[half:])
        query.settle()
        query.tick(sent.last + QUIET)
        counted, left = query.counted(), query.state_rows()

    assert {name: counted[name] for name in COUNTS} == {
        "accepted": len(sent.events),
        "dead": sent.dead,
        "late": 0,
        "duplicates": sent.duplicates,
    }
    expected = expected_rows(launch, sent.events)
    assert all(expected.values()), f"a table without a row shows nothing: {expected}"
    assert difference(found_rows(launch), expected) == {}
    assert left == 0
