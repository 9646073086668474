"""Foreign queries on each kind of state that Spark keeps, driven a batch at a time.

They read files and put out rows that say nothing of partitions or of the wall clock, so that a run whose
state was moved in between can be compared with one that was left alone.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pyspark.sql import Row
from pyspark.sql import functions as F
from pyspark.sql.streaming.stateful_processor import StatefulProcessor

from tests.support.state.moves import configured

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

START = datetime(2024, 3, 1, tzinfo=UTC)
KEYS = 24
_GAP_MS = 600_000
_DDL = "side string, owner string, item string, amount bigint, at timestamp"
_OUT_DDL = "owner string, why string, orders bigint, amount bigint, items string, kinds string"

Build = Callable[["DataFrame"], "DataFrame"]


class Basket(StatefulProcessor):
    """Keeps a value, a list, a map and a timer for each owner."""

    def __init__(self, by_event_time: bool) -> None:
        self._by_event_time = by_event_time

    def init(self, handle: Any) -> None:
        self._handle = handle
        self._total = handle.getValueState("total", "orders bigint, amount bigint")
        self._items = handle.getListState("items", "item string, amount bigint")
        self._kinds = handle.getMapState("kinds", "item string", "orders bigint")

    def handleInputRows(self, key: Any, rows: Iterator[Row], timerValues: Any) -> Iterator[Row]:
        found = sorted(rows, key=lambda row: (row.at, row.item))
        orders, amount = self._total.get() or (0, 0)
        self._total.update((orders + len(found), amount + sum(row.amount for row in found)))
        for row in found:
            self._items.appendValue((row.item, row.amount))
            kind = (row.item,)
            before = self._kinds.getValue(kind)[0] if self._kinds.containsKey(kind) else 0
            self._kinds.updateValue(kind, (before + 1,))
        if self._by_event_time:
            self._handle.registerTimer(int(found[-1].at.timestamp() * 1000) + _GAP_MS)
        else:
            # It is due in the next batch, so until then it is in the state.
            self._handle.registerTimer(timerValues.getCurrentProcessingTimeInMs() + 1)
        yield self._said(key, "order")

    def handleExpiredTimer(self, key: Any, timerValues: Any, expiredTimerInfo: Any) -> Iterator[Row]:
        yield self._said(key, "timer")
        # So that some keys have only some of the variables.
        if self._total.get()[0] % 2:
            self._items.clear()
        else:
            self._kinds.clear()

    def _said(self, key: Any, why: str) -> Row:
        orders, amount = self._total.get()
        items = [list(item) for item in self._items.get()]
        kinds = sorted([*kind, *count] for kind, count in self._kinds.iterator())
        texts = {"items": json.dumps(items), "kinds": json.dumps(kinds)}
        return Row(owner=key[0], why=why, orders=orders, amount=amount, **texts)


def baskets(clock: str) -> Build:
    """Value, list and map state, and timers."""

    def build(rows: DataFrame) -> DataFrame:
        by_event_time = clock == "eventTime"
        timed = rows.withWatermark("at", "1 minute") if by_event_time else rows
        return timed.groupBy("owner").transformWithState(Basket(by_event_time), _OUT_DDL, "append", clock)

    return build


def sessions(rows: DataFrame) -> DataFrame:
    """Spark's own session windows."""
    grouped = rows.withWatermark("at", "1 minute").groupBy(F.session_window("at", "7 minutes"), "owner")
    found = grouped.agg(F.count("*").alias("orders"), F.sum("amount").alias("amount"))
    return found.select("owner", "orders", "amount", F.col("session_window.start").cast("string"))


def pairs(rows: DataFrame) -> DataFrame:
    """An outer join of two streams; by owner and time."""
    left, right = (
        rows.where(F.col("side") == side)
        .select(*(F.col(name).alias(f"{side}_{name}") for name in ("owner", "item", "at")))
        .withWatermark(f"{side}_at", "1 minute")
        for side in ("left", "right")
    )
    condition = F.expr(
        "left_owner = right_owner AND "
        "right_at BETWEEN left_at - INTERVAL 9 MINUTES AND left_at + INTERVAL 9 MINUTES"
    )
    return left.join(right, condition, "left_outer").select("left_owner", "left_item", "right_item")


@dataclass(frozen=True)
class Foreign:
    """A query.

    Attributes:
        build: Builds it on the rows read.
        kinds: The last words of the expected variable names.
    """

    build: Build
    kinds: frozenset[str]


_BASKET = frozenset({"total", "items", "kinds", "timers"})
_SIDES = frozenset(
    f"{side}-{store}" for side in ("left", "right") for store in ("keyToNumValues", "keyWithIndexToValue")
)

QUERIES = {
    "baskets by event time": Foreign(baskets("eventTime"), _BASKET),
    "baskets by processing time": Foreign(baskets("processingTime"), _BASKET),
    "session windows": Foreign(sessions, frozenset({"operator 0 (sessionWindowStateStoreSaveExec)"})),
    "join": Foreign(pairs, _SIDES),
}


def parts() -> list[list[dict[str, Any]]]:
    """Four batches: three of orders, and in the third and the fourth what ends everything before it."""
    made = [[_row(number, part) for number in range(KEYS * 2) if number % 5 != part] for part in range(3)]
    ends = [_row(number, 0) | {"owner": "end", "at": _text(timedelta(hours=5))} for number in (0, KEYS)]
    return [*made[:2], made[2] + ends, [{**row, "at": _text(timedelta(hours=6))} for row in ends]]


def _row(number: int, part: int) -> dict[str, Any]:
    return {
        "side": ("left", "right")[number // KEYS],
        "owner": f"owner-{number % KEYS:02}",
        "item": f"item-{(number + part) % 4}",
        "amount": number * 10 + part,
        "at": _text(timedelta(minutes=6 * part, seconds=number)),
    }


def _text(after: timedelta) -> str:
    return (START + after).isoformat()


class Runner:
    """One query's input and output; its checkpoint may be another one from run to run.

    Args:
        folder: Takes the input.
        spark: The session.
        build: The query.
        conf: How its state is kept.
        mode: How it puts out rows.
    """

    def __init__(
        self, folder: Path, spark: SparkSession, build: Build, conf: dict[str, str], mode: str = "append"
    ) -> None:
        self._input = folder / "input"
        self._input.mkdir(parents=True)
        self._spark = spark
        self._build = build
        self._conf = conf
        self._mode = mode
        self._batches: dict[int, list[str]] = {}

    @property
    def rows(self) -> list[str]:
        """The rows written, in no order."""
        return sorted(row for rows in self._batches.values() for row in rows)

    def run(self, rows: Sequence[dict[str, Any]], checkpoint_uri: str, partitions: int = 2) -> None:
        """Complete one batch of these rows."""
        file = self._input / f"{len(list(self._input.iterdir()))}.json"
        file.write_text("\n".join(map(json.dumps, rows)))
        with configured(self._spark, {**self._conf, "spark.sql.shuffle.partitions": str(partitions)}):
            frame = self._build(self._spark.readStream.schema(_DDL).json(str(self._input)))
            writer = frame.writeStream.option("checkpointLocation", checkpoint_uri).outputMode(self._mode)
            # Also by processing time there is an end to it.
            query = writer.foreachBatch(self._keep).trigger(once=True).start()
            assert query.awaitTermination(120), query.status

    def _keep(self, frame: DataFrame, batch_id: int) -> None:
        # A repeated batch gives the same rows.
        self._batches[batch_id] = [json.dumps(row.asDict(), sort_keys=True) for row in frame.collect()]
