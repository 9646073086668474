"""What a removal deletes, what it keeps, and when it is refused."""

from __future__ import annotations

import os
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from msgspec.structs import replace

from stateward.contract.process_identity import ProcessIdentity, host_identity, started_at
from stateward.contract.reading import as_json
from stateward.contract.storage import delete, write_json
from stateward.contract.stream_control import Control, Hold, Launch
from stateward.control.reconcile import removal
from stateward.control.reconcile.observe import read_control
from stateward.control.reconcile.removal import (
    RemovalError,
    kept_of,
    own_tables,
    parts_of,
    remove,
    require_at_rest,
)
from stateward.project.layout import Layout
from stateward.project.spec import StreamSpec, load_spec
from stateward.runtime.lease.lease import Lease

NOW = datetime(2026, 11, 25, 12, 0, tzinfo=UTC)
STREAM = "user_sessions"
TABLE = load_spec(STREAM).tables[0]
US = "stream_user_sessions/manual__1"


@pytest.fixture
def layout(tmp_path: Path) -> Layout:
    """A stopped stream with everything that it can have left, and another one of nearly the same name."""
    layout = Layout(tmp_path / "home", f"file://{tmp_path}/home/data")
    for stream in (STREAM, f"{STREAM}_2"):
        control = layout.control_uri(stream).removesuffix(".json")
        for uri in (
            f"{layout.checkpoint_uri(stream)}/g0001/metadata",
            f"{layout.savepoints_uri(stream)}/s1/manifest.json",
            f"{layout.operation_uri(stream, 'o1')}/request.json",
            f"{layout.reconciliation_uri(stream)}/report.json",
            layout.status_uri(stream),
            layout.history_uri(stream),
            *(f"{control}.{kind}.json" for kind in ("config", "supervisor", "incidents", "care")),
            f"file://{layout.cache_dir(stream)}/copy/p0/index",
            f"{layout.releases_uri}/{stream}/c-y.yaml",
            f"file://{layout.releases_dir}/{stream}/c-y/{stream}.yaml",
            f"file://{layout.driver_log_dir(stream)}/driver.log",
        ):
            write_json(uri, {})
        deployed(layout, stream)
        held = lease(layout, stream)
        held.acquire()
        held.release()
    for table in (TABLE, "dead_letters"):
        write_json(f"{layout.table_uri(table)}/_delta_log/0.json", {})
    write_json(f"{layout.forgotten_uri}/register.json", {})
    return layout


@pytest.fixture
def spec() -> StreamSpec:
    return load_spec(STREAM)


def deployed(layout: Layout, stream: str = STREAM, **changed: object) -> None:
    launch = Launch("r1", NOW, host_identity(), "/l", 2**22 + 1, 1.0)
    control = Control(stream, "stopped", "r1", NOW, "me", "asked to stop", launch)
    write_json(layout.control_uri(stream), as_json(replace(control, **changed)))


def lease(layout: Layout, stream: str) -> Lease:
    return Lease(
        layout.lease_uri(stream),
        stream=stream,
        run_id="r9",
        holder=ProcessIdentity("another host", 7, 1.0),
        ttl_ms=10_000,
        clock=lambda: NOW,
    )


def files(layout: Layout) -> set[str]:
    return {str(path.relative_to(layout.home)) for path in layout.home.rglob("*") if path.is_file()}


def removed(layout: Layout, spec: StreamSpec, *, tables: bool = False) -> None:
    for _ in remove(parts_of(spec, layout, [], tables=tables), layout, STREAM, US, NOW):
        pass


def test_what_a_start_would_continue_from_goes_and_nothing_of_another_stream(
    layout: Layout, spec: StreamSpec
) -> None:
    before = files(layout)
    removed(layout, spec)
    left = {path for path in files(layout) if not path.startswith("locks/")}
    others = {path for path in before if f"{STREAM}_2" in path}
    assert left - others == {
        f"data/tables/{TABLE}/_delta_log/0.json",
        "data/tables/dead_letters/_delta_log/0.json",
        "data/forgotten/register.json",
        f"drivers/{STREAM}/driver.log",
    }
    assert others <= left
    assert read_control(layout, STREAM) is None
    assert parts_of(spec, layout, [], tables=False) == []


def test_what_stays_is_named(layout: Layout, spec: StreamSpec) -> None:
    kept = " | ".join(kept_of(spec, layout, [], tables=False))
    assert f"table {TABLE}, {layout.table_uri(TABLE)}; a new start adds rows" in kept
    assert "dead_letters" in kept and "register of forgotten keys" in kept and "drivers" in kept
    assert f"table {TABLE}" not in " | ".join(kept_of(spec, layout, [], tables=True))


def test_tables_go_on_request_but_never_one_that_another_stream_writes(
    layout: Layout, spec: StreamSpec
) -> None:
    other = spec.model_copy(update={"stream": "other"})
    assert own_tables(spec, [other]) == []
    whats = [part.what for part in parts_of(spec, layout, [other], tables=True)]
    assert f"table {TABLE}" not in whats
    removed(layout, spec, tables=True)
    assert not Path(layout.table_uri(TABLE).removeprefix("file://")).exists()
    assert Path(layout.table_uri("dead_letters").removeprefix("file://")).exists()


def test_a_stream_that_should_run_is_refused_with_the_remedy(layout: Layout, spec: StreamSpec) -> None:
    deployed(layout, desired="running")
    before = files(layout)
    with pytest.raises(
        RemovalError, match=r"desired running\. Stop it first: `stateward stop user_sessions`"
    ):
        removed(layout, spec)
    assert files(layout) - before == {f"locks/{STREAM}.lock"}
    assert before <= files(layout)


def test_a_driver_that_still_drains_is_waited_for(layout: Layout, spec: StreamSpec) -> None:
    launch = Launch("r1", NOW, host_identity(), "/l", os.getpid(), started_at(os.getpid()))
    deployed(layout, launch=launch)
    with pytest.raises(RemovalError, match="its driver has not ended yet"):
        removed(layout, spec)
    deployed(layout, launch=replace(launch, host="another host"))
    with pytest.raises(RemovalError, match="its driver has not ended yet"):
        removed(layout, spec)


def test_an_operation_at_work_is_named(layout: Layout, spec: StreamSpec) -> None:
    deployed(layout, hold=Hold("state_operations/manual__1", "migrate", NOW))
    with pytest.raises(RemovalError, match=r"held by state_operations/manual__1 \(migrate\)"):
        removed(layout, spec)


def test_whoever_holds_the_lease_is_named(layout: Layout, spec: StreamSpec) -> None:
    lease(layout, STREAM).acquire()
    with pytest.raises(RemovalError, match="run r9 holds its lease"):
        require_at_rest(layout, STREAM, NOW)
    require_at_rest(layout, STREAM, NOW + timedelta(seconds=11))


def test_an_interrupted_removal_keeps_the_stream_stopped_and_the_next_one_continues_it(
    layout: Layout, spec: StreamSpec, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails_at_status(uri: str) -> None:
        if uri == layout.status_uri(STREAM):
            raise OSError("away")
        delete(uri)

    monkeypatch.setattr(removal, "delete", fails_at_status)
    with pytest.raises(OSError, match="away"):
        removed(layout, spec)
    control = read_control(layout, STREAM)
    assert control is not None and control.hold == Hold(US, "remove", NOW)
    monkeypatch.undo()
    left: Iterator[removal.Part] = remove(
        parts_of(spec, layout, [], tables=False), layout, STREAM, "stream_user_sessions/manual__2", NOW
    )
    assert [part.what for part in left][:1] == ["status"]
    assert read_control(layout, STREAM) is None
