"""What is said of an incident: what has happened, what probably lies behind it, what to do next. Pure."""

from __future__ import annotations

from dataclasses import dataclass

from stateward.control.health.failure import Failure, FailureKind
from stateward.control.health.health import Finding


@dataclass(frozen=True)
class Words:
    """In words.

    Attributes:
        title: For the subject of a mail.
        cause: What was found, in one sentence.
        likely_cause: What probably lies behind it.
        next_step: What a person does about it.
    """

    title: str
    cause: str
    likely_cause: str
    next_step: str


def words_of_driver(stream: str, failure: Failure, gave_up: bool) -> Words:
    """Say what is wrong with a driver.

    Args:
        stream: The stream's name.
        failure: What was found.
        gave_up: Whether it is not started again.
    """
    if gave_up:
        return Words(
            f"{stream}: the driver keeps failing, and is not started again",
            sentence(failure.cause),
            _behind(failure),
            f"Look at the end of the driver's log (`stateward logs {stream}`), mend the cause"
            f" (docs/runbook.md), then trigger stream_{stream} with the action run.",
        )
    return Words(
        f"{stream}: the driver hung, and is started again"
        if failure.kind == "hung"
        else f"{stream}: the driver failed, and is started again",
        sentence(failure.cause),
        _behind(failure),
        f"Nothing at once: the supervisor starts it again. If it goes on, `stateward logs {stream}` shows the"
        " end of the driver's log, and docs/runbook.md says what to do.",
    )


def words_of_finding(stream: str, finding: Finding) -> Words:
    """Say what is slow or large about a stream that runs."""
    return Words(
        f"{stream}: {finding.measure} is above its {finding.level} limit",
        sentence(finding.what),
        sentence(finding.cause),
        "Nothing is restarted for it. `stateward status` shows what else is above its limit, and"
        " docs/health.md says what helps.",
    )


def _behind(failure: Failure) -> str:
    if failure.kind == "killed" and failure.signal != "SIGKILL":
        return "It crashed: a defect of the JVM or of a native library. The end of its log names the dump."
    return _BEHIND[failure.kind]


_BEHIND: dict[FailureKind, str] = {
    "hung": "A batch hangs, or Spark cannot start; the end of the driver's log shows where.",
    "killed": "The kernel for lack of memory (`journalctl -k` says so, in a container `docker inspect`), or a"
    " person.",
    "not_started": "Its process could not begin: an option of Java, the memory that it asks for, or its"
    " code.",
    "gone": "It was killed, most often for lack of memory, or crashed; the end of its log may say more.",
    "reported": "The error is at the end of the driver's log.",
    "ended": "The error is at the end of the driver's log.",
}


def sentence(text: str) -> str:
    """Begin a text with a capital, and end it."""
    text = text.strip()
    return f"{text[:1].upper()}{text[1:]}{'' if text.endswith(('.', '!', '?')) else '.'}"
