"""Three migrations under live traffic: the rows are those of a run with only the last release."""

from __future__ import annotations

import shutil
import uuid
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from stateward.runtime.api.config import Config, parse_config
from stateward.runtime.api.key_step import KeyStep
from stateward.runtime.checkpoint import generations
from stateward.runtime.checkpoint.generations import UNFINISHED
from stateward.runtime.lease.lease import LeaseHeldError
from stateward.state.compatibility.start import StateRefusedError, require_start
from stateward.state.errors import StateError
from stateward.state.operation.answer import Answer
from stateward.state.operation.context import Context
from stateward.state.operation.leased import lease_of
from tests.support.full import ci_full
from tests.support.kafka.broker import RunningBroker
from tests.support.spark.launches import Launch
from tests.support.spark.running_query import running
from tests.support.state.operations import operate
from tests.support.streams.oracle import difference, expected_rows, found_rows
from tests.support.streams.orders import RELEASES, START, LateLaunch, order_of, sent_orders, stream_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

_LAST = RELEASES["the key retyped"]
_WITHOUT_STEP = replace(_LAST, key_steps=())


def last_digit(key: str) -> str:
    return key[-1]


def fails_at_19(key: str) -> str:
    return str({"19": 0}[key])


def another(key: str) -> str:
    return f"{key}-{uuid.uuid4()}"


@pytest.fixture
def release(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Installs a release of the stream for the operations."""
    return lambda job: monkeypatch.setattr(Context, "job", property(lambda context: job))


@ci_full
def test_a_stream_lives_through_three_migrations(
    tmp_path: Path, broker: RunningBroker, spark: SparkSession, release: Any
) -> None:
    parts = sent_orders(seed=11, parts=4, each=150)
    launch = LateLaunch(tmp_path, broker, "orders", partitions=2, stream=stream_of(RELEASES["1"]))
    broker.create_topic(launch.topic, launch.partitions)
    keys: dict[str, int] = {}
    for number, (name, job) in enumerate(RELEASES.items()):
        launch.stream = stream_of(job)
        release(job)
        if name == "the key retyped":
            refused_and_left_alone(launch, release)
            release(job)
            launch.buckets = 12
            migrated(launch)
        elif number:
            assert operate(launch, "verdict").data["level"] == "evolves"
        launch.send(order.record for order in parts[number])
        with running(launch, spark, f"run-{number}", checkpoint_uri=launch.checkpoint) as query:
            require_start(job, query.config)
            query.settle()
            keys[name] = query.state_rows()
            if name == "a field split":
                refused_while_it_runs(launch, release)
            if job is _LAST:
                query.tick(START + timedelta(hours=1))
                assert query.state_rows() == 0
                counted = query.counted()
            query.drain()

    assert all(keys.values()), "every release has found and written a state"
    orders = [order for part in parts for order in part]
    events = [
        (one.customer, order_of(3, one.event_id, one.event_ms, one.price, one.coupon)) for one in orders
    ]
    launch.stream = stream_of(_LAST)
    assert difference(found_rows(launch), expected_rows(launch, events)) == {}
    assert (counted["accepted"], counted["delivered"], counted["late"]) == (len(orders), len(orders), 0)


def refused_while_it_runs(launch: Launch, release: Any) -> None:
    """The next release can be judged before anything stops."""
    release(_WITHOUT_STEP)
    told = operate(launch, "verdict")
    assert (told.data["level"], told.is_good) == ("needs migration", False)
    assert "missing 1 -> 2" in str(told)
    release(_LAST)
    assert "run `stateward state migrate`, which moves every key" in str(operate(launch, "verdict"))


def refused_and_left_alone(launch: Launch, release: Any) -> None:
    """What cannot be migrated is refused, with its cause, before anything is written."""
    release(_WITHOUT_STEP)
    with pytest.raises(StateError, match="declare KeyStep"):
        operate(launch, "migrate", dry_run=True)
    release(replace(_LAST, key_steps=(KeyStep(1, "by the last digit", key=last_digit),)))
    with pytest.raises(StateError, match=r"keys that meet: (\*\*\*\(\d\),? )+become \*\*\*\(1\)"):
        operate(launch, "migrate", dry_run=True)
    release(replace(_LAST, key_steps=(KeyStep(1, "broken", key=fails_at_19),)))
    with pytest.raises(StateError, match=r"expected KeyStep\(1, \.\.\.\) to return a non-empty text"):
        operate(launch, "migrate", dry_run=True)
    release(replace(_LAST, key_steps=(KeyStep(1, "another each time", key=another),)))
    with pytest.raises(StateError, match=r"each as computed, found other keys or states in bucket"):
        operate(launch, "migrate")
    half_made = Path(launch.uri("checkpoint", "g0002").removeprefix("file://"))
    assert (half_made / UNFINISHED).exists()
    assert generations.current(launch.uri("checkpoint")).number == 1


def migrated(launch: Launch) -> None:
    """Migrate to the new keys; the start before is refused, a dry run and a second run change nothing."""
    config = running_config(launch)
    with pytest.raises(StateRefusedError, match="run `stateward state migrate`"):
        require_start(_LAST, config)
    would = looked_at_while_it_runs(launch, config)
    assert "a key says that it is a customer's; 16 buckets become 12" in would.lines[0]
    assert would.data["changed_keys"] == would.data["keys"] > 10
    assert len(would.data["examples"]) == 5
    assert would.data["examples"][0]["key"] == f"customer-{would.data['examples'][0]['old']}"
    assert generations.current(launch.uri("checkpoint")).number == 1
    done = operate(launch, "migrate")
    assert done.data["keys_after"] == would.data["keys"]
    assert generations.current(launch.uri("checkpoint")).number == 2
    assert operate(launch, "verdict").data["level"] == "compatible"
    assert operate(launch, "migrate").data["changed"] is False
    assert operate(launch, "explain", key=would.data["examples"][0]["key"]).data["entries"]


def looked_at_while_it_runs(launch: Launch, config: Config) -> Answer:
    """A dry run while a driver holds the lease and runs a batch."""
    offsets = Path(launch.checkpoint.removeprefix("file://"), "offsets")
    last = max(int(path.name) for path in offsets.iterdir() if path.name.isdigit())
    under_way = offsets / str(last + 1)
    lease = lease_of(config, "run-9")
    lease.acquire()
    shutil.copy(offsets / str(last), under_way)
    try:
        with pytest.raises(LeaseHeldError):
            operate(launch, "migrate")
        shown = operate(launch, "migrate", dry_run=True).data["examples"]
        assert all("***(" in one["old"] and "***(" in one["key"] for one in shown)
        would = operate(launch, "migrate", dry_run=True, show_keys=True)
    finally:
        under_way.unlink()
        lease.release()
    assert would.lines[-1].startswith("The stream runs. It has to be stopped for that")
    return would


def running_config(launch: Launch) -> Config:
    return parse_config(launch.document(checkpoint_uri=launch.checkpoint), "test")
