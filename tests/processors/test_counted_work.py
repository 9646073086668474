"""The cost of a batch, counted and not timed: calls to the state server, and entries written to the state.

These are the quantities that the engine's speed comes from (docs/decisions/0004), so a change that makes them
grow fails here, on any machine.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import pytest

from stateward.runtime.keyed.log_store import LogStore
from tests.processors.test_buckets import Bench, event

KEYS = 300


class CountingLog:
    """Counts the calls to a state log, each a round trip to the state server, and the entries written."""

    def __init__(self, log: Any) -> None:
        self._log = log
        self.calls: Counter[str] = Counter()
        self.entries = 0

    def __getattr__(self, name: str) -> Any:
        method = getattr(self._log, name)

        def counted(*arguments: Any) -> Any:
            self.calls[name] += 1
            if name == "append":
                self.entries += len(arguments[1])
            return method(*arguments)

        return counted


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Bench]:
    bench = Bench(tmp_path)
    yield bench
    bench.end()


@pytest.fixture
def log(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> CountingLog:
    counting = CountingLog(cast("LogStore", bench.processor._store)._log)
    monkeypatch.setattr(bench.processor._store, "_log", counting)
    return counting


def test_a_batch_costs_the_same_calls_however_many_keys_it_has(bench: Bench, log: CountingLog) -> None:
    bench.batch(*((f"u{number}", event("a", 100)) for number in range(KEYS)))
    assert log.calls == {"head": 1, "append": 1, "set_timer": 1, "write_head": 1}
    log.calls.clear()

    bench.batch(*((f"u{number}", event("b", 200)) for number in range(KEYS)))
    expected = {"head": 1, "append": 1, "remove": 1, "write_head": 1}
    assert log.calls == expected, "the timer is unchanged, and the first chunk is removed"


def test_a_sparse_batch_writes_what_has_changed_and_little_more(bench: Bench, log: CountingLog) -> None:
    bench.batch(*((f"u{number}", event("a", 100)) for number in range(KEYS)))
    log.entries = 0
    rounds = 200
    for number in range(rounds):
        bench.batch((f"u{number % 10}", event(f"b{number}", 200 + number)))
    assert log.entries <= 3 * (rounds + KEYS), (
        "cleaning rewrites each live entry now and then, not in each batch"
    )
    assert bench.logged <= 3 * KEYS + 256 + 1


def test_a_timer_that_lets_nothing_expire_writes_nothing(bench: Bench, log: CountingLog) -> None:
    bench.batch(("u", event("a", 100)))
    log.calls.clear()
    bench.watermark(500)
    assert log.calls == {}, "the bucket's timer is not due"


@pytest.mark.parametrize(("jitter_ticks", "share"), [(0, 1.0), (20, 1 / 3)])
def test_jitter_spreads_keys_that_expire_together(jitter_ticks: int, share: float) -> None:
    """Keys created in one batch, whose timeouts are due at the same time; one tick per second."""
    keys, tick_ms = 20_000, 1000
    bench = Bench(None, jitter_ms=jitter_ticks * tick_ms)
    bench.batch(*((f"user-{number:06}", event("a", 100)) for number in range(keys)))
    closed = []
    for tick in range(jitter_ticks + 2):
        before = len(bench.sessions)
        bench.watermark(1100 + tick * tick_ms)
        bench.end_task()
        closed.append(len(bench.sessions) - before)
    assert sum(closed) == keys
    assert max(closed) <= share * keys
    assert {session["closed_at"].timestamp() for session in bench.sessions} == {1.1}, "the deadline's time"
    assert bench.is_empty
