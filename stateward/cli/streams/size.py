"""`stateward size`: what a stream will need. Needs neither a project nor an engine."""

from __future__ import annotations

import json
import math
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from stateward.control.sizing import CORES_PER_EXECUTOR, Limit, Load, Size, limit_of, size_of
from stateward.rendering.human_units import format_bytes, format_count, format_duration, format_rate

_MB = 1_000_000


def size(  # noqa: PLR0917 - Typer's form of a command line
    events_per_s: Annotated[float, typer.Option("--events-per-s", min=0.1, help="Input at its peak.")],
    event_bytes: Annotated[int, typer.Option("--event-bytes", min=1, help="Size of a record.")] = 1_000,
    keys: Annotated[int, typer.Option("--keys", min=1, help="Keys with a state at a time.")] = 100_000,
    state_bytes: Annotated[int, typer.Option("--state-bytes", min=1, help="Of a key and its state.")] = 250,
    rows_per_event: Annotated[
        float, typer.Option("--rows-per-event", min=0, help="Merged, or sent to Kafka, per event.")
    ] = 0.25,
    batch_s: Annotated[float, typer.Option("--batch-s", min=0.3, help="Longest batch, seconds.")] = 2.5,
    recovery_s: Annotated[
        float, typer.Option("--recovery-s", help="From a crash to the head of the topic, seconds.")
    ] = 120.0,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object instead of tables.")] = False,
) -> None:
    """Estimate cores, memory, partitions, disk and files for a keyed stream (docs/sizing.md)."""
    load = Load(events_per_s, event_bytes, keys, state_bytes, rows_per_event, batch_s, recovery_s)
    needed, limit = size_of(load), limit_of(load)
    if as_json:
        found = {"part": limit.part, "events_per_s": _finite(limit), "remedy": limit.remedy}
        print(json.dumps({"version": 1, **needed.as_json(), "limits": [found]}, indent=2))
        return
    console = Console()
    table = Table("what", "needed", show_header=False)
    for what, text in lines_of(needed):
        table.add_row(what, text)
    console.print(table)
    gives_way = Table("what gives way first", "at", "then")
    gives_way.add_row(limit.part, rate_of(limit), limit.remedy)
    console.print(gives_way)


def lines_of(needed: Size) -> list[tuple[str, str]]:
    """What is needed, each line with its unit."""
    return [
        ("CPU of an event", f"{needed.cpu_us_per_event} µs"),
        ("executors", f"{needed.executors:,} of {min(needed.cores, CORES_PER_EXECUTOR)} cores"),
        ("cores of all executors", f"{needed.cores:,}"),
        ("memory of an executor", format_bytes(needed.executor_memory_mb * _MB)),
        ("page cache of it, for speed", format_bytes(needed.page_cache_mb * _MB)),
        ("memory of the driver", format_bytes(needed.driver_memory_mb * _MB)),
        ("partitions of the state, and of the topic", f"{needed.partitions:,}"),
        ("a batch", format_duration(needed.batch_s)),
        ("checkpoint", format_bytes(needed.checkpoint_bytes)),
        ("local copies, on the executors' disks", format_bytes(needed.copy_bytes)),
        ("files made in the checkpoint", f"{needed.checkpoint_files_per_s} /s"),
        ("data files of a table before compaction", f"{format_count(needed.files_per_day)} a day"),
        ("from a crash to the head of the topic", format_duration(needed.recovery_s)),
    ]


def rate_of(limit: Limit) -> str:
    """The input at which a part gives way."""
    return "no rate" if math.isinf(limit.events_per_s) else format_rate(limit.events_per_s)


def _finite(limit: Limit) -> float | None:
    return None if math.isinf(limit.events_per_s) else round(limit.events_per_s)
