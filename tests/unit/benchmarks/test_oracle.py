"""The benchmark's oracle and report: what every contestant is judged by."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks import report
from benchmarks.charts import states
from benchmarks.charts.pairs import Spread
from benchmarks.harness.oracle import Row, answer_of, expected
from benchmarks.harness.workload import GAP_MS, LATENESS_MS, Events, Workload, generate, records
from tests.support.full import ci_full

# It is about what the software is tested with.
pytestmark = ci_full

EVENTS = st.lists(st.tuples(st.integers(0, 3), st.integers(0, 300)), max_size=60)


def sessions_one_by_one(events: list[tuple[int, int]], gap_ms: int) -> list[Row]:
    """The definition, event by event."""
    rows: list[Row] = []
    open_rows: dict[int, Row] = {}
    for user, time_ms in sorted(events, key=lambda event: event[1]):
        row = open_rows.get(user)
        if row is not None and time_ms - row[2] < gap_ms:
            open_rows[user] = (row[0], row[1], time_ms, row[3] + 1)
            continue
        if row is not None:
            rows.append(row)
        open_rows[user] = (f"u{user:08d}", time_ms, time_ms, 1)
    return [*rows, *open_rows.values()]


def arrays(events: list[tuple[int, int]]) -> Events:
    users, times = zip(*events, strict=True) if events else ((), ())
    return Events(np.array(users, dtype=np.int64), np.array(times, dtype=np.int64))


@given(EVENTS, st.integers(1, 50))
def test_the_oracle_is_the_definition_in_any_order(events: list[tuple[int, int]], gap_ms: int) -> None:
    rows = sessions_one_by_one(events, gap_ms)
    assert answer_of(reversed(rows)) == expected(arrays(events), gap_ms)


@pytest.mark.parametrize(
    "wrong",
    [
        [("u00000001", 0, 10, 2)],
        [("u00000001", 0, 10, 2), ("u00000002", 5, 5, 1), ("u00000002", 5, 5, 1)],
        [("u00000001", 0, 10, 2), ("u00000002", 5, 6, 1)],
        [("u00000001", 0, 10, 1), ("u00000002", 5, 5, 2)],
        [("u00000002", 0, 10, 2), ("u00000001", 5, 5, 1)],
    ],
    ids=["a lost row", "a double row", "another time", "another count", "another user"],
)
def test_a_wrong_output_is_told_from_the_right_one(wrong: list[Row]) -> None:
    right = [("u00000001", 0, 10, 2), ("u00000002", 5, 5, 1)]
    assert answer_of(wrong) != answer_of(right)


@pytest.mark.parametrize("skew", ["uniform", "zipf"])
def test_a_workload_is_the_same_each_time_and_within_its_bounds(skew: str) -> None:
    workload = Workload(events=5000, size=500, keys=200, skew=skew)
    events = generate(workload)
    again = generate(workload)
    assert np.array_equal(events.users, again.users)
    assert np.array_equal(events.times_ms, again.times_ms)
    assert 0 <= events.users.min() <= events.users.max() < workload.keys
    behind = np.maximum.accumulate(events.times_ms) - events.times_ms
    assert 0 < behind.max() < LATENESS_MS
    values = [value for chunk in records(workload, events) for _, value in chunk]
    assert {len(value) for value in values} == {workload.size}


def test_spoilt_records_come_on_top_of_the_same_events() -> None:
    clean = Workload(events=1000, keys=10)
    spoilt = replace(clean, spoilt_percent=2)
    assert "spoilt_percent" not in clean.as_json() and clean.topic(False) != spoilt.topic(False)
    values = [value for chunk in records(clean, generate(clean)) for _, value in chunk]
    found = [value for chunk in records(spoilt, generate(spoilt)) for _, value in chunk]
    assert len(found) == spoilt.records(False) == 1000 + 20 + 10 + 20
    more = Counter(found) - Counter(values)
    repeated = [value for value in more if value in values]
    late = [value for value in more if b'"event_time":"2023-12-31' in value]
    assert len(repeated) == 20 and set(repeated) <= set(values)
    assert len({json.loads(value)["event_id"] for value in late} - {"e0"}) == len(late) == 10
    assert {len(value) for value in late} == {clean.size}
    assert not any(value in found[:500] for value in late), "nothing is late before there is a watermark"
    (invalid,) = {len(value) for value in more if value not in [*repeated, *late]}
    assert invalid == clean.size - 1


def test_gaps_of_exactly_the_session_gap_occur() -> None:
    events = generate(Workload(events=20_000, keys=500))
    order = np.lexsort((events.times_ms, events.users))
    gaps = np.diff(events.times_ms[order])[np.diff(events.users[order]) == 0]
    assert (gaps == GAP_MS).any()


def a_result(contestant: str, run: int, events_per_s: int, *, correct: bool = True, series: str = "2") -> Any:
    return {
        "series": series,
        "run": run,
        "contestant": contestant,
        "durability": "none",
        "workload": Workload(events=1000).as_json(),
        "cpus": 2,
        "load_before": 0.5,
        "expected": {"sessions": 10, "events": 1000, "checksum": "0"},
        "correct": correct,
        "problem": "" if correct else "wrong",
        **(
            {"events_per_s": events_per_s, "cpu_s": 0.01, "consume_s": 1.0, "total_s": 2.0} if correct else {}
        ),
        "peak_rss_mib": 100,
    }


def test_the_report_takes_the_newest_series_and_only_right_runs() -> None:
    results = [
        a_result("slow", 1, 999_999, series="1"),
        *(a_result("slow", run, 100 * run) for run in (1, 2, 3)),
        a_result("fast", 1, 5000),
        a_result("fast", 2, 0, correct=False),
        a_result("broken", 1, 0, correct=False),
    ]
    (series,) = report.newest_series(results)
    lines = report.lines_of(series)
    assert [(line.name, line.right, line.runs) for line in lines] == [
        ("fast", 1, 2),
        ("slow", 3, 3),
        ("broken", 0, 1),
    ]
    assert lines[1].events_per_s == Spread(200, 100, 300)
    assert not report.has_runs(series, 2)
    text = report.section(series, "images/x.svg")
    assert "| slow | none | 3/3 | 200 (100 to 300) | 10.0 |" in text
    assert "| broken | none | 0/1 | — |" in text


def test_the_page_keeps_what_is_written_by_hand() -> None:
    page = f"# By hand\n{report.BEGIN}\nold\n{report.END}\nfooter\n"
    new = report.put_between_markers(page, "new")
    assert new == f"# By hand\n{report.BEGIN}\n\nnew\n{report.END}\nfooter\n"
    with pytest.raises(report.ReportError, match="markers"):
        report.put_between_markers("# By hand\n", "new")


def test_a_section_that_was_not_measured_again_stays() -> None:
    page = f"# By hand\n{report.BEGIN}\n\n### a\n\n1\n\n### b\n\n2\n\n{report.END}\nfooter\n"
    new = report.with_sections(page, ["### c\n\n5\n", "### b\n\n4\n", ""])
    assert new == (
        f"# By hand\n{report.BEGIN}\n\n### c\n\n5\n\n### a\n\n1\n\n### b\n\n4\n\n{report.END}\nfooter\n"
    )
    assert report.with_sections(new, []) == new


def test_prose_that_is_written_has_lines_of_a_hundred_characters() -> None:
    prose, table = "a sentence " * 20 + "end", "| " + "cell | " * 40
    lines = report.wrapped(f"{prose}\n\n{table}\n    {prose}").split("\n")
    assert " ".join(lines[:3]) == prose
    assert max(map(len, lines[:3])) <= 100
    assert lines[3:] == ["", table, f"    {prose}"]


def test_only_the_largest_right_move_and_the_newest_trip_of_a_stream_are_reported(tmp_path: Path) -> None:
    assert list(states.pages(tmp_path)) == []
    moves = [move(1_000, 3.0), move(1_000, 4.0), move(20, 5.0), {**move(9_000, 6.0), "correct": False}]
    trips = [trip("user_sessions", 7), trip("fraud_watch", 8), trip("user_sessions", 9)]
    for name, results in (("moving", moves), ("going_back", trips)):
        (tmp_path / f"{name}.jsonl").write_text("\n".join(map(json.dumps, results)))

    (moved, text), (back, table) = states.pages(tmp_path)

    assert (moved.name, back.name) == ("state-repartition.md", "state-operations.md")
    assert "| savepoint | 4.0 | 2 | |" in text.replace("  ", " ")
    assert "1,000 keys" in text
    assert "| 4 to 7 | 9.5 | 19.0 | 1.9 |" in text
    assert [row.split("|")[3].strip() for row in table.splitlines() if row.startswith("| `")] == [
        "9.0",
        "8.0",
    ]


def move(keys: int, savepoint_s: float) -> dict[str, Any]:
    done = {"seconds": 12.0, "bytes": 2_000_000, "steps_seconds": 9.5, "steps": {"copy": {"seconds": 1.0}}}
    return {
        "at": "2026-01-01T00:00:00Z",
        "cpus": 2,
        "load_before": 1.0,
        "workload": Workload(5_000, 300, 1250).as_json(),
        "consumed_at_half": 2_600,
        "keys": keys,
        "live_bytes": 10,
        "checkpoint_files": 3,
        "checkpoint_bytes": 20,
        "answer": {"sessions": 1, "events": 2, "checksum": "c"},
        "rewriting": {name: {"seconds": 1.0, "bytes": 1_000_000} for name in ("files", "parquet")},
        "inspect": {"seconds": 1.0},
        "savepoint": {"seconds": savepoint_s, "bytes": 2_000_000},
        "repartition": {"4 to 7": {**done, "over_copying_files": 19.0, "over_spark_to_parquet": 1.9}},
        "compare": {"key by key": {"seconds": 1.0, "entries": 9}},
        "first_batch_s": 2.0,
        "correct": True,
    }


def trip(stream: str, savepoint_s: float) -> dict[str, Any]:
    return {
        "stream": stream,
        "profile": "daily",
        "seed": 1,
        "rate": 100.0,
        "records": 10,
        "savepoint": {"seconds": savepoint_s},
        "restore": {"seconds": 1.0, "records_to_read_again": 5},
        "reading_again_s": 1.0,
        "rows_taken_back": {"sessions": 1},
        "rows": {"sessions": 2},
        "wrong": {},
    }
