"""The sections `event_time` and `lookups` of a stream's YAML: how long it waits, and what it looks up."""

from typing import Annotated

from pydantic import Field

from stateward.project.project import NAME_PATTERN
from stateward.project.spec_fields import Part, Span


class EventTime(Part):
    """How long a stream waits for events that come out of order.

    With `clock: processing` it waits for none; an id is known as a duplicate for that long.
    """

    allowed_lateness: Span


class LookupSource(Part):
    """Where a table is by which events are enriched (docs/lookups.md).

    `table` is a URI, or the name of a table of this installation. `key` is its key column, and `columns`
    names the column of a field, where they are not those of the stream's declaration.
    """

    table: Annotated[str, Field(pattern=NAME_PATTERN.removesuffix("$") + r"$|^[a-z][a-z0-9+.-]*://[^?#]+$")]
    key: Annotated[str, Field(min_length=1)] | None = None
    columns: dict[str, str] = Field(default_factory=dict)
