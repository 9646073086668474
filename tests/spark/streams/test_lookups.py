"""A stream enriched by a table that changes: each record has the version of the plan of its batch, for ever.

The oracle reads the plans of the batches as Spark has logged them, and the merchants say of which version
they are.
"""

from __future__ import annotations

import json
import random
from bisect import bisect_right
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from deltalake import DeltaTable

from stateward.contract.conditions import Condition
from stateward.recompute.recompute import recompute
from stateward.recompute.request import BackfillError
from stateward.runtime.cause import conditions_of
from tests.support.full import ci_full, only_full
from tests.support.kafka.broker import RunningBroker
from tests.support.spark.recomputing import land, request
from tests.support.spark.running_query import COUNTS, running
from tests.support.streams.purchases import (
    IDLE_MS,
    JOB,
    MERCHANTS,
    PURCHASES_STREAM,
    START,
    PurchasesLaunch,
    category,
    next_version,
    record,
)
from tests.support.waiting import PATIENCE_S, wait_until

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

CUSTOMERS = 12
SETTINGS: dict[str, Any] = {
    "max_records_per_batch": 40,
    "trigger_interval_ms": 50,
    "state_buckets": 4,
    "spark_conf": {"spark.sql.streaming.minBatchesToRetain": "100000"},
}


@ci_full
def test_each_record_has_the_version_of_its_batch_through_restarts_and_a_recomputation(
    tmp_path: Path, broker: RunningBroker, spark: SparkSession
) -> None:
    launch = PurchasesLaunch(tmp_path, broker, "lookups", stream=PURCHASES_STREAM)
    broker.create_topic(launch.topic, launch.partitions)
    merchants = launch.uri("merchants")
    next_version(merchants)
    sent: dict[str, tuple[str, bytes]] = {}
    rng = random.Random(7)
    for run in range(2):
        with running(launch, spark, f"run-{run}", **SETTINGS) as query:
            send(launch, rng, sent, 2 * run * 500, 80)
            query.settle()
            next_version(merchants)
            # It leaves in the middle of a batch, and the table changes before that batch runs again.
            before = query.checkpoint.last_planned()
            send(launch, rng, sent, (2 * run + 1) * 500, 30)
            wait_until(lambda: query.checkpoint.last_planned() > before, PATIENCE_S, "a plan", 0.01)  # noqa: B023
        next_version(merchants)
    with running(launch, spark, "last", **SETTINGS) as query:
        query.settle()
        query.tick(START + timedelta(days=1))
        wait_until(lambda: query.state_rows() == 0, PATIENCE_S, lambda: f"left: {query.query.lastProgress}")
        query.drain()
        counted = query.counted()

    assert {name: counted[name] for name in COUNTS} == {
        "accepted": len(sent),
        "dead": 0,
        "late": 0,
        "duplicates": 0,
    }
    versions = versions_read(launch)
    found = {row["event_id"]: row["category"] for row in launch.rows("purchases")}
    land(launch, spark)
    raw = {json.loads(row["value"])["event_id"]: row for row in launch.rows("raw_events")}
    assert found == {
        event_id: category(merchant, versions(raw[event_id]["partition"], raw[event_id]["offset"]))
        if merchant in MERCHANTS
        else None
        for event_id, (merchant, _) in sent.items()
    }
    assert len({value.rpartition(" ")[2] for value in found.values() if value}) > 2, "the table did change"
    report = recomputed(launch, spark)
    assert (report["equal"], report["exact"], report["tables"][0]["rows"]) == (True, True, len(sent))

    # Elsewhere, because the workers still have the versions of the table here in memory.
    moved = f"{merchants}-moved"
    Path(merchants.removeprefix("file://")).rename(moved.removeprefix("file://"))
    DeltaTable(moved).vacuum(0, enforce_retention_duration=False, dry_run=False)
    lookups = {"merchants": {"uri": moved, "key": "", "columns": {}}}
    with pytest.raises(
        BackfillError, match=r"purchases, lookup merchants: expected version \d+ of"
    ) as caught:
        recomputed(launch, spark, config=launch.document(lookups=lookups))
    assert moved in str(caught.value)


