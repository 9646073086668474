"""What `stateward status` says of a stream whose keys have reached their bounds."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

from rich.console import Console

from include.cli.status import bounds_table
from include.layout import Layout
from include.platform.report import stream_reports
from include.settings import Settings
from include.storage import write_json


def test_only_streams_that_have_reached_a_bound_are_in_the_table(tmp_path: Path) -> None:
    settings = Settings(home=tmp_path, data=f"file://{tmp_path}/data")
    never = {"held_full": 0, "folded_early": 0, "below_floor": 0, "ids_full": 0, "ids_forgotten": 0}
    for stream, bounds in (
        ("user_sessions", {**never, "held_full": 3, "folded_early": 120}),
        ("fraud_watch", never),
        ("user_activity", None),
    ):
        write_json(Layout.of(settings).status_uri(stream), {"stream": stream, "bounds": bounds})

    reports = stream_reports(settings, datetime(2026, 1, 1, tzinfo=UTC))
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
