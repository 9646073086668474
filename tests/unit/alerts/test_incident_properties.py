"""For any observations: one message for each transition of an incident, also after a change of supervisor."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from stateward.alerts.incident_document import IncidentDocument, from_json, to_json
from tests.support.pages.observations import (
    BAD,
    LEAVES,
    SLOW,
    STOPPED,
    SUSPENDED,
    Sight,
    given_up,
    gone,
    hangs,
    held,
    later,
    play,
    runs,
    starts,
    waits_for_kafka,
)

_SIGHTS = st.one_of(
    st.builds(runs, st.just(0), progress=st.booleans()),
    st.builds(runs, st.just(0), st.sampled_from([SLOW, BAD])),
    st.sampled_from(
        [
            gone(),
            later(0),
            hangs(),
            given_up(),
            starts(),
            waits_for_kafka(),
            STOPPED,
            SUSPENDED,
            LEAVES,
            held(),
        ]
    ),
)


@given(st.lists(st.tuples(st.integers(1, 400), st.integers(0, 1), _SIGHTS), max_size=60))
def test_every_incident_is_opened_once_and_then_open_or_resolved(
    steps: list[tuple[int, int, Sight]],
) -> None:
    seconds, failures, sights = 0, 0, []
    for gap, more, (action, _, status) in steps:
        seconds, failures = seconds + gap, failures + more
        sights.append((float(seconds), (action, failures, status)))
    memory, told = play(sights)
    of_incident: dict[str, list[str]] = {}
    for message in told:
        of_incident.setdefault(message.incident.id, []).append(message.kind)
    still_open = {incident.id for incident in memory.open}
    for name, kinds in of_incident.items():
        assert kinds in (
            [["opened"], ["opened", "escalated"]]
            if name in still_open
            else [["opened", "resolved"], ["opened", "escalated", "resolved"]]
        )
    assert still_open <= set(of_incident)
    assert len({message.id for message in told}) == len(told)
    # An incident of a topic is resolved before the next one opens.
    for topic in ("driver", "critical", "warn"):
        turns = [m.kind for m in told if m.incident.topic == topic and m.kind != "escalated"]
        assert turns == [("opened", "resolved")[number % 2] for number in range(len(turns))]


@given(st.lists(st.tuples(st.integers(1, 400), _SIGHTS), max_size=30), st.integers(0, 29))
def test_nothing_is_sent_twice_by_a_supervisor_that_takes_over(
    steps: list[tuple[int, Sight]], taken_over_at: int
) -> None:
    """It begins with what was written down, which it reads back, and looks at the same stream."""
    seconds, sights = 0, []
    for gap, sight in steps:
        seconds += gap
        sights.append((float(seconds), sight))
    memory, first = play(sights[:taken_over_at])
    read = from_json(to_json(IncidentDocument("s", 1, memory))).memory
    _, second = play(sights[taken_over_at:], read)
    assert [m.id for m in [*first, *second]] == [m.id for m in play(sights)[1]]
