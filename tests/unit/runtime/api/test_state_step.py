"""Chains of steps between versions of a state, and the example of docs/state-compatibility.md."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from stateward.runtime.api.state_step import MissingStepError, PlainState, StateStep, chain, missing
from stateward.runtime.keyed.codec import KeyStateCodec
from stateward.runtime.keyed.state_upgrade import Upgrade

PAGE = Path(__file__).resolve().parents[4] / "docs" / "state-compatibility.md"
STEPS = tuple(StateStep(of, f"step {of}") for of in (1, 2, 3))


class Event(NamedTuple):
    """An event."""

    event_id: str
    event_ms: int


class Total(NamedTuple):
    """The state of the page's example, in its second version."""

    units: int
    cents: int


@pytest.mark.parametrize(("of", "to", "expected"), [(1, 4, [1, 2, 3]), (2, 3, [2]), (3, 3, []), (4, 9, [])])
def test_a_chain_leads_from_one_version_to_another(of: int, to: int, expected: list[int]) -> None:
    assert [step.of for step in chain(STEPS, of, to)] == expected


@pytest.mark.parametrize(
    ("steps", "of", "to", "message"),
    [
        (STEPS, 1, 5, "for each version from 1 to 5, found none from 4"),
        (STEPS[::2], 1, 4, "found none from 2"),
        (STEPS, 5, 4, "version 4 or older, found version 5"),
    ],
)
def test_a_chain_with_a_gap_is_refused(steps: tuple[StateStep, ...], of: int, to: int, message: str) -> None:
    with pytest.raises(MissingStepError, match=message):
        chain(steps, of, to)
    assert missing((1, 3), 1, 4) == [2]


def test_the_example_of_the_page_does_what_it_says() -> None:
    (code,) = re.findall(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    names: dict[str, Any] = {"StateStep": StateStep, "PlainState": PlainState}
    exec(code, names)
    upgrade = Upgrade(KeyStateCodec(Total, Event), names["STATE_SCHEMA_VERSION"], names["STATE_STEPS"])
    old = {"state": {"total": "3.25"}, "held": [["e", 7]], "recent": [["d", 5]], "floor_ms": 3}

    assert json.loads(upgrade(1, "c", json.dumps(old).encode())) == {
        "state": {"units": 3, "cents": 25},
        "held": [["e", 7]],
        "recent": [["d", 5]],
        "floor_ms": 3,
    }
    assert json.loads(upgrade(1, "c", b'{"recent":[["d",5]]}')) == {"recent": [["d", 5]]}, "no state, no step"
