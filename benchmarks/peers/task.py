"""What the harness tells a contestant, and what it answers. Standard library only: every peer imports it."""

from __future__ import annotations

import json
import sys
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class Task:
    """One run.

    Attributes:
        bootstrap_servers: of the broker.
        topic: to read, from the first record to the last that is there now.
        partitions: of the topic.
        gap_ms: an event this long after the one before it opens a session; one less belongs to the same.
        lateness_ms: how far events of one partition may be out of order.
        folder: for state, checkpoints and output; empty.
        parallelism: processes or threads to use.
        commit_interval_ms: time between checkpoints, where the engine has them.
        variant: way to run, where the contestant has several; empty for its default.
        jars: JARs that the contestant asked for.
        tick_user: user of the last record of each partition, of which no session is reported.
        end_ms: event time of those records, milliseconds since 1970 UTC.
        logic: parameters of `fraud_watch`; empty for a contestant that makes sessions.
        group: consumer group of this run, whose committed offsets say how far Flink is.
        restore_uri: checkpoint of Flink to go on from; empty for a new start.
        is_spoilt: whether there are records that are not JSON, and events that are repeated.
        is_endless: whether records come for as long as the run lasts.
    """

    bootstrap_servers: str
    topic: str
    partitions: int
    gap_ms: int
    lateness_ms: int
    folder: str
    parallelism: int
    commit_interval_ms: int
    variant: str
    jars: list[str]
    tick_user: str
    end_ms: int
    logic: dict[str, Any] = field(default_factory=dict)
    group: str = "bench"
    restore_uri: str = ""
    is_spoilt: bool = False
    is_endless: bool = False

    @property
    def output(self) -> Path:
        """Folder for rows as lines of JSON: a session is `user_id, started_ms, ended_ms, event_count`."""
        return Path(self.folder) / "output"

    def save(self) -> Path:
        """Write the task into its folder and return the file."""
        path = Path(self.folder) / "task.json"
        path.write_text(json.dumps(asdict(self)))
        return path

    @classmethod
    def from_arguments(cls) -> Task:
        """Read the task whose file is the program's one argument."""
        return cls(**json.loads(Path(sys.argv[1]).read_text()))

    def finish(self, committed_at: float, output_topic: str | None = None) -> None:
        """Report the end.

        Args:
            committed_at: when the last row was committed, seconds since 1970.
            output_topic: where the rows are, when not in `output`.
        """
        result = {"committed_at": committed_at, "output_topic": output_topic}
        (Path(self.folder) / "result.json").write_text(json.dumps(result))
