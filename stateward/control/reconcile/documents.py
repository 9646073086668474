"""The documents of docs/architecture.md, read into the values of `status`, and written."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from datetime import UTC, datetime
from typing import Any, cast, get_args

from stateward.control.health.cause import Cause
from stateward.control.health.failure import end_reason_of, failure_of, failure_to_json
from stateward.control.reconcile.status import (
    DESIRED,
    Control,
    Desired,
    DriverState,
    Hold,
    Launch,
    Override,
    Status,
    Supervisor,
)

_MEASURED = (
    "lag_change_per_s",
    "event_time_behind_ms",
    "dead_share",
    "late_share",
    "batch_duration_ms",
    "input_rows",
    "state_rows",
    "state_bytes",
    "state_file_bytes",
    "state_commit_ms",
    "state_update_ms",
    "state_removal_ms",
    "memory_bytes",
)


class DocumentError(ValueError):
    """A status, control or supervisor document is not what docs/architecture.md says."""


def parse_time(value: object) -> datetime:
    """Read an ISO 8601 time with its zone.

    Raises:
        DocumentError: It is no text, no time, or has no zone.
    """
    try:
        parsed = datetime.fromisoformat(cast(str, value))
    except (TypeError, ValueError):
        parsed = None
    if parsed is None or parsed.tzinfo is None:
        raise DocumentError(f"expected a time such as 2026-01-31T12:00:00Z, found {value!r}")
    return parsed.astimezone(UTC)


def format_time(value: datetime) -> str:
    """Write a time as the documents have it: UTC, microseconds, `Z`."""
    return value.astimezone(UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")


def control_from(document: Mapping[str, Any]) -> Control:
    """Read a control document.

    Raises:
        DocumentError: A field is missing or is not what it should be.
    """
    launch, reason = document.get("launch"), str(document.get("reason", ""))
    try:
        return Control(
            stream=str(document["stream"]),
            desired=cast(Desired, _one_of(document, "desired", DESIRED)),
            run_id=str(document["run_id"]),
            requested_at=parse_time(document["requested_at"]),
            requested_by=str(document.get("requested_by", "")),
            reason=reason,
            launch=None if launch is None else _launch_from(launch, reason),
            restarts=tuple(parse_time(item) for item in document.get("restarts", ())),
            failures=int(document.get("failures", 0)),
            failures_since=_time_or_none(document.get("failures_since")),
            hold=_hold_from(document.get("hold")),
            declared=cast(Desired, _one_of({"declared": "running"} | dict(document), "declared", DESIRED)),
            override=_override_from(document.get("override")),
            release=document.get("release"),
        )
    except (KeyError, TypeError) as error:
        raise DocumentError(f"control document: missing or wrong field {error}") from error


def control_document(control: Control) -> dict[str, Any]:
    """Write a control document; `control_from` reads it back."""
    launch, hold, override = control.launch, control.hold, control.override
    return {
        "version": 1,
        "stream": control.stream,
        "desired": control.desired,
        "run_id": control.run_id,
        "requested_at": format_time(control.requested_at),
        "requested_by": control.requested_by,
        "reason": control.reason,
        "launch": None
        if launch is None
        else {
            "run_id": launch.run_id,
            "pid": launch.pid,
            "pid_started": launch.pid_started,
            "host": launch.host,
            "at": format_time(launch.at),
            "log": launch.log,
            "failure": failure_to_json(launch.failure),
            "end_reason": launch.end_reason,
        },
        "restarts": [format_time(at) for at in control.restarts],
        "failures": control.failures,
        "failures_since": None if control.failures_since is None else format_time(control.failures_since),
        "hold": hold and {"by": hold.by, "why": hold.why, "at": format_time(hold.at)},
        "declared": control.declared,
        "release": control.release,
        "override": override and asdict(override) | {"at": format_time(override.at)},
    }


def _hold_from(document: Mapping[str, Any] | None) -> Hold | None:
    if document is None:
        return None
    return Hold(str(document["by"]), str(document["why"]), parse_time(document["at"]))


def _override_from(document: Mapping[str, Any] | None) -> Override | None:
    if document is None:
        return None
    desired = cast(Desired, _one_of(document, "desired", DESIRED))
    return Override(desired, str(document["author"]), str(document["reason"]), parse_time(document["at"]))


def _launch_from(document: Mapping[str, Any], reason: str) -> Launch:
    return Launch(
        run_id=str(document["run_id"]),
        at=parse_time(document["at"]),
        host=str(document["host"]),
        log=str(document["log"]),
        pid=document.get("pid"),
        pid_started=document.get("pid_started"),
        failure=failure_of(document, reason),
        end_reason=end_reason_of(document, reason),
    )


def status_from(document: Mapping[str, Any]) -> Status:
    """Read a status document.

    Raises:
        DocumentError: A field is missing or is not what it should be.
    """
    names = ("accepted", "dead", "late", "duplicates")
    counted = {"delivered": delivered_of(document), **{name: document.get(name) for name in names}}
    try:
        return Status(
            stream=str(document["stream"]),
            run_id=str(document["run_id"]),
            state=cast(DriverState, _one_of(document, "state", get_args(DriverState))),
            started_at=parse_time(document["started_at"]),
            updated_at=parse_time(document["updated_at"]),
            message=str(document.get("message") or ""),
            epoch=document.get("epoch"),
            host=document.get("host"),
            pid=document.get("pid"),
            pid_started=document.get("pid_started"),
            python_pid=document.get("python_pid"),
            phase=document.get("phase"),
            phase_at=_time_or_none(document.get("phase_at")),
            batch_id=document.get("batch_id"),
            last_batch_at=_time_or_none(document.get("last_batch_at")),
            watermark=_time_or_none(document.get("watermark")),
            caught_up=document.get("caught_up"),
            lag_records=document.get("lag_records"),
            behind_since=_time_or_none(document.get("behind_since")),
            **{name: document.get(name) for name in _MEASURED},
            counters={name: value for name, value in counted.items() if value is not None},
            cause=_cause_from(document.get("cause")),
        )
    except (KeyError, TypeError) as error:
        raise DocumentError(f"status document: missing or wrong field {error}") from error


def delivered_of(document: Mapping[str, Any]) -> int | None:
    """How many records Kafka delivered; a driver of an earlier release says how many offsets it has read."""
    found: int | None = document.get("delivered", document.get("consumed"))
    return found


def _cause_from(document: Mapping[str, Any] | None) -> Cause | None:
    return None if document is None else Cause(str(document["kind"]), bool(document["lasting"]))


def supervisor_from(document: Mapping[str, Any]) -> Supervisor:
    """Read a supervisor document.

    Raises:
        DocumentError: A field is missing or is not what it should be.
    """
    try:
        return Supervisor(dag_run=str(document["dag_run"]), at=parse_time(document["at"]))
    except KeyError as error:
        raise DocumentError(f"supervisor document: missing field {error}") from error


def _time_or_none(value: object) -> datetime | None:
    return None if value is None else parse_time(value)


def _one_of(document: Mapping[str, Any], field: str, allowed: tuple[str, ...]) -> str:
    value = document[field]
    if value not in allowed:
        raise DocumentError(f"{field}: expected one of {', '.join(allowed)}, found {value!r}")
    return str(value)
