"""What the Flink contestants share: one local mini-cluster, and the topic as a table, parsed in the JVM."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from pyflink.common import Configuration

from benchmarks.peers.task import Task

USER = {"user_id": "STRING"}


def configuration(task: Task, **more: str) -> Configuration:
    """Return Flink's configuration for a task; `more` has dots written as double underscores."""
    on_rocksdb = "rocksdb" in task.variant.split("+")
    values = {
        "execution.runtime-mode": "STREAMING",
        "parallelism.default": str(task.parallelism),
        "pipeline.jars": ";".join(f"file://{jar}" for jar in task.jars),
        "table.local-time-zone": "UTC",
        "execution.checkpointing.interval": f"{task.commit_interval_ms} ms",
        "execution.checkpointing.mode": "EXACTLY_ONCE",
        "execution.checkpointing.dir": f"file://{Path(task.folder) / 'checkpoints'}",
        "state.backend.type": "rocksdb" if on_rocksdb else "hashmap",
        "execution.checkpointing.incremental": str(on_rocksdb).lower(),
        "taskmanager.numberOfTaskSlots": str(task.parallelism),
        "taskmanager.memory.managed.size": "1g",
        "taskmanager.memory.network.min": "128m",
        "taskmanager.memory.network.max": "128m",
        # Objects are not kept by these jobs, so operators may hand them on without a copy.
        "pipeline.object-reuse": "true",
        **({"execution.state-recovery.path": task.restore_uri} if task.restore_uri else {}),
        **{name.replace("__", "."): value for name, value in more.items()},
    }
    result = Configuration()
    for name, value in values.items():
        result.set_string(name, value)
    return result


def source_table(task: Task, fields: Mapping[str, str] = USER) -> str:
    """Return the statement that declares the topic as the table `events`.

    It is read to its present end, unless the run is endless.

    Args:
        task: The run.
        fields: What is parsed beside the event time: types of SQL by name.
    """
    columns = ", ".join(f"{name} {kind}" for name, kind in fields.items())
    options = "" if task.is_endless else "\n          'scan.bounded.mode' = 'latest-offset',"
    if task.is_spoilt:
        options += "\n          'json.ignore-parse-errors' = 'true',"
    return f"""
        CREATE TABLE events (
          {columns},
          event_time TIMESTAMP_LTZ(3),
          WATERMARK FOR event_time AS event_time - INTERVAL '{task.lateness_ms // 1000}' SECOND
        ) WITH (
          'connector' = 'kafka',
          'topic' = '{task.topic}',
          'properties.bootstrap.servers' = '{task.bootstrap_servers}',
          'properties.group.id' = '{task.group}',
          'scan.startup.mode' = 'earliest-offset',{options}
          'format' = 'json',
          'json.timestamp-format.standard' = 'ISO-8601'
        )"""
