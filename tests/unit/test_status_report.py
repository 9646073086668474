"""What `stateward status` says of a stream: bounds that its keys have reached, who holds or overrides it."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

from rich.console import Console

from include.cli.status import bounds_table
from include.control.documents import control_document
from include.control.status import Control, Hold, Override
from include.layout import Layout
from include.platform.report import stream_reports
from include.settings import Settings
from include.storage import write_json

NOW = datetime(2026, 1, 1, tzinfo=UTC)


def test_only_streams_that_have_reached_a_bound_are_in_the_table(tmp_path: Path) -> None:
    settings = Settings(home=tmp_path, data=f"file://{tmp_path}/data")
    never = {"held_full": 0, "folded_early": 0, "below_floor": 0, "ids_full": 0, "ids_forgotten": 0}
    for stream, bounds in (
        ("user_sessions", {**never, "held_full": 3, "folded_early": 120}),
        ("fraud_watch", never),
        ("user_activity", None),
    ):
        write_json(Layout.of(settings).status_uri(stream), {"stream": stream, "bounds": bounds})

    reports = stream_reports(settings, NOW)
    found = {report.stream: report.bounds for report in reports}
    table = bounds_table(reports)

    assert found["user_sessions"]["folded_early"] == 120
    assert found["fraud_watch"] == never
    assert found["user_activity"] == dict.fromkeys(never)
    assert table is not None
    console = Console(record=True, width=120)
    console.print(table)
    text = console.export_text()
    assert "folded early" in text and "120" in text and "user_sessions" in text
    assert "fraud_watch" not in text
    assert bounds_table([report for report in reports if report.stream != "user_sessions"]) is None


def test_hold_and_override_are_told_as_everywhere_and_a_broken_document_is_named(tmp_path: Path) -> None:
    settings = Settings(home=tmp_path, data=f"file://{tmp_path}/data")
    layout = Layout.of(settings)
    hold = Hold("state_operations/manual__1", "repartition", NOW)
    override = Override("suspended", "ann", "the disk is changed", NOW)
    control = Control(
        "user_sessions", "suspended", "r1", NOW, "ann", "suspend", hold=hold, override=override, release="a-b"
    )
    write_json(layout.control_uri("user_sessions"), control_document(control))
    write_json(layout.control_uri("fraud_watch"), {"stream": "fraud_watch", "desired": "jogging"})

    found = {report.stream: report for report in stream_reports(settings, NOW)}

    held = found["user_sessions"]
    assert (held.desired, held.held_by, held.release) == ("suspended", hold.by, "a-b")
    assert held.override == str(override)
    assert (
        held.message == f"{hold}; if that run is gone, trigger stream_user_sessions with the action restart"
    )
    broken = found["fraud_watch"]
    assert (broken.desired, broken.override) == (None, "")
    assert broken.message.startswith(layout.control_uri("fraud_watch"))
    assert "desired: expected one of running, suspended, stopped, found 'jogging'" in broken.message
