"""Why a driver has failed, as the documents hold it. Pure.

The last release reads and writes sentences alone: `crash: ` before the cause of a launch, `ended: ` before
why the control plane has ended a driver. Both are written beside the fields, and read where these are
missing; only this module knows of that.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Literal, cast, get_args

FailureKind = Literal["reported", "killed", "gone", "not_started", "hung", "ended"]

GONE = "driver process gone"
"""How the cause begins of a driver that has not said itself why it ended."""

SILENT = f"{GONE} before it reported anything"
"""How the cause begins of a driver that has written no status."""

_CRASH, _ENDED = "crash: ", "ended: "
_SIGNAL = re.compile(r"killed by (SIG\w+)")


@dataclass(frozen=True)
class Failure:
    """Why a driver has ended, or has to be ended, while it should run.

    Attributes:
        kind: `reported`: it said why itself. `killed`: a signal has killed it. `gone`: its process is gone,
            and nothing says why. `not_started`: it ended before it reported anything, and its log says why.
            `hung`: it is there and does not get on. `ended`: the control plane has ended it for that.
        cause: In a sentence.
        signal: Which one killed it, such as `SIGKILL`.
    """

    kind: FailureKind
    cause: str
    signal: str | None = None

    @property
    def reason_of_launch(self) -> str:
        """The reason of a launch after it."""
        return f"{_CRASH}{self.cause}"


def reason_of_end(cause: str) -> str:
    """Return the reason in the document of a stream whose driver the control plane ends."""
    return f"{_ENDED}{cause}"


def failure_to_json(failure: Failure | None) -> dict[str, Any] | None:
    """Return the field `failure` of a document."""
    return None if failure is None else asdict(failure)


def failure_of(document: Mapping[str, Any], reason: str) -> Failure | None:
    """Read the field `failure` of a launch or of a line of the history.

    Args:
        document: The launch, or the line.
        reason: Why the driver was launched, in which the last release has it.

    Raises:
        KeyError: A field of it is missing.
        TypeError: It is no object.
    """
    if "failure" not in document:
        return _failure_of_sentence(reason)
    found = document["failure"]
    if found is None:
        return None
    # A newer release may know more kinds.
    kind = found["kind"] if found["kind"] in get_args(FailureKind) else "reported"
    return Failure(cast(FailureKind, kind), str(found["cause"]), found.get("signal"))


def end_reason_of(launch: Mapping[str, Any], reason: str) -> str:
    """Read why the control plane has ended the driver of a launch; empty where it has not.

    Args:
        launch: The launch.
        reason: That of the control document, in which the last release has it.
    """
    if "end_reason" in launch:
        return str(launch["end_reason"] or "")
    return reason.removeprefix(_ENDED) if reason.startswith(_ENDED) else ""


def _failure_of_sentence(reason: str) -> Failure | None:
    if not reason.startswith(_CRASH):
        return None
    cause = reason.removeprefix(_CRASH)
    if by := _SIGNAL.search(cause):
        return Failure("killed", cause, by[1])
    if cause.startswith(f"{SILENT}: "):
        return Failure("not_started", cause)
    return Failure("gone" if cause.startswith(GONE) else "reported", cause)
