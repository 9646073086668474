"""The state of a key in two encodings: as JSON text for the log, and packed for the local copy.

The text can be read in the state store with plain SQL, and by every release: ``{"state": {...}, "held":
[[...], ...], "recent": [[id, ms], ...], "floor_ms": ...}``; empty members are left out. The logic's state is
an object by field name, so old states stay readable when a field with a default is added.

A packed state is less than half as long and decoded in half the time. It names no fields, so only a release
with the same `KeyStateCodec.layout` reads it.
"""

from __future__ import annotations

import re
from functools import cache
from typing import Any, Generic, TypeVar, get_type_hints

import msgspec
from msgspec import inspect as types

from stateward.runtime.api.key_logic import KeyState
from stateward.runtime.watermark.admission import Seen, Timed

S = TypeVar("S", bound=tuple[Any, ...])
E = TypeVar("E", bound=Timed)

# Types that both encodings return as they were. A time with an offset, for one, would become UTC.
_ALIKE = {
    types.NoneType,
    types.BoolType,
    types.IntType,
    types.FloatType,
    types.StrType,
    types.LiteralType,
    types.EnumType,
    types.ListType,
    types.VarTupleType,
    types.TupleType,
    types.SetType,
    types.FrozenSetType,
    types.DictType,
    types.UnionType,
    types.NamedTupleType,
    types.DataclassType,
    types.StructType,
}
# A float that JSON cannot write (infinite, or not a number) as MessagePack has it.
_NO_NUMBER = re.compile(rb"\xcb[\x7f\xff][\xf0-\xff]", re.DOTALL).search
_TEXT = ord("{")


class KeyStateCodec(Generic[S, E]):
    """Encodes the `KeyState` of one stream.

    Args:
        state_type: The state's named tuple.
        event_type: The event's named tuple.

    Attributes:
        layout: The names of the state's fields, on whose order packed states depend.
    """

    def __init__(self, state_type: type[S], event_type: type[E]) -> None:
        named_tuple: Any = state_type
        self.layout = ",".join(named_tuple._fields)
        self._make = named_tuple._make
        self._state = _mirror(state_type)
        self._entry: Any = msgspec.defstruct(
            "KeptEntry",
            [
                ("state", self._state | None, None),
                ("held", tuple[event_type, ...], ()),  # type: ignore[valid-type]
                ("recent", tuple[Seen, ...], ()),
                ("floor_ms", int | None, None),
            ],
            omit_defaults=True,
        )
        self._encode = msgspec.json.Encoder().encode
        self._decode = msgspec.json.Decoder(self._entry).decode
        kept: Any = tuple[named_tuple | None, tuple[event_type, ...], tuple[Seen, ...], int | None]  # type: ignore[valid-type]
        kinds = _kinds(kept)
        self._is_alike, self._has_floats = kinds <= _ALIKE, types.FloatType in kinds
        self._pack = msgspec.msgpack.Encoder().encode
        self._unpack = msgspec.msgpack.Decoder(kept).decode

    def encode(self, kept: KeyState[S, E]) -> bytes:
        """Encode as JSON, UTF-8."""
        state = None if kept.state is None else self._state(*kept.state)
        return self._encode(self._entry(state, kept.held, kept.recent, kept.floor_ms))

    def decode(self, text: bytes) -> KeyState[S, E]:
        """Decode what `encode` returned.

        Raises:
            msgspec.ValidationError: The text has another schema.
        """
        entry: Any = self._decode(text)
        state = None if entry.state is None else self._make(msgspec.structs.astuple(entry.state))
        return KeyState(state, entry.held, entry.recent, entry.floor_ms)

    def pack(self, kept: KeyState[S, E]) -> bytes:
        """Encode as MessagePack, or as JSON where `unpack` would not return the same otherwise."""
        if self._is_alike:
            try:
                packed = self._pack(kept)
            except OverflowError:  # an integer of more than 64 bits
                return self.encode(kept)
            if not (self._has_floats and _NO_NUMBER(packed)):
                return packed
        return self.encode(kept)

    def unpack(self, packed: bytes) -> KeyState[S, E]:
        """Decode what `pack` returned.

        Raises:
            msgspec.ValidationError: It has another schema.
        """
        return self.decode(packed) if packed[0] == _TEXT else KeyState(*self._unpack(packed))


@cache
def _kinds(kind: Any) -> set[type[types.Type]]:
    """The kinds of a type and of those within it; each task of a worker asks for the same one."""
    return {type(found) for found in _within(types.type_info(kind), [])}


def _within(found: types.Type, seen: list[types.Type]) -> list[types.Type]:
    """A type and those within it, after those found before: a type may contain itself."""
    if not any(found is one for one in seen):
        seen.append(found)
        for part in _parts(found):
            _within(part, seen)
    return seen


def _parts(found: types.Type) -> list[types.Type]:
    fields: list[types.Field] = list(getattr(found, "fields", ()))
    members = [getattr(found, name, None) for name in ("item_type", "key_type", "value_type")]
    several = [*getattr(found, "types", ()), *getattr(found, "item_types", ())]
    return [*(field.type for field in fields), *(one for one in members if one is not None), *several]


def _mirror(named_tuple: Any) -> Any:
    """A struct with the fields of a named tuple, which msgspec would encode as an array."""
    defaults = named_tuple._field_defaults
    fields = [
        (name, kind, defaults[name]) if name in defaults else (name, kind)
        for name, kind in get_type_hints(named_tuple).items()
    ]
    return msgspec.defstruct(named_tuple.__name__, fields)
