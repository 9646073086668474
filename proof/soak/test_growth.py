"""No process's sockets, file descriptors or memory grow under steady batches: `make soak`, not `make test`.

Takes SOAK_MINUTES (default 15) after a warm-up, with 200 events a second, and prints a table: for each
process, the lowest tenth of the first and of the last third of the samples. Tasks of Airflow come and go, on
a busy machine more of them at once.
"""

from __future__ import annotations

import os
import threading
import time
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import psutil
import pytest
from rich.console import Console
from rich.table import Table

from stateward.platform.processes import ManagedProcess
from tests.support.control.installation import Installation
from tests.support.control.live_stream import LiveStream
from tests.support.streams.event_files import as_line, shifted, web_events, write_lines
from tests.support.waiting import wait_until

pytestmark = pytest.mark.e2e

MINUTES = float(os.environ.get("SOAK_MINUTES", "15"))
WARM_UP_S = 180
PERIOD_S = 10
RATE = 200
EVENTS_PER_COPY = 10_000

# They come and go: how many there are says nothing of growth.
JOBS = "Spark jobs of tasks"

# What may change between two thirds of a steady run without being growth.
SLACK = {"sockets": 3.0, "fds": 6.0, "rss_mb": 40.0}


@dataclass(frozen=True)
class Sample:
    """One look at one process: counts, and resident memory in MiB."""

    sockets: float
    fds: float
    rss_mb: float


def role_of(owned: ManagedProcess) -> str:
    """Name a process by what it does; processes that come and go share a name."""
    command = " ".join(owned.process.cmdline())
    if owned.stream is None:
        is_job = "pyspark" in command or "validate.py" in command
        return JOBS if is_job else owned.part or "supervisor"
    if owned.process.name() == "java":
        return "driver JVM"
    if "driver.py" in command:
        return "driver Python"
    return "Python worker daemon" if "daemon" in command else "driver other"


def look(installation: Installation) -> dict[str, Sample]:
    """Return the sum over the processes of each role."""
    totals: dict[str, list[Sample]] = defaultdict(list)
    for owned in installation.processes():
        try:
            process = owned.process
            sample = Sample(
                len(process.net_connections()), process.num_fds(), process.memory_info().rss / 2**20
            )
            totals[role_of(owned)].append(sample)
        except psutil.Error:
            continue  # ended meanwhile
    return {
        role: Sample(*(sum(getattr(one, name) for one in found) for name in SLACK))
        for role, found in totals.items()
    }


@pytest.fixture
def busy_stream(tmp_path: Path) -> Iterator[LiveStream]:
    """A stream that gets `RATE` events a second for as long as the soak lasts."""
    installation = Installation.in_folder(tmp_path / "home")
    copies = int((MINUTES * 60 + WARM_UP_S + 60) * RATE / EVENTS_PER_COPY) + 1
    lines = [
        as_line(event)
        for copy in range(copies)
        for event in shifted(web_events(), days=5 * copy, prefix=f"c{copy}")
    ]
    try:
        installation.must_run("up")
        stream = LiveStream("user_sessions", installation)
        stream.trigger("run")
        stream.wait_running(150)
        replay = stream.replay(write_lines(tmp_path / "events.jsonl", lines), "--rate", str(RATE))
        yield stream
        replay.kill()
    finally:
        installation.must_run("down")


def test_nothing_grows(busy_stream: LiveStream) -> None:
    wait_until(lambda: busy_stream.counted() > RATE, 60, lambda: f"events flow: {busy_stream.describe()}")
    pause = threading.Event()
    pause.wait(WARM_UP_S)
    batches_before = busy_stream.status()["batch_id"]
    samples: dict[str, list[Sample]] = defaultdict(list)
    until = time.monotonic() + MINUTES * 60
    while time.monotonic() < until:
        for role, sample in look(busy_stream.installation).items():
            samples[role].append(sample)
        pause.wait(PERIOD_S)
    batches = busy_stream.status()["batch_id"] - batches_before
    assert batches > MINUTES * 10, f"steady batches are needed, found {batches} in {MINUTES:g} minutes"
    grown = report(samples, f"{MINUTES:g} minutes, {batches} batches, {RATE} events/s")
    assert grown == []


def kept(values: list[float]) -> float:
    """The lowest tenth of some samples: what is there while no task runs, which a leak adds to."""
    return sorted(values)[len(values) // 10]


def report(samples: dict[str, list[Sample]], title: str) -> list[str]:
    """Print the table and return what has grown."""
    table = Table("process", "sockets", "file descriptors", "memory, MiB", title=title)
    grown = []
    for role, found in sorted(samples.items()):
        third = max(1, len(found) // 3)
        cells = []
        for name, slack in SLACK.items():
            first = kept([getattr(one, name) for one in found[:third]])
            last = kept([getattr(one, name) for one in found[-third:]])
            cells.append(f"{first:.0f} → {last:.0f}")
            if last > first * 1.1 + slack and role != JOBS:
                grown.append(f"{role}: {name} grew from {first:.0f} to {last:.0f}")
        table.add_row(role, *cells)
    Console(width=100).print(table)
    return grown
