"""What a stream on Spark's own operators declares; the runtime does the rest (`native_query`)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from operator import attrgetter
from typing import TYPE_CHECKING, Any, ClassVar

from stateward.runtime.api.key_filter import KeyFilter
from stateward.runtime.api.record_fields import Field
from stateward.runtime.api.stream_job import Output

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from stateward.runtime.api.config import Config


@dataclass(frozen=True)
class TopicInput:
    """A topic of a stream that reads several, with a watermark of its own.

    Attributes:
        name: What the stream calls it, whatever the topic's name.
        fields: All declared fields of its records, ``event_id`` and the key among them.
    """

    name: str
    fields: Callable[[Config], tuple[Field, ...]]


def every_field(*inputs: TopicInput) -> Callable[[Config], tuple[Field, ...]]:
    """The fields of all inputs, each name once; those that not every input requires are optional."""

    def fields(config: Config) -> tuple[Field, ...]:
        of_each = [{field.name: field for field in one.fields(config)} for one in inputs]
        every = {name: field for fields in of_each for name, field in fields.items()}
        return tuple(
            replace(field, required=all(name in fields and fields[name].required for fields in of_each))
            for name, field in every.items()
        )

    return fields


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
        inputs: The topics of a stream that reads several, in the order of ``source.topics``; empty for one.
            Then ``fields`` is `every_field` of them, ``plan`` gets the events of each by its name in place of
            the events, and ``event`` gets the name of the record's input as a third argument. An event's
            identity is its id within its input and key.
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
    plan: Callable[[Any, Config], dict[str, DataFrame]]
    event: Callable[..., Any]
    oracle: Callable[[Iterable[Any], Config], Sequence[tuple[Any, ...]]]
    outputs: tuple[Output, ...]
    inputs: tuple[TopicInput, ...] = ()
    chained: bool = False
    optional_outputs: tuple[Output, ...] = ()

    ticks: ClassVar[bool] = True
    only: ClassVar[tuple[KeyFilter, ...]] = ()

    @property
    def owner(self) -> Callable[[Any], str]:
        """From a parsed record to its key."""
        return attrgetter(self.key.name)

    def fields_of(self, config: Config) -> dict[str, tuple[Field, ...]]:
        """The declared fields of the records of each topic."""
        if not self.inputs:
            return dict.fromkeys(config.topics, self.fields(config))
        return {topic: one.fields(config) for topic, one in zip(config.topics, self.inputs, strict=True)}
