"""What a failure means: its reason in one line, and whether it may pass by itself."""

from __future__ import annotations

import re

_LONGEST = 2000
_FRAMES = ("at ", "File ", "...", "===", "^^^", "~~~")
_CAUSE = re.compile(r"[\w.$]+(?:Exception|Error): \S.*")
_TRANSIENT = (
    "spark_jobs.runtime.kafka_reader.ReadError",
    "spark_jobs.runtime.broker.BrokerAwayError",
    # A Python worker was killed: the batch runs again from its checkpoint.
    "Python worker exited unexpectedly",
    "java.io.IOException: Stream closed",
    "java.io.EOFException",
    "java.net.SocketException",
)


def is_transient(error: BaseException) -> bool:
    """Whether running the query again may help."""
    text = _full_text(error)
    return any(mark in text for mark in _TRANSIENT)


def explain(error: BaseException) -> str:
    """The reason in one line: the root cause first, then what it came in; at most 2,000 characters."""
    lines = [line.strip() for line in str(error).splitlines()]
    kept = [line for line in lines if line and not line.startswith(_FRAMES)]
    causes = [cause for line in kept if (cause := _CAUSE.search(line))]
    outer = f"{type(error).__name__}: {kept[0] if kept else ''}"
    if not causes or len(kept) == 1:
        return f"{type(error).__name__}: {' '.join(kept)}"[:_LONGEST]
    return f"{causes[-1].group(0)} (in {outer[:300]})"[:_LONGEST]


def _full_text(error: BaseException) -> str:
    stack = getattr(error, "_stackTrace", "") or ""
    cause = getattr(error, "_cause", None)
    return f"{error}\n{stack}" + (f"\n{_full_text(cause)}" if cause is not None else "")
