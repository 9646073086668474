"""Flink SQL: the session window table function, all in the JVM.

Durability: checkpoints, exactly once; the file sink shows rows when a checkpoint completes. Default: state
on the heap, written whole at each checkpoint. Variant `rocksdb`: state in RocksDB, written incrementally.
"""

from __future__ import annotations

import time

from pyflink.table import EnvironmentSettings, TableEnvironment

from benchmarks.peers.flink_settings import configuration, source_table
from benchmarks.peers.task import Task


def main() -> None:
    """Run the job to the end of the topic and wait for its last checkpoint."""
    task = Task.from_arguments()
    settings = EnvironmentSettings.new_instance().with_configuration(configuration(task)).in_streaming_mode()
    environment = TableEnvironment.create(settings.build())
    environment.execute_sql(source_table(task))
    environment.execute_sql(_sink(task))
    environment.execute_sql(_query(task)).wait()
    task.finish(time.time())


def _sink(task: Task) -> str:
    return f"""
        CREATE TABLE sessions (
          user_id STRING, started_ms BIGINT, ended_ms BIGINT, event_count BIGINT
        ) WITH ('connector' = 'filesystem', 'path' = 'file://{task.output}', 'format' = 'json')"""


def _query(task: Task) -> str:
    # Flink joins events that are exactly the gap apart; here they are in two sessions.
    gap = f"{(task.gap_ms - 1) / 1000:.3f}"
    milliseconds = "1000 * UNIX_TIMESTAMP(CAST({0} AS STRING)) + EXTRACT(MILLISECOND FROM {0})"
    started, ended = (milliseconds.format(f"{edge}(event_time)") for edge in ("MIN", "MAX"))
    return f"""
        INSERT INTO sessions
        SELECT user_id, {started}, {ended}, COUNT(*)
        FROM SESSION(TABLE events PARTITION BY user_id, DESCRIPTOR(event_time), INTERVAL '{gap}' SECOND(2, 3))
        WHERE user_id <> '{task.tick_user}'
        GROUP BY user_id, window_start, window_end"""


if __name__ == "__main__":
    main()
