"""A driver's sink with topics that ends or stops itself at a step of one batch, in its own process.

Arguments: the folder of the tables, the broker, the topics as JSON, the transactional id, the step.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from pathlib import Path
from typing import Any

import pytest

from stateward.runtime.sink.fence import CheckLease
from stateward.runtime.sink.topic_sink import TopicSink
from tests.unit.runtime.sink.test_sink import FULL, Sinks

TABLES, SENT, MARKED, COMMITTED, PAUSED = STEPS = ("tables", "sent", "marked", "committed", "paused")
"""After the commits of the tables, the rows, the offset, the transaction; before its commit, stopped only."""


class Dying(TopicSink):
    """Ends at the step of its class variable."""

    step = ""

    def send(self, *batch: Any) -> None:
        self._at(TABLES)
        super().send(*batch)
        self._at(COMMITTED)

    def _commit(self, producer: Any, generation: str, batch_id: int, check: CheckLease) -> None:
        assert producer.flush(30) == 0
        self._at(SENT)

        def second() -> int:
            epoch = check()
            self._at(MARKED)
            self._at(PAUSED)
            return epoch

        super()._commit(producer, generation, batch_id, second)

    def _at(self, step: str) -> None:
        if step == self.step:
            os.kill(os.getpid(), signal.SIGSTOP if step == PAUSED else signal.SIGKILL)


def main(folder: str, bootstrap: str, topics: str, name: str, step: str) -> None:
    Dying.step = step
    sink = Dying(bootstrap, "visits", json.loads(topics), "user_id", name)
    epoch = Path(folder) / "epoch"

    def check() -> int:
        if epoch.exists():
            raise PermissionError("the lease is another's")
        return 5

    Sinks(Path(folder)).sink(check_lease=check, topics=sink)(FULL, 0)


if __name__ == "__main__":
    pytest.MonkeyPatch().chdir(sys.argv[1])
    main(*sys.argv[1:])
