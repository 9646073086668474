"""What a stream declares about itself; the runtime does the rest."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from operator import attrgetter
from typing import TYPE_CHECKING, Any, ClassVar

from stateward.contract.stream_settings import Lookup
from stateward.runtime.api.initial_state import SeedRule
from stateward.runtime.api.key_filter import KeyFilter
from stateward.runtime.api.key_step import KeyStep
from stateward.runtime.api.record_fields import Field
from stateward.runtime.api.state_step import StateStep
from stateward.runtime.api.tables import Table

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from stateward.runtime.api.config import Config
    from stateward.runtime.api.key_logic import KeyLogic


@dataclass(frozen=True)
class Output:
    """A table of the stream.

    Attributes:
        row: The named tuple of its rows.
        table: The table, its columns in the order of the row's fields. A timestamp is milliseconds since
            1970 UTC in the row.
        plan: From the events to the rows of an optional table of a native stream, as `NativeJob.plan` does
            for the others. It is in a module of its own: all operators of a module belong to the checkpoint.
    """

    row: type[tuple[Any, ...]]
    table: Table
    plan: Callable[[Any, Config], DataFrame] | None = None


@dataclass(frozen=True)
class StreamJob:
    """One stream. Its functions are module-level, so that they can be sent to a worker.

    Attributes:
        key: The field by which it is keyed; a text, unless there is ``key_of``.
        fields: All declared input fields, the key among them, as the configuration allows them.
        event: From a parsed record (an attribute per field) and its event time (ms) to a plain tuple in the
            order of ``event_type``; with ``lookups`` it gets a third argument, their rows (`Lookups`).
        event_type: Named tuple of an event: ``event_id``, ``event_ms``, and what the logic needs.
        state_type: Named tuple of the logic's state.
        state_version: Version of the state's schema.
        logic: The stream's logic under a configuration.
        outputs: Its tables.
        state_steps: From older versions of the state's schema to this one.
        key_of: From a parsed record to its key, where that is not the field as it is.
        key_version: Version of the rule that makes the keys; to be raised with every change of it.
        key_steps: From older rules to this one.
        only: Which keys are this stream's, where others have the rest of the topic; a key has to be its own
            by each of the rules. To be changed with `stateward state split` only.
        seed: From a row of a table to a key's first state (`stateward state seed`); None: by the names of
            the state's fields.
        plain_fields: Text fields of the state and of events that tell of no person, besides those that have
            the name of such a column: operations on the state show them, and mask all others.
        optional_outputs: Tables that it writes only if the YAML's `tables` name them; the logic finds them in
            `Config.tables`.
        lookups: The tables by which its events are enriched, those of its settings.
        ticks: Whether ticks of its own move its watermark.
    """

    ticks: ClassVar[bool] = True

    key: Field
    fields: Callable[[Config], tuple[Field, ...]]
    event: Callable[..., tuple[Any, ...]]
    event_type: type[Any]
    state_type: type[Any]
    state_version: int
    logic: Callable[[Config], KeyLogic[Any, Any]]
    outputs: tuple[Output, ...]
    state_steps: tuple[StateStep, ...] = ()
    key_of: Callable[[Any], str] | None = None
    key_version: int = 1
    key_steps: tuple[KeyStep, ...] = ()
    only: tuple[KeyFilter, ...] = ()
    seed: SeedRule | None = None
    plain_fields: tuple[str, ...] = ()
    optional_outputs: tuple[Output, ...] = ()
    lookups: tuple[Lookup, ...] = ()

    @property
    def owner(self) -> Callable[[Any], str]:
        """From a parsed record to the key whose state it concerns."""
        return attrgetter(self.key.name) if self.key_of is None else self.key_of

    def fields_of(self, config: Config) -> dict[str, tuple[Field, ...]]:
        """The declared fields of the records of each topic."""
        return dict.fromkeys(config.topics, self.fields(config))
