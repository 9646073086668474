"""`python -m benchmarks.stores TABLE…`: the stores of states and their settings, one table each.

`stores` compares RocksDB with the HDFS-backed store, `settings` those of RocksDB, `sizes` states of 1 to
100 KB, and `uncommitted` has recovery against what was not in a snapshot, or not committed. Each case is a
process of its own. `python -m benchmarks.report` writes docs/state-stores.md.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import psutil

from benchmarks.harness.environments import emptied
from benchmarks.harness.results import append_result
from benchmarks.states.case import Case
from stateward.project.settings import CHECKOUT, Settings

RESULTS = "stores.jsonl"
_TIMEOUT_S = 340
_FULL = {
    "java.lang.OutOfMemoryError": "the heap was full",
    "No space left on device": "the disk was full: {free} GB were free before",
}
_STORE = "spark.sql.streaming.stateStore"
_ROCKS = f"{_STORE}.rocksdb"
_HDFS = {
    f"{_STORE}.providerClass": "org.apache.spark.sql.execution.streaming.state.HDFSBackedStateStoreProvider"
}
_UNBOUNDED = {f"{_ROCKS}.boundedMemoryUsage": "false"}
_OFF = {f"{_ROCKS}.changelogCheckpointing.enabled": "false"}
_NO_SNAPSHOT = {f"{_STORE}.minDeltasForSnapshot": "1000000"}
# Minutes of a stream in seconds: Spark uploads snapshots when it maintains the store, once a minute.
_MAINTAINED = {f"{_STORE}.maintenanceInterval": "5s"}


def cases() -> list[Case]:
    """All cases, in the order of the tables."""
    return [*_stores(), *_settings(), *_sizes(), *_uncommitted()]


def _stores() -> list[Case]:
    found = [
        Case("stores", f"{name}, {keys:,} keys", keys=keys, conf={**_MAINTAINED, **conf})
        for keys in (10_000, 100_000, 1_000_000)
        for name, conf in (("RocksDB", {}), ("HDFS-backed", _HDFS))
    ]
    large = {**_MAINTAINED, **_HDFS}
    return [
        *found,
        Case("stores", "HDFS-backed, 1,000,000 keys, heap 4g", keys=1_000_000, conf=large, heap="4g"),
    ]


def _settings() -> list[Case]:
    settings: dict[str, dict[str, str]] = {
        "as the project sets it": {},
        "as Spark sets it": {**_OFF, **_UNBOUNDED},
        "changelog off": _OFF,
        **{f"minDeltasForSnapshot {n}": {f"{_STORE}.minDeltasForSnapshot": f"{n}"} for n in (1, 5, 25)},
        "maintenanceInterval 60s": {f"{_STORE}.maintenanceInterval": "60s"},
        **{f"maxMemoryUsageMB {n}": {f"{_ROCKS}.maxMemoryUsageMB": f"{n}"} for n in (16, 512)},
        "boundedMemoryUsage off": _UNBOUNDED,
        **{
            f"boundedMemoryUsage off, blockCacheSizeMB {n}": {
                **_UNBOUNDED,
                f"{_ROCKS}.blockCacheSizeMB": f"{n}",
            }
            for n in (1, 64)
        },
        **{
            f"boundedMemoryUsage off, writeBufferSizeMB {n}": {
                **_UNBOUNDED,
                f"{_ROCKS}.writeBufferSizeMB": f"{n}",
            }
            for n in (1, 16)
        },
    }
    return [Case("settings", name, conf={**_MAINTAINED, **conf}) for name, conf in settings.items()]


def _sizes() -> list[Case]:
    return [
        Case(
            "sizes",
            f"{engine}, {size // 1000} KB",
            engine,
            size=size,
            conf=_MAINTAINED,
            updated=1_000,
            batches=9,
            filled=filled,
            heap="2g",
        )
        for size, filled in ((1_000, 20_000), (10_000, 5_000), (100_000, 1_000))
        for engine in ("native", "keyed")
    ]


def _uncommitted() -> list[Case]:
    plans: tuple[tuple[str, tuple[int, ...], dict[str, str]], ...] = (
        ("changelogs", (2, 10, 20, 40, 80), _NO_SNAPSHOT),
        ("again", (10_000, 50_000, 100_000, 200_000, 400_000), {}),
        ("waiting", (1, 5, 10, 20, 40), {}),
    )
    return [
        Case(
            "uncommitted",
            f"{what}, {engine}",
            engine,
            conf={**_MAINTAINED, **conf},
            points=points,
            batches=6,
            filled=20_000,
        )
        for what, points, conf in plans
        for engine in ("native", "keyed")
    ]


def main(arguments: Sequence[str]) -> int:
    """Run the cases of the tables; returns 0 if each has a result."""
    known = list(dict.fromkeys(case.table for case in cases()))
    parser = argparse.ArgumentParser(prog="python -m benchmarks.stores", description=__doc__.splitlines()[0])
    parser.add_argument("tables", nargs="*", metavar="TABLE", help=f"of {', '.join(known)} (all)")
    parser.add_argument("--only", default="", metavar="TEXT", help="cases whose name contains this text")
    given = parser.parse_args(arguments)
    if unknown := set(given.tables) - set(known):
        parser.error(f"expected tables of {', '.join(known)}, found {', '.join(sorted(unknown))}")
    chosen = [case for case in cases() if case.table in (given.tables or known) and given.only in case.name]
    cache = Settings().home / "bench"
    cache.mkdir(parents=True, exist_ok=True)
    failed = 0
    for case in chosen:
        result = run(case, cache)
        failed += "problem" in result
        append_result(cache / RESULTS, result)
        print(json.dumps({**result, "case": f"{case.table}: {case.name}"}), flush=True)
    return 1 if failed or not chosen else 0


def run(case: Case, cache: Path) -> dict[str, Any]:
    """Run a case as a process; `problem` in the result says why there is none."""
    folder = emptied(cache / "stores")
    file = folder / "case.json"
    file.write_text(json.dumps(asdict(case)))
    free = round(shutil.disk_usage(folder).free / 1e9)
    before = {
        "at": datetime.now(UTC).isoformat(timespec="seconds"),
        "cpus": psutil.cpu_count(),
        "load_before": round(psutil.getloadavg()[0], 2),
        "case": asdict(case),
    }
    command = [sys.executable, "-m", "benchmarks.states.case", str(file)]
    environment = {**os.environ, "PYTHONPATH": str(CHECKOUT)}
    log = cache / "store-case.log"
    try:
        with log.open("w") as errors:
            done = subprocess.run(
                command,
                cwd=CHECKOUT,
                env=environment,
                stdout=subprocess.PIPE,
                stderr=errors,
                text=True,
                timeout=_TIMEOUT_S,
                check=False,
            )
    except subprocess.TimeoutExpired:
        return {**before, "problem": f"took more than {_TIMEOUT_S} s"}
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    if done.returncode:
        said = log.read_text(errors="replace") + done.stdout
        known = next((text for mark, text in _FULL.items() if mark in said), None)
        problem = known.format(free=free) if known else f"exit {done.returncode}: see {log.name}"
        return {**before, "problem": problem}
    return {**before, **json.loads(done.stdout.splitlines()[-1])}


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
