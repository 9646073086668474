"""What a stream on Spark's own operators declares; the runtime does the rest (`native_query`)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from operator import attrgetter
from typing import TYPE_CHECKING, Any, ClassVar

from stateward.runtime.api.key_filter import KeyFilter
from stateward.runtime.api.record_fields import Field
from stateward.runtime.api.stream_job import Output

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from stateward.runtime.api.config import Config


@dataclass(frozen=True)
class NativeJob:
    """One stream of windows, joins and aggregations.

    Attributes:
        key: The field by which it is keyed; an event's identity is its id within the key.
        fields: All declared input fields, ``event_id`` and the key among them. Each is a column of the
            events: a text as ``string``, a flag as ``boolean``, a number as ``decimal(38,9)``,
            ``event_time`` as ``timestamp``.
        plan: From the events, each once and none late, to the rows of each table by its name, with the
            table's columns. The operators work in append mode.
        event: From a parsed record (an attribute per field) and its event time (ms) to the oracle's event.
        oracle: All rows of all events, seen at once: what the plan has to come to.
        outputs: Its tables.
        chained: Whether a row may depend on an event that is farther away than any duration of the settings,
            by way of the events between them, as the row of a session does.
        optional_outputs: Tables that it writes only if the YAML's `tables` name them, each with its plan. The
            oracle finds them in `Config.tables`. A stream that has run does not start with another choice of
            them.
        ticks: Whether ticks of its own move its watermark.
        only: Every key of the topic is its own.
    """

    key: Field
    fields: Callable[[Config], tuple[Field, ...]]
    plan: Callable[[DataFrame, Config], dict[str, DataFrame]]
    event: Callable[[Any, int], Any]
    oracle: Callable[[Iterable[Any], Config], Sequence[tuple[Any, ...]]]
    outputs: tuple[Output, ...]
    chained: bool = False
    optional_outputs: tuple[Output, ...] = ()

    ticks: ClassVar[bool] = True
    only: ClassVar[tuple[KeyFilter, ...]] = ()

    @property
    def owner(self) -> Callable[[Any], str]:
        """From a parsed record to its key."""
        return attrgetter(self.key.name)
