"""Flink SQL: the session window table function, all in the JVM.

Durability: checkpoints, exactly once; the file sink shows rows when a checkpoint completes. Default: state
on the heap, written whole at each checkpoint. Variant `rocksdb`: state in RocksDB, written incrementally.
Where events may be repeated, the first of each id counts, which is known for a minute.
"""

from __future__ import annotations

import time

from pyflink.table import EnvironmentSettings, TableEnvironment

from benchmarks.peers.flink_settings import USER, configuration, source_table
from benchmarks.peers.task import Task

_ID = {"event_id": "STRING"}
_EVENTS = "CREATE TEMPORARY VIEW once AS SELECT user_id, event_time FROM events"
_EVENTS_ONCE = """
    CREATE TEMPORARY VIEW once AS
    SELECT user_id, event_time FROM (
      SELECT *, ROW_NUMBER() OVER (PARTITION BY user_id, event_id ORDER BY PROCTIME()) AS number FROM events
    ) WHERE number = 1"""


def main() -> None:
    """Run the job to the end of the topic and wait for its last checkpoint."""
    task = Task.from_arguments()
    settings = EnvironmentSettings.new_instance().with_configuration(configuration(task)).in_streaming_mode()
    environment = TableEnvironment.create(settings.build())
    if task.is_spoilt:
        environment.get_config().set("table.exec.state.ttl", "1 min")
    environment.execute_sql(source_table(task, {**USER, **_ID} if task.is_spoilt else USER))
    environment.execute_sql(_EVENTS_ONCE if task.is_spoilt else _EVENTS)
    environment.execute_sql(_sink(task))
    environment.execute_sql(_query(task)).wait()
    task.finish(time.time())


def _sink(task: Task) -> str:
    # A checkpoint shows the files that are closed. By default that is after half an hour, or at the end.
    rolling = ""
    if task.is_endless:
        rolling = "".join(
            f", 'sink.rolling-policy.{name}-interval' = '100 ms'" for name in ("rollover", "check")
        )
    return f"""
        CREATE TABLE sessions (
          user_id STRING, started_ms BIGINT, ended_ms BIGINT, event_count BIGINT
        ) WITH ('connector' = 'filesystem', 'path' = 'file://{task.output}', 'format' = 'json'{rolling})"""


def _query(task: Task) -> str:
    # Flink joins events that are exactly the gap apart; here they are in two sessions.
    gap = f"{(task.gap_ms - 1) / 1000:.3f}"
    milliseconds = "1000 * UNIX_TIMESTAMP(CAST({0} AS STRING)) + EXTRACT(MILLISECOND FROM {0})"
    started, ended = (milliseconds.format(f"{edge}(event_time)") for edge in ("MIN", "MAX"))
    return f"""
        INSERT INTO sessions
        SELECT user_id, {started}, {ended}, COUNT(*)
        FROM SESSION(TABLE once PARTITION BY user_id, DESCRIPTOR(event_time), INTERVAL '{gap}' SECOND(2, 3))
        WHERE user_id <> '{task.tick_user}'
        GROUP BY user_id, window_start, window_end"""


if __name__ == "__main__":
    main()
