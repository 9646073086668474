"""One stream is split under traffic: both together give the rows of the one without a split."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from stateward.runtime.checkpoint import generations
from stateward.runtime.checkpoint.checkpoint import Checkpoint
from stateward.runtime.checkpoint.generations import PendingOperationError
from stateward.state.compatibility.start import require_start
from stateward.state.errors import StateError
from stateward.state.migration.bucket_states import stored_states
from stateward.state.migration.first_checkpoint import FirstCheckpoint
from stateward.state.migration.split_state import SplitProofError
from stateward.state.operation.context import Context
from tests.support.full import ci_full
from tests.support.kafka.broker import RunningBroker
from tests.support.spark.launches import Launch
from tests.support.spark.running_query import running
from tests.support.state.operations import operate
from tests.support.streams.oracle import expected_rows, in_order
from tests.support.streams.orders import (
    EVEN_RELEASE,
    ODD_ORDERS,
    ODD_RELEASE,
    RELEASES,
    START,
    LateLaunch,
    order_of,
    sent_orders,
    stream_of,
)

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

_WHOLE = RELEASES["a field split"]
_AGAIN = 12


@dataclass
class OddLaunch(LateLaunch):
    """The other stream: on the same topic, with ticks of its own."""

    def document(self, run_id: str = "run-1", **changes: Any) -> dict[str, Any]:
        ticks = f"stateward-ticks-{self.stream.name}"
        return super().document(run_id, **{"tick_topic": ticks, "state_partitions": 3, **changes})


@ci_full
def test_two_streams_continue_where_one_was(
    tmp_path: Path, broker: RunningBroker, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    before, after = sent_orders(seed=23, parts=2, each=200)
    whole = LateLaunch(tmp_path / "whole", broker, "divided-orders", partitions=2, stream=stream_of(_WHOLE))
    odd = OddLaunch(
        tmp_path / "odd", broker, whole.topic, 2, stream=stream_of(ODD_RELEASE, ODD_ORDERS), buckets=12
    )
    for launch in (whole, odd):
        launch.folder.mkdir()
    broker.create_topic(whole.topic, whole.partitions)
    jobs = {"orders": EVEN_RELEASE, ODD_ORDERS: ODD_RELEASE}
    monkeypatch.setattr(Context, "job_of", lambda context, stream: jobs[stream])

    whole.send(order.record for order in before)
    with running(whole, spark, "run-1", checkpoint_uri=whole.checkpoint) as query:
        query.settle()
        counted = query.counted()
        query.drain()
    whole.stream = stream_of(EVEN_RELEASE)
    old = states(spark, whole.checkpoint)
    refused_as_it_is(whole, odd)
    split_that_loses_a_key(whole, odd, old, monkeypatch)
    split_that_dies(whole, odd, monkeypatch)
    new = {launch.stream.name: states(spark, launch.checkpoint) for launch in (whole, odd)}
    assert new["orders"] | new[ODD_ORDERS] == old
    assert {name: {int(key) % 2 for key in found} for name, found in new.items()} == {
        "orders": {0},
        ODD_ORDERS: {1},
    }
    assert any('"held"' in state for state in old.values())
    check_logs(whole, odd)

    # Repeated events are duplicates in both streams, although they were read before the split.
    whole.send(order.record for order in [*before[-_AGAIN:], *after])
    totals = {launch.stream.name: ended(launch, spark) for launch in (odd, whole)}
    rows = [*whole.rows("orders"), *odd.rows(ODD_ORDERS)]
    events = [
        (one.customer, order_of(3, one.event_id, one.event_ms, one.price, one.coupon))
        for one in [*before, *after]
    ]
    assert in_order(rows) == expected_rows(whole, events)["orders"]
    assert {int(row["customer"]) % 2 for row in odd.rows(ODD_ORDERS)} == {1}
    of_both = {
        name: sum(total[name] for total in totals.values())
        for name in ("accepted", "delivered", "late", "duplicates")
    }
    assert counted["accepted"] == len(before)
    assert of_both == {
        "accepted": len(events),
        "delivered": len(events) + _AGAIN,
        "late": 0,
        "duplicates": _AGAIN,
    }


def states(spark: SparkSession, checkpoint_uri: str) -> dict[str, str]:
    """The states of a checkpoint by key, read independently of the split."""
    rows = stored_states(spark, "orders", checkpoint_uri).collect()
    assert len({row["key"] for row in rows}) == len(rows)
    return {row["key"]: bytes(row["state"]).decode() for row in rows}


def refused_as_it_is(whole: Launch, odd: Launch) -> None:
    """The release that has a part of the keys does not start on all of them."""
    told = operate(whole, "verdict")
    assert (told.data["level"], told.is_good) == ("needs migration", False)
    with pytest.raises(StateError, match="which keys are the stream's"):
        operate(whole, "migrate")
    would = operate(whole, "split", into=ODD_ORDERS, other=odd, dry_run=True)
    assert would.data["goes"] > 10 < would.data["stays"]
    assert generations.current(whole.uri("checkpoint")).number == 1


def split_that_loses_a_key(
    whole: Launch, odd: Launch, old: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The proof of both states together detects what the proof of each one misses."""
    write, lost = FirstCheckpoint.write, min(key for key in old if int(key) % 2)

    def loses(first: FirstCheckpoint, states: Any, *arguments: Any, **options: Any) -> Any:
        return write(first, states.where(states["key"] != lost), *arguments, **options)

    with monkeypatch.context() as patched:
        patched.setattr(FirstCheckpoint, "write", loses)
        with pytest.raises(SplitProofError, match=f"each of {len(old)} keys .* found {len(old) - 1}, "):
            operate(whole, "split", into=ODD_ORDERS, other=odd)
    for launch in (whole, odd):
        assert generations.current(launch.uri("checkpoint")).number == 1


