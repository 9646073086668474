"""A new stream starts with states from a table, and continues them as its own."""

from __future__ import annotations

from collections import Counter
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from deltalake import write_deltalake

from stateward.contract.names import ENV_MASK_SECRET
from stateward.contract.privacy.forgotten import ForgottenKey, Register, digest_of
from stateward.runtime.checkpoint import generations
from stateward.state.compatibility.start import require_start
from stateward.state.errors import StateError
from stateward.state.operation.context import Context
from tests.support.full import ci_full
from tests.support.kafka.broker import RunningBroker
from tests.support.spark.launches import Launch
from tests.support.spark.running_query import running
from tests.support.state.operations import operate
from tests.support.streams.orders import RELEASES, START, START_MS, LateLaunch, sent_orders, stream_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

_JOB = RELEASES["a field split"]


def table(rows: list[dict[str, Any]]) -> pa.Table:
    """Open totals, their times as timestamps."""
    instant = pa.timestamp("ms", "UTC")
    times = {name: pa.array([row[name] for row in rows], instant) for name in ("first_ms", "last_ms")}
    numbers = {name: [row[name] for row in rows] for name in ("orders", "units", "cents", "coupons")}
    return pa.table({"customer": [row["customer"] for row in rows], **times, **numbers})


def opened(number: int, **changes: Any) -> dict[str, Any]:
    state = {"first_ms": START_MS - 500, "last_ms": START_MS - 100, "orders": 2, "units": 7, "cents": 5}
    return {"customer": str(number), **state, "coupons": 1, **changes}


@pytest.fixture
def launch(tmp_path: Path, broker: RunningBroker, monkeypatch: pytest.MonkeyPatch) -> Launch:
    monkeypatch.setattr(Context, "job", property(lambda context: _JOB))
    made = LateLaunch(tmp_path, broker, "seeded-orders", partitions=2, stream=stream_of(_JOB))
    broker.create_topic(made.topic, made.partitions)
    return made


@ci_full
def test_a_stream_starts_with_a_table(launch: Launch, spark: SparkSession) -> None:
    (orders,) = sent_orders(seed=5, parts=1, each=120)
    launch.send(order.record for order in orders)
    uri = launch.uri("open_totals")
    refused(launch, uri)
    # Forty customers have further orders, ten have none.
    rows = [opened(customer) for customer in range(50)]
    write_deltalake(uri, table(rows), mode="overwrite")
    would = operate(launch, "seed", dry_run=True, table=uri, key="customer")
    assert (would.data["keys"], would.data["rows"], would.data["skipped"]) == (50, 50, 0)
    assert all("***(" in key for key, _ in would.data["examples"])
    in_full = operate(launch, "seed", dry_run=True, table=uri, key="customer", show_keys=True)
    assert [key for key, _ in in_full.data["examples"]] == ["0", "1", "10", "11", "12"]
    assert generations.current(launch.uri("checkpoint")).number == 1
    sown = operate(launch, "seed", table=uri, key="customer")
    assert sum(one["keys"] for one in sown.data["buckets"].values()) == 50
    assert operate(launch, "verdict").data["level"] == "compatible"
    with pytest.raises(StateError, match="expected a stream without a checkpoint"):
        operate(launch, "seed", table=uri, key="customer")

    with running(launch, spark, checkpoint_uri=launch.checkpoint) as query:
        require_start(_JOB, query.config)
        query.settle()
        query.tick(START + timedelta(hours=1))
        assert query.state_rows() == 0
        counted = query.counted()
        query.drain()
    assert (counted["accepted"], counted["delivered"], counted["late"]) == (120, 120, 0)
    found = launch.rows("orders")
    ordered = Counter(order.customer for order in orders)
    assert sum(row["orders"] for row in found) == 50 * 2 + sum(ordered.values())
    before = [row for row in found if row["first_at"] == START - timedelta(milliseconds=500)]
    assert len(before) == 50, "every seeded state ends in a row"
    assert {row["customer"]: row["cents"] for row in before}["45"] == 705


