"""The trigger: what goes through Airflow's database, when it fires, and that it never acts."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import psutil
import pytest
from airflow.sdk.module_loading import import_string  # type: ignore[attr-defined]  # re-exported without __all__
from airflow.serialization.serialized_objects import BaseSerialization
from msgspec import structs

from stateward.airflow.triggers.stream_progress import StreamProgressTrigger, Watch
from stateward.alerts.incident import Incident, IncidentState, Message
from stateward.alerts.incident_document import CarriedIncidents, carried_from_json, change_incidents
from stateward.alerts.incident_text import Words
from stateward.alerts.outbox import Delivery, Outgoing
from stateward.contract.process_identity import host_identity, started_at
from stateward.contract.reading import as_json
from stateward.contract.storage import write_json
from stateward.contract.stream_control import Control, Launch
from stateward.control.health.thresholds import Thresholds
from stateward.control.reconcile.leader_heartbeat import claim
from stateward.control.reconcile.observe import observe, read_supervisor, thresholds_of
from stateward.project.layout import Layout
from stateward.project.spec import load_spec
from tests.support.waiting import PATIENCE_S, wait_until

pytestmark = pytest.mark.airflow

STREAM = "user_sessions"
LIMITS = thresholds_of(load_spec(STREAM)).to_json()


def trigger(**changes: Any) -> StreamProgressTrigger:
    arguments = {"stream": STREAM, "dag_run": "dag/run", "limits": LIMITS, "poll_s": 0.05}
    return StreamProgressTrigger(**{**arguments, **changes})


async def until_it_has_looked(layout: Layout) -> None:
    """Claim the stream for the trigger's run, some time ago, and wait for the next heartbeat."""
    since = datetime.now(UTC)
    claim(layout, STREAM, "dag/run", since - timedelta(seconds=20))

    def renewed() -> bool:
        found = read_supervisor(layout, STREAM)
        return found is not None and found.at >= since

    await asyncio.to_thread(wait_until, renewed, PATIENCE_S, "the heartbeat is renewed")


@pytest.fixture
def layout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Layout:
    monkeypatch.setenv("STATEWARD_HOME", str(tmp_path))
    return Layout.of()


@pytest.fixture
def driver(layout: Layout) -> Iterator[psutil.Popen]:
    """A live process that the documents call the stream's driver."""
    now = datetime.now(UTC)
    process = psutil.Popen(["sleep", "60"])
    launched = Launch("r1", now, host_identity(), "/l", process.pid, started_at(process.pid))
    write_json(
        layout.control_uri(STREAM),
        as_json(Control(STREAM, "running", "r1", now, "me", "why", launched)),
    )
    report(layout, now)
    yield process
    process.kill()
    process.wait()


def report(layout: Layout, now: datetime, state: str = "running", **more: Any) -> None:
    times = {"started_at": now.isoformat(), "updated_at": now.isoformat()}
    document = {"stream": STREAM, "run_id": "r1", "state": state, "batch_id": 1, **times, **more}
    write_json(layout.status_uri(STREAM), document)


async def first_event(watching: StreamProgressTrigger, timeout_s: float = 20) -> dict[str, Any]:
    async with asyncio.timeout(timeout_s):
        async for event in watching.run():
            payload: dict[str, Any] = event.payload
            return payload
    raise AssertionError("the trigger ended without an event")


def carried(event: dict[str, Any] | None) -> CarriedIncidents:
    """What an event says of incidents, as it comes out of Airflow's database."""
    through = BaseSerialization.deserialize(BaseSerialization.serialize(event or {}))
    return carried_from_json(through.get("incidents")) or CarriedIncidents(0, IncidentState())


def test_it_comes_out_of_the_database_as_it_went_in() -> None:
    path, arguments = trigger(poll_s=3.5).serialize()
    stored = BaseSerialization.deserialize(BaseSerialization.serialize(arguments))
    again = import_string(path)(**stored)
    assert isinstance(again, StreamProgressTrigger)
    assert again.serialize() == trigger(poll_s=3.5).serialize()


def test_it_is_silent_while_the_driver_is_healthy_and_cancelling_it_leaves_the_driver(
    layout: Layout, driver: psutil.Popen
) -> None:
    async def watch() -> None:
        watching = asyncio.ensure_future(first_event(trigger()))
        await until_it_has_looked(layout)
        assert not watching.done(), watching.result()
        watching.cancel()
        with pytest.raises(asyncio.CancelledError):
            await watching
        await trigger().on_kill()

    asyncio.run(watch())
    assert driver.is_running()
    assert driver.status() != psutil.STATUS_ZOMBIE
    # A person has ended the task: the next run need not wait until the heartbeat is stale.
    assert read_supervisor(layout, STREAM) is None


def test_it_renews_the_heartbeat_of_its_dag_run(layout: Layout, driver: psutil.Popen) -> None:
    async def watch() -> None:
        watching = asyncio.ensure_future(first_event(trigger()))
        await until_it_has_looked(layout)
        watching.cancel()

    asyncio.run(watch())


def test_a_yaml_that_was_edited_before_the_watch_began_is_the_tasks_to_read(
    layout: Layout, driver: psutil.Popen
) -> None:
    claim(layout, STREAM, "dag/run", datetime.now(UTC))
    event = asyncio.run(first_event(trigger(yaml="what the task went by")))
    assert (event["event"], event["reason"]) == ("changed", "its YAML has changed")


