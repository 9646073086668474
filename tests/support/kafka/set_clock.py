"""A broker's time that a test sets, also for the process that plans batches."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from stateward.contract.storage import replace_file
from stateward.runtime.kafka.broker import Broker
from stateward.runtime.kafka.broker_clock import BrokerClock


@dataclass
class SetClock(BrokerClock):
    """Stands still; `file` has the time."""

    file: str = ""

    def set(self, now: datetime) -> None:
        # In one step: the other process may read at any moment.
        replace_file(Path(self.file), str(int(now.timestamp() * 1000)).encode(), durable=False)

    def now_ms(self, broker: Broker) -> int:
        return int(Path(self.file).read_text())
