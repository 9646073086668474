"""What the driver tells the process that plans batches: what the last one has shown, and its timers.

Spark asks for the end of a batch in a process of its own, on the driver's machine. So it is a file there, and
everything in it is known again after a restart: times are in ``batch_counts`` too.
"""

from __future__ import annotations

import json
import threading
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple
from uuid import uuid4

from stateward.contract.durable import replace_file
from stateward.runtime.watermark.due_times import NO_ALARMS, DueTimes
from stateward.runtime.watermark.partition_times import Times, times_from_json


class PlannerInput(NamedTuple):
    """What is in the file.

    Attributes:
        times: What the last batch with records has shown.
        due: When timers are due.
        asked_ms: A tick that was asked for by hand; None as a rule.
    """

    times: Times
    due: DueTimes
    asked_ms: int | None


@dataclass
class Handover:
    """The driver's side. For several threads.

    Attributes:
        file: Where it is.
        told: What is in it.
    """

    file: Path
    told: PlannerInput = field(default_factory=lambda: PlannerInput(Times(), NO_ALARMS, None))
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def tell(
        self, *, times: Times | None = None, due: DueTimes | None = None, asked_ms: int | None = None
    ) -> None:
        """Change what is given, and let the other side see it, in one step.

        Args:
            times: What the last batch with records has shown.
            due: When timers are due.
            asked_ms: A tick to be sent whatever the topic does: how tests set the time.
        """
        with self._lock:
            before = self.told
            self.told = PlannerInput(
                before.times if times is None else times,
                before.due if due is None else due,
                before.asked_ms if asked_ms is None else asked_ms,
            )
            told = self.told
            document = {"times": told.times.to_json(), "due": list(told.due), "asked_ms": told.asked_ms}
            replace_file(self.file, json.dumps(document).encode(), durable=False)


def new_handover(folder: Path) -> Handover:
    """One for a start of a query; those of earlier starts are removed."""
    for old in folder.glob("times-*"):
        old.unlink(missing_ok=True)
    return Handover(folder / f"times-{uuid4().hex}.json")


def read(file: str) -> PlannerInput:
    """What the driver has told."""
    document = json.loads(Path(file).read_text())
    timers, known = document["due"]
    return PlannerInput(
        times_from_json(document["times"]), DueTimes(tuple(timers), known), document["asked_ms"]
    )
