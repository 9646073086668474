"""What `stateward backfill` asks of its Spark job, what it makes of the answer, and what it says of it."""

from __future__ import annotations

import sys
from collections import Counter
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from stateward.control.jobs import batch_job
from stateward.control.jobs.backfill_request import (
    NotReplayableError,
    RangeError,
    build_request,
    parse_moment,
)
from stateward.project.settings import Settings
from stateward.project.spec import load_spec
from stateward.recompute.bucket_recompute import Found
from stateward.recompute.lookback import Landed
from stateward.recompute.notes import Basis, notes
from stateward.recompute.request import Request, job_of, parse_request

BEGIN, END = datetime(2024, 3, 1, tzinfo=UTC), datetime(2024, 3, 2, tzinfo=UTC)
DAY_MS = 86_400_000


def document(tmp_path: Path, stream: str = "user_sessions", **changes: Any) -> dict[str, Any]:
    settings = Settings(home=tmp_path, data=f"file://{tmp_path}/data")
    return build_request(load_spec(stream), settings, BEGIN, END, **changes)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("2024-03-01", BEGIN),
        ("2024-03-01T00:00:00Z", BEGIN),
        ("2024-03-01T02:00:00+02:00", BEGIN),
        ("2024-03-01T00:00:00", BEGIN),
    ],
)
def test_a_moment_without_a_zone_is_utc(text: str, expected: datetime) -> None:
    assert parse_moment(text, "--from") == expected


def test_what_is_no_time_is_refused() -> None:
    with pytest.raises(RangeError, match=r"--to: expected a date or time .* found 'yesterday'"):
        parse_moment("yesterday", "--to")


def test_the_job_understands_the_request(tmp_path: Path) -> None:
    request = parse_request(document(tmp_path, compare=True), "here")
    assert request.span.to_ms - request.span.from_ms == DAY_MS
    assert (request.chain_ms, request.compare, request.with_late) == (DAY_MS, True, False)
    assert request.raw_uri == f"file://{tmp_path}/data/tables/raw_events"
    assert request.into_uri == f"file://{tmp_path}/backfill/user_sessions"
    assert request.config.topic == "user_events"


def test_the_chain_of_a_stream_with_several_timeouts_is_their_sum(tmp_path: Path) -> None:
    assert document(tmp_path, "device_lifecycle")["chain_ms"] == 30 * DAY_MS + 3_600_000


def test_ranges_and_places_that_cannot_be_used(tmp_path: Path) -> None:
    settings = Settings(home=tmp_path, data=f"file://{tmp_path}/data")
    with pytest.raises(RangeError, match="expected --from before --to"):
        build_request(load_spec("user_sessions"), settings, END, END)
    with pytest.raises(RangeError, match="expected a URI"):
        document(tmp_path, into="somewhere")
    for live in ("tables", "tables/", "checkpoints/../tables"):
        with pytest.raises(RangeError, match="holds the live tables, which are never replaced"):
            document(tmp_path, into=f"file://{tmp_path}/data/{live}")


def test_a_stream_by_processing_time_is_refused(tmp_path: Path) -> None:
    with pytest.raises(NotReplayableError, match="action_counts: expected clock: event, found processing"):
        document(tmp_path, "action_counts")


def run(tmp_path: Path, program: str) -> tuple[bool, list[tuple[str, str]]]:
    steps: list[tuple[str, str]] = []
    log = tmp_path / "job.log"
    done = batch_job.run(
        [sys.executable, "-c", program], {}, log, lambda part, what: steps.append((part, what))
    )
    return done, steps


def test_steps_are_shown_and_all_else_is_logged(tmp_path: Path) -> None:
    program = "print('@step\\tevents\\treading'); print('chatter'); print('@step\\tevents\\tready')"
    assert run(tmp_path, program) == (True, [("events", "reading"), ("events", "ready")])
    assert (tmp_path / "job.log").read_text() == "chatter\n"


def test_a_difference_is_no_error(tmp_path: Path) -> None:
    assert run(tmp_path, "import sys; sys.exit(2)") == (False, [])


def test_an_error_is_the_jobs_own_or_the_end_of_its_log(tmp_path: Path) -> None:
    with pytest.raises(batch_job.JobError, match=r"^nothing is landed$"):
        run(tmp_path, "import sys; print('@error\\tnothing is landed'); sys.exit(1)")
    with pytest.raises(batch_job.JobError, match=r"ended with 1; its log .*(?s:.*)ValueError: odd"):
        run(tmp_path, "raise ValueError('odd')")


def basis(request: Request, exact_from_ms: int | None, **changes: Any) -> Basis:
    made: dict[str, Any] = {
        "span": request.span,
        "landed": {0: Landed(7, 9, request.span.from_ms - 1000)},
        "missing": {},
        "exact_from_ms": exact_from_ms,
        "watermark_ms": request.span.to_ms,
    }
    return Basis(**{**made, **changes})


def test_an_exact_answer_needs_no_words(tmp_path: Path) -> None:
    request = parse_request(document(tmp_path, compare=True), "here")
    job = job_of("user_sessions")
    assert notes(request, job, Found(), basis(request, request.span.from_ms)) == []


def test_it_is_said_from_when_on_an_answer_is_exact(tmp_path: Path) -> None:
    request = parse_request(document(tmp_path), "here")
    job = job_of("user_sessions")
    [note] = notes(request, job, Found(), basis(request, request.span.from_ms + 3_600_000))
    assert "of user_events it begins with the records of 2024-02-29T23:59:59" in note
    assert note.endswith("Rows are exact from 2024-03-01T01:00:00.000Z on.")

    found = Found(Counter(keys=9, inexact=2), None, ["a", "b"])
    for never in (None, request.span.to_ms):
        [note] = notes(request, job, found, basis(request, never))
        assert note.endswith("2 of 9 keys are not exact, such as a, b.")


def test_what_the_live_table_or_raw_events_lack_is_said(tmp_path: Path) -> None:
    request = parse_request(document(tmp_path, "device_lifecycle", compare=True), "here")
    behind = basis(request, request.span.from_ms, missing={1: 5}, watermark_ms=request.span.to_ms - 1)
    lacking, late, current = notes(request, job_of("device_lifecycle"), Found(), behind)
    assert "lacks records of device_readings that the stream has read (5 of partition 1)" in lacking
    assert late.startswith("The stream has got to 2024-03-01T23:59:59.999Z")
    assert current.startswith("device_status holds the last row of each device_id as of 2024-03-02")
