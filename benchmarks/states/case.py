"""`python -m benchmarks.states.case FILE`: run the case in the file, and print a line of JSON.

A process of its own, so that memory and collections of the JVM are those of the case.
"""

from __future__ import annotations

import contextlib
import json
import sys
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import psutil

from benchmarks.harness.roles import JVM, WORKERS, role_of
from benchmarks.states.rig import Rig, gc_pauses_ms, heap_used, open_session

_RECOVERIES = 3
_AFTER_RECOVERY = 2


@dataclass(frozen=True)
class Case:
    """What is run.

    Attributes:
        table: The table of the report.
        name: The row.
        engine: ``native`` or ``keyed``.
        keys: Number of keys in the state.
        size: Bytes of text in each state.
        conf: Settings of Spark.
        updated: Keys that each batch updates.
        batches: Number of batches after the state is filled.
        filled: Keys that a batch of the filling adds.
        heap: The JVM's.
        points: The numbers at which `uncommitted` measures.
    """

    table: str
    name: str
    engine: str = "native"
    keys: int = 100_000
    size: int = 100
    conf: dict[str, str] = field(default_factory=dict)
    updated: int = 10_000
    batches: int = 9
    filled: int = 100_000
    heap: str = "1g"
    points: tuple[int, ...] = ()


