"""The results of programs that measure states as Markdown, each for its page."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from benchmarks.charts import stores
from benchmarks.charts.runs import newest, read
from benchmarks.harness.workload import Workload
from stateward.project.settings import CHECKOUT

Result = dict[str, Any]

_DOCS = CHECKOUT / "docs"
_MB = 1e6


def pages(results: Path) -> Iterator[tuple[Path, str]]:
    """Each page that has results, and what is to be between its markers.

    Args:
        results: folder of the files of results.
    """
    moves = [result for result in read(results / "moving.jsonl") if result["correct"]]
    if moves:
        largest = max(result["keys"] for result in moves)
        chosen = [result for result in moves if result["keys"] == largest][-1]
        yield _DOCS / "state-repartition.md", moving(chosen)
    if trips := newest(read(results / "going_back.jsonl"), "stream", "profile"):
        yield _DOCS / "state-operations.md", going_back(trips)
    if found := read(results / "stores.jsonl"):
        yield _DOCS / "state-stores.md", stores.page_text(found)
    if found := read(results / "log_shape.jsonl"):
        yield _DOCS / "keyed-state-store.md", stores.log_page(found[-1])


def moving(result: Result) -> str:
    """One move of a state, step by step."""
    workload, simply = Workload(**result["workload"]), result["rewriting"]
    rows = [
        ("inspect", result["inspect"]["seconds"], None, f"{result['keys']:,} keys with a state"),
        ("savepoint", result["savepoint"]["seconds"], result["savepoint"]["bytes"], ""),
    ]
    for name, move in result["repartition"].items():
        parts = ", ".join(f"{step} {one['seconds']:.1f} s" for step, one in move["steps"].items())
        rows.append((f"repartition {name}", move["seconds"], move["bytes"], parts))
    for name, compared in result["compare"].items():
        rows.append(
            (f"compare, {name}", compared["seconds"], None, f"{compared['entries']:,} entries: equal")
        )
    rows.append(("going on: until the first batch is committed", result["first_batch_s"], None, ""))
    text = [
        f"{workload.events:,} events of {workload.size} B by {workload.keys:,} users. Drained at "
        f"{result['consumed_at_half']:,}, with {result['keys']:,} keys of "
        f"{result['live_bytes'] / _MB:,.0f} MB in {result['checkpoint_files']:,} files of "
        f"{result['checkpoint_bytes'] / _MB:,.0f} MB. In the end {result['answer']['sessions']:,} sessions "
        f"of {result['answer']['events']:,} events: those of the oracle, by number, events and checksum.",
        "",
        "| step | s, with its process and Spark | MB written | |",
        "|---|---|---|---|",
        *(
            f"| {name} | {seconds:,.1f} | {'' if size is None else f'{size / _MB:,.0f}'} | {note} |"
            for name, seconds, size, note in rows
        ),
        "",
        "| the same state simply read and written again | s | MB written |",
        "|---|---|---|",
        f"| every file of the checkpoint, with fsync | {_simply(simply['files'])} |",
        f"| every entry by Spark, as Parquet | {_simply(simply['parquet'])} |",
        "",
        "| repartition, without the start of Spark | s | times the files | times Spark and Parquet |",
        "|---|---|---|---|",
        *(
            f"| {name} | {move['steps_seconds']:,.1f} | {move['over_copying_files']:.1f} "
            f"| {move['over_spark_to_parquet']:.1f} |"
            for name, move in result["repartition"].items()
        ),
        "",
        f"{result['at'][:10]}, {result['cpus']} CPUs, load before it {result['load_before']:.1f}; one run.",
        "",
        f"    .venv/bin/python -m benchmarks.moving --keys {round(workload.keys / 1.25)}",
        "",
    ]
    return "\n".join(text)


def _simply(one: Result) -> str:
    return f"{one['seconds']:,.1f} | {one['bytes'] / _MB:,.0f}"


def going_back(results: list[Result]) -> str:
    """A row per stream."""
    text = [
        "| stream | records | savepoint, s | restore, s | read again | in s | rows taken back "
        "| rows in the end | as left alone, as known |",
        "|---|---|---|---|---|---|---|---|---|",
        *(_trip(result) for result in results),
        "",
        *dict.fromkeys(
            f"    .venv/bin/python -m benchmarks.going_back --profile {result['profile']} "
            f"--seed {result['seed']} --rate {result['rate']:g}"
            for result in results
        ),
        "",
    ]
    return "\n".join(text)


def _trip(result: Result) -> str:
    cells = [
        f"`{result['stream']}`",
        f"{result['records']:,}",
        f"{result['savepoint']['seconds']:.1f}",
        f"{result['restore']['seconds']:.1f}",
        f"{result['restore']['records_to_read_again']:,}",
        f"{result['reading_again_s']:.1f}",
        _rows(result["rows_taken_back"]),
        _rows(result["rows"]),
        "NO" if result["wrong"] else "yes",
    ]
    return f"| {' | '.join(cells)} |"


def _rows(rows: dict[str, int]) -> str:
    return ", ".join(f"`{name}` {count:,}" for name, count in rows.items())
