"""The state of a key as JSON text: readable in the state store with plain SQL, and fast.

``{"state": {...}, "held": [[...], ...], "recent": [[id, ms], ...], "floor_ms": ...}``; empty members are left
out. The logic's state is an object by field name, so old states stay readable when a field with a default is
added.
"""

from __future__ import annotations

from typing import Any, Generic, TypeVar, get_type_hints

import msgspec

from stateward.runtime.api.key_logic import KeyState
from stateward.runtime.watermark.admission import Seen, Timed

S = TypeVar("S", bound=tuple[Any, ...])
E = TypeVar("E", bound=Timed)


class KeyStateCodec(Generic[S, E]):
    """Encodes the `KeyState` of one stream.

    Args:
        state_type: The state's named tuple.
        event_type: The event's named tuple.
    """

    def __init__(self, state_type: type[S], event_type: type[E]) -> None:
        named_tuple: Any = state_type
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


def _mirror(named_tuple: Any) -> Any:
    """A struct with the fields of a named tuple, which msgspec would encode as an array."""
    defaults = named_tuple._field_defaults
    fields = [
        (name, kind, defaults[name]) if name in defaults else (name, kind)
        for name, kind in get_type_hints(named_tuple).items()
    ]
    return msgspec.defstruct(named_tuple.__name__, fields)
