"""The streams that read the topics of traffic, and their progress."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime, timedelta

from proof.traffic.generate import NEEDED_LATENESS
from stateward.platform.report import StreamReport, stream_reports
from stateward.project.durations import format_duration
from stateward.project.settings import Settings
from stateward.project.spec import StreamSpec, load_specs

_ALIVE = ("starting", "running", "waiting")
_POLL_S = 0.5


class NoReaderError(RuntimeError):
    """Late events were asked for, and no stream is there to which they could be late."""


class TooOldError(ValueError):
    """A stream is beyond the start already, so that what is sent would be late."""


class WatermarkError(RuntimeError):
    """A stream did not get beyond the last event in time."""


def readers_of(settings: Settings, topics: Sequence[str]) -> list[StreamSpec]:
    """Return the streams that read one of these topics."""
    specs, _ = load_specs(settings.streams)
    return [spec for spec in specs if spec.source.topic in topics]


def problem_of(spec: StreamSpec) -> str | None:
    """Say why a stream's output cannot be known in advance, or None when it can."""
    if spec.clock == "processing":
        return f"stream {spec.stream}: its rows depend on when it reads an event, as its clock is the wall's"
    lateness = spec.event_time.allowed_lateness
    if lateness >= NEEDED_LATENESS:
        return None
    return (
        f"stream {spec.stream}: expected event_time.allowed_lateness of at least"
        f" {format_duration(NEEDED_LATENESS)}, found {format_duration(lateness)}: some events would be late"
    )


def require_not_passed(specs: Sequence[StreamSpec], reports: Sequence[StreamReport], start: datetime) -> None:
    """Make sure that no stream, running or not, is beyond the first event.

    Args:
        specs: The streams.
        reports: What their status files say.
        start: Time of the first event.

    Raises:
        TooOldError: One is, for instance because it has seen the tick of an earlier run.
    """
    names = {spec.stream for spec in specs}
    passed = {
        report.stream: datetime.fromisoformat(report.watermark)
        for report in reports
        if report.stream in names and report.watermark is not None
    }
    stream = max(passed, key=passed.__getitem__, default=None)
    if stream is not None and passed[stream] > start:
        raise TooOldError(
            f"--start: expected {passed[stream].isoformat(timespec='seconds')} or later, the watermark of"
            f" {stream}, found {start.isoformat()}: events would be late to it. Choose a later start, or an"
            " installation whose streams have not run"
        )


def running_readers(specs: Sequence[StreamSpec], reports: Sequence[StreamReport]) -> list[StreamSpec]:
    """Return the streams that late events have to wait for: those that run, and have a watermark.

    Args:
        specs: The streams.
        reports: What their status files say.

    Raises:
        NoReaderError: None of the streams runs.
    """
    alive = {report.stream for report in reports if report.state in _ALIVE}
    # To a stream that works by the clock on the wall nothing is late.
    running = [spec for spec in specs if spec.stream in alive and spec.clock == "event"]
    if not running:
        topics = ", ".join(sorted({topic for spec in specs for topic in spec.source.names})) or "these topics"
        names = ", ".join(spec.stream for spec in specs) or "none"
        raise NoReaderError(
            f"--late: expected a running stream that reads {topics}, found none of {names}: "
            "trigger its DAG with the action `run`, or leave --late out"
        )
    return running


def behind(
    specs: Sequence[StreamSpec], reports: Sequence[StreamReport], last_event: Mapping[str, datetime]
) -> list[str]:
    """Return of each stream whose watermark is not beyond the last event where it is.

    Args:
        specs: The streams, whether they run at this moment or are being started again.
        reports: What their status files say.
        last_event: By topic the largest event time.
    """
    watermarks = {report.stream: report.watermark for report in reports}
    found = []
    for spec in specs:
        watermark = watermarks.get(spec.stream)
        last = last_event.get(spec.source.names[0])
        if last is None:  # so little was sent that this topic got nothing
            continue
        if watermark is None or datetime.fromisoformat(watermark) <= last:
            found.append(
                f"{spec.stream} at {watermark or 'no watermark yet'} (last event {last.isoformat()})"
            )
    return found


def wait_until_passed(
    settings: Settings,
    specs: Sequence[StreamSpec],
    last_event: Mapping[str, datetime],
    deadline: timedelta,
    *,
    clock: Callable[[], float],
    sleep: Callable[[float], None],
) -> None:
    """Wait until the watermark of every one of the streams is beyond the last event of its topic.

    Args:
        settings: The installation.
        specs: The streams.
        last_event: By topic the largest event time.
        deadline: How long to wait.
        clock: Counts in seconds.
        sleep: Waits for seconds.

    Raises:
        WatermarkError: The deadline has passed.
    """
    until = clock() + deadline.total_seconds()
    while late := behind(specs, stream_reports(settings, datetime.now(UTC)), last_event):
        if clock() >= until:
            raise WatermarkError(
                "--late: expected every running stream beyond the last event within"
                f" {format_duration(deadline)}, found {'; '.join(late)}: "
                "see `stateward status`; all but the late events were sent"
            )
        sleep(_POLL_S)
