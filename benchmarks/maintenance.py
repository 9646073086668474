"""`python -m benchmarks.maintenance`: four hours of commits at one a second, with maintenance and without.

Simulated is the time. Commits come every few milliseconds in place of every second, and all durations are as
much shorter: how long history is kept, and how often maintenance runs. Everything else is real: the ledger of
a stream commits to `batch_counts`, and another thread maintains that table meanwhile. Before a maintenance,
when the table is at its fullest, the commits pause, and it is opened and read.
"""

from __future__ import annotations

import argparse
import json
import logging
import statistics
import sys
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

from deltalake import DeltaTable

from benchmarks.harness.environments import emptied
from stateward.maintenance.maintain import Task, maintain
from stateward.maintenance.policy import Policy
from stateward.maintenance.table_files import sizes
from stateward.project.settings import CHECKOUT, Settings
from stateward.runtime.api.tables import BATCH_COUNTS
from stateward.runtime.sink.ledger import BatchCounts, Ledger
from stateward.runtime.sink.output_rows import COUNT_NAMES

_MAINTENANCE_S, _HISTORY_S = 900, 3600
_IMAGE = CHECKOUT / "docs" / "images" / "maintenance.svg"
WITH, WITHOUT = "with maintenance", "without"


@dataclass(frozen=True)
class Sample:
    """The table at one moment; times in ms, `hour` of simulated time."""

    hour: float
    files: int
    disk_files: int
    log_entries: int
    open_ms: float
    read_ms: float
    commit_ms: float


@dataclass(frozen=True)
class Run:
    """The outcome of one run.

    Attributes:
        samples: The table every ten minutes of simulated time.
        rows: Number of rows at the end.
        last_batch: The last batch in the table's log.
        conflicts: Retried commits of the stream.
        maintenance_ms: Duration of each maintenance.
        gave_way: Postponed steps of maintenance.
        seconds: Duration of the run.
    """

    samples: Sequence[Sample]
    rows: int
    last_batch: int
    conflicts: int
    maintenance_ms: Sequence[float]
    gave_way: int
    seconds: float


class _Conflicts(logging.Handler):
    """Counts the log messages of retried commits."""

    def __init__(self) -> None:
        super().__init__(logging.INFO)
        self.count = 0

    def emit(self, record: logging.LogRecord) -> None:
        """Count one."""
        self.count += 1


class _Maintainer:
    """Maintains the table in a thread, once per request."""

    def __init__(self, task: Task) -> None:
        self._task = task
        self._asked = threading.Semaphore(0)
        self._is_over = False
        self._thread = threading.Thread(target=self._work)
        self.took_ms: list[float] = []
        self.gave_way = 0
        self._thread.start()

    def ask(self) -> None:
        self._asked.release()

    def end(self) -> None:
        self._is_over = True
        self._asked.release()
        self._thread.join()

    def _work(self) -> None:
        while self._asked.acquire() and not self._is_over:
            done = maintain(self._task, now=datetime.now(UTC), dry_run=False, report=lambda step, what: None)
            self.took_ms.append(done.seconds * 1000)
            self.gave_way += sum(what.startswith("not done") for what in done.steps.values())


def simulate(
    folder: Path, *, seconds: int, pace_s: float, maintained: bool, tell: Callable[[str], None]
) -> Run:
    """Commit once for each simulated second.

    Args:
        folder: For the table; emptied first.
        seconds: How many simulated seconds.
        pace_s: How long a simulated second takes.
        maintained: Whether the table is maintained.
        tell: Called with a line for each sample.
    """
    uri = f"file://{emptied(folder)}/batch_counts"
    BATCH_COUNTS.create(uri)
    begun = time.monotonic()
    policy = Policy.model_construct(history=timedelta(seconds=_HISTORY_S * pace_s))
    task = Task("batch_counts", uri, policy)
    if maintained:
        # So that the table is as after the first run of a new stream.
        maintain(task, now=datetime.now(UTC), dry_run=False, report=lambda step, what: None)
    maintainer = _Maintainer(task)
    conflicts = _Conflicts()
    writer_log = logging.getLogger("stateward.runtime.delta.commit_retry")
    writer_log.addHandler(conflicts)
    writer_log.setLevel(logging.INFO)
    try:
        ledger, samples, took = Ledger(uri, "visits", "g"), list[Sample](), list[float]()
        for second in range(seconds):
            took.append(_commit(ledger, second, pace_s))
            if (second + 1) % _MAINTENANCE_S == 0:
                samples.append(_sample(uri, (second + 1) / 3600, statistics.median(took) * 1000))
                tell(f"{folder.name}: {samples[-1]}")
                took.clear()
                if maintained:
                    maintainer.ask()
    finally:
        maintainer.end()
        writer_log.removeHandler(conflicts)
    table = DeltaTable(uri)
    return Run(
        samples,
        table.to_pyarrow_table().num_rows,
        table.transaction_version("g:batch_counts") or 0,
        conflicts.count,
        maintainer.took_ms,
        maintainer.gave_way,
        time.monotonic() - begun,
    )


