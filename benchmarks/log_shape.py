"""`python -m benchmarks.log_shape`: what the log of a bucket costs, counted, and its local copy.

One bucket in memory of Spark's tester, with the store of a driver. Counts are the same on every machine.
"""

from __future__ import annotations

import json
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import Any, cast

import numpy as np
from pyspark.sql.streaming.tws_tester import _InMemoryStatefulProcessorHandle

from benchmarks.harness.results import append_result
from stateward.project.settings import Settings
from stateward.runtime.keyed.log_store import LogBackend, LogStore
from stateward.runtime.keyed.state_log import Chunk, Head, StateLog
from stateward.runtime.keyed.state_store import Encoded, StateRules

KEYS = 2_000
_SHARES = (1.0, 0.1, 0.01, 0.001)
_STATE = b'{"state":{"first_ms":1704067200000,"last_ms":1704067260000,"count":%d},"recent":[]}'
_SIZES = ((100, 100_000), (186, 100_000), (1_000, 20_000), (10_000, 2_000), (100_000, 200))
# The keys of one bucket in 64, of a million and of ten million.
_LONG = (15_625, 156_250)
_BUILT = 3
_FAR_MS = 1 << 50
_RULES = StateRules(1, "", lambda of, key, text: text, lambda key, text: (Encoded(text, text), _FAR_MS))


class CountedLog(StateLog):
    """Counts calls to the state server, and the entries and bytes that are written."""

    def __init__(self, handle: Any) -> None:
        super().__init__(handle)
        self.counts: Counter[str] = Counter()
        self.size = 0

    def head(self) -> Head:
        """Counted."""
        self.counts["calls"] += 1
        return super().head()

    def chunk(self, seq: int) -> Chunk:
        """Counted."""
        self.counts["calls"] += 1
        self.counts["chunks read"] += 1
        return super().chunk(seq)

    def append(self, head: Head, chunk: Chunk) -> None:
        """Counted."""
        self.counts["calls"] += 1
        self.counts["entries"] += len(chunk)
        super().append(head, chunk)

    def remove(self, seq: int) -> None:
        """Counted."""
        self.counts["calls"] += 1
        super().remove(seq)

    def write_head(self, head: Head) -> Head:
        """Counted."""
        self.counts["calls"] += 1
        self.size = head.logged
        self.counts["chunks"] = head.next_seq - head.first_seq
        return super().write_head(head)


def shape(share: float, folder: Path, keys: int = KEYS) -> dict[str, Any]:
    """Change a share of the keys in each batch, until every key has changed ten times on average."""
    random = np.random.default_rng(7)
    handle = _InMemoryStatefulProcessorHandle("EventTime")
    handle.setGroupingKey("bucket")
    log = CountedLog(handle)
    store = LogStore(LogBackend(str(folder / "copy"), "file:///shape"), log, _RULES)
    _batch(store, range(keys), 0)
    log.counts.clear()
    changed, batches, logged = max(1, round(keys * share)), 0, []
    while batches * changed < 10 * keys:
        batches += 1
        _batch(store, random.permutation(keys)[:changed].tolist(), batches)
        logged.append(log.size)
    counts = log.counts.copy()
    seconds = min(_built_in(log, folder / f"elsewhere-{number}") for number in range(_BUILT))
    return {
        "changed_per_batch": changed,
        "written_per_change": round(counts["entries"] / (batches * changed), 2),
        "logged_per_live": round(max(logged) / keys, 2),
        "chunks": counts["chunks"],
        "calls_per_batch": round(counts["calls"] / batches, 1),
        "rebuilt_us_per_key": round(seconds / keys * 1e6, 1),
    }


