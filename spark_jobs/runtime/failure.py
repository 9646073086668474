"""What a failure means: its reason in one line, and whether it may pass by itself."""

from __future__ import annotations

_LONGEST = 2000
_TRANSIENT = (
    "org.apache.kafka.common.errors.TimeoutException",
    "org.apache.kafka.common.errors.DisconnectException",
    "org.apache.kafka.common.errors.NotLeaderOrFollowerException",
    "org.apache.kafka.common.errors.CoordinatorNotAvailableException",
    "org.apache.kafka.common.KafkaException: Failed to",
    # A Python worker was killed: the batch runs again from its checkpoint.
    "Python worker exited unexpectedly",
    "PythonWorkerException",
    "Connection reset",
    "Broken pipe",
)


def is_transient(error: BaseException) -> bool:
    """Whether running the query again may help."""
    text = _full_text(error)
    return any(mark in text for mark in _TRANSIENT)


def explain(error: BaseException) -> str:
    """The reason in one line, without stack frames, at most 2,000 characters."""
    lines = [line.strip() for line in str(error).splitlines()]
    kept = [line for line in lines if line and not line.startswith(("at ", "File ", "...", "==="))]
    return f"{type(error).__name__}: {' '.join(kept)}"[:_LONGEST]


def _full_text(error: BaseException) -> str:
    stack = getattr(error, "_stackTrace", "") or ""
    cause = getattr(error, "_cause", None)
    return f"{error}\n{stack}" + (f"\n{_full_text(cause)}" if cause is not None else "")