def _commit(ledger: Ledger, batch: int, pace_s: float) -> float:
    begun = time.monotonic()
    ledger.append(BatchCounts(batch, dict.fromkeys(COUNT_NAMES, 1), {"rows": 1}, 0), 1, "run")
    took = time.monotonic() - begun
    time.sleep(max(0.0, pace_s - took))
    return took


def _sample(uri: str, hour: float, commit_ms: float) -> Sample:
    begun = time.monotonic()
    table = DeltaTable(uri)
    opened = time.monotonic()
    table.to_pyarrow_table()
    read = time.monotonic()
    found = sizes(table, uri, Policy().target_mb)
    return Sample(
        hour,
        found.files,
        found.disk_files,
        found.log_entries,
        (opened - begun) * 1000,
        (read - begun) * 1000,
        commit_ms,
    )


def draw(runs: dict[str, Run], path: Path) -> None:
    """Write files, log entries and the time to read the table over the hours, as SVG."""
    import altair as alt

    measures = {
        "disk_files": "data files on disk",
        "log_entries": "files in the log",
        "read_ms": "ms to open and read the table",
    }
    rows = [
        {"run": name, "hour": sample.hour, "measure": title, "value": getattr(sample, field)}
        for name, run in runs.items()
        for sample in run.samples
        for field, title in measures.items()
    ]
    colours = alt.Scale(domain=[WITH, WITHOUT], range=["#d1570c", "#7b8794"])
    chart = (
        alt.Chart(alt.Data(values=rows))
        .mark_line(point=True)
        .encode(
            x=alt.X("hour:Q", title="hours at one commit a second"),
            y=alt.Y("value:Q", title=None),
            color=alt.Color("run:N", scale=colours, legend=alt.Legend(title=None, orient="top")),
        )
        .properties(width=230, height=170)
        .facet(column=alt.Column("measure:N", title=None, sort=list(measures.values())))
        .resolve_scale(y="independent")
        .properties(background="white")
    )
    path.parent.mkdir(parents=True, exist_ok=True)
    chart.save(str(path))


def _summary(name: str, run: Run) -> str:
    """The first and the last sample, in one line."""
    first, last = run.samples[0], run.samples[-1]
    grown = ", ".join(
        f"{field} {getattr(first, field):,.0f} to {getattr(last, field):,.0f}"
        for field in ("disk_files", "log_entries", "open_ms", "read_ms", "commit_ms")
    )
    longest = max(run.maintenance_ms, default=0)
    return (
        f"{name}: {run.rows:,} rows, {run.conflicts} conflicts of the stream; "
        f"{len(run.maintenance_ms)} runs of maintenance, the longest {longest:,.0f} ms, "
        f"{run.gave_way} steps gave way; {grown}; {run.seconds:,.0f} s"
    )


def _file(name: str) -> Path:
    return Settings().home / "bench" / f"maintenance-{name.replace(' ', '-')}.json"


def _read(name: str) -> Run:
    found = json.loads(_file(name).read_text())
    return Run(**{**found, "samples": [Sample(**sample) for sample in found["samples"]]})


def main(arguments: list[str]) -> int:
    """Measure, keep the samples, and draw; returns 1 if the stream met a conflict or lost a row."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.maintenance", description=__doc__)
    parser.add_argument("--hours", type=float, default=4.0, help="of simulated time (%(default)s)")
    parser.add_argument("--pace-ms", type=float, default=25.0, help="what a second takes (%(default)s)")
    parser.add_argument("--without", action="store_true", help="do not maintain the table")
    parser.add_argument("--image", type=Path, default=_IMAGE, help="where the chart goes")
    given = parser.parse_args(arguments)
    name, seconds = WITHOUT if given.without else WITH, int(given.hours * 3600)

    def tell(line: str) -> None:
        print(line, flush=True)

    folder = Settings().home / "bench" / "maintenance"
    maintained, pace_s = not given.without, given.pace_ms / 1000
    run = simulate(folder, seconds=seconds, pace_s=pace_s, maintained=maintained, tell=tell)
    tell(_summary(name, run))
    _file(name).write_text(json.dumps(asdict(run), indent=1))
    draw({each: _read(each) for each in (WITH, WITHOUT) if _file(each).exists()}, given.image)
    return int(run.rows != seconds or run.last_batch != seconds - 1 or run.conflicts > 0)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