class Course:
    """The run of a case.

    Args:
        case: The case.
        rig: Its query, new.
    """

    def __init__(self, case: Case, rig: Rig) -> None:
        self._case = case
        self._rig = rig
        self._random = np.random.default_rng(7)
        self.progress: list[dict[str, Any]] = []

    def fill(self) -> float:
        """Give every key a state; returns the seconds."""
        for start in range(0, self._case.keys, self._case.filled):
            self._rig.feed(range(start, min(start + self._case.filled, self._case.keys)))
        seconds, self.progress = self._rig.run()
        return seconds

    def update(self, batches: int, updated: int | None = None) -> tuple[float, list[dict[str, Any]]]:
        """Run batches of random keys, after a start of the query."""
        for _ in range(batches):
            self._rig.feed(self._random.integers(0, self._case.keys, updated or self._case.updated).tolist())
        seconds, progress = self._rig.run()
        assert len(progress) == batches, f"expected {batches} batches, found {len(progress)}"
        self.progress = progress
        return seconds, progress

    def figures(self) -> dict[str, Any]:
        """Batch, commit and recovery times, sizes and memory."""
        fill_s = self.fill()
        before = cpu_s()
        _, warm = self.update(self._case.batches)
        cpu_ms = round((cpu_s() - before) / self._case.batches * 1000)
        # The first batch loads the state, and the next ones compile.
        warm = warm[len(warm) // 3 :]
        pauses = gc_pauses_ms((self._rig.folder / "gc.log").read_text())
        recovered = [self.recovery() for _ in range(_RECOVERIES)]
        memory = resident()
        state = self.progress[-1]["stateOperators"][0]
        return {
            "fill_s": round(fill_s, 1),
            "batch_ms": quartile(one["durationMs"]["addBatch"] for one in warm),
            "cpu_ms": cpu_ms,
            "commit_ms": quartile(one["stateOperators"][0]["commitTimeMs"] for one in warm),
            "recoveries": recovered,
            "gc_count": len(pauses),
            "gc_total_ms": round(sum(pauses)),
            "gc_longest_ms": round(max(pauses, default=0)),
            "heap_mib": round(heap_used(self._rig.spark) / 2**20),
            "jvm_mib": memory[JVM],
            "workers_mib": memory[WORKERS],
            "state_rows": state["numRowsTotal"],
            "state_mib": round(state["memoryUsedBytes"] / 2**20, 1),
            "files": files_of(self._rig.checkpoint),
            "checkpoint_mib": mib_below(self._rig.checkpoint),
            "copies_mib": mib_below(self._rig.folder / "copies"),
            "metrics": {name: state["customMetrics"][name] for name in sorted(state["customMetrics"])},
        }

    def recovery(self) -> dict[str, float]:
        """A start of the query, whose first batch loads the state.

        Returns:
            ``load_ms`` by which a task of the first batch takes longer than those of the next ones,
            ``load_cpu_ms`` of it in CPU, and ``replayed``, the number of files with changes that it reads
            after the snapshot.
        """
        replayed = self._rig.behind()
        self.update(1 + _AFTER_RECOVERY)
        first, *others = self._rig.tasks[-1 - _AFTER_RECOVERY :]
        return {
            "load_ms": round(first.ran_ms - min(other.ran_ms for other in others), 1),
            "load_cpu_ms": round(first.cpu_ms - min(other.cpu_ms for other in others), 1),
            "replayed": replayed,
        }

    def changelogs(self) -> dict[str, Any]:
        """Recovery against the number of changelogs since the last snapshot."""
        self.fill()
        # The first start of all also loads code.
        self.recovery()
        points = []
        for wanted in self._case.points:
            before = int(self.progress[-1]["batchId"]) + 1
            if wanted > before:
                self.update(wanted - before)
            found = self.recovery()
            points.append([found["replayed"], found["load_ms"], found["load_cpu_ms"]])
        return {"points": points}

    def again(self) -> dict[str, Any]:
        """Seconds from the start of the query to the commit of a planned batch, against its size."""
        self.fill()
        self.update(self._case.batches)
        points = []
        # The first start of all also loads code, and is left out.
        for updated in (self._case.points[0], *self._case.points):
            self.update(1, updated)
            last = int(self.progress[-1]["batchId"])
            for name in (f"{last}", f".{last}.crc"):
                (self._rig.checkpoint / "commits" / name).unlink(missing_ok=True)
            before = cpu_s()
            seconds, progress = self._rig.run()
            assert [one["batchId"] for one in progress] == [last], f"batch {last} ran again"
            points.append([updated, round(seconds * 1000), round((cpu_s() - before) * 1000)])
        return {"points": points[1:]}

    def waiting(self) -> dict[str, Any]:
        """Seconds from the start of the query until so many batches that wait are committed."""
        self.fill()
        self.update(self._case.batches)
        points = []
        for number in self._case.points:
            before = cpu_s()
            seconds, _ = self.update(number)
            points.append([number, round(seconds * 1000), round((cpu_s() - before) * 1000)])
        return {"points": points}


def quartile(values: Iterable[float]) -> float:
    """The value below which a quarter is: other work on the machine only makes a batch slower."""
    return float(round(np.quantile(list(values), 0.25), 1))


def cpu_s() -> float:
    """CPU seconds of the JVM and its workers so far."""
    found = 0.0
    for process in psutil.Process().children(recursive=True):
        with contextlib.suppress(psutil.Error):
            times = process.cpu_times()
            found += times.user + times.system
    return found


def files_of(checkpoint: Path) -> dict[str, int]:
    """The number of files of each kind in the state of the first partition."""
    kinds = Counter(file.suffix for file in (checkpoint / "state" / "0" / "0").iterdir() if file.is_file())
    return {kind: count for kind, count in sorted(kinds.items()) if kind != ".crc"}


def mib_below(folder: Path) -> float:
    """What the files below a folder take on the disk."""
    return round(sum(file.stat().st_blocks * 512 for file in folder.rglob("*") if file.is_file()) / 2**20, 1)


def resident() -> dict[str, int]:
    """MiB of resident memory of the JVM, and of its Python workers."""
    found = {JVM: 0, WORKERS: 0}
    for process in psutil.Process().children(recursive=True):
        # One that has ended meanwhile has no memory.
        with contextlib.suppress(psutil.Error):
            role = role_of(process)
            if role in found:
                found[role] += process.memory_info().rss
    return {role: size >> 20 for role, size in found.items()}


def measured(case: Case, folder: Path) -> dict[str, Any]:
    """Run a case in an empty folder."""
    with_logs = folder / "run"
    with_logs.mkdir()
    spark = open_session(with_logs, case.heap, case.engine, case.conf)
    course = Course(case, Rig(with_logs, case.engine, case.size, spark))
    runs = {"changelogs": course.changelogs, "again": course.again, "waiting": course.waiting}
    try:
        return runs.get(case.name.partition(",")[0], course.figures)()
    finally:
        spark.stop()


def main(arguments: Sequence[str]) -> int:
    """Run one case."""
    found = json.loads(Path(arguments[0]).read_text())
    case = Case(**{**found, "points": tuple(found["points"])})
    result = measured(case, Path(arguments[0]).parent)
    print(json.dumps({"case": asdict(case), **result}), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
