"""Conditions of our own errors: stable codes, as Spark has its error conditions. Pure.

An error travels between Spark's Python processes and its JVM as the text of its traceback. A code in that
text names the error wherever its class lives; `stateward.runtime.cause` says what a code means.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from enum import StrEnum
from typing import Any, ClassVar, Self


class Condition(StrEnum):
    """A code. Logs hold it, so it stays when its class is renamed or moved."""

    BROKER_AWAY = "STATEWARD_BROKER_AWAY"
    CONFIGURATION_INVALID = "STATEWARD_CONFIGURATION_INVALID"
    COPY_FOLDER_UNSAFE = "STATEWARD_COPY_FOLDER_UNSAFE"
    DATA_LOSS = "STATEWARD_DATA_LOSS"
    EXECUTORS_DIFFER = "STATEWARD_EXECUTORS_DIFFER"
    GENERATION_UNKNOWN = "STATEWARD_GENERATION_UNKNOWN"
    KAFKA_CLIENT_INVALID = "STATEWARD_KAFKA_CLIENT_INVALID"
    LEASE_HELD = "STATEWARD_LEASE_HELD"
    LEASE_LOST = "STATEWARD_LEASE_LOST"
    LOOKUP_GONE = "STATEWARD_LOOKUP_GONE"
    LOOKUP_INVALID = "STATEWARD_LOOKUP_INVALID"
    OPERATION_PENDING = "STATEWARD_OPERATION_PENDING"
    READ_FAILED = "STATEWARD_READ_FAILED"
    ROWS_INVALID = "STATEWARD_ROWS_INVALID"
    STATE_REFUSED = "STATEWARD_STATE_REFUSED"
    STATE_STEP_FAILED = "STATEWARD_STATE_STEP_FAILED"
    STATE_STEP_MISSING = "STATEWARD_STATE_STEP_MISSING"
    STORAGE_UNSAFE = "STATEWARD_STORAGE_UNSAFE"
    TOPIC_MISSING = "STATEWARD_TOPIC_MISSING"

    @property
    def marker(self) -> str:
        """The line below the error in a traceback."""
        return f"[{self}]"


_MARKER = re.compile(r"\[(STATEWARD_[A-Z_]+)\]")
_BY_CODE = {str(condition): condition for condition in Condition}


class ConditionError(Exception):
    """An error with a condition, which every traceback shows; the message stays as it is.

    Attributes:
        condition: Each class has its own.
    """

    condition: ClassVar[Condition]

    def __new__(cls, *args: Any) -> Self:
        """Attach the marker as a note, which `traceback` prints below the message."""
        error = super().__new__(cls, *args)
        error.add_note(cls.condition.marker)
        return error


def conditions_in(text: str, errors: Iterable[BaseException] = ()) -> set[Condition]:
    """The conditions of errors that are at hand, and those that a text names.

    A code that this release does not know is left out.

    Args:
        text: Tracebacks, of Python or of the JVM.
        errors: The errors that are at hand.
    """
    at_hand = {one.condition for one in errors if isinstance(one, ConditionError)}
    return at_hand | {_BY_CODE[code] for code in _MARKER.findall(text) if code in _BY_CODE}


def is_marker(line: str) -> bool:
    """Whether a line of a traceback is a marker and nothing else."""
    return _MARKER.fullmatch(line) is not None
