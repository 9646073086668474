"""What a stream declares of its first states: a function of a key and a row of a table. Pure."""

from collections.abc import Callable, Mapping
from typing import Any

SeedRow = Mapping[str, Any]
"""By column. A time is milliseconds since 1970 UTC, a decimal number a text."""

SeedRule = Callable[[str, SeedRow], tuple[Any, ...] | None]
"""From a key and its row to the state of the stream; None: the row has none."""
