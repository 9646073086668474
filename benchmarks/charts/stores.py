"""The results of `benchmarks.stores` and `benchmarks.log_shape` as Markdown, each for its page. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

Result = dict[str, Any]


def page_text(results: Iterable[Result]) -> str:
    """The tables, each of the newest result of each case."""
    newest = {(one["case"]["table"], one["case"]["name"]): one for one in results}
    tables: dict[str, list[Result]] = {}
    for (table, _), result in newest.items():
        tables.setdefault(table, []).append(result)
    drawn = {
        "stores": ("RocksDB and the HDFS-backed store", stores),
        "settings": ("Settings of RocksDB", settings),
        "sizes": ("Keys × bytes per key", sizes),
        "uncommitted": ("Recovery", uncommitted),
    }
    parts = []
    for name, (title, draw) in drawn.items():
        if found := tables.get(name):
            parts += [f"### {title}", "", *draw(found), "", _measured(found, name), ""]
    return "\n".join(parts)


def _measured(results: Sequence[Result], table: str) -> str:
    loads = [result["load_before"] for result in results]
    return (
        f"{min(result['at'] for result in results)[:10]}, {results[0]['cpus']} CPUs, load before a case "
        f"{min(loads):.1f} to {max(loads):.1f}: other work ran beside it. One run of each case:\n\n"
        f"    make bench-stores TABLE={table}"
    )


def stores(results: Sequence[Result]) -> list[str]:
    """A row per store and number of keys."""
    return [
        "| store, keys | batch, ms | CPU per batch, ms | commit, ms | state loaded, CPU ms per task "
        "| GC pauses: number, sum, longest, ms | heap after a collection, MiB | JVM, MiB | store, MiB "
        "| checkpoint, MiB |",
        "|---|---|---|---|---|---|---|---|---|---|",
        *(_store(result) for result in results),
    ]


def _store(result: Result) -> str:
    name = result["case"]["name"]
    if problem := result.get("problem"):
        return f"| {name} | {problem} |" + " |" * 8
    cells = [
        name,
        *(f"{result[figure]:,.0f}" for figure in ("batch_ms", "cpu_ms", "commit_ms")),
        _starts(result, "load_cpu_ms"),
        f"{result['gc_count']:,}, {result['gc_total_ms']:,}, {result['gc_longest_ms']:,}",
        *(f"{result[figure]:,.0f}" for figure in ("heap_mib", "jvm_mib", "state_mib", "checkpoint_mib")),
    ]
    return f"| {' | '.join(cells)} |"


def settings(results: Sequence[Result]) -> list[str]:
    """A row per setting, with its figures relative to the first row."""
    first = next((result for result in results if "problem" not in result), None)
    return [
        "| setting | CPU per batch, ms | commit, ms | state loaded, CPU ms per task | times the first row's "
        "| changelogs replayed | snapshots kept | block cache, hits | store, JVM, MiB | checkpoint, MiB |",
        "|---|---|---|---|---|---|---|---|---|---|",
        *(_setting(result, first) for result in results),
    ]


def _setting(result: Result, first: Result | None) -> str:
    name = result["case"]["name"]
    if first is None or "problem" in result:
        return f"| {name} | {result.get('problem', '')} |" + " |" * 8
    metrics = result["metrics"]
    hits, misses = (metrics.get(f"rocksdbReadBlockCache{kind}Count", 0) for kind in ("Hit", "Miss"))
    cells = [
        name,
        *(f"{result[figure]:,.0f}" for figure in ("cpu_ms", "commit_ms")),
        _starts(result, "load_cpu_ms"),
        f"{_median(result, 'load_cpu_ms') / max(1, _median(first, 'load_cpu_ms')):.1f}",
        _starts(result, "replayed"),
        f"{result['files'].get('.zip', 0)}",
        f"{hits / max(1, hits + misses):.0%}",
        f"{result['state_mib']:,.0f}, {result['jvm_mib']:,}",
        f"{result['checkpoint_mib']:,.0f}",
    ]
    return f"| {' | '.join(cells)} |"


def _median(result: Result, figure: str) -> float:
    return float(np.median([start[figure] for start in result["recoveries"]]))


def _starts(result: Result, figure: str) -> str:
    """The median of the starts, and all of them."""
    each = sorted(start[figure] for start in result["recoveries"])
    return f"{_median(result, figure):,.0f} ({each[0]:,.0f} to {each[-1]:,.0f})"


def sizes(results: Sequence[Result]) -> list[str]:
    """A row per engine and size of states."""
    return [
        "| states | text in all states, MiB | checkpoint, MiB | local copies, MiB | filled in, s "
        "| batch, ms | CPU per batch, ms | commit, ms | state loaded, CPU ms per task "
        "| JVM, Python workers, MiB |",
        "|---|---|---|---|---|---|---|---|---|---|",
        *(_size(result) for result in results),
    ]


def _size(result: Result) -> str:
    case = result["case"]
    name, text = f"{case['name']} × {case['keys']:,}", case["size"] * case["keys"] / 2**20
    if problem := result.get("problem"):
        return f"| {name} | {text:,.0f} | {problem} |" + " |" * 7
    copies = "—" if case["engine"] == "native" else f"{result['copies_mib']:,.0f}"
    cells = [
        name,
        f"{text:,.0f}",
        f"{result['checkpoint_mib']:,.0f}",
        copies,
        *(f"{result[figure]:,.0f}" for figure in ("fill_s", "batch_ms", "cpu_ms", "commit_ms")),
        _starts(result, "load_cpu_ms"),
        f"{result['jvm_mib']:,}, {result['workers_mib']:,}",
    ]
    return f"| {' | '.join(cells)} |"


_WHAT = {
    "changelogs": ("changelogs since the snapshot", "a task that loads the state"),
    "again": (
        "records of a batch that is planned and not committed",
        "driver and workers, from the start of the query to its commit",
    ),
    "waiting": ("batches that wait", "driver and workers, from the start of the query to the last commit"),
}


def uncommitted(results: Sequence[Result]) -> list[str]:
    """A row per cause, with the line through its points."""
    return [
        "| what grows | stream | CPU of | CPU ms at each | for one more | at none | r² |",
        "|---|---|---|---|---|---|---|",
        *(_cause(result) for result in results),
    ]


def _cause(result: Result) -> str:
    kind, _, engine = result["case"]["name"].partition(", ")
    what, measured = _WHAT[kind]
    if problem := result.get("problem"):
        return f"| {what} | {engine} | {problem} |" + " |" * 4
    points = [(x, cpu_ms) for x, _, cpu_ms in result["points"]]
    slope, intercept, fit = line_through(points)
    at = ", ".join(f"{x:,}: {y:,.0f}" for x, y in points)
    more = f"{slope * 1000:,.2f} per 1,000" if kind == "again" else f"{slope:,.0f}"
    return f"| {what} | {engine} | {measured} | {at} | {more} | {intercept:,.0f} | {fit:.3f} |"


def line_through(points: Sequence[Sequence[float]]) -> tuple[float, float, float]:
    """Slope and intercept of the least squares, and the share of the variance that the line explains."""
    x, y = (np.array(column, dtype=float) for column in zip(*points, strict=True))
    slope, intercept = np.polyfit(x, y, 1)
    rest = y - (slope * x + intercept)
    spread = ((y - y.mean()) ** 2).sum()
    return float(slope), float(intercept), float(1 - (rest**2).sum() / spread) if spread else 1.0


def log_page(result: Result) -> str:
    """The shape of a log, by the share of keys that a batch changes."""
    keys = result["keys"]
    text = [
        f"| keys changed per batch, of {keys:,} | entries written per change "
        "| largest log, entries per live state | chunks in the end "
        "| calls to the state server per batch | copy built, CPU µs per key |",
        "|---|---|---|---|---|---|",
        *(
            f"| {shape['changed_per_batch']:,} | {shape['written_per_change']:.2f} "
            f"| {shape['logged_per_live']:.2f} | {shape['chunks']:,} | {shape['calls_per_batch']:.1f} "
            f"| {shape['rebuilt_us_per_key']:.0f} |"
            for shape in result["shapes"]
        ),
        "",
        "Calls that change two keys, in a bucket whose log was left with 20,000 chunks, after the log has "
        "become short:",
        "",
        "| keys of the bucket | chunks | entries written per change | CPU per call, ms |",
        "|---|---|---|---|",
        *(
            f"| {one['keys']:,} | {one['chunks']:,} | {one['written_per_change']:.2f} "
            f"| {one['ms_per_call']:.2f} |"
            for one in result["long"]
        ),
        "",
        "The space of the local copy on the disk, after every key was written twice:",
        "",
        "| bytes of a key with its state | keys | the copy, times all keys and states |",
        "|---|---|---|",
        *(
            f"| {one['key_and_state']:,} | {one['keys']:,} | {one['factor']:.1f} |"
            for one in result["copies"]
        ),
        "",
        "    .venv/bin/python -m benchmarks.log_shape",
        "",
    ]
    return "\n".join(text)
