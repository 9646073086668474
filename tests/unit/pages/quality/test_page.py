"""The quality pages, made of Delta tables: what they say, and that nothing of the data is taken for HTML."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from msgspec.structs import replace

from stateward.contract.storage import write_json
from stateward.pages.quality.acknowledgement import Acknowledgement, write_acknowledgement
from stateward.pages.quality.failures import failing_of, failures_of, latest_of
from stateward.pages.quality.history import Name
from stateward.pages.quality.page import policies, render_overview, render_table, since
from stateward.pages.quality.tables import Found, read_quality
from stateward.project.layout import Layout
from stateward.project.settings import Settings
from stateward.rendering import human_units
from tests.support.pages.html_rules import require_allowed, require_whole, text
from tests.support.pages.sample_quality import OTHER, QUERY, week
from tests.support.pages.written_quality import Broken, Written, suite_of

NOW = datetime(2026, 2, 3, 14, 30, tzinfo=UTC)
SESSIONS = Name("user_sessions", "sessions")
NASTY = "<script>alert(1)</script>&\"'"


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return Settings(home=tmp_path, data=f"file://{tmp_path}/data")


def overview(settings: Settings, days: int = 7) -> tuple[Found, str]:
    found = read_quality(settings, since(NOW, days))
    return found, render_overview(found, NOW, days)


def page(settings: Settings, name: Name = SESSIONS, days: int = 7) -> tuple[Found, str]:
    found = read_quality(settings, since(NOW, days), name)
    return found, render_table(found, name, NOW, days)


def test_a_week_of_validations(settings: Settings) -> None:
    week(settings, NOW)
    found, html = overview(settings)
    require_whole(html)
    require_allowed(html, policies()[0])
    said = text(html)

    assert not found.problems and not found.missing
    assert html.index('id="user_sessions-sessions"') < html.index('id="fraud_watch-fraud_alerts"')
    assert "✕ 2 of 15 fail" in said and "▲ 1 of 6 fail" in said and "not yet validated" in said
    assert "● equal" in said and "✕ 1 wrong" in said
    assert "duration_is_not_negative of sessions" in said
    assert "10 of 1,204 rows" in said and "user_events 0: " in said

    found, html = page(settings)
    require_whole(html)
    require_allowed(html, policies()[1])
    said = text(html)
    assert "written by another program: UPDATE" in said
    assert "user_id_is_present" in said and "holds again" in said
    assert "Without a null: close_reason, closed_at" in said
    assert "Rows of each validation" in said and "user_id null" in said
    assert "no longer kept" in said, "a page of Data Docs that is gone has no link"
    assert "A session is closed" not in said and "No session has a negative length." in said


def test_what_an_expectation_means_is_said_by_its_newest_result(settings: Settings) -> None:
    written = Written(settings)
    suite = suite_of(("id",), rule=(QUERY, "critical"))
    for hour, broken in ((2, ()), (1, (Broken("id_is_present", "2 unexpected rows"),))):
        written.validation(SESSIONS, suite, NOW - timedelta(hours=hour), (0, 1), (5, 5), broken=broken)
        for row in written.rows["quality_results"]:
            row["means"], row["remedy"] = f"{row['name']} {hour}.", "See its writer."
        written.save()
    assert "id_is_present 1. If it fails: See its writer." in text(page(settings)[1])


def test_only_what_was_masked_is_shown_of_values(settings: Settings) -> None:
    written = week(settings, NOW)
    _, html = overview(settings)
    _, of_table = page(settings)
    for shown in (html, of_table):
        assert "masked-" in shown
        assert "secret-event" not in shown and "hash-" not in shown

    broken = Broken("reason_is_known", "1 unexpected rows, such as alice@example.org")
    alerts = Name("device_lifecycle", "device_alerts")
    written.validation(alerts, OTHER, NOW, (500, 501), (1, 1), broken=(broken,))
    for row in written.rows["quality_results"]:
        row["masked_columns"] = None  # A release that masked less, or nothing, has no such column.
    written.rows["quarantine"].clear()
    written.save()
    _, html = page(settings, alerts)
    assert "alice@" not in html and "What was found is in the report." in html


def test_rows_that_an_earlier_release_has_put_into_quarantine_are_not_shown(settings: Settings) -> None:
    written = Written(settings)
    row = {"user_id": "masked-1", "session_id": "a-hash-of-alice"}
    origin = {"commits": [{"version": 1, "batch_id": 3, "offsets": {"t": {"0": [5, 9]}}}], "events": None}
    broken = Broken("rule", "1 unexpected rows", (row,), (origin,), 1, 2.0)
    suite = suite_of(("id",), rule=(QUERY, "critical"))
    written.validation(SESSIONS, suite, NOW, (0, 1), (5, 5), broken=(broken,))
    for entry in written.rows["quarantine"]:
        entry["masked_columns"] = None
    written.save()
    _, html = page(settings)
    assert "a-hash-of-alice" not in html and "masked fewer columns" in html
    assert "t 0: 5 to 8 (its batch)" in html


def test_nothing_of_the_data_is_taken_for_html(settings: Settings) -> None:
    written = Written(settings)
    origin = {"commits": [{"version": 1, "says": NASTY}], "events": None}
    row = {NASTY: NASTY, "n": None}
    broken = Broken("rule", NASTY, (row,), (origin,), 1, 2.0)
    suite = suite_of(("id",), rule=(QUERY, "critical"))
    written.validation(SESSIONS, suite, NOW, (0, 1), (5, 5), broken=(broken,))
    written.reconciliation(SESSIONS, NOW, (5, 1, 0), (NASTY,))
    written.save()

    for html in (overview(settings)[1], page(settings)[1]):
        require_whole(html)
        assert "<script>alert" not in html and html.count("<script>") == 1, "the page's own"
        assert html.count("&lt;script&gt;alert(1)") >= 3


def test_before_anything_is_there(settings: Settings) -> None:
    found, html = overview(settings)
    require_whole(html)

    assert set(found.missing) == {"quality_validations", "quality_results", "quarantine", "reconciliations"}
    assert SESSIONS in found.known
    assert "not yet validated" in text(html) and "None in the last 7 days." in text(html)
    _, html = page(settings)
    require_whole(html)
    assert "No validation in the last 7 days." in text(html)


def test_one_broken_table_does_not_hide_the_others(settings: Settings) -> None:
    week(settings, NOW)
    log = Path(Layout.of(settings).table_uri("quarantine").removeprefix("file://")) / "_delta_log"
    for file in log.iterdir():
        file.write_text("{half a commit")
    found, html = overview(settings)

    assert [one.split(":")[0] for one in found.problems] == ["table quarantine"]
    assert "cannot be read" in text(html) and "duration_is_not_negative" in text(html)


def test_a_month_of_which_there_is_a_week_shows_the_week(settings: Settings) -> None:
    week(settings, NOW)
    found, html = page(settings, days=30)

    began = human_units.format_duration((NOW - found.validations[0].at).total_seconds())
    assert began.startswith(("6 d", "7 d"))
    assert f"−{began}" in text(html) and "−30 d" not in text(html)


def test_only_the_time_that_is_asked_for_is_read(settings: Settings) -> None:
    week(settings, NOW)
    day, days = (page(settings, days=number)[0] for number in (1, 7))

    assert 0 < len(day.validations) < len(days.validations)
    assert min(one.at for one in day.results) >= since(NOW, 1)


def test_tables_of_streams_that_were_never_started_are_folded_away(settings: Settings) -> None:
    layout = Layout.of(settings)
    write_json(layout.control_uri("action_counts"), {})
    _, html = overview(settings)
    require_whole(html)
    shown, folded = html.split('<details id="never-started">')

    assert 'id="action_counts-action_counts"' in shown and "action_counts, stateward" in text(shown)
    assert 'id="user_sessions-sessions"' in folded and "user_sessions" not in shown
    # What has a validation is shown, whatever the storage says of its stream.
    week(settings, NOW)
    assert 'id="user_sessions-sessions"' in overview(settings)[1].split('<details id="never-started">')[0]


def test_each_failure_has_an_address(settings: Settings) -> None:
    week(settings, NOW)
    address = 'href="table.html?stream=user_sessions&amp;table=sessions&amp;days=7#user_sessions-sessions-'
    assert address in overview(settings)[1] and address in page(settings)[1]


def test_an_acknowledgement_is_shown_until_something_else_fails(settings: Settings) -> None:
    week(settings, NOW)
    layout, found = Layout.of(settings), overview(settings)[0]
    failing = failing_of(failures_of(found.results, latest_of(found.validations)), SESSIONS)
    assert len(failing) == 2
    said = Acknowledgement(by="ann", at=NOW, note=f"known {NASTY}", failures=tuple(sorted(failing)))
    write_acknowledgement(layout, SESSIONS, said)
    for html in (overview(settings)[1], page(settings)[1]):
        require_whole(html)
        assert "ann" in text(html) and NASTY not in html and "known &lt;script&gt;" in html
    assert "seen by ann" in text(overview(settings)[1])

    first, second = sorted(failing)
    write_acknowledgement(layout, SESSIONS, replace(said, failures=(first,)))
    assert "seen by ann" not in text(overview(settings)[1])
    assert f"New since: {second}" in text(page(settings)[1])


def test_an_unreadable_acknowledgement_hides_nothing(settings: Settings) -> None:
    week(settings, NOW)
    write_json(f"{settings.data}/quality/acknowledgements/user_sessions.sessions.json", {"by": 1})
    said = text(page(settings)[1])
    assert "acknowledgement of user_sessions.sessions" in said and "duration_is_not_negative" in said
