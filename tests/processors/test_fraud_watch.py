"""The bucket processor in Spark's TwsTester, with the machine of fraud_watch: two tables from one bucket."""

from __future__ import annotations

import marshal
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyspark.sql import Row
from pyspark.sql.streaming.tws_tester import TwsTester

from spark_jobs.fraud_watch.declaration import JOB
from spark_jobs.fraud_watch.machine import FraudMachine
from spark_jobs.fraud_watch.model import MICROS, PaymentEvent
from spark_jobs.runtime import state_cache
from spark_jobs.runtime.admission import Limits
from spark_jobs.runtime.bucket_processor import BucketProcessor
from spark_jobs.runtime.keyed import fold_all
from spark_jobs.runtime.lanes import LANE_EVENT
from spark_jobs.runtime.rows import decode_rows, encode_rows

BUCKET = (LANE_EVENT, 0)
LATENESS = 10
MACHINE = FraudMachine(3, 5_000 * MICROS, 20, 5, 30, 100, 200)
Arrival = tuple[str, PaymentEvent]


class _TwoColumnKey(BucketProcessor):
    """The tester wraps every key in a tuple of one; the engine gives the grouping columns themselves."""

    def handleInputRows(self, key: Any, rows: Any, timerValues: Any) -> Iterator[Row]:
        return super().handleInputRows(key[0], rows, timerValues)

    def handleExpiredTimer(self, key: Any, timerValues: Any, expiredTimerInfo: Any) -> Iterator[Row]:
        return super().handleExpiredTimer(key[0], timerValues, expiredTimerInfo)


def processor(folder: Path) -> BucketProcessor:
    return _TwoColumnKey(
        logic=MACHINE,
        state_type=JOB.state_type,
        event_type=JOB.event_type,
        outputs=JOB.outputs,
        limits=Limits(LATENESS, max_held=100),
        topic="t",
        state_version=JOB.state_version,
        cache_root=str(folder),
        checkpoint_uri="file:///checkpoint",
    )


def run(folder: Path, batches: list[tuple[int, list[Arrival]]]) -> dict[str, list[dict[str, Any]]]:
    """Feed batches, each followed by its watermark; returns the rows of each table."""
    under_test = processor(folder)
    tester = TwsTester(under_test, timeMode="EventTime", eventTimeExtractor=lambda row: 1 << 62)
    written: dict[str, list[dict[str, Any]]] = defaultdict(list)
    reached = 0
    try:
        for watermark, arrivals in batches:
            rows: list[Row] = []
            if arrivals:
                records = [(key, 0, number, 7, None, *event) for number, (key, event) in enumerate(arrivals)]
                packed = Row(records=len(records), payload=marshal.dumps(records))
                rows += tester.test(BUCKET, [packed])
            if watermark > reached:
                rows += tester.setWatermark(watermark)
                reached = watermark
            for row in rows:
                if row["kind"] != "counts":
                    written[row["kind"]] += decode_rows(row["data"]).to_pylist()
        tester.handle.setGroupingKey(BUCKET)
        assert list(tester.handle.listTimers()) == [], "state is left"
    finally:
        under_test.close()
        for environment in state_cache._open.values():
            environment.close()
        state_cache._open.clear()
    return written


choices = st.lists(
    st.tuples(
        st.sampled_from("abc"),
        st.integers(0, 120),
        st.sampled_from(["transaction"] * 4 + ["authenticated", "review_confirmed", "case_closed", "other"]),
        st.sampled_from([1, 100, 5_000]),
        st.integers(0, LATENESS),
        st.booleans(),
    ),
    max_size=30,
)


@settings(max_examples=25, deadline=None)
@given(drawn=choices)
def test_however_batches_are_cut_both_tables_are_those_of_the_oracle(
    drawn: list[tuple[str, int, str, int, int, bool]], tmp_path_factory: pytest.TempPathFactory
) -> None:
    arriving = sorted(
        (at + delay, number, cut, (key, PaymentEvent(str(number), at, kind, amount * MICROS)))
        for number, (key, at, kind, amount, delay, cut) in enumerate(drawn)
    )
    batches, batch, largest = list[tuple[int, list[Arrival]]](), list[Arrival](), 0
    for _, _, cut, arrival in arriving:
        batch.append(arrival)
        largest = max(largest, arrival[1].event_ms)
        if cut:
            batches.append((max(0, largest - LATENESS), batch))
            batch = []
    batches += [(largest, batch)] if batch else []
    # Each alarm may set another, further on: a review, the ids that are forgotten.
    batches += [(largest + later * 100, []) for later in range(1, 6)]

    written = run(tmp_path_factory.mktemp("copy"), batches)

    rows = [
        row
        for key in "abc"
        for row in fold_all(MACHINE, key, [event for _, _, _, (owner, event) in arriving if owner == key])
    ]
    for output in JOB.outputs:
        expected = [row for row in rows if type(row) is output.row]
        found = sorted(written[output.table.name], key=lambda row: str(list(row.values())))
        wanted = decode_rows(encode_rows(output.table, expected)).to_pylist()
        assert found == sorted(wanted, key=lambda row: str(list(row.values())))