@only_full
def test_a_batch_whose_version_is_gone_fails_by_name_and_then_is_planned_again(
    tmp_path: Path, broker: RunningBroker, spark: SparkSession
) -> None:
    from stateward.state.operation.replan import take_back_plan

    launch = PurchasesLaunch(tmp_path, broker, "lookups-gone", stream=PURCHASES_STREAM)
    broker.create_topic(launch.topic, launch.partitions)
    merchants = launch.uri("merchants")
    next_version(merchants)
    sent: dict[str, tuple[str, bytes]] = {}
    rng = random.Random(8)
    with running(launch, spark, "first", **SETTINGS) as query:
        send(launch, rng, sent, 0, 20)
        query.settle()
        query.query.stop()
        committed = query.checkpoint.last_committed()
    # A driver has planned a batch and was killed. No worker has the version in memory.
    plan_next(launch, committed, next_version(merchants))
    send(launch, rng, sent, 100, 30)
    next_version(merchants)
    DeltaTable(merchants).vacuum(0, enforce_retention_duration=False, dry_run=False)
    with running(launch, spark, "second", **SETTINGS) as query:
        with pytest.raises(Exception, match=r"lookup merchants: expected version 1 of") as caught:
            query.settle()
        assert Condition.LOOKUP_GONE in conditions_of(caught.value)
        tables = query.config.tables
    for _ in range(2):
        take_back_plan(launch.checkpoint, tables, (launch.topic,), SETTINGS["max_records_per_batch"])
    with running(launch, spark, "third", **SETTINGS) as query:
        query.settle()
        query.tick(START + timedelta(days=1))
        wait_until(lambda: query.state_rows() == 0, PATIENCE_S, lambda: f"left: {query.query.lastProgress}")

    rows = launch.rows("purchases")
    assert sorted(row["event_id"] for row in rows) == sorted(sent)
    assert {row["category"] for row in rows if row["event_id"].startswith("100-")} <= {
        None,
        *(category(merchant, 2) for merchant in MERCHANTS),
    }


def plan_next(launch: PurchasesLaunch, committed: int, version: int) -> None:
    """The plan of the batch after the last one, with one record more."""
    folder = Path(launch.checkpoint.removeprefix("file://")) / "offsets"
    head, metadata, source = (folder / str(committed)).read_text().splitlines()
    plan = json.loads(source)
    plan[launch.topic]["0"] += 1
    plan["$plan"]["ticks"] = False
    plan["$plan"]["lookups"]["merchants"]["version"] = version
    (folder / str(committed + 1)).write_text("\n".join([head, metadata, json.dumps(plan)]))


def send(
    launch: PurchasesLaunch,
    rng: random.Random,
    sent: dict[str, tuple[str, bytes]],
    begin_ms: int,
    count: int,
) -> None:
    """Purchases of half a second, out of order within the lateness."""
    records = []
    for number in range(count):
        event_id, merchant = f"{begin_ms}-{number}", rng.choice((*MERCHANTS, "unknown"))
        customer = f"c{rng.randrange(CUSTOMERS)}"
        key, value = record(event_id, customer, merchant, begin_ms + rng.randrange(IDLE_MS // 2))
        sent[event_id] = merchant, value
        records.append((key, value))
    launch.send(records)


def versions_read(launch: PurchasesLaunch) -> Any:
    """From partition and offset of a record to the version in the plan of its batch."""
    folder = Path(launch.checkpoint.removeprefix("file://")) / "offsets"
    numbers = sorted(int(file.name) for file in folder.iterdir() if file.name.isdigit())
    plans = [json.loads((folder / str(number)).read_text().splitlines()[2]) for number in numbers]
    versions = [plan["$plan"].get("lookups", {"merchants": {"version": -1}}) for plan in plans]

    def version(partition: int, offset: int) -> int:
        ends = [plan[launch.topic].get(str(partition), 0) for plan in plans]
        return int(versions[bisect_right(ends, offset)]["merchants"]["version"])

    return version


def recomputed(launch: PurchasesLaunch, spark: SparkSession, **changes: Any) -> dict[str, Any]:
    made = request(launch, START, START + timedelta(hours=1), chain_ms=IDLE_MS, **changes)
    return recompute(spark, made, JOB, lambda part, what: None)
