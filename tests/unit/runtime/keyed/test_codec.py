"""Both encodings of a state return what was encoded, down to the types within."""

from __future__ import annotations

import math
from datetime import UTC, datetime, timedelta, timezone
from typing import Any, NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stateward.runtime.api.key_logic import KeyState
from stateward.runtime.keyed.codec import KeyStateCodec
from stateward.runtime.watermark.admission import Seen

_TEXT = ord("{")


class Event(NamedTuple):
    """An event."""

    event_id: str
    event_ms: int


class Step(NamedTuple):
    """A record within a state, with a default."""

    name: str
    took_s: float | None = None


class Plain(NamedTuple):
    """A state of types that both encodings know."""

    events: int
    rate: float
    steps: tuple[Step, ...] = ()
    totals: dict[str, int] | None = None
    last: Step | None = None


class Timed(NamedTuple):
    """A state with a time, which MessagePack would move to UTC."""

    at: datetime


class Anything(NamedTuple):
    """A state whose type says nothing."""

    found: Any


STEP = st.builds(Step, st.text(), st.none() | st.floats(-1, 1))
WHOLE = st.builds(
    Plain,
    st.integers(),
    st.floats(allow_nan=False, allow_infinity=False),
    st.lists(STEP).map(tuple),
    st.none() | st.dictionaries(st.text(), st.integers(-(2**63), 2**64 - 1)),
    st.none() | STEP,
)
PLAIN: KeyStateCodec[Plain, Event] = KeyStateCodec(Plain, Event)


@given(
    st.builds(
        KeyState,
        st.none() | WHOLE,
        st.lists(st.builds(Event, st.text(), st.integers(0, 2**62))).map(tuple),
        st.lists(st.builds(Seen, st.text(), st.integers(0, 2**62))).map(tuple),
        st.none() | st.integers(0, 2**62),
    )
)
def test_both_encodings_return_the_state(kept: KeyState[Plain, Event]) -> None:
    assert repr(PLAIN.unpack(PLAIN.pack(kept))) == repr(PLAIN.decode(PLAIN.encode(kept))) == repr(kept)


def test_a_state_is_packed_without_names() -> None:
    kept: KeyState[Plain, Event] = KeyState(Plain(1, 0.5, (Step("a", 0.25),)))
    assert len(PLAIN.pack(kept)) < len(PLAIN.encode(kept)) / 2
    assert PLAIN.layout == "events,rate,steps,totals,last"


@pytest.mark.parametrize("rate", [math.inf, -math.inf, math.nan])
def test_a_float_that_json_cannot_write_fails_when_it_is_read_first(rate: float) -> None:
    """Not later, when the copy is lost and the log has to be read."""
    packed = PLAIN.pack(KeyState(Plain(1, rate)))
    with pytest.raises(ValueError, match="Expected `float`, got `null`"):
        PLAIN.unpack(packed)


@pytest.mark.parametrize(
    "state",
    [
        Timed(datetime(2026, 1, 1, tzinfo=UTC)),
        Timed(datetime(2026, 1, 1, tzinfo=timezone(timedelta(hours=2)))),
        Anything({"1": [None, "2026-01-01T00:00:00Z"]}),
        Plain(2**64, 0.5),
    ],
)
def test_what_only_json_returns_as_it_was_stays_json(state: Any) -> None:
    codec: KeyStateCodec[Any, Event] = KeyStateCodec(type(state), Event)
    kept: KeyState[Any, Event] = KeyState(state)
    assert codec.pack(kept)[0] == _TEXT
    assert repr(codec.unpack(codec.pack(kept))) == repr(kept)
