"""Wait for a condition with a deadline: the only way a test may wait."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")

# Seconds that a busy machine may take for what is over in a moment on a quiet one, such as a driver's start.
PATIENCE_S = 300.0


def wait_until(
    condition: Callable[[], T | None], timeout_s: float, message: str | Callable[[], str], poll_s: float = 0.1
) -> T:
    """Return the first truthy result of `condition`.

    Raises:
        AssertionError: `timeout_s` seconds passed without one; `message` should say what was found.
    """
    deadline = time.monotonic() + timeout_s
    while True:
        if result := condition():
            return result
        if time.monotonic() >= deadline:
            text = message() if callable(message) else message
            raise AssertionError(f"not within {timeout_s:g} s: {text}")
        threading.Event().wait(poll_s)
