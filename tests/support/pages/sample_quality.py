"""A week of validations and reconciliations, as they are written down, with failures of several kinds.

For tests of the quality pages, and for looking at them without a platform:

    python -m tests.support.pages.sample_quality FOLDER PORT
"""

from __future__ import annotations

import hashlib
import math
import random
import sys
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from stateward.pages.quality.history import ROW_COUNT, Name
from stateward.project.settings import Settings
from tests.support.pages.written_quality import Broken, Written, suite_of

HOUR = timedelta(hours=1)
QUERY = "unexpected_rows_expectation"
SESSIONS = suite_of(
    ("session_id", "user_id", "started_at", "ended_at", "closed_at", "close_reason"),
    session_id_is_unique=("expect_column_values_to_be_unique", "critical"),
    session_ends_after_its_start=("expect_column_pair_values_a_to_be_greater_than_b", "critical"),
    duration_is_end_minus_start=(QUERY, "critical"),
    duration_is_not_negative=("expect_column_values_to_be_between", "critical"),
    sessions_of_a_user_do_not_overlap=(QUERY, "critical"),
    close_reason_is_known=("expect_column_values_to_be_in_set", "critical"),
    rows_as_usual=(ROW_COUNT, "warn"),
    event_count_as_usual=("expect_column_kl_divergence_to_be_less_than", "warn"),
)
OTHER = suite_of(
    ("id", "key", "at"),
    rows_as_usual=(ROW_COUNT, "warn"),
    reason_is_known=("expect_column_values_to_be_in_set", "critical"),
)


def masked(who: str) -> str:
    """The masked form of a person."""
    return "masked-" + hashlib.sha256(who.encode()).hexdigest()[:20]


def session(number: int, at: datetime, **changes: Any) -> dict[str, Any]:
    """A row of `sessions`."""
    begin = at - timedelta(minutes=number + 7)
    return {
        "session_id": hashlib.sha256(str(number).encode()).hexdigest()[:16],
        "user_id": masked(f"user-{number}"),
        "started_at": begin.isoformat(timespec="milliseconds").replace("+00:00", "Z"),
        "ended_at": (begin + 4 * HOUR / 60).isoformat(timespec="milliseconds").replace("+00:00", "Z"),
        "duration_ms": 240_000,
        "event_count": 3 + number % 5,
        "last_event_type": "logout",
        "close_reason": "ENDED",
        "closed_at": at.isoformat(timespec="milliseconds").replace("+00:00", "Z"),
        **changes,
    }


def origin(version: int, batch: int, first: int, *, traced: bool = True) -> dict[str, Any]:
    """Where a row came from, as `quarantine` has it."""
    commit = {
        "version": version,
        "operation": "STREAMING UPDATE",
        "generation": "g",
        "batch_id": batch,
        "offsets": {"user_events": {"0": [first, first + 1200], "2": [first - 40, first + 1100]}},
        "says": f"written by batch {batch} of the stream",
    }
    places = [{"partition": 0, "offset": first + step, "event_id": "secret-event"} for step in (17, 44, 301)]
    events = {"topic": "user_events", "count": 3, "first": places}
    return {"commits": [commit], "events": events if traced else None}


BY_HAND = {
    "commits": [{"version": 1207, "operation": "UPDATE", "says": "written by another program: UPDATE"}],
    "events": None,
}


def week(settings: Settings, now: datetime) -> Written:
    """Write a week of ten tables."""
    written = Written(settings)
    for name, begin, suite, per_hour in (
        (Name("user_sessions", "sessions"), 400, SESSIONS, 21_000),
        (Name("fraud_watch", "fraud_alerts"), 90, OTHER, 320),
        (Name("fraud_watch", "fraud_summaries"), 60, OTHER, 150),
        (Name("user_activity", "activity_sessions"), 800, OTHER, 8000),
        (Name("device_lifecycle", "device_alerts"), 20, OTHER, 40),
        (Name("intrusion_patterns", "intrusion_alerts"), 0, OTHER, 3),
        (Name("payment_auth_join", "payment_authentications"), 300, OTHER, 12_000),
        (Name("raw_events", "raw_events"), 4000, OTHER, 260_000),
    ):
        for one in _validations(name, begin, per_hour, now):
            at, versions, counts = one
            broken = tuple(_broken(name, at, versions[1], now)) if name.table in _BAD else ()
            recent = now - at < 36 * HOUR
            written.validation(name, suite, at, versions, counts, broken=broken, has_page=recent)
    _reconciled(written, now)
    written.save()
    return written


