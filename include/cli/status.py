"""`stateward status`."""

from __future__ import annotations

import json
from datetime import UTC, datetime

from rich.console import Console
from rich.table import Table

from include.platform.report import (
    BOUNDS,
    COUNTERS,
    PartReport,
    StreamReport,
    as_document,
    part_reports,
    stream_reports,
)
from include.platform.running import running_settings
from include.settings import Settings

_COLOURS = {
    "ready": "green",
    "running": "green",
    "waiting": "yellow",
    "starting": "yellow",
    "draining": "yellow",
}


def run(*, as_json: bool) -> None:
    """Print the state of the parts and of the streams."""
    settings = running_settings(Settings())
    if as_json:
        print(json.dumps(as_document(settings), indent=1))
        return
    console = Console()
    now = datetime.now(UTC)
    console.print(_parts_table(part_reports(settings, now)))
    streams = stream_reports(settings, now)
    console.print(_streams_table(streams))
    console.print(_records_table(streams))
    if (bounds := bounds_table(streams)) is not None:
        console.print(bounds)
    if (health := health_table(streams)) is not None:
        console.print(health)
    for stream in streams:
        if stream.override:
            console.print(f"{stream.stream}: {stream.override}", highlight=False)
        if stream.upgrade:
            console.print(
                f"{stream.stream}: upgrade available ({', '.join(stream.upgrade)}); trigger its DAG"
                " with the action upgrade, or with restart",
                highlight=False,
            )
        if stream.message:
            console.print(f"{stream.stream}: {stream.message}", highlight=False)


def _parts_table(parts: list[PartReport]) -> Table:
    table = Table("part", "state", "pid", "up for", "address", title="Platform", title_justify="left")
    for part in parts:
        table.add_row(
            part.name, _state(part.state), _text(part.pid), _span(part.uptime_s), part.address or ""
        )
    return table


def _streams_table(streams: list[StreamReport]) -> Table:
    columns = ("stream", "state", "desired", "batch", "lag", "watermark", "commit", "epoch", "generation")
    table = Table(*columns, title="Streams", title_justify="left")
    for stream in streams:
        table.add_row(
            stream.stream,
            _state(stream.state or "never started"),
            f"{_text(stream.desired)}, held" if stream.held_by else _text(stream.desired),
            _text(stream.batch_id),
            _text(stream.lag_records),
            (stream.watermark or "")[:16].replace("T", " "),
            f"{_span(stream.last_batch_age_s)} ago" if stream.last_batch_age_s is not None else "",
            _text(stream.epoch),
            _text(stream.generation),
        )
    return table


def _records_table(streams: list[StreamReport]) -> Table:
    table = Table("stream", *COUNTERS, title="Records", title_justify="left")
    for stream in streams:
        table.add_row(stream.stream, *(_text(value) for value in stream.counters.values()))
    return table


def bounds_table(streams: list[StreamReport]) -> Table | None:
    """What the bounds of keys have cost, a row for each stream that has reached one; None without any."""
    reached = [stream for stream in streams if any(stream.bounds.values())]
    if not reached:
        return None
    names = (name.replace("_", " ") for name in BOUNDS)
    table = Table("stream", *names, title="Bounds per key that were reached", title_justify="left")
    for stream in reached:
        table.add_row(stream.stream, *(_text(value) for value in stream.bounds.values()))
    return table


def health_table(streams: list[StreamReport]) -> Table | None:
    """What is slow or large, and the likely cause, a row for each finding; None without any."""
    rows = [(stream.stream, finding) for stream in streams for finding in stream.findings]
    if not rows:
        return None
    table = Table("stream", "level", "found", "likely cause", title="Health", title_justify="left")
    for name, finding in rows:
        colour = "red" if finding.level == "critical" else "yellow"
        table.add_row(name, f"[{colour}]{finding.level}", finding.what, finding.cause)
    return table


def _state(state: str) -> str:
    return f"[{_COLOURS.get(state, 'red')}]{state}"


def _text(value: object) -> str:
    return "" if value is None else str(value)


def _span(seconds: float | None) -> str:
    if seconds is None:
        return ""
    whole = max(0, int(seconds))
    if whole < 120:
        return f"{whole} s"
    return f"{whole // 60} min" if whole < 7200 else f"{whole // 3600} h"
