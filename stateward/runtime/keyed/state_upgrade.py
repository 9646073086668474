"""States of older versions brought to the present one (`state_step`), when their bucket is next looked at."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any

import msgspec

from stateward.contract.conditions import Condition, ConditionError
from stateward.runtime.api.key_logic import masked_key, without_key
from stateward.runtime.api.state_step import StateStep, chain
from stateward.runtime.keyed.codec import KeptCodec

_decode = msgspec.json.Decoder().decode
_encode = msgspec.json.Encoder().encode


class UpgradeError(ConditionError, RuntimeError):
    """An old state does not become one of the present version."""

    condition = Condition.STATE_STEP_FAILED


class Upgrade:
    """Brings what is kept for a key to the present version.

    Args:
        codec: Of the present version.
        version: The present version.
        steps: The stream's steps.
    """

    def __init__(self, codec: KeptCodec[Any, Any], version: int, steps: Sequence[StateStep]) -> None:
        self._codec = codec
        self._version = version
        self._chain = cache(lambda of: chain(steps, of, version))

    def __call__(self, of: int, key: str, text: bytes) -> bytes:
        """The text as the present version writes it, also where no step changes it: with all of its fields.

        Args:
            of: The version that wrote it.
            key: Whose it is.
            text: What was written.

        Raises:
            MissingStepError: The chain of steps has a gap, or the text is of a newer version.
            UpgradeError: A step fails, or what it returns is not of the present version.
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
