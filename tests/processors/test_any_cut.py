"""For any batches, order and interruptions of the input the rows are the oracle's, and the state empties.

Every stream of the catalogue goes through the processor that Spark runs. Durations are scaled down, so that
few events meet every timeout; a jitter may spread those. The full number of examples is that of `make full`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from stateward.runtime.api.key_logic import replay_oracle
from stateward.runtime.sink.output_rows import decode_rows, encode_rows
from tests.support.spark.bucket_bench import LATENESS, BucketBench
from tests.support.streams.cases import CASES, Arrival, Case, arrivals, out_of_order

# Longer than any chain of timeouts in the cases.
_LONG = 100_000


def play(bench: BucketBench, events: list[Arrival], data: st.DataObject) -> None:
    """Send the events, out of order within the lateness, in any batches, with restarted and failed tasks."""
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


def expected(case: Case, events: list[Arrival]) -> dict[str, list[str]]:
    """The oracle's rows by table, sorted."""
    rows: list[tuple[Any, ...]] = []
    for key in {key for key, _ in events}:
        rows += replay_oracle(case.logic, key, [event for owner, event in events if owner == key])
    tables = {}
    for output in case.job.outputs:
        mine = [row for row in rows if type(row) is output.row]
        tables[output.table.name] = sorted(map(str, decode_rows(encode_rows(output.table, mine)).to_pylist()))
    return tables


@pytest.mark.parametrize("name", CASES)
@settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(data=st.data())
def test_the_rows_are_those_of_the_oracle_and_the_state_empties(
    name: str, data: st.DataObject, tmp_path_factory: pytest.TempPathFactory
) -> None:
    case = CASES[name]
    events = data.draw(arrivals(case))
    jitter_ms = data.draw(st.just(0) | st.integers(1, 1500))
    bench = BucketBench(tmp_path_factory.mktemp("copy"), case.job, case.logic, jitter_ms=jitter_ms)
    play(bench, events, data)

    found = {
        output.table.name: sorted(map(str, bench.rows[output.table.name])) for output in case.job.outputs
    }
    assert found == expected(case, events)
    assert bench.counts["accepted"] == len(events)
    assert bench.timers == ([] if bench.reported is None else [bench.reported])
    assert bench.is_empty
    bench.end()
