"""`stateward status`."""

from __future__ import annotations

import json
from datetime import UTC, datetime

from rich.console import Console
from rich.table import Table

from include.platform.report import PartReport, StreamReport, as_document, part_reports, stream_reports
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
    settings = Settings()
    if as_json:
        print(json.dumps(as_document(settings), indent=1))
        return
    console = Console()
    now = datetime.now(UTC)
    console.print(_parts_table(part_reports(settings, now)))
    console.print(_streams_table(stream_reports(settings, now)))


def _parts_table(parts: list[PartReport]) -> Table:
    table = Table("part", "state", "pid", "up for", "address", title="Platform", title_justify="left")
    for part in parts:
        table.add_row(
            part.name, _state(part.state), _text(part.pid), _span(part.uptime_s), part.address or ""
        )
    return table


def _streams_table(streams: list[StreamReport]) -> Table:
    columns = ("stream", "state", "desired", "batch", "lag", "watermark", "last commit", "epoch")
    counters = ("consumed", "accepted", "dead", "late", "dup.")
    table = Table(*columns, *counters, title="Streams", title_justify="left")
    for stream in streams:
        table.add_row(
            stream.stream,
            _state(stream.state or "never started"),
            _text(stream.desired),
            _text(stream.batch_id),
            _text(stream.lag_records),
            (stream.watermark or "")[:19].replace("T", " "),
            f"{_span(stream.last_batch_age_s)} ago" if stream.last_batch_age_s is not None else "",
            _text(stream.epoch),
            *(_text(value) for value in stream.counters.values()),
        )
        if stream.message:
            table.add_row("", f"[dim]{stream.message}")
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
