"""The request that the Spark job `stateward/recompute/job.py` reads: which stream, which rows, where to."""

from __future__ import annotations

from datetime import UTC, datetime
from posixpath import normpath
from typing import Any

from stateward.contract.names import RAW_EVENTS, RECONCILIATIONS
from stateward.contract.reading import as_json
from stateward.contract.requests import KeptOutcome, RecomputeRequest
from stateward.control.launchers.launch import driver_config
from stateward.project.durations import to_ms
from stateward.project.layout import Layout
from stateward.project.settings import Settings
from stateward.project.spec import StreamSpec

RUN_ID = "backfill"


class RangeError(ValueError):
    """A range of time or a place that cannot be used."""


class NotReplayableError(ValueError):
    """Nothing that is kept says what the stream's rows were."""


def why_not_replayable(spec: StreamSpec) -> str | None:
    """Say why a stream's rows cannot be computed again; None for those that can be.

    Args:
        spec: The stream.
    """
    if spec.source.topics is not None or spec.stream == RAW_EVENTS:
        return (
            f"stream {spec.stream}: expected a stream that computes rows, found one that lands records as"
            " they are: there is nothing to compute again"
        )
    if spec.clock == "processing":
        return (
            f"stream {spec.stream}: expected clock: event, found processing: its rows depend on when each"
            f" record was read, which {RAW_EVENTS} does not say, so they cannot be computed again"
        )
    return None


def parse_moment(text: str, option: str) -> datetime:
    """Read a date or a time; without a zone it is UTC.

    Args:
        text: ISO 8601, such as ``2024-03-01`` or ``2024-03-01T06:00:00+02:00``.
        option: What it was given as, for the error.

    Raises:
        RangeError: It is neither.
    """
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise RangeError(
            f"{option}: expected a date or time such as 2024-03-01 or 2024-03-01T06:00:00Z, found {text!r}"
        ) from None
    return moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment.astimezone(UTC)


def build_request(
    spec: StreamSpec,
    settings: Settings,
    begin: datetime,
    end: datetime,
    *,
    into: str | None = None,
    with_late: bool = False,
    compare: bool = False,
    run_id: str | None = None,
) -> dict[str, Any]:
    """Return the request as a JSON document; times in milliseconds since 1970 UTC.

    Args:
        spec: The stream.
        settings: Where everything is.
        begin: First time of the range.
        end: Its end, which is not part of it.
        into: URI for the tables, `Layout.backfill_dir` when not given.
        with_late: Whether events count that came too late for the stream.
        compare: Whether to compare with the live tables.
        run_id: Name under which the outcome is kept in the table `reconciliations`; None if it is not.

    Raises:
        RangeError: The range is empty, or a live table would be replaced.
        NotReplayableError: The stream's rows cannot be computed again (`why_not_replayable`).
    """
    if reason := why_not_replayable(spec):
        raise NotReplayableError(reason)
    if begin >= end:
        raise RangeError(
            f"stream {spec.stream}: expected --from before --to, found {begin.isoformat()} and"
            f" {end.isoformat()}"
        )
    layout = Layout.of(settings)
    folder = layout.backfill_dir(spec.stream)
    target = (into or f"file://{folder}").rstrip("/")
    if "://" not in target:
        raise RangeError(f"--into: expected a URI such as file:///srv/backfill, found {target!r}")
    if normpath(target) == normpath(layout.table_uri("")):
        raise RangeError(
            f"--into: {target} holds the live tables, which are never replaced; name another place"
        )
    request = RecomputeRequest(
        config=driver_config(spec, settings, RUN_ID),
        from_ms=_milliseconds(begin),
        to_ms=_milliseconds(end),
        chain_ms=to_ms(spec.logic.longest()),
        raw_uri=layout.table_uri(RAW_EVENTS),
        into_uri=target,
        report_uri=f"{target if run_id else f'file://{folder}'}/report.json",
        with_late=with_late,
        compare=compare,
        record=KeptOutcome(layout.table_uri(RECONCILIATIONS), run_id) if run_id else None,
    )
    return as_json(request)


def _milliseconds(moment: datetime) -> int:
    return to_ms(moment - datetime(1970, 1, 1, tzinfo=UTC))
