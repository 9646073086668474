"""One look at a stream: its documents, and whether its driver is there. Never acts."""

from __future__ import annotations

import time
from dataclasses import replace
from datetime import timedelta

from stateward.contract.reading import InvalidDocumentError, read_as
from stateward.contract.storage import CorruptDocumentError, read_json
from stateward.contract.stream_control import Control, Supervisor, control_from
from stateward.contract.stream_status import Status, status_from
from stateward.control.health.health import Limit
from stateward.control.health.log_diagnosis import last_words
from stateward.control.health.thresholds import Thresholds
from stateward.control.launchers.driver_exit import Presence
from stateward.control.launchers.drivers import cluster_driver_of, driver_of
from stateward.control.reconcile.decide import Observed
from stateward.project.layout import Layout
from stateward.project.spec import StreamSpec
from stateward.project.spec_health import Health


def thresholds_of(spec: StreamSpec) -> Thresholds:
    """Take from a stream's YAML what `decide` compares with."""
    return Thresholds(
        max_status_age=spec.health.max_status_age,
        start_deadline=spec.health.start_deadline,
        stop_deadline=spec.health.stop_deadline,
        kill_grace=spec.health.kill_grace,
        max_commit_age=spec.health.max_commit_age,
        backoff=spec.restart.backoff,
        max_backoff=spec.restart.max_backoff,
        max_attempts=spec.restart.max_attempts,
        window=spec.restart.window,
        measures=measure_limits(spec.health),
    )


def measure_limits(health: Health) -> dict[str, Limit]:
    """Return the limits that are only reported, as plain numbers: durations in seconds."""
    limits = health.limits
    pairs = {name: getattr(limits, name) for name in type(limits).model_fields}
    return {name: Limit(_number(pair.warn), _number(pair.critical)) for name, pair in pairs.items()}


def _number(value: timedelta | int | None) -> float | None:
    return value.total_seconds() if isinstance(value, timedelta) else value


def supervisor_uri(layout: Layout, stream: str) -> str:
    """Return where the document lies that says which DAG run watches the stream."""
    return layout.control_uri(stream).removesuffix(".json") + ".supervisor.json"


def read_control(layout: Layout, stream: str) -> Control | None:
    """Read what should be.

    Raises:
        InvalidDocumentError: The document is there and unusable. Acting on a guess could start a
            second driver, so a person has to look.
    """
    uri = layout.control_uri(stream)
    try:
        document = read_json(uri)
        return None if document is None else control_from(document)
    except (CorruptDocumentError, InvalidDocumentError) as error:
        raise InvalidDocumentError(
            f"stream {stream}: cannot read its desired state: {error}. Repair or delete {uri}, then"
            " trigger the stream's DAG."
        ) from error


def read_status(layout: Layout, stream: str) -> Status | None:
    """Read what the driver last reported; None when there is nothing readable, which counts as silence."""
    return read_status_document(layout.status_uri(stream))[0]


def read_status_document(uri: str) -> tuple[Status | None, list[str]]:
    """Read a status, and what in its document is not what it should be."""
    try:
        document = read_json(uri)
        return (None, []) if document is None else status_from(document, uri)
    except (CorruptDocumentError, InvalidDocumentError) as error:
        return None, [str(error)]


def read_supervisor(layout: Layout, stream: str) -> Supervisor | None:
    """Read which DAG run watches the stream; None when there is none."""
    uri = supervisor_uri(layout, stream)
    try:
        document = read_json(uri)
        return None if document is None else read_as(Supervisor, document, uri)
    except (CorruptDocumentError, InvalidDocumentError):
        return None


def observe(layout: Layout, stream: str) -> Observed:
    """Look at a stream once.

    Raises:
        InvalidDocumentError: The control document cannot be read; see `read_control`.
        OSError: The storage cannot be read.
    """
    begun = time.monotonic()
    control = read_control(layout, stream)
    launch = control.launch if control else None
    status, errors = read_status_document(layout.status_uri(stream))
    reading = timedelta(seconds=time.monotonic() - begun)
    seen = Observed(
        reading=reading,
        control=control,
        status=status,
        status_errors=tuple(errors),
        driver=Presence.GONE if launch is None else driver_of(layout.home, stream, launch).look(),
    )
    application = launch.application if launch else None
    if launch and application and seen.driver is Presence.ALIVE and seen.own_status is None:
        cluster = cluster_driver_of(layout.home, stream, launch, application)
        seen = replace(seen, placement=cluster.placement())
    rests = control is None or control.desired != "running"
    if launch is None or seen.driver is not Presence.GONE or rests:
        return seen
    ending = driver_of(layout.home, stream, launch).ending()
    # Only the log speaks for one whose JVM refuses its options, or whose code cannot be imported.
    said = last_words(ending.log) if seen.own_status is None else ""
    return replace(seen, last_words=said, exit=ending.exit)
