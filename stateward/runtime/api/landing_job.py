"""What a stream declares about itself that keeps records as they are: no parsing, no state, no ticks."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from stateward.runtime.api.stream_job import Output

if TYPE_CHECKING:
    from confluent_kafka import Message


@dataclass(frozen=True)
class LandingJob:
    """One stream. Its function is module-level, so that it can be sent to a worker.

    Attributes:
        output: Its table.
        row: From a record to a plain tuple in the order of the table's columns.
        ticks: Whether ticks of its own move its watermark: it has none.
    """

    output: Output
    row: Callable[[Message], tuple[Any, ...]]

    ticks: ClassVar[bool] = False
    optional_outputs: ClassVar[tuple[Output, ...]] = ()

    @property
    def outputs(self) -> tuple[Output, ...]:
        """Its tables."""
        return (self.output,)