def split_that_dies(whole: Launch, odd: Launch, monkeypatch: pytest.MonkeyPatch) -> None:
    """After a crash between the two streams' changes only the rest of the split can be done."""
    make_current = generations.make_current

    def dies(generation: Any, *arguments: Any) -> None:
        if generation.root == whole.uri("checkpoint"):
            raise OSError("the machine is gone")
        make_current(generation, *arguments)

    with monkeypatch.context() as patched:
        patched.setattr(generations, "make_current", dies)
        with pytest.raises(OSError, match="the machine is gone"):
            operate(whole, "split", into=ODD_ORDERS, other=odd)
    assert generations.current(odd.uri("checkpoint")).number == 2
    assert generations.current(whole.uri("checkpoint")).number == 1
    for verb in ("savepoint", "migrate", "restore"):
        with pytest.raises(PendingOperationError, match="`stateward state split orders` again"):
            operate(whole, verb)
    done = operate(whole, "split", into=ODD_ORDERS, other=odd)
    assert done.data == {"changed": True, "generation": 2, "into_generation": 2}
    for launch in (whole, odd):
        assert operate(launch, "verdict").data["level"] == "compatible"
    with pytest.raises(StateError, match=r"expected declarations .* found .*'all but odd customers' where"):
        operate(whole, "split", into=ODD_ORDERS, other=odd)


def check_logs(whole: Launch, odd: Launch) -> None:
    """Both continue where the one was, each with its own query."""
    old = Checkpoint(whole.uri("checkpoint", "g0001"))
    stays, goes = Checkpoint(whole.checkpoint), Checkpoint(odd.checkpoint)
    assert (stays.query_id() == old.query_id()) and goes.query_id() != old.query_id()
    was, now, first = (one.planned(one.last_committed()) for one in (old, stays, goes))
    assert was and now and first
    assert now.offsets == was.offsets
    assert first.offsets[whole.topic] == was.offsets[whole.topic]
    assert first.watermark_ms == now.watermark_ms == was.watermark_ms > 0
    assert goes.state_partitions() == 3
    assert goes.initial_offsets() == first.offsets


def ended(launch: Launch, spark: SparkSession) -> dict[str, Any]:
    """Let a stream read to the end and all states end; returns its counts."""
    with running(launch, spark, "run-2", checkpoint_uri=launch.checkpoint) as query:
        require_start(launch.stream.job, query.config)
        query.settle()
        query.tick(START + timedelta(hours=1))
        assert query.state_rows() == 0
        counted = query.counted()
        query.drain()
    return counted
