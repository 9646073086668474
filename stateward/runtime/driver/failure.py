"""Interprets failures: the reason in one line, and whether the failure is transient."""

from __future__ import annotations

import re
from collections.abc import Iterator

from stateward.contract.conditions import Condition, is_marker
from stateward.runtime.cause import cause_of, conditions_of, full_text, one_line
from stateward.runtime.driver.retries import WAITED_FOR

_LONGEST = 2000
_FRAMES = ("at ", "File ", "...", "===", "^^^", "~~~")
_CAUSE = re.compile(r"[\w.$]+(?:Exception|Error): \S.*")
# Text that Spark adds before the reason of a failed query, and the plan after it.
_WRAPPING = re.compile(r"\[STREAM_FAILED\] Query \[[^]]*\] terminated with exception: ")
_PLAN = re.compile(r"^=== Streaming Query ===$.*", re.MULTILINE | re.DOTALL)
_STATE = re.compile(r"\s*SQLSTATE: \w+")
_TRANSIENT = {Condition.READ_FAILED, Condition.BROKER_AWAY}
_TRANSIENT_WORDS = (
    # A killed Python worker: the batch runs again from the checkpoint.
    "Python worker exited unexpectedly",
    "java.io.IOException: Stream closed",
    "java.io.EOFException",
    "java.net.SocketException",
)


def is_transient(error: BaseException) -> bool:
    """Whether a restart of the query may succeed."""
    cause = cause_of(error)
    if cause.lasting or cause in WAITED_FOR:
        return not cause.lasting
    if conditions_of(error) & _TRANSIENT:
        return True
    text = full_text(error)
    return any(words in text for words in _TRANSIENT_WORDS)


def explain(error: BaseException) -> str:
    """The reason in one line: first the root cause, then the outer error; at most 2,000 characters."""
    text = _WRAPPING.sub("", _PLAN.sub("", str(error)))
    kept = list(_message_lines(text))
    causes = [cause for line in kept if (cause := _CAUSE.search(line))]
    outer = f"{type(error).__name__}: {kept[0] if kept else ''}"
    if not causes or len(kept) == 1:
        return one_line(f"{type(error).__name__}: {' '.join(kept)}")[:_LONGEST]
    return one_line(f"{causes[-1].group(0)} (in {outer[:300]})")[:_LONGEST]


def _message_lines(whole: str) -> Iterator[str]:
    """The lines of messages, without stack frames and the lines of code below Python's frames."""
    below_frame = False
    for line in whole.splitlines():
        text = _STATE.sub("", line).strip()
        is_code, below_frame = below_frame and line[:1].isspace(), text.startswith("File ")
        if text and not is_code and not text.startswith(_FRAMES) and not is_marker(text):
            yield text
