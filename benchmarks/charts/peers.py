"""What drivers and peers need in the programs that measure one contestant, as Markdown."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any

from benchmarks.harness.measure import COMMIT_INTERVAL_MS
from benchmarks.harness.roles import BROKER

Result = dict[str, Any]


@dataclass(frozen=True)
class _Program:
    """One of them.

    Attributes:
        asks: What it measures.
        alike: Fields in which results agree that are compared.
        head: Columns after the contestant's.
        figures: The values of a result for these columns; None where it has none.
        digits: How many digits each shows.
    """

    asks: str
    alike: tuple[str, ...]
    head: tuple[str, ...]
    figures: Callable[[Result], tuple[float | None, ...]]
    digits: tuple[int, ...]


def _sustained(run: Result) -> tuple[float | None, ...]:
    memory = sum(mib for role, mib in run["rss_mib"].items() if role != BROKER)
    cpu_us = sum(us for role, us in run["cpu_us"].items() if role != BROKER)
    return run["events_per_s"], run["longest_pause_s"], cpu_us, memory


def _latency(run: Result) -> tuple[float | None, ...]:
    return tuple(run[name] / 1000 for name in ("p50_ms", "p99_ms", "max_ms"))


def _recovery(run: Result) -> tuple[float | None, ...]:
    name = "next commit, from its checkpoint, s" if run.get("peer") else "next batch committed, {}, s"
    kept, lost = (name.format(f"{how} copies") for how in ("with", "without"))
    return (None if run.get("peer") else run[kept]), run[lost], run["checkpoint_bytes"] / 1e6


_PROGRAMS = {
    "sustained": _Program(
        "a topic that is full",
        ("workload",),
        ("events/s", "longest pause, s", "CPU µs per event", "MiB"),
        _sustained,
        (0, 1, 1, 0),
    ),
    "latency": _Program(
        "from an event to its committed row, by watermark",
        ("rate", "lateness_ms", "emission"),
        ("p50, s", "p99, s", "longest, s"),
        _latency,
        (2, 2, 2),
    ),
    "recovery": _Program(
        "from SIGKILL to the next commit",
        ("workload",),
        ("with the local copies, s", "without, s", "checkpoint, MB"),
        _recovery,
        (1, 1, 0),
    ),
}


def beside_peers(results: Mapping[str, Sequence[Result]]) -> str:
    """Return the section of what peers have been measured in, with the drivers' figures; empty without any.

    Args:
        results: By program, in the order in which they were measured.
    """
    tables = [
        line
        for name, program in _PROGRAMS.items()
        for alike in _measured_with_peers(program, results.get(name, ()))
        for line in _table(name, program, alike)
    ]
    if not tables:
        return ""
    return "\n".join(
        [
            "### Single programs, beside Flink",
            "",
            "Medians of the turns of the newest commit. A peer commits at its checkpoints, every "
            f"{COMMIT_INTERVAL_MS / 1000:g} s, in `latency` every second; its rows are files, those of a "
            "driver a Delta table. CPU and memory are without the broker's.",
            "",
            *tables,
        ]
    )


def _measured_with_peers(program: _Program, results: Iterable[Result]) -> list[list[Result]]:
    """The results that are alike, of each group that has a peer's."""
    groups: dict[str, list[Result]] = {}
    for one in results:
        if one.get("correct", True) and not one.get("before") and not one.get("conf"):
            alike = json.dumps([one.get(name) for name in program.alike], sort_keys=True)
            groups.setdefault(alike, []).append(one)
    return [group for group in groups.values() if any(one.get("peer") for one in group)]


def _table(name: str, program: _Program, results: Sequence[Result]) -> list[str]:
    contestants: dict[str, list[Result]] = {}
    for one in results:
        contestants.setdefault(_contestant(one), []).append(one)
    head = ("contestant", *program.head, "turns")
    return [
        f"`{name}`, {program.asks}: {_settings(results[0])}.",
        "",
        f"| {' | '.join(head)} |",
        "|---" * len(head) + "|",
        *(_row(program, contestant, of) for contestant, of in contestants.items()),
        "",
    ]


def _contestant(result: Result) -> str:
    stream, variant = result.get("stream", "stateward"), result.get("variant", "")
    return str(result.get("peer") or (f"{stream}={variant}" if variant else stream))


def _row(program: _Program, contestant: str, results: Sequence[Result]) -> str:
    turns = [one for one in results if one.get("commit") == results[-1].get("commit")]
    columns = zip(*(program.figures(one) for one in turns), strict=True)
    cells = [
        "" if None in column else f"{median(column):,.{digits}f}"
        for column, digits in zip(columns, program.digits, strict=True)
    ]
    return f"| {' | '.join([f'`{contestant}`', *cells, str(len(turns))])} |"


def _settings(result: Result) -> str:
    if workload := result.get("workload"):
        return f"{workload['events']:,} events of {workload['size']:,} B, {workload['keys']:,} users"
    return f"{result['rate']:,} events/s, allowed lateness {result['lateness_ms'] / 1000:g} s"
