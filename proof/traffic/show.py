"""Traffic with a progress bar, and what the streams have to make of it."""

from __future__ import annotations

import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn
from rich.table import Table

from proof.traffic.generate import DEFAULT_START, Plan
from proof.traffic.play import Playing, play
from proof.traffic.profiles import profile_named
from proof.traffic.records import MARKS
from stateward.platform.running import running_settings
from stateward.project.durations import parse_duration
from stateward.project.settings import Settings


def run(
    *,
    profile: str,
    seed: int,
    rate: float,
    minutes: float,
    start: str | None,
    topics: tuple[str, ...],
    out: Path | None,
    send: bool,
    paced: bool,
    late: bool,
    tick: bool,
    deadline: str,
    partitions: int,
) -> None:
    """Play traffic with a progress bar, then show what was sent and what the streams have to make of it."""
    plan = Plan(profile_named(profile), seed, rate, minutes, _start_of(start), topics)
    playing = Playing(
        plan=plan,
        settings=running_settings(Settings()),
        send=send,
        tick=tick,
        late=late,
        deadline=parse_duration(deadline),
        paced=paced,
        partitions=partitions,
        out=out,
    )
    began = time.monotonic()
    columns = (
        TextColumn("traffic"),
        BarColumn(),
        TaskProgressColumn(),
        TextColumn("{task.completed} records"),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=Console(stderr=True)) as progress:
        task = progress.add_task("traffic", total=plan.total)
        manifest = play(playing, datetime.now(UTC), lambda count: progress.advance(task, count))
    _show(manifest)
    count = sum(topic[mark] for topic in manifest["topics"].values() for mark in MARKS)
    took = max(time.monotonic() - began, 1e-3)
    print(
        f"{'sent' if send else 'made'} {count} records in {took:.1f} s ({count / took:.0f}/s)"
        + (f"; what is expected is in {out}" if out else "")
    )


def _start_of(text: str | None) -> datetime:
    if text is None:
        return DEFAULT_START
    try:
        return datetime.fromisoformat(text)
    except ValueError:
        raise ValueError(f"--start: expected a time such as 2025-01-06T00:00:00Z, found {text!r}") from None


def _show(manifest: dict[str, Any]) -> None:
    console = Console()
    topics = Table("topic", *MARKS, "last event", title="Sent", title_justify="left")
    for name, topic in manifest["topics"].items():
        topics.add_row(name, *(f"{topic[mark]:,}" for mark in MARKS), (topic["last_event"] or "")[:19])
    console.print(topics)
    if not manifest["streams"]:
        return
    names = ("accepted", "dead", "late", "duplicates", "tick_records")
    streams = Table("stream", *names, "rows", title="Expected", title_justify="left")
    for name, counts in manifest["streams"].items():
        if "unknown" in counts:
            console.print(f"{name}: {counts['unknown']}", highlight=False)
            continue
        rows = ", ".join(f"{table} {count:,}" for table, count in counts["rows"].items())
        streams.add_row(name, *(f"{counts[count]:,}" for count in names), rows)
        if not counts["exact"]:
            console.print(
                f"{name}: one key has {counts['busiest_key']:,} events, more than max_held_events: "
                "the rows are exact only if the stream keeps up",
                highlight=False,
            )
    console.print(streams)
