"""`stateward status`."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import UTC, datetime

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.measure import Measurement
from rich.table import Table

from stateward.contract.stream_status import BOUNDS
from stateward.platform.report import (
    COUNTERS,
    PartReport,
    StreamReport,
    as_document,
    part_reports,
    stream_reports,
)
from stateward.platform.running import running_settings
from stateward.project.settings import Settings
from stateward.rendering.human_units import format_age

_COLOURS = {
    "ready": "green",
    "running": "green",
    "waiting": "yellow",
    "starting": "yellow",
    "draining": "yellow",
}


# Streams with problems first, as on the operator's page; those that were never started last.
_ORDER = {"failed": 0, "refused": 0, "waiting": 1, "stopped": 3, None: 4}
_RUNS = 2
_ANY_WIDTH = 10_000

_Cell = Callable[[StreamReport], str]


def run(*, as_json: bool) -> None:
    """Print the state of the parts and of the streams."""
    settings = running_settings(Settings())
    if as_json:
        print(json.dumps(as_document(settings), indent=1))
        return
    console = Console()
    now = datetime.now(UTC)
    streams = in_order(stream_reports(settings, now))
    tables = [
        parts_table(part_reports(settings, now), settings.supervised_by),
        streams_table(streams, console),
        records_table(streams, console),
        bounds_table(streams),
        health_table(streams),
    ]
    for table in filter(None, tables):
        console.print(table, "")
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


def parts_table(parts: list[PartReport], supervised_by: str | None) -> Table:
    """Build the table of parts; a part that `stateward up` does not run has no process."""
    title = f"Platform, run by {supervised_by}" if supervised_by else "Platform"
    table = _table(title, "part", "state", "pid", "up for", "address")
    for part in parts:
        up_for = "" if part.uptime_s is None else format_age(part.uptime_s)
        table.add_row(part.name, _state(part.state), _text(part.pid), up_for, part.address or "")
    return table


def in_order(streams: list[StreamReport]) -> list[StreamReport]:
    """Sort by state: failed, waiting, running, stopped; then by name."""
    return sorted(streams, key=lambda stream: (_ORDER.get(stream.state, _RUNS), stream.stream))


def streams_table(streams: list[StreamReport], console: Console) -> Table:
    """Build the table of streams; a narrow screen shows fewer columns, and truncates none."""
    columns: dict[str, _Cell] = {
        "stream": lambda stream: stream.stream,
        "state": lambda stream: _state(stream.state or "never started"),
        "desired": lambda stream: _text(stream.desired) + (", held" if stream.held_by else ""),
        "lag": lambda stream: _text(stream.lag_records),
        "watermark": lambda stream: (stream.watermark or "")[:16].replace("T", " "),
        "commit": lambda stream: _ago(stream.last_batch_age_s),
        "batch": lambda stream: _text(stream.batch_id),
        "epoch": lambda stream: _text(stream.epoch),
        "generation": lambda stream: _text(stream.generation),
    }
    return _fitting("Streams", columns, streams, console)


def records_table(streams: list[StreamReport], console: Console) -> Table:
    """Build the table of record counts."""
    columns: dict[str, _Cell] = {"stream": lambda stream: stream.stream}
    return _fitting("Records", columns | {name: _counter(name) for name in COUNTERS}, streams, console)


def _counter(name: str) -> _Cell:
    return lambda stream: _text(stream.counters[name])


def _fitting(title: str, columns: dict[str, _Cell], streams: list[StreamReport], console: Console) -> Table:
    """Build a table of the first columns, as many as fit the screen."""
    for number in range(len(columns), 1, -1):
        shown = dict(list(columns.items())[:number])
        table = _table(title, *shown)
        for stream in streams:
            table.add_row(*(value(stream) for value in shown.values()))
        if (
            Measurement.get(console, console.options.update(max_width=_ANY_WIDTH), table).maximum
            <= console.width
        ):
            break
    return table


def _table(title: str, *columns: str) -> Table:
    # No lines between columns: they take a seventh of a narrow screen.
    table = Table(title=title, title_justify="left", box=SIMPLE_HEAD, show_edge=False, pad_edge=False)
    for number, name in enumerate(columns):
        # Long cells are wrapped, never truncated; the name is wrapped last.
        table.add_column(name, no_wrap=number == 0, overflow="fold")
    return table


def bounds_table(streams: list[StreamReport]) -> Table | None:
    """Build the table of bounds, a row for each stream that has reached one; None without any."""
    reached = [stream for stream in streams if any(stream.bounds.values())]
    if not reached:
        return None
    names = (name.replace("_", " ") for name in BOUNDS)
    table = _table("Bounds per key that were reached", "stream", *names)
    for stream in reached:
        table.add_row(stream.stream, *(_text(value) for value in stream.bounds.values()))
    return table


def health_table(streams: list[StreamReport]) -> Table | None:
    """Build the table of health findings; None without any."""
    rows = [(stream.stream, finding) for stream in streams for finding in stream.findings]
    if not rows:
        return None
    table = _table("Health", "stream", "level", "found", "likely cause")
    for name, finding in rows:
        colour = "red" if finding.level == "critical" else "yellow"
        table.add_row(name, f"[{colour}]{finding.level}", finding.what, finding.cause)
    return table


def _state(state: str) -> str:
    return f"[{_COLOURS.get(state, 'red')}]{state}"


def _text(value: object) -> str:
    return "" if value is None else str(value)


def _ago(seconds: float | None) -> str:
    return "" if seconds is None else f"{format_age(max(0.0, seconds))} ago"
