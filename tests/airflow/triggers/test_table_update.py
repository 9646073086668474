"""The trigger that watches a table for the quality DAG."""

from __future__ import annotations

import asyncio
import contextlib
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import write_deltalake

from stateward.airflow.triggers.table_changes import ChangeReader
from stateward.airflow.triggers.table_update import TableUpdateTrigger
from stateward.project.layout import Layout
from tests.airflow.conftest import STREAM
from tests.support.waiting import wait_until

pytestmark = pytest.mark.airflow


@pytest.fixture
def layout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Layout:
    monkeypatch.setenv("STATEWARD_HOME", str(tmp_path))
    return Layout.of()


def make_trigger(layout: Layout, **changes: Any) -> TableUpdateTrigger:
    return TableUpdateTrigger(
        **{
            "table_uri": layout.table_uri("sessions"),
            "validations_uri": layout.table_uri("quality_validations"),
            "stream": STREAM,
            "table": "sessions",
            "settle_s": 0.0,
            "max_staleness_s": 900.0,
            "poll_s": 0.05,
            **changes,
        }
    )


def test_a_trigger_serializes_to_exactly_its_arguments(layout: Layout) -> None:
    path, arguments = make_trigger(layout).serialize()
    module, name = path.rsplit(".", 1)
    assert (module, name) == (TableUpdateTrigger.__module__, TableUpdateTrigger.__name__)
    again = TableUpdateTrigger(**arguments)
    assert again.serialize() == (path, arguments)


class Store:
    """Airflow's asset state store, as far as a trigger sees it."""

    def __init__(self) -> None:
        self.values: dict[str, Any] = {}

    async def aget(self, key: str, default: Any = None) -> Any:
        return self.values.get(key, default)

    async def aset(self, key: str, value: Any) -> None:
        self.values[key] = value


async def events(trigger: TableUpdateTrigger, count: int, timeout_s: float) -> list[dict[str, Any]]:
    """Run a trigger until it has fired `count` times or `timeout_s` is over."""
    found: list[dict[str, Any]] = []

    async def collect() -> None:
        async for event in trigger.run():
            found.append(event.payload)
            if len(found) == count:
                return

    with contextlib.suppress(TimeoutError):
        await asyncio.wait_for(collect(), timeout_s)
    return found


def append(layout: Layout) -> None:
    write_deltalake(layout.table_uri("sessions"), pa.table({"n": [1]}), mode="append")


def test_a_version_fires_once_and_not_again_after_a_restart(layout: Layout) -> None:
    store = Store()

    def restarted(count: int, timeout_s: float) -> list[dict[str, Any]]:
        trigger = make_trigger(layout, max_staleness_s=0.0)
        trigger.asset_state_store = store  # type: ignore[assignment]  # the real one needs the supervisor
        return asyncio.run(events(trigger, count, timeout_s))

    assert restarted(1, 0.5) == []  # there is no table yet
    append(layout)
    expected = {"stream": STREAM, "table": "sessions", "uri": layout.table_uri("sessions")}
    assert restarted(1, 30) == [expected | {"version": 0}]
    assert restarted(1, 1.5) == []
    append(layout)
    append(layout)
    assert restarted(1, 30) == [expected | {"version": 2}]


def test_a_table_that_cannot_be_read_does_not_end_the_watch(
    layout: Layout, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = Path(layout.table_uri("sessions").removeprefix("file://")) / "_delta_log"
    log.mkdir(parents=True)
    broken = log / f"{0:020}.json"
    broken.write_text("no json\n")
    errors: list[Exception] = []
    read = ChangeReader.read

    def observed(self: ChangeReader, fired: Any) -> Any:
        try:
            return read(self, fired)
        except Exception as error:
            errors.append(error)
            raise

    monkeypatch.setattr(ChangeReader, "read", observed)

    async def repair() -> list[dict[str, Any]]:
        watching = asyncio.create_task(events(make_trigger(layout), 1, 60))
        await asyncio.to_thread(wait_until, lambda: len(errors) > 1, 30, "the table was not looked at twice")
        broken.unlink()
        await asyncio.to_thread(append, layout)
        return await watching

    assert [event["version"] for event in asyncio.run(repair())] == [0]