@ci_full
def test_rows_of_a_forgotten_key_are_left_out(
    launch: Launch, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    uri = launch.uri("open_totals")
    write_deltalake(uri, table([opened(customer) for customer in range(4)]))
    digests = {"1": digest_of("a secret", "customer", "1"), "2": digest_of("a secret", "account", "2")}
    for customer, digest in digests.items():
        field = "customer" if customer == "1" else "account"
        entry = ForgottenKey(
            operation=f"of-{customer}", stream="another", field=field, digest=digest, at=START
        )
        Register(launch.uri("forgotten")).add(entry)
    with pytest.raises(StateError, match="expected the installation's secret"):
        operate(launch, "seed", dry_run=True, table=uri, key="customer")
    monkeypatch.setenv(ENV_MASK_SECRET, "a secret")
    would = operate(launch, "seed", dry_run=True, table=uri, key="customer", show_keys=True)
    assert [key for key, _ in would.data["examples"]] == ["0", "2", "3"]
    assert "1 rows of forgotten keys are left out." in would.lines


@pytest.mark.parametrize(
    "kind", [pytest.param("csv", marks=ci_full), pytest.param("parquet", marks=ci_full), "delta"]
)
@pytest.mark.usefixtures("spark")  # the operation uses the existing session
def test_nothing_of_another_folder_is_read_or_reported(
    launch: Launch, tmp_path_factory: pytest.TempPathFactory, kind: str
) -> None:
    """A link in a table's folder, and a file that only a table's log refers to."""
    elsewhere = tmp_path_factory.mktemp("elsewhere") / "secret"
    elsewhere.write_text("name,swordfish\n1,2\n")
    folder = launch.folder / "a table"
    folder.mkdir()
    if kind == "delta":
        write_deltalake(str(folder), table([opened(1)]))
        [log] = (folder / "_delta_log").glob("*.json")
        [name] = [path.name for path in folder.glob("*.parquet")]
        (folder / name).unlink()
        log.write_text(log.read_text().replace(name, f"file://{elsewhere}"))
    else:
        (folder / f"part-0.{kind}").symlink_to(elsewhere)
    with pytest.raises(StateError) as error:
        operate(launch, "seed", dry_run=True, table=f"file://{folder}", key="customer", format=kind)
    assert "expected all files of the table" in str(error.value) or kind == "parquet"
    assert "swordfish" not in str(error.value) and str(elsewhere) not in str(error.value)

    bad = launch.folder / f"bad.{kind}"
    bad.write_text("name,swordfish\n1,2\n")
    with pytest.raises(StateError) as error:
        operate(launch, "seed", dry_run=True, table=f"file://{bad}", key="customer", format=kind)
    assert "swordfish" not in str(error.value)


def refused(launch: Launch, uri: str) -> None:
    """Rows that are no state of the stream are reported, and nothing is written."""
    wrong = {
        r"3 rows have no state \(3 rows: no key in customer": [
            opened(1),
            *([opened(2, customer=None)] * 3),
        ],
        r"1 keys have several rows: 98\*\*\*\(7\) \(2 rows\)": [opened(9876543), opened(9876543), opened(2)],
        r"\(1 rows: ValidationError: Expected `int`, got `null`, such as key 98\*\*\*\(7\)\)": [
            opened(9876543, units=None),
            opened(2),
        ],
    }
    for message, rows in wrong.items():
        write_deltalake(uri, table(rows), mode="overwrite")
        with pytest.raises(StateError, match=message):
            operate(launch, "seed", table=uri, key="customer")
    with pytest.raises(StateError, match="expected columns client in the table, found none") as error:
        operate(launch, "seed", table=uri, key="client")
    assert "first_ms" not in str(error.value)
    with pytest.raises(StateError, match="expected one of the formats delta, parquet, csv, found 'avro'"):
        operate(launch, "seed", table=uri, key="customer", format="avro")
    assert generations.current(launch.uri("checkpoint")).number == 1
