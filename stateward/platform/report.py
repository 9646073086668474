"""What `stateward status` shows: each part as the supervisor sees it, each stream as its documents say."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from typing import Any

from stateward.contract.reading import InvalidDocumentError
from stateward.contract.storage import CorruptDocumentError, read_json
from stateward.contract.stream_control import Control, Hold, control_from
from stateward.contract.stream_status import BOUNDS, OUTCOMES
from stateward.control.health.health import Finding, judge_health
from stateward.control.reconcile.observe import measure_limits, read_status_document
from stateward.control.releases.release import upgrade_available
from stateward.platform.health import airflow_health, answers
from stateward.platform.parts.registry import API_SERVER, KAFKA, parts_of
from stateward.platform.parts.supervisord import Supervisor
from stateward.project.layout import Layout
from stateward.project.settings import Settings
from stateward.project.spec import StreamSpec, load_specs
from stateward.project.spec_health import Health

COUNTERS = ("delivered", *OUTCOMES)
_AS_REPORTED = (
    "state",
    "pid",
    "epoch",
    "generation",
    "checkpoint",
    "batch_id",
    "caught_up",
    "lag_records",
)


@dataclass(frozen=True)
class PartReport:
    """One part: `state` is `ready`, supervisord's word in lower case, `down`, or elsewhere `no answer`."""

    name: str
    what: str
    state: str
    pid: int | None
    uptime_s: float | None
    address: str | None


@dataclass(frozen=True)
class StreamReport:
    """One stream; fields that are not known yet are None."""

    stream: str
    desired: str | None
    held_by: str | None
    state: str | None
    message: str
    pid: int | None
    epoch: int | None
    generation: int | None
    checkpoint: str | None
    batch_id: int | None
    caught_up: bool | None
    lag_records: int | None
    watermark: str | None
    last_batch_age_s: float | None
    status_age_s: float | None
    counters: dict[str, int | None]
    bounds: dict[str, int | None] = field(default_factory=dict)
    findings: tuple[Finding, ...] = ()
    override: str = ""
    release: str | None = None
    upgrade: tuple[str, ...] = ()


def part_reports(settings: Settings, now: datetime) -> list[PartReport]:
    """Return every part of the platform, whether it runs or not."""
    states = Supervisor(Layout.of(settings)).states()
    if not states and settings.supervised_by:
        return _parts_elsewhere(settings)
    health = airflow_health(settings) if states else None
    reports = []
    for part in parts_of(settings):
        state = states.get(part.name)
        if state is None:
            reports.append(PartReport(part.name, part.what, "down", None, None, part.address(settings)))
            continue
        ready = state.state == "RUNNING" and answers(part, state, settings, health)
        reports.append(
            PartReport(
                name=part.name,
                what=part.what,
                state="ready" if ready else state.state.lower(),
                pid=state.pid,
                uptime_s=now.timestamp() - state.started_at if state.started_at else None,
                address=part.address(settings),
            )
        )
    return reports


def _parts_elsewhere(settings: Settings) -> list[PartReport]:
    """Return what can be known of parts that another machine or container runs: whether they answer."""
    health = airflow_health(settings)
    addresses = {KAFKA: settings.kafka_bootstrap, API_SERVER: settings.airflow_internal_url}
    return [
        PartReport(
            name=part.name,
            what=part.what,
            state="ready" if answers(part, None, settings, health) else "no answer",
            pid=None,
            uptime_s=None,
            address=addresses.get(part),
        )
        for part in parts_of(settings)
    ]


def stream_reports(settings: Settings, now: datetime) -> list[StreamReport]:
    """Return every stream that has a YAML file."""
    names = sorted(path.stem for path in settings.streams.glob("*.y*ml"))
    specs, _ = load_specs(settings.streams)
    # A stream whose YAML is broken now may still run, and is judged by the defaults.
    known = {spec.stream: spec for spec in specs}
    return [_stream_report(settings, name, known.get(name), now) for name in names]


def _stream_report(settings: Settings, stream: str, spec: StreamSpec | None, now: datetime) -> StreamReport:
    layout = Layout.of(settings)
    limits = measure_limits(spec.health if spec else Health())
    status, errors = read_status_document(layout.status_uri(stream))
    control, problem = _control(layout.control_uri(stream))
    hold = control.hold if control else None
    release = control.release if control else None
    return StreamReport(
        stream=stream,
        desired=control.desired if control else None,
        held_by=hold.by if hold else None,
        message="; ".join(errors) or problem or _held(stream, hold) or (status.message if status else ""),
        watermark=_text(status.watermark) if status else None,
        last_batch_age_s=_age(status.last_batch_at, now) if status else None,
        status_age_s=_age(status.updated_at, now) if status else None,
        counters={name: getattr(status, name, None) for name in COUNTERS},
        bounds={name: ((status and status.bounds) or {}).get(name) for name in BOUNDS},
        findings=judge_health(limits, status, now) if status else (),
        **{name: getattr(status, name, None) for name in _AS_REPORTED},
        override=str(control.override) if control and control.override else "",
        release=release,
        upgrade=tuple(upgrade_available(release, spec, settings)) if spec else (),
    )


def _held(stream: str, hold: Hold | None) -> str:
    return f"{hold}; if that run is gone, trigger stream_{stream} with the action restart" if hold else ""


def _control(uri: str) -> tuple[Control | None, str]:
    try:
        document = read_json(uri)
        return None if document is None else control_from(document, uri), ""
    except (CorruptDocumentError, InvalidDocumentError) as error:
        return None, str(error)


def _age(at: datetime | None, now: datetime) -> float | None:
    return None if at is None else (now - at).total_seconds()


def _text(at: datetime | None) -> str | None:
    return None if at is None else at.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def as_document(settings: Settings, now: datetime | None = None) -> dict[str, Any]:
    """Return everything as one JSON object: `{"home", ..., "parts": [...], "streams": [...]}`."""
    now = now or datetime.now(UTC)
    return {
        "home": str(settings.home),
        "airflow_url": settings.airflow_url,
        "supervised_by": settings.supervised_by,
        "parts": [asdict(part) for part in part_reports(settings, now)],
        "streams": [asdict(stream) for stream in stream_reports(settings, now)],
    }
