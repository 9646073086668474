"""What a failure means: its reason in one line, and whether it may pass by itself."""

from __future__ import annotations

import re
from collections.abc import Iterator

from stateward.contract.conditions import Condition, is_marker
from stateward.runtime.driver.cause import DISK_FULL, cause_of, conditions_of, full_text

_LONGEST = 2000
_FRAMES = ("at ", "File ", "...", "===", "^^^", "~~~")
_CAUSE = re.compile(r"[\w.$]+(?:Exception|Error): \S.*")
# What Spark puts around the reason for which a query ended, and after it: the plan.
_WRAPPING = re.compile(r"\[STREAM_FAILED\] Query \[[^]]*\] terminated with exception: ")
_PLAN = re.compile(r"^=== Streaming Query ===$.*", re.MULTILINE | re.DOTALL)
_STATE = re.compile(r"\s*SQLSTATE: \w+")
_TRANSIENT = {Condition.READ_FAILED, Condition.BROKER_AWAY}
_TRANSIENT_WORDS = (
    # A Python worker was killed: the batch runs again from its checkpoint.
    "Python worker exited unexpectedly",
    "java.io.IOException: Stream closed",
    "java.io.EOFException",
    "java.net.SocketException",
)


def is_transient(error: BaseException) -> bool:
    """Whether running the query again may help."""
    cause = cause_of(error)
    if cause.lasting or cause == DISK_FULL:
        return not cause.lasting
    if conditions_of(error) & _TRANSIENT:
        return True
    text = full_text(error)
    return any(words in text for words in _TRANSIENT_WORDS)


def explain(error: BaseException) -> str:
    """The reason in one line: the root cause first, then what it came in; at most 2,000 characters."""
    text = _WRAPPING.sub("", _PLAN.sub("", str(error)))
    kept = list(_said(text))
    causes = [cause for line in kept if (cause := _CAUSE.search(line))]
    outer = f"{type(error).__name__}: {kept[0] if kept else ''}"
    if not causes or len(kept) == 1:
        return f"{type(error).__name__}: {' '.join(kept)}"[:_LONGEST]
    return f"{causes[-1].group(0)} (in {outer[:300]})"[:_LONGEST]


def _said(text: str) -> Iterator[str]:
    """The lines that say something: no frames of a stack, and not the line of code below one of Python."""
    below_frame = False
    for line in text.splitlines():
        said = _STATE.sub("", line).strip()
        is_code, below_frame = below_frame and line[:1].isspace(), said.startswith("File ")
        if said and not is_code and not said.startswith(_FRAMES) and not is_marker(said):
            yield said
