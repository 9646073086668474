"""The section `logic` of each stream's YAML: the settings of what the stream computes.

The settings of a stream are a class in its `model.py` (see `stateward.contract.stream_settings`). They are
checked before the stream is deployed. A stream without such a class may have any settings: text, numbers,
true or false, and durations.
"""

import dataclasses
import functools
from datetime import timedelta
from pathlib import Path
from typing import Annotated, Any, ClassVar, Self, get_args, get_origin, get_type_hints

from pydantic import ConfigDict, Field, create_model, model_validator

from stateward.contract.stream_settings import Between, SettingsError, StreamSettings
from stateward.project import durations
from stateward.project.project import NAME_PATTERN, Project, SettingsLoadError
from stateward.project.settings import Settings
from stateward.project.spec_fields import Count, Duration, Part
from stateward.project.unexpected_value import UnexpectedValueError


class Logic(Part):
    """The settings of one stream's logic.

    Attributes:
        reads_several_topics: Whether the stream may read more than one.
        lookups: The names of its lookups; None if they are not known.
    """

    reads_several_topics: ClassVar[bool] = True
    lookups: ClassVar[frozenset[str] | None] = frozenset()

    def config(self) -> dict[str, Any]:
        """Return the settings as the driver takes them: a duration `gap` becomes `gap_ms`, an integer."""
        return {
            f"{name}_ms" if isinstance(value, timedelta) else name: (
                durations.to_ms(value) if isinstance(value, timedelta) else value
            )
            for name, value in self
        }

    def longest(self) -> timedelta:
        """Return the longest of the durations, zero if there is none."""
        spans = [value for _, value in self if isinstance(value, timedelta)]
        return max(spans, default=timedelta(0))

    def __eq__(self, other: object) -> bool:
        """Compare the settings: those of two releases have classes of their own."""
        return isinstance(other, Logic) and self.config() == other.config()

    __hash__ = None  # type: ignore[assignment]


class LookupSource(Part):
    """Where a table is by which events are enriched (docs/lookups.md)."""

    table: str = Field(
        pattern=NAME_PATTERN.removesuffix("$") + r"$|^[a-z][a-z0-9+.-]*://[^?#]+$",
        description="a table below `tables/` of this installation by its name, any other by its URI",
        json_schema_extra={"$comment": "name or URI"},
    )
    key: Annotated[str, Field(min_length=1)] | None = Field(
        None, description="the key column, if it has another name than in the declaration"
    )
    columns: dict[str, str] = Field(
        default={}, description="by field the column, where the names differ: `{risk_class: risk}`"
    )


class FreeLogic(Logic):
    """Settings of a stream that has no class for them; the bound is one that every keyed stream has."""

    # Only the driver knows what kind of stream it is, and refuses what it would not read.
    lookups: ClassVar[frozenset[str] | None] = None

    max_held_events: Count = 10_000

    model_config = ConfigDict(extra="allow")
    __pydantic_extra__: dict[str, timedelta | bool | int | float | str]

    @model_validator(mode="before")
    @classmethod
    def _read_durations(cls, value: Any) -> Any:
        if not isinstance(value, dict):
            return value
        return {
            name: durations.parse_duration(item) if durations.is_duration(item) else item
            for name, item in value.items()
        }


class _TypedLogic(Logic):
    """Settings that have a class; its fields are added by `_model_of`."""

    settings_class: ClassVar[type[StreamSettings]]

    @model_validator(mode="after")
    def _agree(self) -> Self:
        try:
            self.settings_class.of(self.config()).check()
        except SettingsError as error:
            raise UnexpectedValueError(error.expected) from None
        return self

    def longest(self) -> timedelta:
        """Return how long a key can live after its last event."""
        return timedelta(milliseconds=self.settings_class.of(self.config()).longest_ms())


def logic_model(stream: object, jobs: Path | None = None) -> type[Logic]:
    """Return the model of a stream's settings.

    Args:
        stream: The stream's name.
        jobs: The folder of a release's package `spark_jobs`. If it has no such class, as before 0.2, that of
            the deployed package is used.

    Raises:
        UnexpectedValueError: The stream's `model.py` cannot be read.
    """
    try:
        # Any: to mypy a class with a method __hash__ for its instances cannot be hashed itself.
        found: Any = Project(jobs).settings(stream) if jobs else None
        found = found or Project.of(Settings()).settings(stream)
    except SettingsLoadError as error:
        raise UnexpectedValueError(f"settings of stream {stream} that can be read, not {error}") from None
    return FreeLogic if found is None else _model_of(found)


@functools.lru_cache(maxsize=256)
def _model_of(settings: type[StreamSettings]) -> type[Logic]:
    hints = get_type_hints(settings, include_extras=True)
    fields: dict[str, Any] = {}
    for field in dataclasses.fields(settings):
        default = ... if field.default is dataclasses.MISSING else field.default
        if field.name.endswith("_ms"):
            span = default if default is ... else timedelta(milliseconds=default)
            fields[field.name.removesuffix("_ms")] = (Duration, span)
        else:
            fields[field.name] = (_type_of(hints[field.name]), default)
    description = (settings.__doc__ or "").partition("\n")[0]
    model = create_model(settings.__name__, __base__=_TypedLogic, __doc__=description, **fields)
    model.settings_class = settings
    model.reads_several_topics = settings.reads_several_topics
    model.lookups = frozenset(one.name for one in settings.lookups)
    return model


def _type_of(hint: Any) -> Any:
    if hint is int:
        return Count
    if get_origin(hint) is Annotated:
        kind, *metadata = get_args(hint)
        bounds = [one for one in metadata if isinstance(one, Between)]
        return Annotated[kind, *(Field(ge=kind(one.minimum), le=kind(one.maximum)) for one in bounds)]
    return hint
