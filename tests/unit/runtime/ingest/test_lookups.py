"""Records are enriched by the version of their batch's plan, whenever the batch runs."""

from __future__ import annotations

import marshal
from pathlib import Path
from typing import Any

from confluent_kafka import Message

from stateward.runtime.api.record_fields import Bounds
from stateward.runtime.checkpoint.batch_plan import Plan
from stateward.runtime.checkpoint.checkpoint import PlannedBatch
from stateward.runtime.delta.lookup_tables import LookupTable, newest
from stateward.runtime.ingest.packed_format import LANE_EVENT, PLACE_FIELDS
from stateward.runtime.ingest.record_decoder import DecoderTask, RecordDecoder
from stateward.runtime.watermark.topic_partitions import Topics
from tests.support.streams.purchases import JOB, category, next_version, record

NOW = 1_800_000_000_000


def decoded(source: LookupTable, plan: Plan, *merchants: str) -> list[tuple[Any, ...]]:
    """The events of one record for each merchant."""
    decoder = RecordDecoder(
        owner=JOB.owner,
        fields=JOB.fields(None),  # type: ignore[arg-type]  # they do not depend on it
        bounds=Bounds(0, 3_600_000, 1000),
        event=JOB.event,
        buckets=1,
        topics=Topics(("t",)),
        checkpoint_uri="",
        lookups=(source,),
    )
    task = DecoderTask(decoder, PlannedBatch(7, {}, 0, NOW, plan))
    records = [record(f"e{number}", "c", merchant, 0) for number, merchant in enumerate(merchants)]
    task.take(
        [
            Message(offset=number, key=key, value=value, timestamp=(1, NOW))
            for number, (key, value) in enumerate(records)
        ]
    )
    rows = [row for batch in task.rows() for row in batch.to_pylist() if row["lane"] == LANE_EVENT]
    return [event[1 + PLACE_FIELDS :] for row in rows for event in marshal.loads(row["payload"])]


def test_the_version_of_the_plan_counts_and_not_the_newest(tmp_path: Path) -> None:
    uri = f"file://{tmp_path}/merchants"
    next_version(uri)
    source = LookupTable("purchases", JOB.lookups[0], uri, "merchant_id", ("category",))
    plan = Plan({}, lookups={"merchants": newest(source)})
    next_version(uri)

    found = [event[2] for event in decoded(source, plan, "bakery", "unknown", "garage")]
    assert found == [category("bakery", 0), None, category("garage", 0)]
    assert decoded(source, Plan({}), "bakery")[0][2] == category("bakery", 1), "a plan without versions"