def test_a_slow_stream_is_told_once_for_each_level_and_leads_to_nothing(
    layout: Layout, driver: psutil.Popen, caplog: pytest.LogCaptureFixture
) -> None:
    watch = Watch(STREAM, "dag/run", Thresholds.from_json(LIMITS), layout)
    said, told = [], []
    for took_ms in (1_000, 61_000, 62_000, 301_000, 1_000, 1_000):
        caplog.clear()
        with caplog.at_level("INFO"):
            report(layout, datetime.now(UTC), batch_duration_ms=took_ms)
            event = watch.look()
        assert event is None or event["event"] == "alert"
        said.append([record.getMessage().split(" (limit")[0] for record in caplog.records])
        told.append([message.id.split("-")[1] for message in carried(event).messages])
    assert said == [
        [],
        [f"stream {STREAM}: warn: the last batch took 1 min 1 s"],
        [],
        [f"stream {STREAM}: critical: the last batch took 5 min 1 s"],
        [f"stream {STREAM}: all measures are within their limits again"],
        [],
    ]

    # The task writes down and tells what came above a limit; nothing is done about the driver.
    assert told == [[], ["warn"], [], ["critical"], [], []]


def test_it_fires_once_for_an_incident_that_the_task_has_written_down(
    layout: Layout, driver: psutil.Popen
) -> None:
    report(layout, datetime.now(UTC), batch_duration_ms=301_000)
    event = asyncio.run(first_event(trigger()))
    assert event["event"] == "alert"
    seen = carried(event)
    assert [message.incident.words.cause for message in seen.messages] == [
        "The last batch took 5 min 1 s (limit 5 min)."
    ]
    change_incidents(layout, STREAM, lambda incidents: replace(incidents, memory=seen.memory))
    watch = Watch(STREAM, "dag/run", Thresholds.from_json(LIMITS), layout)
    assert [watch.look() for _ in range(3)] == [None, None, None]


def test_it_fires_when_a_message_is_to_be_sent_again_and_not_before(
    layout: Layout, driver: psutil.Popen
) -> None:
    now = datetime.now(UTC)
    for due, expected in ((now + timedelta(minutes=1), None), (now, "alert")):
        write_outbox(layout, due)
        watch = Watch(STREAM, "dag/run", Thresholds.from_json(LIMITS), layout)
        event = watch.look()
        assert (event and event["event"]) == expected


def test_after_an_error_with_incidents_it_fires_for_the_driver_only(
    layout: Layout, driver: psutil.Popen
) -> None:
    report(layout, datetime.now(UTC), batch_duration_ms=301_000)
    later = datetime.now(UTC) + timedelta(minutes=1)
    watch = Watch(STREAM, "dag/run", Thresholds.from_json(LIMITS), layout, alerts_from=later)
    assert watch.look() is None
    watch.alerts_from = datetime.now(UTC)
    assert (watch.look() or {})["event"] == "alert"


def test_the_end_of_a_supervision_waits_until_it_is_told(layout: Layout, driver: psutil.Popen) -> None:
    now = datetime.now(UTC)
    write_json(layout.control_uri(STREAM), as_json(Control(STREAM, "stopped", "r1", now, "me", "why")))
    write_outbox(layout, now + timedelta(minutes=1))
    assert Watch(STREAM, "dag/run", Thresholds.from_json(LIMITS), layout).look() is None
    write_outbox(layout, None)
    event = Watch(STREAM, "dag/run", Thresholds.from_json(LIMITS), layout).look()
    assert (event or {})["event"] == "done"


def write_outbox(layout: Layout, due: datetime | None) -> None:
    """Write down that one message was tried once, and is to be sent again at `due`."""
    now = datetime.now(UTC)
    one = Incident("i", STREAM, "driver", Words("t", "c", "l", "n"), now, now)
    outgoing = [Outgoing(Message("opened", now, one), (Delivery("mail", due, 1),))] if due else []
    change_incidents(layout, STREAM, lambda incidents: replace(incidents, outbox=tuple(outgoing)))


def test_it_fires_when_the_driver_is_gone(layout: Layout, driver: psutil.Popen) -> None:
    driver.kill()
    event = asyncio.run(first_event(trigger()))
    assert event["event"] == "launch"
    assert "driver process gone" in event["reason"]
    assert [message.kind for message in carried(event).messages] == ["opened"]


def test_it_fires_when_the_driver_is_silent(layout: Layout, driver: psutil.Popen) -> None:
    report(layout, datetime.now(UTC) - timedelta(minutes=1))
    event = asyncio.run(first_event(trigger()))
    assert event["event"] == "kill"
    assert driver.is_running()


def test_it_fires_when_another_dag_run_has_taken_over(layout: Layout, driver: psutil.Popen) -> None:
    claim(layout, STREAM, "dag/other", datetime.now(UTC))
    event = asyncio.run(first_event(trigger()))
    assert (event["event"], event["reason"]) == ("superseded", "dag/other has taken over")


def test_it_fires_when_a_stopped_stream_has_stopped(layout: Layout, driver: psutil.Popen) -> None:
    now = datetime.now(UTC)
    stopped = Control(STREAM, "stopped", "r1", now, "me", "asked to stop")
    write_json(layout.control_uri(STREAM), as_json(stopped))
    assert asyncio.run(first_event(trigger()))["event"] == "done"
    assert structs.replace(stopped, desired="running").launch_pending


def test_storage_that_fails_once_is_looked_at_again(
    layout: Layout, driver: psutil.Popen, monkeypatch: pytest.MonkeyPatch
) -> None:
    from stateward.airflow.triggers import stream_progress

    looks: list[int] = []

    def flaky(*arguments: Any) -> Any:
        looks.append(1)
        if len(looks) < 3:
            raise OSError("storage away")
        return observe(*arguments)

    monkeypatch.setattr(stream_progress, "observe", flaky)
    driver.kill()
    event = asyncio.run(first_event(trigger()))
    assert event["event"] == "launch"
    assert len(looks) >= 3
    assert event["watched"]["blind_until"] is not None, "so that what it could not read is no silence"
