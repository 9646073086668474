"""Masks personal values in the keys and states that an operation shows, unless it shows all. Pure.

A state is not a table, so its fields are not declared personal or not. A text in it is shown only if its
field has the name of a column that is not personal, or is among the stream's `plain_fields`. Numbers and
times are shown.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import GenericAlias
from typing import TYPE_CHECKING, Any, get_args, get_origin, get_type_hints

from stateward.runtime.api.key_logic import masked_key
from stateward.runtime.api.stream_job import StreamJob
from stateward.runtime.api.tables import SHARED_TABLES
from stateward.runtime.watermark.admission import Seen

if TYPE_CHECKING:
    from stateward.runtime.api.any_job import AnyJob
    from stateward.runtime.api.tables import Table
    from stateward.state.inspection.state_changes import Change
    from stateward.state.verbs.explain import Explanation

_INSTANT = re.compile(r"\d{4}-\d\d-\d\d[T ][\d:.]+(Z|[+-]\d\d:?\d\d)?")


@dataclass(frozen=True)
class Masker:
    """Masks the values of one stream.

    A masked key shows its first characters and its length. Other masked texts show only their length, since
    the first characters of an id would identify most of them.

    Attributes:
        key_field: The field by which the stream is keyed.
        plain: Names of fields whose texts are not personal.
        hints: Types of a state's fields, by name: lists in its JSON may be named tuples.
        shows_all: Whether everything is shown in full.
    """

    key_field: str = ""
    plain: frozenset[str] = frozenset()
    hints: Mapping[str, Any] = field(default_factory=dict)
    shows_all: bool = False

    def key(self, key: str) -> str:
        """Mask a key."""
        return key if self.shows_all else masked_key(key)

    def value(self, value: Any, key: str | None = None, name: str = "") -> Any:
        """Mask a JSON value.

        Args:
            value: The value.
            key: The key that it belongs to, which is masked wherever it occurs; None if unknown.
            name: Name of its field.
        """
        return value if self.shows_all else self._masked(value, key, name, self.hints.get(name))

    def text(self, text: str, key: str | None = None) -> str:
        """Mask the values in a JSON object's text; any other text is masked like a key."""
        if self.shows_all:
            return text
        try:
            found = json.loads(text)
        except ValueError:
            found = None
        if not isinstance(found, dict):
            return masked_key(text)
        return json.dumps(self.value(found, key), ensure_ascii=False)

    def changes(self, changes: Sequence[Change], key: str | None) -> tuple[Change, ...]:
        """Mask changes of fields."""
        return tuple(
            replace(one, before=self._changed(one, one.before, key), after=self._changed(one, one.after, key))
            for one in changes
        )

    def explanation(self, found: Explanation) -> Explanation:
        """Mask an explanation of one key."""
        if self.shows_all:
            return found
        key = found.key
        return replace(
            found,
            key=self.key(key),
            entries=tuple(
                replace(
                    one,
                    key=self.key(key) if one.key == key else self.text(one.key, key),
                    value=self.value(one.value, key),
                    settled=self.value(one.settled, key),
                )
                for one in found.entries
            ),
            coming=tuple(
                replace(
                    one,
                    changes=self.changes(one.changes, key),
                    rows=tuple((name, self.value(fields, key)) for name, fields in one.rows),
                )
                for one in found.coming
            ),
            history=tuple(
                replace(
                    one,
                    key=self.key(key) if one.key == key else self.text(one.key, key),
                    changes=self.changes(one.changes, key),
                    value=self.value(one.value, key),
                )
                for one in found.history
            ),
        )

    def _changed(self, change: Change, value: Any, key: str | None) -> Any:
        return self.value(value, key, change.field.rpartition(".")[2])

    def _masked(self, value: Any, key: str | None, name: str, hint: Any) -> Any:
        if isinstance(value, Mapping):
            return {
                inner: self._masked(one, key, str(inner), self.hints.get(str(inner)))
                for inner, one in value.items()
            }
        if isinstance(value, list | tuple):
            return [
                self._masked(one, key, *of_item)
                for one, of_item in zip(value, _items(value, name, hint), strict=True)
            ]
        return self._text(value, key, name) if isinstance(value, str | bytes) else value

    def _text(self, value: str | bytes, key: str | None, name: str) -> str:
        text = value if isinstance(value, str) else ""
        if name == self.key_field or text == key:
            return masked_key(text)
        if name in self.plain or _INSTANT.fullmatch(text):
            return text
        return f"***({len(value)})"


def masker_of(job: AnyJob, *, shows_all: bool) -> Masker:
    """The masker of a stream.

    Args:
        job: The stream's declaration.
        shows_all: Whether everything is shown in full.
    """
    outputs = (*job.outputs, *job.optional_outputs)
    tables: list[Table] = [*SHARED_TABLES, *(output.table for output in outputs)]
    personal = {name for table in tables for name in table.personal}
    plain = {column.name for table in tables for column in table.columns} | set(
        getattr(job, "plain_fields", ())
    )
    hints: dict[str, Any] = {}
    if isinstance(job, StreamJob):
        hints = {
            **get_type_hints(job.state_type),
            "held": GenericAlias(tuple, (job.event_type, ...)),
            "recent": GenericAlias(tuple, (Seen, ...)),
        }
    key_field = job.key.name if hasattr(job, "key") else ""
    return Masker(key_field, frozenset(plain - personal - {key_field}), hints, shows_all)


def _items(value: Sequence[Any], name: str, hint: Any) -> list[tuple[str, Any]]:
    """Name and type of each item of a list; in a named tuple those of its fields."""
    fields = getattr(hint, "_fields", ())
    if fields and len(fields) == len(value):
        types = get_type_hints(hint)
        return [(inner, types.get(inner)) for inner in fields]
    # An optional type, and a tuple of many, has the type as its argument.
    inside = [one for one in get_args(hint) if one not in (type(None), Ellipsis)]
    if len(inside) == 1:
        of_item = inside[0]
        if get_origin(hint) in (tuple, list):
            return [(name, of_item)] * len(value)
        return _items(value, name, of_item)
    return [(name, None)] * len(value)
