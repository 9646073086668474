"""The property that every stream of keyed logic has to have: any cut of its input comes to the same rows."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from stateward.runtime.api.key_logic import replay_oracle
from stateward.runtime.sink.output_rows import decode_rows, encode_rows
from stateward.testing.cases import LATENESS, Arrival, Case, arrivals, case_of, out_of_order
from stateward.testing.requirements import require

if TYPE_CHECKING:
    from stateward.testing.bucket_bench import BucketBench

# Longer than any chain of timeouts in a case.
_LONG = 100_000
_MOST_JITTER_MS = 1500

Test = Callable[[], None]


def any_cut(stream: str, **values: st.SearchStrategy[Any]) -> Test:
    """Make the test that a stream's rows do not depend on how its input is cut.

    A module of tests assigns it: `test_any_cut = any_cut("refunds")`. It draws events, and sends them out of
    order within the allowed lateness, in batches of any size, with tasks that are restarted or fail in
    between, through the processor that Spark runs. The rows have to be those of the logic over all events in
    order, and no state may be left. It is skipped where the extra `spark` is not installed.

    Args:
        stream: The stream.
        values: See `case_of`.
    """
    # Not before the test runs: pytest imports a module to collect its tests.
    case = cache(lambda: case_of(stream, **values))

    @settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
    @given(data=st.data())
    def property_of(data: st.DataObject) -> None:
        with tempfile.TemporaryDirectory(prefix="stateward-test-") as folder:
            check_any_cut(case(), data, Path(folder))

    def test() -> None:
        try:
            require("pyspark", "pandas")
        except ModuleNotFoundError as error:
            pytest.skip(str(error))
        property_of()

    test.__doc__ = f"Any cut of the input of {stream} comes to the same rows."
    return test


def check_any_cut(case: Case, data: st.DataObject, folder: Path) -> None:
    """Check one example.

    Args:
        case: The stream.
        data: Draws the events, their cuts and the interruptions.
        folder: An empty one, for the local copy of the states.
    """
    from stateward.testing.bucket_bench import BucketBench

    events = data.draw(arrivals(case), label="events")
    jitter_ms = data.draw(st.just(0) | st.integers(1, _MOST_JITTER_MS), label="jitter_ms")
    bench = BucketBench(folder, case.job, case.logic, jitter_ms=jitter_ms)
    try:
        _play(bench, events, data)
        found = {
            output.table.name: sorted(map(str, bench.rows[output.table.name])) for output in case.job.outputs
        }
        assert found == _expected(case, events)
        assert bench.counts["accepted"] == len(events)
        assert bench.timers == ([] if bench.reported is None else [bench.reported])
        assert bench.is_empty, "every path has to end in the deletion of the state"
    finally:
        bench.end()


def _play(bench: BucketBench, events: list[Arrival], data: st.DataObject) -> None:
    between: dict[str, Callable[[], None]] = {
        "end": bench.end_task,
        "fail": bench.fail_task,
        "go on": lambda: None,
    }
    waiting = out_of_order(events, data, LATENESS)
    largest = watermark = 0
    while waiting:
        size = data.draw(st.integers(1, len(waiting)))
        batch, waiting = waiting[:size], waiting[size:]
        # A plan includes the events of earlier batches; without it Spark reports them one batch later.
        is_planned, coming = data.draw(st.booleans()), max(0, largest - LATENESS)
        bench.batch(*batch, next_ms=coming if is_planned else 0)
        largest = max([largest, *(e.event_ms for _, e in batch)])
        between[data.draw(st.sampled_from(list(between)))]()
        after = coming if is_planned else largest - LATENESS
        if after > watermark:
            watermark = after
            bench.watermark(watermark)
    for later in range(1, 6):
        bench.watermark(watermark + later * _LONG)


def _expected(case: Case, events: list[Arrival]) -> dict[str, list[str]]:
    """The oracle's rows by table, sorted."""
    rows: list[tuple[Any, ...]] = []
    for key in {key for key, _ in events}:
        rows += replay_oracle(case.logic, key, [event for owner, event in events if owner == key])
    tables = {}
    for output in case.job.outputs:
        mine = [row for row in rows if type(row) is output.row]
        tables[output.table.name] = sorted(map(str, decode_rows(encode_rows(output.table, mine)).to_pylist()))
    return tables