def long_log(keys: int, folder: Path, chunks: int = 20_000, settled: int = 700) -> dict[str, Any]:
    """The CPU time of a call that changes two keys of a bucket whose log has been written by such calls.

    The log is what a release that did not merge chunks left: one chunk with all keys, and many with two.

    Args:
        keys: Keys of the bucket.
        folder: For the copy.
        chunks: Chunks with two keys.
        settled: Calls before those that are measured.
    """
    random = np.random.default_rng(7)
    handle = _InMemoryStatefulProcessorHandle("EventTime")
    handle.setGroupingKey("bucket")
    log = CountedLog(handle)
    log.append(Head(), {f"u{key:08}": _STATE % 0 for key in range(keys)})
    for seq, pair in enumerate(random.integers(0, keys, (chunks, 2)).tolist(), 1):
        log.append(Head(next_seq=seq), {f"u{key:08}": _STATE % 0 for key in pair})
    log.write_head(Head("", 0, chunks + 1, keys, keys + 2 * chunks, _FAR_MS, 1))
    store = LogStore(LogBackend(str(folder), "file:///long"), log, _RULES)
    times = []
    for number in range(settled + 300):
        log.counts["entries"] *= number != settled
        begun = time.process_time()
        _batch(store, random.integers(0, keys, 2).tolist(), number)
        times.append(time.process_time() - begun)
    return {
        "keys": keys,
        "chunks": log.counts["chunks"],
        "written_per_change": round(log.counts["entries"] / 600, 2),
        "ms_per_call": round(float(np.mean(times[settled:])) * 1000, 2),
        "longest_ms": round(max(times[1:]) * 1000, 1),
    }


def _built_in(log: StateLog, folder: Path) -> float:
    """Seconds of CPU to build the copy of the bucket in a new folder."""
    store = LogStore(LogBackend(str(folder), "file:///shape"), log, _RULES)
    begun = time.process_time()
    store.bucket(0, 0)
    seconds = time.process_time() - begun
    store.commit()
    return seconds


def copy_factor(size: int, folder: Path, keys: int) -> dict[str, Any]:
    """What the local copy takes of the disk, relative to its keys and states of a given size."""
    handle = _InMemoryStatefulProcessorHandle("EventTime")
    handle.setGroupingKey("bucket")
    store = LogBackend(str(folder), "file:///factor").open(cast("Any", handle), _RULES)
    state = b'"%b"' % (b"x" * (size - 2))
    live = 0
    # Keys come in any order, and their states change afterwards.
    for numbers in np.array_split(np.random.default_rng(7).permutation(keys), 10) * 2:
        bucket = store.bucket(0, 0)
        names = {f"u{number:08}": number for number in numbers.tolist()}
        found = bucket.find(names)
        for key, number in names.items():
            bucket.put(key, found.get(key), Encoded(state, state), _FAR_MS + number)
        bucket.finish()
        store.commit()
        live = bucket.size().bytes
    taken = sum(file.stat().st_blocks * 512 for file in folder.rglob("p0/*"))
    return {"keys": keys, "key_and_state": round(live / keys), "factor": round(taken / live, 2)}


def _batch(store: LogStore, keys: Any, number: int) -> None:
    bucket = store.bucket(0, 0)
    state = _STATE % number
    names = dict.fromkeys(f"u{key:08}" for key in keys)
    found = bucket.find(names)
    for name in names:
        bucket.put(name, found.get(name), Encoded(state, state), _FAR_MS)
    bucket.finish()
    store.commit()


def main() -> int:
    """Print a line of JSON, and add it to the results."""
    cache = Settings().home / "bench"
    cache.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        shapes = [shape(share, Path(folder) / f"{share}") for share in _SHARES]
        copies = [copy_factor(size, Path(folder) / f"copy-{size}", keys) for size, keys in _SIZES]
        long = [long_log(keys, Path(folder) / f"long-{keys}") for keys in _LONG]
    result = {"keys": KEYS, "shapes": shapes, "copies": copies, "long": long}
    append_result(cache / "log_shape.jsonl", result)
    print(json.dumps(result))
    return 0


if __name__ == "__main__":
    sys.exit(main())
