"""The text of an incident: what happened, the likely cause, what to do next. Pure."""

from __future__ import annotations

from dataclasses import dataclass

from stateward.contract.stream_control import Failure, FailureKind
from stateward.control.health.health import Finding


@dataclass(frozen=True)
class Words:
    """The text of an incident.

    Attributes:
        title: The subject of a mail.
        cause: What was found, one sentence.
        likely_cause: The likely cause.
        next_step: What an operator does about it.
    """

    title: str
    cause: str
    likely_cause: str
    next_step: str


def words_of_driver(stream: str, failure: Failure, gave_up: bool) -> Words:
    """Describe a driver's failure.

    Args:
        stream: The stream's name.
        failure: The failure.
        gave_up: Whether the supervisor has given up.
    """
    if gave_up:
        return Words(
            f"{stream}: the driver keeps failing, and is not started again",
            sentence(failure.cause),
            _behind(failure),
            f"Look at the end of the driver's log (`stateward logs {stream}`), fix the cause"
            f" (docs/runbook.md), then trigger stream_{stream} with the action run.",
        )
    return Words(
        f"{stream}: the driver hung, and is started again"
        if failure.kind == "hung"
        else f"{stream}: the driver failed, and is started again",
        sentence(failure.cause),
        _behind(failure),
        f"Nothing yet: the supervisor restarts it. If it keeps failing, `stateward logs {stream}` shows the"
        " end of the driver's log, and docs/runbook.md says what to do.",
    )


def words_of_finding(stream: str, finding: Finding) -> Words:
    """Describe a measure above its limit."""
    return Words(
        f"{stream}: {finding.measure} is above its {finding.level} limit",
        sentence(finding.what),
        sentence(finding.cause),
        "The driver is not restarted for this. `stateward status` shows other measures above their limits,"
        " and docs/health.md says what helps.",
    )


def _behind(failure: Failure) -> str:
    if failure.kind == "killed" and failure.signal != "SIGKILL":
        return "It crashed: a bug in the JVM or a native library. The end of its log names the dump."
    return _BEHIND[failure.kind]


_BEHIND: dict[FailureKind, str] = {
    "hung": "A batch hangs, or Spark cannot start; the end of the driver's log shows where.",
    "killed": "The kernel killed it for lack of memory (see `journalctl -k`, for a container `docker"
    " inspect`), or a person did.",
    "not_started": "Its process could not start: a Java option, the memory that it requests, or its code.",
    "gone": "It was killed, most often for lack of memory, or crashed; see the end of its log.",
    "reported": "The error is at the end of the driver's log.",
    "ended": "The error is at the end of the driver's log.",
    "out_of_memory": "Its container is too small for the JVM and Python together: raise"
    " spark.driver_memory, or spark.driver.memoryOverhead in spark.conf of the stream's YAML.",
    "evicted": "A person has ended it by the cluster's own commands, or the cluster has: it preempts and"
    " evicts, and loses hosts.",
}


def sentence(text: str) -> str:
    """Make a text a sentence: a capital letter first, a full stop last."""
    text = text.strip()
    return f"{text[:1].upper()}{text[1:]}{'' if text.endswith(('.', '!', '?')) else '.'}"
