"""Progress of an operation, as its verbs report it."""

from __future__ import annotations

from collections.abc import Callable

Report = Callable[[str, str], None]
"""Takes a part of the work and what happens to it; `READY` ends a part. Raises when the lease is lost."""

READY = "ready"
