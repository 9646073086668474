"""Converts the states of a keyed stream to new keys and a new schema, with the steps that it declares.

Runs in the workers, bucket by bucket.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import msgspec

from stateward.runtime.api.key_filter import KeyFilter, takes
from stateward.runtime.api.key_logic import KeyState, masked_key, without_key
from stateward.runtime.api.key_step import KeyStep
from stateward.runtime.api.state_step import PlainState, StateStep
from stateward.runtime.keyed.codec import KeyStateCodec
from stateward.runtime.keyed.state_upgrade import Upgrade
from stateward.runtime.watermark.admission import Seen, order
from stateward.state.reader.key_evaluator import KeyEvaluator

_decode = msgspec.json.Decoder().decode
_encode = msgspec.json.Encoder().encode


class KeyMigrationError(RuntimeError):
    """A step returns an invalid key or state."""


@dataclass(frozen=True)
class KeyMigration:
    """The steps from the version in a checkpoint to that of the code.

    Attributes:
        stream: Name of the stream, for errors.
        evaluator: The stream's logic and types.
        key_steps: Steps from the checkpoint's keys to the code's, in order.
        state_version: The code's version of the state.
        state_steps: All declared steps of states.
        only: The stream's key filters; other keys are left out.
    """

    stream: str
    evaluator: KeyEvaluator
    key_steps: tuple[KeyStep, ...]
    state_version: int
    state_steps: tuple[StateStep, ...]
    only: tuple[KeyFilter, ...] = ()

    def begin(self) -> KeyMigrator:
        """Create the migrator of one task; decoders and encoders are created once for many states."""
        return KeyMigrator(self)


class KeyMigrator:
    """Applies the steps to keys and states.

    Args:
        conversion: The steps.
    """

    def __init__(self, conversion: KeyMigration) -> None:
        self._conversion = conversion
        self._codec: KeyStateCodec[Any, Any] = conversion.evaluator.codec()
        self._upgrade = Upgrade(self._codec, conversion.state_version, conversion.state_steps)
        merges = [step.merge for step in conversion.key_steps if step.merge is not None]
        self._merge = merges[-1] if merges else None

    def key(self, old: str) -> str:
        """Convert a key.

        Raises:
            KeyMigrationError: A step fails, or returns an invalid key.
        """
        key: Any = old
        for step in self._conversion.key_steps:
            if step.key is None:
                continue
            try:
                key = step.key(key)
            except Exception as error:
                raise self._error(old, step, without_key(error, old)) from error
            if not isinstance(key, str) or not key:
                raise self._error(old, step, "nothing" if key == "" else type(key).__name__)
        return str(key)

    def takes(self, key: str) -> bool:
        """Whether the stream has a converted key."""
        return takes(self._conversion.only, key)

    def state(self, of: int, key: str, text: bytes) -> bytes:
        """Upgrade a state to the current version.

        Args:
            of: Version of the stored state.
            key: The converted key.
            text: The stored state.

        Raises:
            MissingStepError: The chain of steps has a gap.
            UpgradeError: A step fails, or returns an invalid state.
        """
        return self._upgrade(of, key, text)

    def merged(self, key: str, texts: Sequence[bytes]) -> bytes:
        """Merge the states of several keys that became one, in the order of their old keys.

        The states have the current version. Held events and remembered ids are united.

        Raises:
            KeyMigrationError: No step merges, or the merge returns an invalid state.
        """
        first, *others = texts
        for other in others:
            first = self._merged(key, first, other)
        return first

    def wake_ms(self, key: str, text: bytes) -> int | None:
        """Time of the key's next timer (ms since 1970 UTC); None without one."""
        return self._conversion.evaluator.wake_ms(key, self._codec.decode(text))

    def _merged(self, key: str, one: bytes, other: bytes) -> bytes:
        if self._merge is None:
            raise KeyMigrationError(
                f"stream {self._conversion.stream}: key {masked_key(key)} has several old keys, and no step "
                "merges them"
            )
        plain, further = _decode(one).get("state"), _decode(other).get("state")
        states = [state for state in (plain, further) if state is not None]
        try:
            state = self._merge(key, *states) if len(states) == 2 else next(iter(states), None)
            return self._codec.encode(self._kept(one, other, state))
        except Exception as error:
            raise KeyMigrationError(
                f"stream {self._conversion.stream}: key {masked_key(key)} has several old keys: expected the "
                f"merge of their states to be a state of version {self._conversion.state_version}, found "
                f"{without_key(error, key)}; correct it in the stream's KeyStep. Nothing was changed."
            ) from error

    def _kept(self, one: bytes, other: bytes, state: PlainState | None) -> KeyState[Any, Any]:
        # Encode and decode, so that the state has the decoder's types.
        now = self._codec.decode(_encode({"state": state})).state
        left, right = self._codec.decode(one), self._codec.decode(other)
        held = {event.event_id: event for event in sorted((*left.held, *right.held), key=order, reverse=True)}
        recent = {seen.event_id: seen for seen in (*right.recent, *left.recent)}
        floors = [kept.floor_ms for kept in (left, right) if kept.floor_ms is not None]
        return KeyState(
            now,
            tuple(sorted((event for id_, event in held.items() if id_ not in recent), key=order)),
            tuple(sorted(recent.values(), key=_when)),
            max(floors, default=None),
        )

    def _error(self, old: str, step: KeyStep, found: str) -> KeyMigrationError:
        return KeyMigrationError(
            f"stream {self._conversion.stream}: key {masked_key(old)}: expected KeyStep({step.of}, ...) to "
            f"return a non-empty text, found {found}; correct it. Nothing was changed."
        )


def _when(seen: Seen) -> tuple[int, str]:
    return seen.event_ms, seen.event_id
