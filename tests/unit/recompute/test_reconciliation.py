"""The rules of a reconciliation: its range, which events explain a row, what may be right, the verdict."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable

from stateward.contract.requests import KeptOutcome
from stateward.control.jobs.backfill_request import build_request, why_not_replayable
from stateward.control.jobs.backfill_verdict import verdict_of
from stateward.control.jobs.backfill_window import window
from stateward.project.settings import Settings
from stateward.project.spec import load_spec, load_specs
from stateward.recompute.evidence import MOST, Covered, KeyEvents, Moment
from stateward.recompute.lookback import Landed, Span, sure_span, sure_watermark
from stateward.recompute.record import RECONCILIATIONS, write_record
from stateward.recompute.request import BackfillError, job_of, parse_request
from stateward.runtime.api.tables import Column, Table

NIGHT = datetime(2024, 3, 2, 5, 30, tzinfo=UTC)
MIDNIGHT = datetime(2024, 3, 2, tzinfo=UTC)
DAY = timedelta(days=1)


def test_without_a_range_the_whole_days_before_the_run_are_looked_at() -> None:
    assert window(None, None, run_at=NIGHT, days=1) == (MIDNIGHT - DAY, MIDNIGHT)
    assert window(None, None, run_at=NIGHT, days=7) == (MIDNIGHT - 7 * DAY, MIDNIGHT)
    assert window(None, NIGHT, run_at=MIDNIGHT + 9 * DAY, days=1) == (NIGHT - DAY, NIGHT)
    begin = MIDNIGHT - 3 * DAY
    assert window(begin, None, run_at=NIGHT, days=1) == (begin, MIDNIGHT)


def test_streams_whose_rows_are_not_in_the_events_have_no_reconciliation() -> None:
    specs = load_specs()[0]
    assert {spec.stream for spec in specs if why_not_replayable(spec)} == {"raw_events", "action_counts"}
    for spec in specs:
        if why_not_replayable(spec) is None:
            job_of(spec.stream)  # as the job sees it
    with pytest.raises(BackfillError):
        job_of("raw_events")


def test_the_request_of_a_reconciliation_says_where_its_outcome_is_kept(tmp_path: Path) -> None:
    settings = Settings(home=tmp_path, data=f"file://{tmp_path}/data")
    into = f"file://{tmp_path}/data/reconciliation/user_sessions"
    spec = load_spec("user_sessions")
    document = build_request(
        spec, settings, MIDNIGHT - DAY, MIDNIGHT, into=into, compare=True, run_id="a/b/1"
    )
    request = parse_request(document, "test")
    assert request.record == KeptOutcome(f"file://{tmp_path}/data/tables/reconciliations", "a/b/1")
    assert request.report_uri == f"{into}/report.json"
    document = build_request(spec, settings, MIDNIGHT - DAY, MIDNIGHT)
    assert parse_request(document, "test").record is None


def moment(at: int, name: str) -> Moment:
    return Moment(at, name, 0, at)


def test_a_row_is_explained_by_the_events_of_its_time_and_those_it_names() -> None:
    events = KeyEvents([moment(30, "c"), moment(10, "a"), moment(20, "b"), moment(40, "d"), moment(20, "b")])

    def ids(*row: Any) -> list[str]:
        found = events.explaining(Covered(*row))
        assert found.in_all == len(found.events)
        return [event.event_id for event in found.events]

    assert ids(10, 30, []) == ["a", "b", "b", "c"], "both ends, and what was sent twice is there twice"
    assert ids(11, 19, []) == []
    assert ids(30, 30, ["a", "view", "c"]) == ["a", "c"]
    assert ids(None, None, ["d"]) == ["d"]
    assert KeyEvents([]).explaining(Covered(0, 99, ["a"])).in_all == 0


def test_of_many_events_the_newest_are_given_and_all_are_counted() -> None:
    events = KeyEvents(moment(at, f"e{at}") for at in range(300))
    found = events.explaining(Covered(100, 199, ["e5", "e7", "e150"]))
    assert found.in_all == 102
    assert [event.event_ms for event in found.events] == list(range(200 - MOST, 200))


def table(*columns: str, current_by: tuple[str, ...] = ()) -> Table:
    made = tuple(Column(name, "string", "") for name in columns)
    return Table("t", "", made, current_by=current_by, came_at="at")


def test_a_row_is_known_by_its_first_column_or_by_key_and_time() -> None:
    assert table("row_id", "user", "at").identity("user") == ("row_id",)
    assert table("user", "at", "n").identity("user") == ("user", "at")
    assert table("user", "at", current_by=("user",)).identity("user") == ("user",)
    for spec in load_specs()[0]:
        if why_not_replayable(spec) is None:
            job = job_of(spec.stream)
            for output in job.outputs:
                name, *time = output.table.identity(job.key.name)
                assert name.endswith("_id") and time in ([], [output.table.came_at])


LANDED = {0: Landed(0, 10, 0), 1: Landed(0, 5, 0)}


@pytest.mark.parametrize(
    ("batches", "watermark_ms"),
    [
        ([], None),
        ([({0: 10, 1: 5}, 900)], 900),
        ([({0: 11, 1: 5}, 900), ({0: 10, 1: 5}, 800)], 900),
        ([({0: 12, 1: 5}, 900), ({0: 11, 1: 5}, 800), ({0: 9, 1: 5}, 700)], 800),
        ([({0: 12, 1: 5}, 900), ({0: 11, 1: 5}, 800)], None),
    ],
    ids=["nothing read", "all landed", "one batch ahead", "two batches ahead", "further than is on record"],
)
def test_what_is_not_landed_can_change_nothing_before_the_watermark_it_came_after(
    batches: list[tuple[dict[int, int], int]], watermark_ms: int | None
) -> None:
    assert sure_watermark(batches, LANDED) == watermark_ms


def test_a_difference_is_an_error_where_the_stream_has_been_and_the_events_reach() -> None:
    span = Span(100, 200)
    assert sure_span(span, 0, 1000, 0) == span
    assert sure_span(span, 150, 180, 10) == Span(150, 170)
    assert sure_span(span, 0, 100, 0) is None
    assert sure_span(span, None, 1000, 0) is None
    assert sure_span(span, 0, None, 0) is None


def report(*entries: dict[str, Any], notes: tuple[str, ...] = (), sure: bool = True) -> dict[str, Any]:
    judged = {"from": "2024-03-01T00:00:00.000Z", "to": "2024-03-02T00:00:00.000Z"}
    return {
        "stream": "user_sessions",
        **judged,
        "sure": judged if sure else None,
        "counts": {"events": 4000},
        "tables": [*entries],
        "notes": [*notes],
    }


def entry(different: int = 0, sure: int = 0, kinds: dict[str, int] | None = None) -> dict[str, Any]:
    row = {"only_in": "live", "difference": "other values", "differs_in": "event_count", "session_id": "s1"}
    return {
        "table": "sessions",
        "equal": not different,
        "compared": 3000,
        "different": different,
        "sure": sure,
        "kinds": kinds or {},
        "shown": [row, {**row, "only_in": "backfill"}] if different else [],
        "differences_uri": "file:///d",
        "differences_version": 4,
    }


def test_equal_tables_are_told_with_their_counts_and_what_has_to_be_known() -> None:
    verdict = verdict_of(report(entry(), notes=("a note",)))
    assert (verdict.kind, verdict.notes) == ("equal", ("a note",))
    assert verdict.text.endswith("Compared were 3,000 rows of sessions, made of 4,000 events.")


def test_an_error_names_table_rows_and_where_they_are() -> None:
    verdict = verdict_of(report(entry(3, 1, {"other values": 1, "missing in the table": 2})))
    assert verdict.kind == "wrong"
    _, line = verdict.text.splitlines()
    assert line == (
        "  - sessions: 3 of 3,000 rows differ (2 missing in the table, 1 other values), of which 2 may still"
        " be right, such as session_id s1 (event_count). Each with its events: file:///d, version 4"
    )


def test_rows_that_may_be_right_are_no_error_and_it_is_said_why() -> None:
    different = entry(2, 0, {"missing in the table": 2})
    verdict = verdict_of(report(different, notes=("The stream has got to nowhere yet",), sure=False))
    assert verdict.kind == "open"
    assert "this range cannot be judged; see the notes" in verdict.text
    assert verdict.text.splitlines()[-1] == "Note: The stream has got to nowhere yet"
    assert ", is equal." in verdict_of(report(different)).text


def test_a_reconciliation_is_kept_once(tmp_path: Path) -> None:
    uri = f"file://{tmp_path}/reconciliations"
    given = report(entry(3, 1, {"other values": 3}), entry(), notes=("a note",))
    for run in ("run/1", "run/1", "run/2"):
        write_record(KeptOutcome(uri, run), given, NIGHT)
    rows = DeltaTable(uri).to_pyarrow_table().to_pylist()
    assert sorted(row["run_id"] for row in rows) == ["run/1", "run/1", "run/2", "run/2"], (
        "a row for each table"
    )
    assert set(rows[0]) == {column.name for column in RECONCILIATIONS.columns}
    [wrong] = [row for row in rows if row["run_id"] == "run/2" and not row["equal"]]
    assert (wrong["rows_compared"], wrong["rows_different"], wrong["rows_wrong"]) == (3000, 3, 1)
    assert (wrong["range_from"], wrong["reconciled_at"]) == (MIDNIGHT - DAY, NIGHT)
    assert (wrong["kinds"], wrong["notes"]) == ('{"other values": 3}', ["a note"])
    write_record(KeptOutcome(uri, "run/3"), report(entry(), sure=False), NIGHT)
    assert None in {row["judged_from"] for row in DeltaTable(uri).to_pyarrow_table().to_pylist()}