_BAD = ("sessions", "fraud_alerts", "device_alerts")


def _validations(
    name: Name, begin: int, per_hour: int, now: datetime
) -> Iterator[tuple[datetime, tuple[int, int], tuple[int, int]]]:
    chance = random.Random(name.table)
    version, total = begin, begin * per_hour // 8
    for hours in range(160, -1, -2):
        at = now - hours * HOUR - timedelta(minutes=chance.randrange(50), seconds=chance.randrange(60))
        swing = 1 + 0.5 * math.sin(at.hour / 24 * 2 * math.pi) + chance.uniform(-0.1, 0.1)
        rows = int(per_hour * 2 * swing)
        if name.table == "sessions" and 52 <= hours <= 56:
            rows //= 11
        first, version, total = version + 1, version + chance.randrange(4, 11), total + rows
        yield at, (first, version), (rows, total)


def _broken(name: Name, at: datetime, version: int, now: datetime) -> Iterator[Broken]:
    hours = (now - at) / HOUR
    if name.table == "sessions":
        if 52 <= hours < 57:
            said = "3821 (usual in 2 h: 41200 rows, by 30 validations)"
            yield Broken("rows_as_usual", said, origins=(BY_HAND,))
        if 100 <= hours < 103:
            rows = tuple(session(number, at, user_id=None) for number in range(4))
            origins: tuple[dict[str, Any], ...] = (origin(version, 900, 88_000),)
            yield Broken("user_id_is_present", "412 unexpected rows", rows, origins, 412, 1.9)
        if hours < 1.5:
            rows = tuple(session(number, at, duration_ms=-4000 - number) for number in range(10))
            origins = (*(origin(version, 2204, 411_200 + 90 * n) for n in range(7)), BY_HAND)
            said = "1,204 unexpected rows, such as -4000, -4001"
            yield Broken("duration_is_not_negative", said, rows, origins, 1204, 5.7)
            odd = tuple(session(number, at, close_reason="LOST<b>") for number in (3, 4))
            said = "2 unexpected rows, such as LOST<b>"
            yield Broken(
                "close_reason_is_known", said, odd, (origin(version, 2205, 9000, traced=False),), 2, 0.01
            )
    if name.table == "fraud_alerts" and hours < 8:
        yield Broken("rows_as_usual", "61 (usual in 2 h: 640 rows, by 30 validations)", origins=(BY_HAND,))
    if name.table == "device_alerts" and 20 < hours < 31:
        row = {"id": "a1", "key": "device-7", "reason": "UNKNOWN", "at": "2026-02-02T10:00:00.000Z"}
        yield Broken("reason_is_known", "1 unexpected rows, such as UNKNOWN", (row,), (BY_HAND,), 1, 0.4)


def _reconciled(written: Written, now: datetime) -> None:
    for days in range(4, -1, -1):
        at = now - days * 24 * HOUR - 5 * HOUR
        written.reconciliation(Name("user_sessions", "sessions"), at, (503_112, 0, 0))
        activity = Name("user_activity", "activity_sessions")
        note = "raw_events starts at 10:00 of that day: earlier rows cannot be compared."
        written.reconciliation(activity, at, (191_020, 3 if days else 0, 0), (note,) if days else ())
        written.reconciliation(
            Name("fraud_watch", "fraud_summaries"), at, (3600, int(days == 0), int(days == 0))
        )


def serve(home: Path, port: int) -> None:
    """Serve the pages at `/stateward/quality/index.html` without a login."""
    import os

    import uvicorn
    from airflow.api_fastapi.core_api.security import get_user
    from fastapi import FastAPI

    from stateward.airflow.web.quality_app import create_app
    from stateward.rendering.page_address import QUALITY

    week(Settings(home=home, data=f"file://{home}/data"), datetime.now(UTC))
    os.environ |= {"STATEWARD_HOME": str(home)}
    app = create_app()
    app.dependency_overrides[get_user] = lambda: None
    outer = FastAPI()
    outer.mount(QUALITY, app)
    uvicorn.run(outer, host="127.0.0.1", port=port, log_level="warning")


if __name__ == "__main__":
    serve(Path(sys.argv[1]), int(sys.argv[2]))
