"""`fraud_watch` in PyFlink: its own functions of one account, called by a `KeyedProcessFunction`.

The machine, the order of events, late and repeated events and the next timer are the stream's pure Python,
which needs the standard library only. Flink has the rest: topic, keys, state, timers, checkpoints and files.
Both kinds of rows are complete, in the same files. Durability and variants are those of `pyflink`.
"""

from __future__ import annotations

import json
from typing import Any

from pyflink.common import Row, Types
from pyflink.datastream.functions import KeyedProcessFunction, RuntimeContext
from pyflink.datastream.state import ValueState, ValueStateDescriptor

from benchmarks.peers.pyflink_process import run
from benchmarks.peers.task import Task
from spark_jobs.fraud_watch.amounts import to_micros
from spark_jobs.fraud_watch.machine import FraudMachine
from spark_jobs.fraud_watch.model import FraudSettings, FraudState, Payment, PaymentEvent
from stateward.runtime.api.key_logic import KeyState, advance, next_timer
from stateward.runtime.watermark.admission import Limits, Seen

_FIELDS = {"account_id": "STRING", "event_id": "STRING", "kind": "STRING", "amount": "DOUBLE"}
_WINDOW = FraudState._fields.index("window")

Kept = KeyState[FraudState, PaymentEvent]


class Accounts(KeyedProcessFunction):  # type: ignore[misc]  # mypy does not see PyFlink
    """Follows one account. Its state is what the stream keeps, and the time of its earliest timer."""

    def __init__(self, task: Task) -> None:
        settings = FraudSettings.of(task.logic)
        self._machine = FraudMachine(settings)
        self._limits = Limits(task.lateness_ms, settings.max_held_events)
        self._state: ValueState | None = None

    def open(self, context: RuntimeContext) -> None:
        """Get the state."""
        self._state = context.get_state(ValueStateDescriptor("account", Types.PICKLED_BYTE_ARRAY()))

    def process_element(self, value: Row, context: KeyedProcessFunction.Context) -> list[str]:
        """Hold one event, and apply those that the watermark has passed."""
        # The context would ask the JVM for the key.
        account, event_id, kind, amount = value[:4]
        micros = 0 if amount is None else to_micros(amount)
        event = PaymentEvent(event_id, context.timestamp(), kind, micros)
        return self._advance(account, [event], context)

    def on_timer(self, timestamp: int, context: KeyedProcessFunction.OnTimerContext) -> list[str]:
        """Apply what the watermark has passed, and the timeouts."""
        return self._advance(context.get_current_key(), [], context)

    def _advance(
        self, key: str, arrivals: list[PaymentEvent], context: KeyedProcessFunction.Context
    ) -> list[str]:
        assert self._state is not None
        timers = context.timer_service()
        # Flink's watermark has passed the events at it, the stream's only those before it.
        watermark_ms = timers.current_watermark() + 1
        stored = self._state.value()
        kept, timer_ms = (_named(stored[0]), stored[1]) if stored else (Kept(), None)
        result = advance(self._machine, key, kept, arrivals, watermark_ms=watermark_ms, limits=self._limits)
        due_ms = next_timer(self._machine, key, result.kept, self._limits)
        if due_ms is None:
            self._state.clear()
        else:
            # One that is early sets the next: a timer for each event would take a call into the JVM.
            if timer_ms is None or not watermark_ms < timer_ms <= due_ms:
                timer_ms = due_ms
                timers.register_event_time_timer(due_ms - 1)
            self._state.update((_plain(result.kept), timer_ms))
        rows: list[Any] = result.rows  # named tuples, of two classes
        return [json.dumps(row._asdict()) for row in rows]


def _plain(kept: Kept) -> tuple[Any, ...]:
    """What is kept, in plain lists: to pickle named tuples takes twice as long."""
    state = None
    if kept.state is not None:
        state = list(kept.state)
        state[_WINDOW] = [*map(tuple, kept.state.window)]
    return state, [*map(tuple, kept.held)], [*map(tuple, kept.recent)], kept.floor_ms


def _named(plain: tuple[Any, ...]) -> Kept:
    state, held, recent, floor_ms = plain
    if state is not None:
        state[_WINDOW] = tuple(map(Payment._make, state[_WINDOW]))
        state = FraudState._make(state)
    return KeyState(state, tuple(map(PaymentEvent._make, held)), tuple(map(Seen._make, recent)), floor_ms)


def main() -> None:
    """Run the job of the accounts."""
    task = Task.from_arguments()
    run(task, _FIELDS, Accounts(task))


if __name__ == "__main__":
    main()
