"""Upgrades states of older versions (`state_step`) when their bucket is processed next."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any

import msgspec

from stateward.contract.conditions import Condition, ConditionError
from stateward.runtime.api.key_logic import masked_key, without_key
from stateward.runtime.api.state_step import StateStep, chain
from stateward.runtime.keyed.codec import KeyStateCodec

_decode = msgspec.json.Decoder().decode
_encode = msgspec.json.Encoder().encode


class UpgradeError(ConditionError, RuntimeError):
    """An old state cannot be upgraded to the current version."""

    condition = Condition.STATE_STEP_FAILED


class Upgrade:
    """Upgrades the state of a key to the current version.

    Args:
        codec: The codec of the current version.
        version: The current version.
        steps: The stream's steps.
    """

    def __init__(self, codec: KeyStateCodec[Any, Any], version: int, steps: Sequence[StateStep]) -> None:
        self._codec = codec
        self._version = version
        self._chain = cache(lambda of: chain(steps, of, version))

    def __call__(self, of: int, key: str, text: bytes) -> bytes:
        """The state as the current version encodes it, with all fields, even if no step changes it.

        Args:
            of: The version that wrote it.
            key: The key.
            text: The encoded state.

        Raises:
            MissingStepError: The chain of steps has a gap, or the state is of a newer version.
            UpgradeError: A step fails, or its result is not a state of the current version.
        """
        steps = self._chain(of)
        try:
            for step in steps:
                text = _through(step, key, text)
            return self._codec.encode(self._codec.decode(text))
        except Exception as error:
            raise UpgradeError(
                f"key {masked_key(key)}: expected its state of version {of} to become one of version "
                f"{self._version}, found {without_key(error, key)}; correct STATE_STEPS in the stream's "
                "model.py. Nothing was written."
            ) from error


def _through(step: StateStep, key: str, text: bytes) -> bytes:
    entry: dict[str, Any] = _decode(text)
    if step.state is not None and entry.get("state") is not None:
        entry["state"] = step.state(key, entry["state"])
    if step.event is not None and "held" in entry:
        entry["held"] = [step.event(key, event) for event in entry["held"]]
    return _encode(entry)
