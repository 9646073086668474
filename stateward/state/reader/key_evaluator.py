"""Applies a stream's logic to a stored state: its next timer, and its future if no event arrives.

It calls the functions that run the stream (`stateward.runtime.api.key_logic`), so the results are exact.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import msgspec

from stateward.runtime.api.key_logic import KeyLogic, KeyState, advance, next_timer
from stateward.runtime.api.state_step import MissingStepError, StateStep
from stateward.runtime.keyed.codec import KeyStateCodec
from stateward.runtime.keyed.state_upgrade import Upgrade, UpgradeError
from stateward.runtime.watermark.admission import Limits

if TYPE_CHECKING:
    from stateward.runtime.api.config import Config
    from stateward.runtime.api.stream_job import StreamJob

# A bound, so that a report ends even if the logic is broken and never ends a key.
MOST_STEPS = 50


@dataclass(frozen=True)
class Step:
    """One future change of a key, if no event arrives.

    Attributes:
        at_ms: The watermark at which it is due (ms since 1970 UTC).
        before: What is stored before it.
        after: What is stored after it.
        rows: The rows it emits, each a named tuple of the stream.
    """

    at_ms: int
    before: KeyState[Any, Any]
    after: KeyState[Any, Any]
    rows: tuple[tuple[Any, ...], ...]

    @property
    def cause(self) -> str:
        """The cause of the change."""
        if any(event.event_ms + 1 == self.at_ms for event in self.before.held):
            return "the watermark passes a held event"
        if self.before.held or self.before.state is not None:
            return "the deadline of its state passes"
        return "its remembered ids expire"


class UnreadableError(ValueError):
    """The stream's current code cannot read a stored state."""


class StoredStateReader:
    """Reads and writes stored states of one stream; create it once for many states.

    Args:
        codec: Codec of the current version.
        version: The current version of the state's schema.
        steps: Upgrades from older versions.
    """

    def __init__(self, codec: KeyStateCodec[Any, Any], version: int, steps: tuple[StateStep, ...]) -> None:
        self._version = version
        self._upgrade = Upgrade(codec, version, steps)
        self._decode = codec.decode
        self.encode = codec.encode

    def read(self, key: str, text: bytes, of: int) -> KeyState[Any, Any]:
        """Decode a stored state, upgraded to the current version.

        Args:
            key: The key.
            text: The stored text.
            of: Version of its schema.

        Raises:
            UnreadableError: Its version is newer, or older and without an upgrade; or it is damaged.
        """
        try:
            return self._decode(text if of == self._version else self._upgrade(of, key, text))
        except (msgspec.ValidationError, MissingStepError, UpgradeError) as error:
            raise UnreadableError(str(error)) from error


@dataclass(frozen=True)
class KeyEvaluator:
    """A stream's logic and types, to apply to stored states. Serializable, for the workers.

    Attributes:
        logic: The stream's logic.
        state_type: Named tuple of its state.
        event_type: Named tuple of its events.
        limits: Allowed lateness, bounds and jitter.
        version: Version of the state's schema.
        steps: Upgrades from older versions.
    """

    logic: KeyLogic[Any, Any]
    state_type: type[Any]
    event_type: type[Any]
    limits: Limits
    version: int = 1
    steps: tuple[StateStep, ...] = ()

    def reader(self) -> StoredStateReader:
        """A reader of states of any version."""
        return StoredStateReader(self.codec(), self.version, self.steps)

    def codec(self) -> KeyStateCodec[Any, Any]:
        """The codec of the current version."""
        return KeyStateCodec(self.state_type, self.event_type)

    def wake_ms(self, key: str, kept: KeyState[Any, Any]) -> int | None:
        """Time of the key's next timer (ms since 1970 UTC); None without one."""
        return next_timer(self.logic, key, kept, self.limits)

    def settled(self, key: str, kept: KeyState[Any, Any], watermark_ms: int) -> KeyState[Any, Any]:
        """The state after processing the key: with the events folded that the watermark has passed.

        A key is processed only when it has an event or a timer, so its stored state may be behind.
        """
        return advance(self.logic, key, kept, (), watermark_ms=watermark_ms, limits=self.limits).kept

    def future(self, key: str, kept: KeyState[Any, Any], watermark_ms: int) -> tuple[Step, ...]:
        """The future changes of a key until it is removed, if no event arrives.

        Args:
            key: The key.
            kept: Its state.
            watermark_ms: The current watermark; an overdue change happens at it.

        Returns:
            The changes in order, at most `MOST_STEPS`; the last one removes the key, unless there are more.
        """
        steps: list[Step] = []
        while len(steps) < MOST_STEPS:
            wake_ms = self.wake_ms(key, kept)
            if wake_ms is None:
                break
            watermark_ms = max(watermark_ms, wake_ms)
            turn = advance(self.logic, key, kept, (), watermark_ms=watermark_ms, limits=self.limits)
            if turn.kept == kept and not turn.rows:
                break
            steps.append(Step(wake_ms, kept, turn.kept, tuple(turn.rows)))
            kept = turn.kept
        return tuple(steps)


def evaluator_of(job: StreamJob, config: Config) -> KeyEvaluator:
    """The evaluator of a stream under a configuration."""
    return KeyEvaluator(
        job.logic(config),
        job.state_type,
        job.event_type,
        config.limits,
        job.state_version,
        job.state_steps,
    )
