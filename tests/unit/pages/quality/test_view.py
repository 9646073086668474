"""What the quality pages make of validations: pass rates, strips, failures and trends, on plain values."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stateward.pages.quality.charts import Bar, pass_rates, strip
from stateward.pages.quality.failures import failures_of, latest_of
from stateward.pages.quality.history import (
    NOT_NULL,
    ROW_COUNT,
    Name,
    Result,
    Validation,
    reconciliations_of,
    results_of,
    validations_of,
)
from stateward.pages.quality.rows import examples_of
from stateward.pages.quality.view import links_of, page_of, state_of, strips, summary, table_rows, trends
from stateward.rendering import human_units
from tests.support.pages.sample_quality import origin

NOW = datetime(2026, 2, 3, 14, 30, tzinfo=UTC)
BEGIN = NOW - timedelta(days=7)
HOUR = timedelta(hours=1)
SESSIONS = Name("user_sessions", "sessions")


def validation(hours: float, failed: int = 0, critical: int = 0, **changes: Any) -> Validation:
    at = NOW - hours * HOUR
    version = int(1000 - hours)
    return replace(Validation(SESSIONS, f"run-{hours}", at, version, 20, failed, critical, "t"), **changes)


def result(hours: float, *, held: bool = True, severity: str = "critical", **changes: Any) -> Result:
    one = Result(SESSIONS, f"run-{hours}", NOW - hours * HOUR, int(1000 - hours), "rule", severity, held)
    return replace(one, **changes)


def require_bars(bars: tuple[Bar, ...]) -> None:
    assert len(bars) <= 120
    assert all(0 <= bar.x < 100 and 0 < bar.width <= 100 and 0 < bar.height <= 40 for bar in bars)
    assert all(abs(one.x + one.width - other.x) < 0.02 for one, other in pairwise(bars)), "nothing between"
    if bars:
        assert abs(bars[-1].x + bars[-1].width - 100) < 0.02, "the last one lasts until now"


@given(
    st.lists(st.tuples(st.floats(0, 7 * 24), st.integers(0, 20), st.booleans()), max_size=80),
)
def test_bars_fill_the_time_from_the_first_validation_on(seen: list[tuple[float, int, bool]]) -> None:
    seen.sort(reverse=True)
    rates = pass_rates([validation(h, n, n if crit else 0) for h, n, crit in seen], BEGIN, NOW)
    held = strip([result(h, held=not n) for h, n, _ in seen], BEGIN, NOW)

    for bars in (rates, held):
        require_bars(bars)
        assert bool(bars) == bool(seen)
    assert any(bar.level == "bad" for bar in held) == any(n for _, n, _ in seen), "no failure is lost"
    assert all(bar.label for bar in (*rates, *held) if bar.level != "good"), "each failure has a label"


def test_one_short_failure_of_thousands_is_seen_and_lasts_as_long_as_it_did() -> None:
    failed = {1700: 1}
    many = [
        validation(number / 20, failed.get(number, 0), failed.get(number, 0))
        for number in range(3300, -1, -1)
    ]
    bars = pass_rates(many, BEGIN, NOW)

    require_bars(bars)
    assert [bar.level for bar in bars] == ["good", "bad", "good"]
    assert bars[1].width < 2 and "1 of 20 failed at 31 Jan 01:30" in bars[1].label


def test_what_a_validation_says_lasts_until_the_next_one() -> None:
    failed, held = result(100, held=False), result(50)

    assert [(bar.level, round(bar.width)) for bar in strip([failed, held], BEGIN, NOW)] == [
        ("bad", 30),
        ("good", 30),
    ]
    assert strip([], BEGIN, NOW) == () == pass_rates([validation(200)], BEGIN, NOW)


def test_a_failure_is_told_once_with_how_often_and_whether_it_holds_again() -> None:
    seen = [
        result(30, held=False),
        result(20, held=False),
        result(10),
        result(10, held=False, expectation="b"),
    ]
    rule, other = sorted(failures_of(seen, {SESSIONS: validation(10)}), key=lambda one: one.newest.at)

    assert (rule.newest.expectation, rule.times, rule.first_at, rule.is_over) == (
        "rule",
        2,
        NOW - 30 * HOUR,
        True,
    )
    assert (other.newest.expectation, other.times, other.is_over) == ("b", 1, False)
    assert [one.newest.expectation for one in failures_of(seen, {})] == ["b", "rule"], "the newest first"
    both = [result(1, held=False, severity="warn"), result(1, held=False, expectation="z")]
    assert [one.level for one in failures_of(both, {})] == ["bad", "warn"]
    assert failures_of([], {}) == ()


def test_how_a_table_is_now_is_said_of_its_newest_version() -> None:
    newest, asked_late = validation(5, 1, 1, version=900), validation(1, version=400)
    assert latest_of([newest, asked_late]) == {SESSIONS: newest}
    recreated = validation(0.5, version=2, table_id="another")
    assert latest_of([newest, asked_late, recreated]) == {SESSIONS: recreated}
    assert latest_of([]) == {}
    assert [state_of(one).says for one in (None, validation(1), validation(1, 2))] == [
        "not yet validated",
        "all hold",
        "2 of 20 fail",
    ]
    assert [state_of(one).level for one in (validation(1, 2), validation(1, 2, 1))] == ["warn", "bad"]


def test_the_overview_has_every_table_and_the_worst_first() -> None:
    quiet, bad = Name("fraud_watch", "fraud_alerts"), Name("user_activity", "activity_sessions")
    seen = [validation(9), validation(2, 1, 1, name=bad, table_rows=70)]
    failures = failures_of([result(2, held=False, name=bad)], latest_of(seen))
    rows = table_rows([SESSIONS, quiet], seen, failures, [], begin=BEGIN, now=NOW)

    assert [(row.name, row.state.level) for row in rows] == [
        (bad, "bad"),
        (SESSIONS, "good"),
        (quiet, "calm"),
    ]
    assert [row.pass_rate for row in rows] == ["95 %", "100 %", "–"]
    assert rows[0].rows.now == "70" and rows[1].rows.drawing is None
    assert rows[0].failure is not None and rows[1].failure is None
    assert summary(rows) == [("bad", "1 fails"), ("good", "1 holds"), ("calm", "1 not yet validated")]
    assert table_rows([], [], [], [], begin=BEGIN, now=NOW) == ()


def test_strips_say_how_each_expectation_fares() -> None:
    held = [result(hours, expectation="holds") for hours in (3, 2, 1)]
    failed = [result(3, expectation="fails"), result(1, expectation="fails", held=False)]
    found = strips([*held, *failed, result(90, expectation="gone", held=False)], BEGIN, NOW)

    assert [(one.expectation, one.level, one.pass_rate, one.failed, one.evaluated) for one in found] == [
        ("fails", "bad", "50 %", 1, 2),
        ("holds", "good", "100 %", 0, 3),
        ("gone", "calm", "0 %", 1, 1),
    ]
    assert strips([], BEGIN, NOW) == ()


def test_trends_show_rows_and_only_columns_with_nulls() -> None:
    seen = [validation(hours, rows=100 + n, table_rows=1000 * n) for n, hours in enumerate((9, 5, 1))]
    results = [
        result(9, kind=NOT_NULL, column="user_id", unexpected_percent=0.0),
        result(5, kind=NOT_NULL, column="user_id", unexpected_percent=12.5, held=False),
        result(5, kind=NOT_NULL, column="started_at", unexpected_percent=0.0),
        result(5, kind=ROW_COUNT, held=False),
        result(5.01, kind=ROW_COUNT, held=False),
    ]
    found = trends(seen, results, BEGIN, NOW)

    assert [(chart.now, chart.low, chart.high) for chart in found.rows] == [
        ("2,000", "0", "2,000"),
        ("102", "100", "102"),
    ]
    assert all(chart.drawing and not chart.drawing.gaps for chart in found.rows), "a pause is none"
    assert len(found.rows[0].marks) == 1, "one mark for each place"
    [nulls] = found.nulls
    assert (nulls.name, nulls.high) == ("user_id", "12.5 %")
    assert found.without_nulls == ("started_at",)
    nothing = trends([], [], BEGIN, NOW)
    assert [chart.drawing for chart in nothing.rows] == [None, None] and nothing.nulls == ()


def test_rows_of_other_releases_are_read_or_left_out() -> None:
    row = {"stream": "s", "table": "t", "run_id": "r", "validated_at": NOW, "table_version": 3}
    counts = {"expectations": 5, "failed": 1}

    assert validations_of([row]) == (), "nothing is known of what it found"
    [one] = validations_of([{**row, **counts}])
    assert (one.from_version, one.rows, one.level) == (None, None, "warn")
    assert validations_of([{**row, **counts, "repeats": "another"}]) == ()
    [old] = results_of([{**row, "name": "n", "severity": "warning", "success": False}])
    assert (old.severity, old.level, old.is_masked) == ("warn", "warn", False)
    [new] = results_of(
        [{**row, "name": "n", "severity": "critical", "success": False, "masked_columns": "[]"}]
    )
    assert (new.level, new.is_masked) == ("bad", True)
    told = {**row, "reconciled_at": NOW, "range_from": BEGIN, "range_to": NOW, "rows_different": 4}
    assert [one.level for one in reconciliations_of([told, {**told, "rows_wrong": 0}, row])] == [
        "bad",
        "warn",
    ]


def test_an_example_shows_the_row_and_where_in_kafka_it_came_from() -> None:
    values = {"user_id": "masked-1", "n": 3, "ids": ["a"], "at": None, "row_hash": "x"}
    entry = {"row": json.dumps(values), "masked_columns": '["user_id"]'}
    found = examples_of([{**entry, "origin": json.dumps(origin(17, 231, 1000)), "row_hash": "guessable"}])

    [row] = found.rows
    assert found.columns == ("user_id", "n", "ids", "at", "row_hash"), "the table's own columns"
    assert dict(row.values) == {"user_id": "masked-1", "n": "3", "ids": '["a"]', "at": None, "row_hash": "x"}
    assert row.offsets == ("user_events 0: 1017, 1044, 1301",)
    assert row.brought == ("version 17, batch 231",)
    assert "secret-event" not in str(found) and "guessable" not in str(found)

    [batch] = examples_of([{**entry, "origin": json.dumps(origin(17, 231, 1000, traced=False))}]).rows
    assert batch.offsets == (
        "user_events 0: 1000 to 2199 (its batch)",
        "user_events 2: 960 to 2099 (its batch)",
    )


@pytest.mark.parametrize(
    ("given_origin", "offsets", "brought"),
    [
        (None, (), ()),
        ("{half a docum", (), ()),
        (
            '{"commits": [{"version": 5, "says": "by another program"}]}',
            (),
            ("version 5: by another program",),
        ),
        ('{"commits": [{"says": "by a commit"}], "events": null}', (), ("by a commit",)),
        (
            '{"commits": [{"version": 5, "batch_id": 0, "offsets": null}]}',
            (),
            ("version 5, batch 0; what it read of Kafka is no longer on record",),
        ),
        (
            json.dumps(
                {
                    "events": {
                        "topic": "t",
                        "count": 9,
                        "first": [{"partition": 1, "offset": n} for n in range(7)],
                    }
                }
            ),
            ("t 1: 0, 1, 2, 3, 4, …", "and 2 more events"),
            (),
        ),
        (
            json.dumps(
                {
                    "events": {
                        "topic": "a",
                        "count": 3,
                        "first": [
                            {"topic": topic, "partition": 1, "offset": n}
                            for n, topic in enumerate(("b", "a", "b"))
                        ],
                    }
                }
            ),
            ("a 1: 1", "b 1: 0, 2"),
            (),
        ),
    ],
)
def test_an_origin_may_say_less(given_origin: str | None, offsets: Any, brought: Any) -> None:
    [row] = examples_of([{"row": None, "origin": given_origin}]).rows

    assert (row.offsets, row.brought, dict(row.values)) == (offsets, brought, {})


def test_ten_rows_are_shown_in_the_same_order_each_time() -> None:
    entries = [{"row": json.dumps({"n": n}), "origin": "{}"} for n in range(30)]

    found = examples_of(entries)
    assert len(found.rows) == 10
    assert examples_of(entries[::-1]).rows == found.rows
    assert examples_of([]).rows == ()


def test_links_lead_to_the_dag_the_stream_and_the_report() -> None:
    last = validation(1, docs_path="validations/sessions/a run/x.html")

    links = links_of(SESSIONS, last, frozenset([last.docs_path]), ["user_sessions"])
    assert [(link.href, link.outer) for link in links] == [
        ("../../dags/quality_user_sessions", True),
        ("../streams/index.html#user_sessions", False),
        ("../data-docs/validations/sessions/a%20run/x.html", False),
    ]
    assert len(links_of(Name("shared", "dead_letters"), last, frozenset(), ["user_sessions"])) == 1
    assert page_of(SESSIONS, 7) == "table.html?stream=user_sessions&table=sessions&days=7"


def test_a_whole_day_is_its_date() -> None:
    day = NOW.replace(hour=0, minute=0)

    assert human_units.format_range(day, day + 24 * HOUR) == "03 Feb"
    assert human_units.format_range(NOW, NOW + 24 * HOUR) == "03 Feb 14:30 to 04 Feb 14:30"


@pytest.mark.parametrize(
    ("share", "expected"),
    [
        (None, "–"),
        (0, "0 %"),
        (100, "100 %"),
        (99.99, "> 99.9 %"),
        (95.0, "95 %"),
        (12.34, "12.3 %"),
        (0.0123, "0.012 %"),
        (0.00001, "< 0.001 %"),
    ],
)
def test_only_what_is_exactly_all_or_nothing_looks_so(share: float | None, expected: str) -> None:
    assert human_units.format_percent(share) == expected
