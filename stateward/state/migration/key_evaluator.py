"""What a stream's logic says of a key's state: when it is looked at, and what comes of it if nothing arrives.

By the functions that run the stream (`stateward.runtime.api.key_logic`), so it is what will happen and
not a guess.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import msgspec

from stateward.runtime.api.key_logic import KeyLogic, KeyState, advance, next_timer
from stateward.runtime.api.state_step import MissingStepError, StateStep
from stateward.runtime.keyed.admission import Limits
from stateward.runtime.keyed.codec import KeptCodec
from stateward.runtime.keyed.state_upgrade import Upgrade, UpgradeError

if TYPE_CHECKING:
    from stateward.runtime.api.config import Config
    from stateward.runtime.api.stream_job import StreamJob

# A logic that never comes to an end is broken, which is no reason for a report to hang.
MOST_STEPS = 50


@dataclass(frozen=True)
class Step:
    """One thing that will happen to a key if no event comes.

    Attributes:
        at_ms: The watermark from which on it is due, milliseconds since 1970 UTC.
        before: What is kept until then.
        after: What is kept from then on.
        rows: The rows it brings, each a named tuple of the stream.
    """

    at_ms: int
    before: KeyState[Any, Any]
    after: KeyState[Any, Any]
    rows: tuple[tuple[Any, ...], ...]

    @property
    def cause(self) -> str:
        """What makes it happen."""
        if any(event.event_ms + 1 == self.at_ms for event in self.before.held):
            return "the watermark passes an event that is held"
        if self.before.held or self.before.state is not None:
            return "the deadline of its state passes"
        return "its ids need not be remembered any longer"


class UnreadableError(ValueError):
    """A stored state is not one that the stream's code of now can read."""


class KeptReader:
    """Reads and writes stored states of one stream; make it once for many of them.

    Args:
        codec: Of the present version.
        version: The present version of the state's schema.
        steps: From older versions to it.
    """

    def __init__(self, codec: KeptCodec[Any, Any], version: int, steps: tuple[StateStep, ...]) -> None:
        self._version = version
        self._upgrade = Upgrade(codec, version, steps)
        self._decode = codec.decode
        self.encode = codec.encode

    def read(self, key: str, text: bytes, of: int) -> KeyState[Any, Any]:
        """What is kept for a key, as the present version of the stream has it.

        Args:
            key: The key.
            text: As it is stored.
            of: The version of the schema it is stored in.

        Raises:
            UnreadableError: It is of a newer version, of one from which no step leads on, or damaged.
        """
        try:
            return self._decode(text if of == self._version else self._upgrade(of, key, text))
        except (msgspec.ValidationError, MissingStepError, UpgradeError) as error:
            raise UnreadableError(str(error)) from error


@dataclass(frozen=True)
class KeyRule:
    """A stream's logic with what is needed to apply it to stored states. Can be sent to a worker.

    Attributes:
        logic: The stream's.
        state_type: Named tuple of its state.
        event_type: Named tuple of its events.
        limits: Allowed lateness, bounds and jitter.
        version: Of the state's schema.
        steps: From older versions of it.
    """

    logic: KeyLogic[Any, Any]
    state_type: type[Any]
    event_type: type[Any]
    limits: Limits
    version: int = 1
    steps: tuple[StateStep, ...] = ()

    def reader(self) -> KeptReader:
        """Reads the states, of whatever version."""
        return KeptReader(self.codec(), self.version, self.steps)

    def codec(self) -> KeptCodec[Any, Any]:
        """Of states of the present version."""
        return KeptCodec(self.state_type, self.event_type)

    def wake_ms(self, key: str, kept: KeyState[Any, Any]) -> int | None:
        """The watermark at which there is something to do for the key (ms since 1970 UTC), or None."""
        return next_timer(self.logic, key, kept, self.limits)

    def settled(self, key: str, kept: KeyState[Any, Any], watermark_ms: int) -> KeyState[Any, Any]:
        """What would be kept after a look at the key: with the events folded that the watermark has passed.

        A key is looked at when there is something to do for it, so its stored state may be behind.
        """
        return advance(self.logic, key, kept, (), watermark_ms=watermark_ms, limits=self.limits).kept

    def future(self, key: str, kept: KeyState[Any, Any], watermark_ms: int) -> tuple[Step, ...]:
        """What happens to the key until nothing is left of it, if no event comes.

        Args:
            key: The key.
            kept: What is kept for it.
            watermark_ms: The watermark so far; what is due before it happens at it.

        Returns:
            In the order in which it happens, at most `MOST_STEPS`; the last step leaves an empty state unless
            there would be more.
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


def rule_of(job: StreamJob, config: Config) -> KeyRule:
    """The rule of a stream under a configuration."""
    return KeyRule(
        job.logic(config),
        job.state_type,
        job.event_type,
        config.limits,
        job.state_version,
        job.state_steps,
    )
