"""A key needs no processing before its alarm.

A look before it finds nothing to do, an alarm is never in the past, and what is kept reads back as it was
written.
"""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from stateward.runtime.api.key_logic import KeyState, advance, next_timer, replay_oracle
from stateward.runtime.keyed.codec import KeyStateCodec
from stateward.runtime.watermark.admission import Limits
from stateward.testing.cases import arrivals, out_of_order
from tests.support.streams.cases import CASES

LATENESS = 100
KEY = "k"


@pytest.mark.parametrize("name", CASES)
@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(data=st.data())
def test_nothing_happens_before_the_alarm_and_all_is_done_by_the_last(name: str, data: st.DataObject) -> None:
    case = CASES[name]
    events = data.draw(arrivals(case))
    waiting = [event for _, event in out_of_order(events, data, LATENESS)]
    limits = Limits(LATENESS, max_held=100)
    codec: KeyStateCodec[Any, Any] = KeyStateCodec(case.job.state_type, case.job.event_type)
    kept, rows, largest, watermark = KeyState[Any, Any](), list[tuple[Any, ...]](), 0, 0
    while waiting or not kept.is_empty:
        size = data.draw(st.integers(1, len(waiting))) if waiting else 0
        batch, waiting = waiting[:size], waiting[size:]
        for arrivals_now in (batch, []):  # the second call has only a new watermark
            due = next_timer(case.logic, KEY, kept, limits)
            turn = advance(case.logic, KEY, kept, arrivals_now, watermark_ms=watermark, limits=limits)
            assert not turn.admission.late
            assert arrivals_now or (due is not None and due <= watermark) or not turn.rows, "before the alarm"
            # A restart in between: the state is what was written.
            kept = codec.decode(codec.encode(turn.kept))
            assert kept == codec.unpack(codec.pack(kept)) == turn.kept
            rows += turn.rows
        wanted = next_timer(case.logic, KEY, kept, limits)
        assert wanted is None or wanted > watermark, "an alarm in the past would never fire"
        largest = max([largest, *(event.event_ms for event in batch)])
        # As in Spark, the next batch runs at the largest event time so far, minus the lateness.
        watermark = max(watermark, largest - LATENESS) if waiting else max(watermark, wanted or 0)

    assert rows == replay_oracle(case.logic, KEY, [event for _, event in events])
