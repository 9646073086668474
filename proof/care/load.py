"""A load that is raised and lowered by hand: so many users with an open session, and a few events a second.

The sessions of a level end when the next level's events, two hours later in event time, move the watermark.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from itertools import count

from proof.traffic.records import EVENT, Clock, Record, to_ms
from stateward.platform.topics import ensure_topic
from stateward.replay.pacing import Pacer
from stateward.replay.send import Sender

TOPIC = "user_events"
_PARTITIONS = 4
_BEGIN = datetime(2025, 3, 3, tzinfo=UTC)
_APART = timedelta(hours=2)
# Less than the allowed lateness, so that nothing is late in whatever order the partitions are read.
_OPENED_IN = timedelta(seconds=60)
# Less than the gap of 30 minutes, so that no session ends within a level.
_TRICKLE_AFTER, _TRICKLE_FOR, _TRICKLE_STEP = (
    timedelta(minutes=10),
    timedelta(minutes=15),
    timedelta(seconds=1),
)
# Few, because those within the allowed lateness are held in the state.
_PER_SECOND = 1.0


class Load:
    """The records of one topic, level by level.

    Args:
        bootstrap: The broker.
        counted: Returns how many records the stream has read and committed.
        wait: Waits for a condition; the text says for what.

    Attributes:
        sent: All events in the order of sending.
        last: The largest event time sent.
        opened: The largest event time of the users' first events.
        ticks: Number of ticks sent.
    """

    def __init__(
        self, bootstrap: str, counted: Callable[[], int], wait: Callable[[Callable[[], bool], str], None]
    ) -> None:
        ensure_topic(bootstrap, TOPIC, _PARTITIONS, create=True)
        self._sender = Sender(bootstrap, TOPIC)
        self._counted, self._wait = counted, wait
        self._clock, self._numbers, self._levels = Clock(), count(), count()
        self._trickle: threading.Thread | None = None
        self._ends = threading.Event()
        self.sent: list[Record] = []
        self.last = self.opened = _BEGIN
        self.ticks = 0

    def level(self, users: int) -> None:
        """Let so many users have an open session, and no other ones.

        Raises:
            AssertionError: What was sent is not read in time.
        """
        self.settle()
        begin = _BEGIN + next(self._levels) * _APART
        times = (begin + _OPENED_IN * number / users for number in range(users))
        self._send(self._event(number, at) for number, at in enumerate(times))
        self.opened = begin + _OPENED_IN
        self._wait(self.is_read, f"{users} users are read")
        self._ends = threading.Event()
        self._trickle = threading.Thread(target=self._keep_on, args=(begin, users), daemon=True)
        self._trickle.start()

    def settle(self) -> None:
        """Send nothing more, and wait until all is read."""
        if self._trickle is not None:
            self._ends.set()
            self._trickle.join()
            self._trickle = None
        self._wait(self.is_read, "all is read")

    def is_read(self) -> bool:
        """Whether the stream has committed all that was sent."""
        return self._counted() == len(self.sent)

    def tick(self, after: timedelta) -> None:
        """Let every session time out.

        Args:
            after: How far the tick goes beyond the last event.
        """
        self._sender.send_ticks(self.last + after, _PARTITIONS)
        self.ticks += _PARTITIONS

    def _keep_on(self, begin: datetime, users: int) -> None:
        """Send a few events a second, so that a stream that was started again commits something."""
        for number in count():
            if self._ends.wait(1 / _PER_SECOND):
                return
            # No later, however long the level lasts: the sessions stay open.
            at = begin + _TRICKLE_AFTER + min(number * _TRICKLE_STEP, _TRICKLE_FOR)
            self._send(iter([self._event(number % users, at)]))

    def _event(self, user: int, at: datetime) -> Record:
        name = f"user-{user:07d}"
        event = {
            "event_id": f"e{next(self._numbers):09d}",
            "user_id": name,
            "event_type": ("view", "search", "buy")[user % 3],
            "event_time": self._clock.iso(to_ms(at)),
        }
        self.last = max(self.last, at)
        return Record(EVENT, name.encode(), json.dumps(event).encode())

    def _send(self, records: Iterator[Record]) -> None:
        self._sender.send_records(self._noted(records), Pacer(None, time.monotonic, time.sleep))

    def _noted(self, records: Iterator[Record]) -> Iterator[tuple[bytes | None, bytes | None]]:
        for record in records:
            self.sent.append(record)
            yield record.key, record.value
