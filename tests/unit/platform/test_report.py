"""What `stateward status` says of a stream: bounds that its keys have reached, who holds or overrides it."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler
from io import StringIO
from itertools import cycle
from pathlib import Path

import pytest
from rich.console import Console
from rich.table import Table

from stateward.cli.status import bounds_table, in_order, parts_table, records_table, streams_table
from stateward.contract.reading import as_json
from stateward.contract.storage import write_json
from stateward.contract.stream_control import Control, Hold, Override
from stateward.contract.stream_status import Status
from stateward.platform.report import StreamReport, as_document, part_reports, stream_reports
from stateward.project.layout import Layout
from stateward.project.settings import Settings
from tests.support.http_server import answering

NOW = datetime(2026, 1, 1, tzinfo=UTC)
STATUS = as_json(Status("s", "r1", "running", NOW, NOW))


@pytest.fixture
def airflow_url() -> Iterator[str]:
    """An API server whose scheduler has no heartbeat any more."""
    answer = {
        "metadatabase": {"status": "healthy"},
        "scheduler": {"status": "unhealthy", "latest_scheduler_heartbeat": "2026-01-01T00:00:00+00:00"},
        "dag_processor": {
            "status": "healthy",
            "latest_dag_processor_heartbeat": "2026-01-01T00:00:00+00:00",
        },
        "triggerer": {"status": None, "latest_triggerer_heartbeat": None},
    }

    class Health(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            assert self.path == "/api/v2/monitor/health"
            self.send_response(200)
            self.end_headers()
            self.wfile.write(json.dumps(answer).encode())

        def log_message(self, format: str, *args: object) -> None:
            pass

    with answering(Health) as address:
        yield address


def test_parts_that_something_else_runs_are_asked_and_not_shown_as_down(
    tmp_path: Path, airflow_url: str
) -> None:
    settings = Settings(
        home=tmp_path,
        supervised_by="Docker Compose",
        airflow_internal_url=airflow_url,
        kafka_bootstrap="localhost:1",
        embedded=True,
    )
    parts = {part.name: (part.state, part.address) for part in part_reports(settings, NOW)}
    assert parts == {
        "kafka": ("no answer", "localhost:1"),
        "api-server": ("ready", airflow_url),
        "dag-processor": ("ready", None),
        "scheduler": ("no answer", None),
        "triggerer": ("no answer", None),
    }
    assert as_document(settings, NOW)["supervised_by"] == "Docker Compose"
    console = Console(record=True, width=120)
    console.print(parts_table(part_reports(settings, NOW), settings.supervised_by))
    assert "Platform, run by Docker Compose" in console.export_text()


def test_only_streams_that_have_reached_a_bound_are_in_the_table(tmp_path: Path) -> None:
    settings = Settings(home=tmp_path, data=f"file://{tmp_path}/data")
    never = {"held_full": 0, "folded_early": 0, "below_floor": 0, "ids_full": 0, "ids_forgotten": 0}
    for stream, bounds in (
        ("user_sessions", {**never, "held_full": 3, "folded_early": 120}),
        ("fraud_watch", never),
        ("user_activity", None),
    ):
        write_json(Layout.of(settings).status_uri(stream), {**STATUS, "stream": stream, "bounds": bounds})

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
    write_json(layout.control_uri("user_sessions"), as_json(control))
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


@pytest.fixture
def reports(tmp_path: Path) -> list[StreamReport]:
    """Ten streams with long values; user_sessions was never started."""
    settings = Settings(home=tmp_path, data=f"file://{tmp_path}/data")
    states = cycle(["running", "failed", "stopped", "waiting"])
    names = sorted(path.stem for path in settings.streams.glob("*.yaml") if path.stem != "user_sessions")
    for name, state in zip(names, states, strict=False):
        document = {
            **STATUS,
            "stream": name,
            "state": state,
            "batch_id": 1_234_567,
            "lag_records": 123_456_789,
            "watermark": "2025-12-31T22:10:10Z",
            "epoch": 12,
            "generation": 2,
            "last_batch_at": "2025-12-31T22:10:10Z",
            "delivered": 12_345_678_901,
            "accepted": 12_345_678_901,
            "dead": 123_456,
            "late": 123_456,
            "duplicates": 1_234_567,
            "bounds": {"held_full": 12_345, "ids_forgotten": 123},
        }
        write_json(Layout.of(settings).status_uri(name), document)
        control = Control(name, "suspended", "r1", NOW, "ann", "suspend", declared="suspended")
        write_json(Layout.of(settings).control_uri(name), as_json(control))
    return stream_reports(settings, NOW)


@pytest.mark.parametrize("table_of", [streams_table, records_table, bounds_table])
@pytest.mark.parametrize("width", [80, 200])
def test_no_name_and_no_figure_is_cut_on_a_narrow_screen(
    reports: list[StreamReport], table_of: Callable[..., Table], width: int
) -> None:
    console = Console(record=True, width=width, file=StringIO())
    console.print(table_of(reports) if table_of is bounds_table else table_of(reports, console))
    lines = console.export_text().splitlines()
    assert max(map(len, lines)) <= width
    assert "…" not in "".join(lines)
    shown = [report for report in reports if table_of is not bounds_table or any(report.bounds.values())]
    for report in shown:
        # On a line of its own, and so not broken either.
        [line] = [line for line in lines if report.stream in line]
        figures = {
            streams_table: [report.state or "never started", report.lag_records],
            records_table: report.counters.values(),
            bounds_table: report.bounds.values(),
        }[table_of]
        assert all(str(figure) in line for figure in figures if figure is not None), line
    wide = "generation" in lines[1]
    assert wide == (width == 200 and table_of is streams_table)


def test_what_needs_a_look_is_first_then_what_runs_and_last_what_nobody_has_started(
    reports: list[StreamReport],
) -> None:
    states = [report.state for report in in_order(reports)]
    assert states == ["failed"] * 2 + ["waiting"] * 2 + ["running"] * 3 + ["stopped"] * 2 + [None]
    assert [report.stream for report in reports] == sorted(report.stream for report in reports)
