"""Data from the driver for the process that plans batches: event times of the last batch, and timers.

Spark plans batches in a separate Python process on the driver's machine, so the data passes through a local
file. It need not survive a restart: the event times are in ``batch_counts`` as well.
"""

from __future__ import annotations

import json
import threading
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple
from uuid import uuid4

from stateward.contract.storage import replace_file
from stateward.runtime.watermark.due_times import NO_TIMERS, DueTimes
from stateward.runtime.watermark.partition_times import Times, times_from_json


class PlannerInput(NamedTuple):
    """The content of the file.

    Attributes:
        times: Event times of the last batch with records.
        due: When timers are due.
        asked_ms: A tick requested explicitly; usually None.
    """

    times: Times
    due: DueTimes
    asked_ms: int | None


@dataclass
class Handover:
    """The driver's side. Thread-safe.

    Attributes:
        file: The file.
        published: Its content.
    """

    file: Path
    published: PlannerInput = field(default_factory=lambda: PlannerInput(Times(), NO_TIMERS, None))
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def publish(
        self, *, times: Times | None = None, due: DueTimes | None = None, asked_ms: int | None = None
    ) -> None:
        """Change the given fields and replace the file atomically.

        Args:
            times: Event times of the last batch with records.
            due: When timers are due.
            asked_ms: A tick to emit regardless of the topic; tests set the time with it.
        """
        with self._lock:
            before = self.published
            self.published = PlannerInput(
                before.times if times is None else times,
                before.due if due is None else due,
                before.asked_ms if asked_ms is None else asked_ms,
            )
            new = self.published
            document = {"times": new.times.to_json(), "due": list(new.due), "asked_ms": new.asked_ms}
            replace_file(self.file, json.dumps(document).encode(), durable=False)


def new_handover(folder: Path) -> Handover:
    """Create the file for a start of a query and remove those of earlier starts."""
    for old in folder.glob("times-*"):
        old.unlink(missing_ok=True)
    return Handover(folder / f"times-{uuid4().hex}.json")


def read(file: str) -> PlannerInput:
    """Read what the driver has published."""
    document = json.loads(Path(file).read_text())
    timers, known = document["due"]
    return PlannerInput(
        times_from_json(document["times"]), DueTimes(tuple(timers), known), document["asked_ms"]
    )
