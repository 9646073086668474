"""The results of `benchmarks.sustained` and `benchmarks.latency` as Markdown, and the former as a chart."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from benchmarks.charts.chart import draw_shares
from benchmarks.harness.roles import ROLES
from benchmarks.harness.workload import Workload

Result = dict[str, Any]


def newest(results: Iterable[Result], *names: str) -> list[Result]:
    """The last result of each combination of the named fields, in the order in which they first came."""
    return list({tuple(str(result[name]) for name in names): result for result in results}.values())


def read(file: Path) -> list[Result]:
    """Results of a file of JSON lines; none if there is no file."""
    return [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []


def read_own(file: Path) -> list[Result]:
    """The results of a file that are of a driver of the checkout that measured."""
    return [result for result in read(file) if not result.get("before") and not result.get("peer")]


def sustained(results: Sequence[Result], image: Path | None) -> str:
    """Runs with a label: rate, pauses, memory, and CPU by role, which is drawn if there is an image."""
    runs = newest((result for result in results if result["label"]), "label")
    if not runs:
        return ""
    if image:
        draw_shares([(run["label"], run["cpu_us"]) for run in runs], image, "CPU µs per event")
    text = [
        "### One driver for minutes",
        "",
        *((f"![CPU time per event by role](images/{image.name})", "") if image else ()),
        "Single runs, counted after the warm-up. CPU in microseconds per event, by role; memory of all. "
        "A pause is the time between two commits.",
        "",
        "| run | right | live keys | minutes | events/s | longest pause, s | median pause, s | "
        + " | ".join(ROLES)
        + " | all | MiB |",
        "|---" * (9 + len(ROLES)) + "|",
        *(_sustained_row(run) for run in runs),
        "",
        *(f"    {_sustained_command(run)}" for run in runs),
        "",
    ]
    return "\n".join(text)


def _sustained_row(run: Result) -> str:
    shares = [run["cpu_us"][role] for role in ROLES]
    cells = [
        run["label"],
        "yes" if run["correct"] else "NO",
        f"{run['live_keys']:,}",
        f"{run['seconds'] / 60:.1f}",
        f"{run['events_per_s']:,}",
        f"{run['longest_pause_s']:.1f}",
        f"{run['median_pause_s']:.1f}",
        *(f"{share:.1f}" for share in shares),
        f"{sum(shares):.1f}",
        f"{sum(run['rss_mib'].values()):,}",
    ]
    return f"| {' | '.join(cells)} |"


def _sustained_command(run: Result) -> str:
    workload = Workload(**run["workload"])
    variant = f" --variant {run['variant']}" if run["variant"] else ""
    conf = "".join(f" --conf {name}={value}" for name, value in run["conf"].items())
    return (
        f".venv/bin/python -m benchmarks.sustained --events {workload.events} --size {workload.size} "
        f"--keys {workload.keys} --skew {workload.skew} --stream {run['stream']}{variant}{conf} "
        f"--label '{run['label']}'"
    )


def latency(results: Sequence[Result]) -> str:
    """How long an event waits for its row."""
    runs = newest(results, "emission", "rate", "lateness_ms")
    if not runs:
        return ""
    text = [
        "### From an event to its committed row",
        "",
        "Every event ends a session. From the moment at which the producer is given it to the Delta commit "
        "of its row, at a steady rate, on the same two cores as broker and producer.",
        "",
        "| emission | events/s | allowed lateness, s | rows | p50, s | p99, s | longest, s |",
        "|---|---|---|---|---|---|---|",
        *(_latency_row(run) for run in runs),
        "",
        "    .venv/bin/python -m benchmarks.latency --rate <events/s>",
        "",
    ]
    return "\n".join(text)


def _latency_row(run: Result) -> str:
    waits = " | ".join(f"{run[name] / 1000:.2f}" for name in ("p50_ms", "p99_ms", "max_ms"))
    lateness = run["lateness_ms"] / 1000
    return f"| {run['emission']} | {run['rate']:,} | {lateness:g} | {run['rows']:,} | {waits} |"


def facts(title: str, results: Sequence[Result], command: str) -> str:
    """The newest result of a program whose results are a handful of figures, one per line."""
    if not results:
        return ""
    shown = {name: value for name, value in results[-1].items() if name != "before"}
    rows = [f"| {name.replace('_', ' ')} | {_figure(value)} |" for name, value in shown.items()]
    return "\n".join([f"### {title}", "", "| what | |", "|---|---|", *rows, "", f"    {command}", ""])


def _figure(value: Any) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{name} {_figure(one)}" for name, one in value.items())
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return f"{value:,}" if is_number else str(value)
