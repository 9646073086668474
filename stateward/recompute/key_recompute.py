"""Folds the events of one key into rows, and finds the time from which they are exact, by kind of stream.

A keyed stream is folded by its logic, and a state may depend on an event of long ago. A stream on Spark's own
operators is folded by its oracle, which its tests compare with the operators; its rows depend only on events
around them, unless it is `chained`.
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

    def plain(self, record: Any, event_ms: int, *more: Any) -> Plain:
        """Return a parsed record, its event time (ms) and what else makes an event, as plain values."""

    def event(self, plain: Plain) -> Any:
        """Return the event of `plain`."""

    def rows(self, key: str, events: Iterable[Any]) -> Sequence[Plain]:
        """Return all rows of all events of the key, given in the order of their offsets."""

    def exact_from(self, times: Iterable[int], known_ms: int | None) -> int | None:
        """Return the time from which the rows are exact; see `lookback.anchor`."""


@dataclass(frozen=True)
class LogicFold:
    """Folds the events of a keyed stream.

    Attributes:
        logic: The stream's logic.
        event_type: Named tuple of its events.
        to_plain: Makes the stream's own event.
        chain_ms: The longest chain of timeouts.
        behind_ms: The jitter of its timeouts.
    """

    logic: KeyLogic[Any, Any]
    event_type: type[Any]
    to_plain: Callable[..., Plain]
    chain_ms: int
    behind_ms: int = 0

    def plain(self, record: Any, event_ms: int, *more: Any) -> Plain:
        """See `KeyFold`."""
        return self.to_plain(record, event_ms, *more)

    def event(self, plain: Plain) -> Any:
        """See `KeyFold`."""
        return self.event_type._make(plain)

    def rows(self, key: str, events: Iterable[Any]) -> Sequence[Plain]:
        """See `KeyFold`."""
        return replay_oracle(self.logic, key, events)

    def exact_from(self, times: Iterable[int], known_ms: int | None) -> int | None:
        """Return the first time after a silence as long as the chain."""
        return anchor(times, known_ms, self.chain_ms)


@dataclass(frozen=True)
class OracleFold:
    """Folds the events of a stream on Spark's own operators.

    Attributes:
        job: The stream.
        config: Its configuration.
        names: Names of its fields.
        chain_ms: Maximum distance in time between a row and the events it depends on; for a `chained` stream
            the silence after which a row depends on no earlier event.
    """

    job: NativeJob
    config: Config
    names: tuple[str, ...]
    chain_ms: int

    @property
    def behind_ms(self) -> int:
        """A row waits for the last event that may belong to it."""
        return self.chain_ms

    def plain(self, record: Any, event_ms: int, *more: Any) -> Plain:
        """Return the fields, because an event may have values that are not plain, such as decimals."""
        return event_ms, more, *(getattr(record, name, None) for name in self.names)

    def event(self, plain: Plain) -> Any:
        """See `KeyFold`."""
        event_ms, more, *values = plain
        record = SimpleNamespace(**dict(zip(self.names, values, strict=True)))
        return self.job.event(record, event_ms, *more)

    def rows(self, key: str, events: Iterable[Any]) -> Sequence[Plain]:
        """See `KeyFold`."""
        return self.job.oracle(events, self.config)

    def exact_from(self, times: Iterable[int], known_ms: int | None) -> int | None:
        """Return the time from which all events are known that a row may depend on."""
        if self.job.chained:
            return anchor(times, known_ms, self.chain_ms)
        return EVER if known_ms is None else known_ms + self.chain_ms


def fold_of(job: StreamJob | NativeJob, config: Config, chain_ms: int) -> KeyFold:
    """Return how the events of a stream's keys are folded.

    Args:
        job: The stream.
        config: Its configuration.
        chain_ms: The longest of its timeouts or windows, or their chain (milliseconds).
    """
    if isinstance(job, NativeJob):
        return OracleFold(job, config, tuple(field.name for field in job.fields(config)), chain_ms)
    return LogicFold(job.logic(config), job.event_type, job.event, chain_ms, config.timeout_jitter_ms)
