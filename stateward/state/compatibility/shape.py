"""The type of a stream's state or event as JSON, so that two releases can be compared.

A shape is the name of a plain type (``"int"``), or an object with one of the keys ``array``, ``set``,
``map``, ``tuple``, ``any_of``, ``one_of`` and ``fields``. A record has its ``fields`` in their order, and
``by``: ``name`` where it is stored as a JSON object, ``position`` where it is stored as an array, as named
tuples are everywhere except as the state itself (`runtime.keyed.codec`).
"""

from __future__ import annotations

import dataclasses
import types
from collections.abc import Iterable, Mapping, Sequence, Set
from enum import Enum
from typing import Any, Final, Literal, Union, get_args, get_origin, get_type_hints

import msgspec

from stateward.state.compatibility.shape_changes import family_of, members

Shape = str | dict[str, Any]

_PLAIN: Final = {type(None): "null", Any: "any"}
_ARRAYS = (list, Sequence, Iterable)
_SETS = (set, frozenset, Set)
_NO_DEFAULT: Final = object()


def state_shape(named_tuple: type[Any]) -> Shape:
    """The shape of a stream's state, which `runtime.keyed.codec` stores by field name."""
    return {**_record(named_tuple, _tuple_defaults(named_tuple), ()), "by": "name"}


def event_shape(named_tuple: type[Any]) -> Shape:
    """The shape of a stream's events, which are stored while they are held."""
    return shape_of(named_tuple)


def shape_of(kind: Any, within: tuple[Any, ...] = ()) -> Shape:
    """The shape of a type.

    Args:
        kind: The type, as annotated.
        within: The enclosing records; a reference to one of them is named, not described again.
    """
    if kind in _PLAIN:
        return _PLAIN[kind]
    origin = get_origin(kind)
    if origin is not None:
        return _generic(origin, get_args(kind), within)
    if kind in within:
        return {"again": kind.__name__}
    if isinstance(kind, type):
        return _class(kind, within)
    return str(kind)


def _class(kind: type[Any], within: tuple[Any, ...]) -> Shape:
    if issubclass(kind, Enum):
        return {"one_of": [member.value for member in kind]}
    if hasattr(kind, "_fields"):
        return {**_record(kind, _tuple_defaults(kind), within), "by": "position"}
    if dataclasses.is_dataclass(kind):
        defaults = {field.name: _dataclass_default(field) for field in dataclasses.fields(kind)}
        return {**_record(kind, defaults, within), "by": "name"}
    return kind.__name__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__qualname__}"


def _generic(origin: Any, arguments: tuple[Any, ...], within: tuple[Any, ...]) -> Shape:
    if origin is Literal:
        return {"one_of": list(arguments)}
    parts = [shape_of(argument, within) for argument in arguments if argument is not ...]
    if origin in (Union, types.UnionType):
        return {"any_of": sorted(parts, key=str)}
    if origin is tuple:
        return {"array": parts[0]} if ... in arguments else {"tuple": parts}
    if origin in (dict, Mapping):
        return {"map": parts}
    if origin in _SETS or origin in _ARRAYS:
        return {"set" if origin in _SETS else "array": parts[0]}
    return f"{origin}{parts}"


def _record(kind: type[Any], defaults: Mapping[str, Any], within: tuple[Any, ...]) -> dict[str, Any]:
    fields = []
    for name, annotation in get_type_hints(kind).items():
        field: dict[str, Any] = {"name": name, "type": shape_of(annotation, (*within, kind))}
        if (default := defaults.get(name, _NO_DEFAULT)) is not _NO_DEFAULT:
            field["default"] = _plain(default)
        fields.append(field)
    return {"record": kind.__name__, "fields": fields}


def _plain(default: Any) -> Any:
    """A default as a document returns it; the items of a set have a fixed order."""
    return msgspec.json.decode(msgspec.json.encode(default, enc_hook=repr, order="deterministic"))


def _tuple_defaults(named_tuple: Any) -> Mapping[str, Any]:
    defaults: Mapping[str, Any] = named_tuple._field_defaults
    return defaults


def _dataclass_default(field: dataclasses.Field[Any]) -> Any:
    if field.default is not dataclasses.MISSING:
        return field.default
    factory: Any = field.default_factory
    return _NO_DEFAULT if factory is dataclasses.MISSING else factory()


def merged(before: Shape, now: Shape) -> Shape:
    """The shape ``now`` of a checkpoint that may hold states and events of the shape ``before`` too.

    A field that ``before`` does not have is marked ``absent``: older texts lack it.
    """
    if not isinstance(before, dict) or not isinstance(now, dict):
        return now
    if "fields" in before and "fields" in now:
        fields = [_merged_field(before, at, field) for at, field in enumerate(now["fields"])]
        return {**now, "fields": fields}
    family = family_of(now)
    if family in ("array", "set") and family in before:
        return {**now, family: merged(before[family], now[family])}
    if family in ("map", "tuple") and family in before:
        return {**now, family: _each(before[family], now[family])}
    if "any_of" in now:
        return {**now, "any_of": [_merged_member(before, member) for member in now["any_of"]]}
    return now


def _merged_member(before: Shape, now: Shape) -> Shape:
    twin = next((one for one in members(before) if family_of(one) == family_of(now)), now)
    return merged(twin, now)


def _each(before: list[Shape], now: list[Shape]) -> list[Shape]:
    if len(before) != len(now):
        return now
    return [merged(one, other) for one, other in zip(before, now, strict=True)]


def _merged_field(before: dict[str, Any], at: int, now: dict[str, Any]) -> dict[str, Any]:
    olds = before["fields"]
    if before["by"] == "name":
        old = next((one for one in olds if one["name"] == now["name"]), None)
    else:
        old = olds[at] if at < len(olds) else None
    if old is None:
        return {**now, "absent": True}
    field = {**now, "type": merged(old["type"], now["type"])}
    return {**field, "absent": True} if old.get("absent") else field
