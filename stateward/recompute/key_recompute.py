"""What becomes of the events of one key, and from when on that is exact: by the kind of the stream.

A keyed stream is folded by its logic, and a state may rest on an event of long ago. A stream on Spark's own
operators is folded by its oracle, which its tests hold against the operators; its rows rest on events around
them, and on nothing else.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, Protocol

from stateward.recompute.lookback import EVER, anchor
from stateward.runtime.api.key_logic import KeyLogic, replay_oracle
from stateward.runtime.api.native_job import NativeJob

if TYPE_CHECKING:
    from stateward.runtime.api.config import Config
    from stateward.runtime.api.stream_job import StreamJob

Plain = tuple[Any, ...]


class KeyFold(Protocol):
    """Folds the events of one key."""

    @property
    def behind_ms(self) -> int:
        """How far the watermark may be beyond the time of a row that the stream has not written yet."""

    def plain(self, record: Any, event_ms: int) -> Plain:
        """A parsed record and its event time (ms) as it travels: plain values only."""

    def event(self, plain: Plain) -> Any:
        """The event of `plain`."""

    def rows(self, key: str, events: Iterable[Any]) -> Sequence[Plain]:
        """All rows of all events of the key, given in the order of their places."""

    def exact_from(self, times: Iterable[int], known_ms: int | None) -> int | None:
        """From when on the rows are exact, as `reach.anchor` says it of event times in order."""


@dataclass(frozen=True)
class LogicFold:
    """Of a keyed stream.

    Attributes:
        logic: The stream's.
        event_type: Named tuple of its events.
        to_plain: The stream's own event.
        chain_ms: The longest chain of timeouts.
        behind_ms: The jitter of its timeouts.
    """

    logic: KeyLogic[Any, Any]
    event_type: type[Any]
    to_plain: Callable[[Any, int], Plain]
    chain_ms: int
    behind_ms: int = 0

    def plain(self, record: Any, event_ms: int) -> Plain:
        """See `KeyFold`."""
        return self.to_plain(record, event_ms)

    def event(self, plain: Plain) -> Any:
        """See `KeyFold`."""
        return self.event_type._make(plain)

    def rows(self, key: str, events: Iterable[Any]) -> Sequence[Plain]:
        """See `KeyFold`."""
        return replay_oracle(self.logic, key, events)

    def exact_from(self, times: Iterable[int], known_ms: int | None) -> int | None:
        """After a silence of a chain."""
        return anchor(times, known_ms, self.chain_ms)


@dataclass(frozen=True)
class OracleFold:
    """Of a stream on Spark's own operators.

    Attributes:
        job: The stream.
        config: Its launch.
        names: Of its fields.
        chain_ms: How far from a row's time the events lie that it rests on.
    """

    job: NativeJob
    config: Config
    names: tuple[str, ...]
    chain_ms: int

    @property
    def behind_ms(self) -> int:
        """A row waits for the last event that may be its own."""
        return self.chain_ms

    def plain(self, record: Any, event_ms: int) -> Plain:
        """The fields, because an event may have values that are not plain, such as decimals."""
        return event_ms, *(getattr(record, name) for name in self.names)

    def event(self, plain: Plain) -> Any:
        """See `KeyFold`."""
        event_ms, *values = plain
        return self.job.event(SimpleNamespace(**dict(zip(self.names, values, strict=True))), event_ms)

    def rows(self, key: str, events: Iterable[Any]) -> Sequence[Plain]:
        """See `KeyFold`."""
        return self.job.oracle(events, self.config)

    def exact_from(self, times: Iterable[int], known_ms: int | None) -> int | None:
        """As soon as all events are known that a row may rest on."""
        return EVER if known_ms is None else known_ms + self.chain_ms


def fold_of(job: StreamJob | NativeJob, config: Config, chain_ms: int) -> KeyFold:
    """How the events of a stream's keys are folded.

    Args:
        job: The stream.
        config: Its launch.
        chain_ms: The longest of its timeouts or windows, or their chain (milliseconds).
    """
    if isinstance(job, NativeJob):
        return OracleFold(job, config, tuple(field.name for field in job.fields(config)), chain_ms)
    return LogicFold(job.logic(config), job.event_type, job.event, chain_ms, config.timeout_jitter_ms)
