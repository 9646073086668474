"""PyFlink: arbitrary Python per key, with value state and timers; records are parsed in the JVM, as for SQL.

Durability: checkpoints, exactly once, state on the heap (variant `rocksdb`: in RocksDB). Python runs inside
the JVM's process, in threads; variant `process` has it beside the JVM, PyFlink's default and several times
slower.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Mapping

from pyflink.common import Encoder, Row, Types
from pyflink.datastream import StreamExecutionEnvironment
from pyflink.datastream.connectors.file_system import FileSink, RollingPolicy
from pyflink.datastream.functions import KeyedProcessFunction, RuntimeContext
from pyflink.datastream.state import ValueState, ValueStateDescriptor
from pyflink.table import StreamTableEnvironment

from benchmarks.peers.flink_settings import USER, configuration, source_table
from benchmarks.peers.runs import add, take_closed
from benchmarks.peers.task import Task

# With the default, 1000, nearly every event of more users misses, which costs a round trip to the JVM.
_CACHED_KEYS = "100000"


class Sessions(KeyedProcessFunction):  # type: ignore[misc]  # mypy does not see PyFlink
    """Opens, joins and closes the sessions of one user."""

    def __init__(self, gap_ms: int) -> None:
        self._gap_ms = gap_ms
        self._state: ValueState | None = None

    def open(self, context: RuntimeContext) -> None:
        """Get the state."""
        self._state = context.get_state(ValueStateDescriptor("runs", Types.PICKLED_BYTE_ARRAY()))

    def process_element(self, value: Row, context: KeyedProcessFunction.Context) -> Iterator[str]:
        """Add one event and set a timer for the moment at which its session can close."""
        assert self._state is not None
        runs = self._state.value() or []
        time_ms = context.timestamp()
        add(runs, time_ms, self._gap_ms)
        self._state.update(runs)
        context.timer_service().register_event_time_timer(time_ms + self._gap_ms)
        yield from ()

    def on_timer(self, timestamp: int, context: KeyedProcessFunction.OnTimerContext) -> Iterator[str]:
        """Close what is due."""
        assert self._state is not None
        runs = self._state.value() or []
        closed = take_closed(runs, timestamp, self._gap_ms)
        if not closed:
            return
        if runs:
            self._state.update(runs)
        else:
            self._state.clear()
        for started, ended, count in closed:
            row = {"user_id": context.get_current_key(), "started_ms": started, "ended_ms": ended}
            yield json.dumps({**row, "event_count": count})


def run(task: Task, fields: Mapping[str, str], function: KeyedProcessFunction) -> None:
    """Run the job to the end of the topic and wait for its last checkpoint.

    Args:
        task: The run; its variant may be `process` or `rocksdb`.
        fields: What the function gets of an event: types of SQL by name, the key first.
        function: What is called for each event and timer; it returns lines of JSON.
    """
    mode = "process" if task.variant == "process" else "thread"
    options = {"python__execution-mode": mode, "python__state__cache-size": _CACHED_KEYS}
    environment = StreamExecutionEnvironment.get_execution_environment(configuration(task, **options))
    tables = StreamTableEnvironment.create(environment)
    tables.execute_sql(source_table(task, fields))
    key = next(iter(fields))
    # The times travel beside the rows, where `Context.timestamp` finds them. The last record of a partition
    # has no account: NULL is left out as well.
    events = tables.sql_query(
        f"SELECT {', '.join(fields)}, event_time FROM events WHERE {key} <> '{task.tick_user}'"
    )
    sink = FileSink.for_row_format(str(task.output), Encoder.simple_string_encoder())
    if task.is_endless:
        # A checkpoint shows the files that are closed.
        sink = sink.with_rolling_policy(RollingPolicy.on_checkpoint_rolling_policy())
    (
        tables.to_data_stream(events)
        .key_by(lambda event: event[0], key_type=Types.STRING())
        .process(function, output_type=Types.STRING())
        .sink_to(sink.build())
    )
    environment.execute("events")
    task.finish(time.time())


def main() -> None:
    """Run the job of the sessions."""
    task = Task.from_arguments()
    run(task, USER, Sessions(task.gap_ms))


if __name__ == "__main__":
    main()
