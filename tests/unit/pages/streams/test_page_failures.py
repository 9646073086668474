"""What the operator's page says of drivers that keep failing: the cause, and how often it was tried."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from msgspec.structs import replace

from stateward.contract.process_identity import host_identity
from stateward.contract.reading import as_json
from stateward.contract.storage import write_json
from stateward.contract.stream_control import Control, Failure
from stateward.contract.stream_control import Launch as Started
from stateward.control.reconcile.observe import read_control
from stateward.pages.streams.documents import read_streams
from stateward.pages.streams.history import Sample
from stateward.pages.streams.incidents import incidents
from stateward.pages.streams.view import StreamView, stream_view
from stateward.project.layout import Layout
from tests.support.pages.sample_streams import DISK, MINUTE, Written, installation, write

NOW = datetime(2026, 2, 3, 14, 30, tzinfo=UTC)
CONTROL = Control("s", "running", "r1", NOW, "me", "asked to run")


@pytest.fixture
def written(tmp_path: Path) -> Written:
    return installation(tmp_path, NOW)


def view_of(written: Written, stream: str) -> StreamView:
    read = read_streams(written.settings)
    return next(stream_view(one, NOW - timedelta(hours=6), NOW, 30) for one in read if one.stream == stream)


def test_a_stream_that_was_given_up_says_why_and_what_came_before(written: Written) -> None:
    write(written, "failed")
    view = view_of(written, "payment_auth_join")

    assert (view.condition.state, view.level) == ("failed", "bad")
    assert view.condition.says == (
        f"driver failed: {DISK}; restarted 5 times within 900 s without lasting success"
    )
    assert "asked at 08:30:00 by dag run" in view.wish and "crash" not in view.wish
    full, killed = view.incidents
    assert (full.last.kind, full.times, full.last.cause, full.last.over_at) == ("failed", 6, DISK, None)
    assert full.first_at < full.last.at
    assert killed.last.kind == "crashed" and killed.last.over_at is not None
    assert killed.last.cause == "driver process gone (last reported running, batch 2127)"
    lag, *_ = view.charts
    assert lag.drawing is not None and len(lag.drawing.gaps) == 2, "while it was away, and since it is gone"
    assert lag.is_old
    assert sum(mark.is_failure for mark in lag.marks) == 7


def test_one_whose_driver_never_came_to_say_why_says_it_by_the_end_of_its_log(
    written: Written, tmp_path: Path
) -> None:
    """A poison configuration: a JVM that refuses its options dies before there is any status."""
    write(written, "failed")
    layout, log = Layout.of(written.settings), tmp_path / "driver.log"
    control = read_control(layout, "payment_auth_join")
    assert control is not None
    launch = Started("c6", NOW - MINUTE, host_identity(), str(log), 2**22 + 1, 1.0)
    write_json(
        layout.control_uri("payment_auth_join"),
        as_json(replace(control, run_id="c6", launch=launch)),
    )

    tried = "restarted 5 times within 900 s without lasting success"
    gone = "driver process gone before it reported anything"
    assert view_of(written, "payment_auth_join").condition.says == f"{gone}; {tried}"
    log.write_text(
        "Unrecognized VM option 'UseSerialGCC'\n"
        "Error: Could not create the Java Virtual Machine.\n"
        "Error: A fatal exception has occurred. Program will exit.\n"
    )
    found = view_of(written, "payment_auth_join").condition
    assert (found.state, found.level) == ("failed", "bad")
    assert found.says == f"{gone}: Unrecognized VM option 'UseSerialGCC'; {tried}"


def test_launches_whose_drivers_never_wrote_a_line_are_incidents_too() -> None:
    ran = [Sample(NOW - 30 * MINUTE, "r1", "running"), Sample(NOW - 10 * MINUTE, "r1", "running")]
    silent = Failure("gone", "driver process gone before it reported anything")
    launch = Started("r3", NOW - 7 * MINUTE, "h", "/l", failure=silent)
    control = replace(CONTROL, restarts=(NOW - 8 * MINUTE, NOW - 7 * MINUTE), launch=launch)

    found = incidents(ran, control)
    assert [(one.kind, one.cause, one.over_at) for one in found] == [
        ("crashed", "driver process gone before it reported anything", None),
        ("crashed", "", None),
    ]
    back = [*ran, Sample(NOW - 6 * MINUTE, "r3", "starting", failure=Failure("gone", "gone"))]
    assert [(one.at, one.cause) for one in incidents(back, control)] == [
        (NOW - 6 * MINUTE, "gone"),
        (NOW - 8 * MINUTE, ""),
    ]
