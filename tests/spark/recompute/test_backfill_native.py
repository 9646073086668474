"""Tables of Spark's own operators recomputed from raw events, by the oracle that they are held to."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from deltalake import DeltaTable

from tests.support.full import ci_full
from tests.support.kafka.broker import RunningBroker
from tests.support.spark.launches import Launch
from tests.support.spark.recomputing import alter, differences, explained_by, land, recomputed, request
from tests.support.spark.running_query import running
from tests.support.streams.catalogue import START, START_MS
from tests.support.streams.native import LATENESS_MS, NATIVES, Native, one, send

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

QUIET = timedelta(days=1)
BEGIN, END = START + timedelta(minutes=40, milliseconds=1), START + timedelta(minutes=70)
MINUTE_MS = 60_000
NAMES = {"event_windows": "window_id", "payment_auth_join": "payment_id", "session_windows": "session_id"}


def is_explained(row: dict[str, Any]) -> bool:
    """Whether the events are all that are in a window or session, or both sides of a joined payment."""
    end = row.get("window_end", row.get("closed_at"))
    ids = {event["event_id"] for event in row["events"] if event["event_time"] != end}
    if "event_count" in row:
        return bool(len(ids) == row["event_count"])
    return ids >= {name for name in (row["transaction_id"], row["authentication_id"]) if name}


@ci_full
@pytest.mark.parametrize("native", NATIVES, ids=lambda native: native.stream.name)
def test_what_the_operators_have_written_is_recomputed(
    native: Native, tmp_path: Path, broker: RunningBroker, spark: SparkSession
) -> None:
    stream = native.stream
    launch = Launch(tmp_path, broker, f"backfill-{stream.name}", stream=stream)
    sent = send(native, seed=3, keys=40, events_per_key=12)
    late, _ = one(native, "late", START_MS + 50 * MINUTE_MS)
    broker.create_topic(launch.topic, launch.partitions)
    with running(launch, spark, allowed_lateness_ms=LATENESS_MS) as query:
        launch.send(sent.records)
        query.settle()
        query.tick(sent.last + QUIET)
        launch.send([late])
        query.settle()
        counted = query.counted()
        query.drain()
    assert (counted["accepted"], counted["late"]) == (len(sent.events), 1)
    land(launch, spark)

    report = recomputed(spark, request(launch, BEGIN, END))
    assert (report["equal"], report["exact"], report["notes"]) == (True, True, []), report
    assert report["counts"]["outside"], "a part is enough"
    for entry in report["tables"]:
        table = DeltaTable(launch.uri("tables", entry["table"]))
        assert 0 < entry["rows"] < table.to_pyarrow_table().num_rows

    first = stream.tables[0]
    altered = launch.rows(first)[5][NAMES[stream.name]]
    alter(launch, first, f"{NAMES[stream.name]} = '{altered}'", **{NAMES[stream.name]: "'another'"})
    entry, *others = recomputed(spark, request(launch, START - QUIET, sent.last + QUIET))["tables"]
    # So all other rows, of the whole table, are the same.
    assert (entry["only_live"], entry["only_backfill"]) == (1, 1)
    assert entry["rows"] == len(launch.rows(first))
    assert all(other["equal"] for other in others)
    live, made = differences(launch, first)
    assert [live["difference"], made["difference"]] == ["not in the events", "missing in the table"]
    assert explained_by(launch, made)
    assert is_explained(made)
