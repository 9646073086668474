"""The incidents of a stream: observations over time and the expected messages, as a table."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from stateward.alerts.incident import IncidentState, Observation, next_incidents
from stateward.alerts.incident_document import (
    CarriedIncidents,
    IncidentDocument,
    carried_from_json,
    carried_to_json,
    from_json,
    to_json,
)
from stateward.alerts.outbox import put
from stateward.control.launchers.driver_exit import Presence
from stateward.control.reconcile.decide import (
    Kill,
    Observed,
)
from tests.support.pages.observations import (
    BAD,
    BOOM,
    GONE,
    LEAVES,
    RESOLVE_AFTER,
    SLOW,
    STOPPED,
    SUSPENDED,
    T0,
    Sight,
    after,
    control,
    given_up,
    gone,
    hangs,
    held,
    later,
    look,
    play,
    runs,
    starts,
    waits_for_kafka,
)

SCENES: list[tuple[str, list[tuple[float, Sight]], list[str]]] = [
    ("all is well", [(0, runs()), (400, runs())], []),
    ("a driver of before is no news", [(0, runs(7)), (400, runs(7))], []),
    (
        "a crash, and then all is well",
        [(0, runs()), (2, gone()), (4, starts(1)), (9, runs(1)), (309, runs(1)), (400, runs(1))],
        ["2 driver opened", "309 driver resolved"],
    ),
    (
        "an unexpected restart",
        [(0, runs()), (2, runs(1)), (4, runs(1)), (303, runs(1)), (304, runs(1))],
        ["2 driver opened", "304 driver resolved"],
    ),
    (
        "ten restarts are one incident",
        [(0, runs()), *[(10.0 * n, gone(n)) for n in range(1, 11)], (110, runs(10)), (410, runs(10))],
        ["10 driver opened", "410 driver resolved"],
    ),
    (
        "up for a while between crashes, and not for long enough",
        [
            (0, runs()),
            (2, gone()),
            (4, runs(1)),
            (250, runs(1)),
            (251, gone(1)),
            (260, runs(2)),
            (559, runs(2)),
        ],
        ["2 driver opened"],
    ),
    (
        "a crash loop that is given up, and mended by a person",
        [
            (0, runs()),
            (2, gone()),
            (4, later(1)),
            (9, gone(2)),
            (20, given_up(3)),
            (22, given_up(3)),
            (900, starts(3)),
            (910, runs(3)),
            (1210, runs(3)),
        ],
        ["2 driver opened", "20 driver escalated", "1210 driver resolved"],
    ),
    (
        "given up twice in one incident is said once",
        [(0, runs()), (2, given_up()), (50, starts()), (60, given_up()), (70, given_up())],
        ["2 driver opened"],
    ),
    (
        "given up at once, then stopped",
        [(0, runs()), (2, given_up()), (50, STOPPED), (60, STOPPED)],
        ["2 driver opened", "50 driver resolved"],
    ),
    (
        "a failure of a stream that is then suspended",
        [(0, runs()), (2, given_up()), (50, SUSPENDED), (60, SUSPENDED)],
        ["2 driver opened", "50 driver resolved"],
    ),
    (
        "a driver that hangs is killed, and the kill is no incident of its own",
        [(0, runs()), (2, hangs()), (4, gone()), (6, starts(1)), (9, runs(1)), (309, runs(1))],
        ["2 driver opened", "309 driver resolved"],
    ),
    (
        "an hour without observations: the healthy period starts again",
        [(0, runs()), (2, gone()), (4, starts(1)), (9, runs(1)), (3600, runs(1)), (3900, runs(1))],
        ["2 driver opened", "3900 driver resolved"],
    ),
    (
        "it runs again, and commits nothing",
        [(0, runs()), (2, gone()), (9, runs(1, progress=False)), (900, runs(1, progress=False))],
        ["2 driver opened"],
    ),
    (
        "it runs again, and waits for Kafka",
        [(0, runs()), (2, gone()), (9, waits_for_kafka(1)), (900, waits_for_kafka(1))],
        ["2 driver opened"],
    ),
    (
        "stopped on purpose, drained and held: nothing to tell",
        [(0, runs()), (2, LEAVES), (9, held()), (20, starts()), (30, runs()), (31, LEAVES), (40, STOPPED)],
        [],
    ),
    (
        "held in an incident: it goes on, and is over once the stream is well",
        [
            (0, runs()),
            (2, gone()),
            (4, starts(1)),
            (9, runs(1)),
            (10, held(1)),
            (400, held(1)),
            (410, runs(1)),
            (710, runs(1)),
        ],
        ["2 driver opened", "710 driver resolved"],
    ),
    (
        "critical for a while; what comes and goes is one incident",
        [(0, runs()), (2, runs(0, BAD)), (4, runs()), (200, runs(0, BAD)), (202, runs()), (502, runs())],
        ["2 critical opened", "502 critical resolved"],
    ),
    (
        "slow, then critical, then slow, then well",
        [
            (0, runs(0, SLOW)),
            (10, runs(0, BAD)),
            (20, runs(0, SLOW)),
            (320, runs(0, SLOW)),
            (330, runs()),
            (630, runs()),
        ],
        ["0 warn opened", "10 critical opened", "320 critical resolved", "630 warn resolved"],
    ),
    (
        "critical at once is no warning too",
        [(0, runs(0, BAD, SLOW)), (10, runs(0, BAD, SLOW)), (20, runs()), (320, runs())],
        ["0 critical opened", "320 critical resolved"],
    ),
    (
        "the backlog of a crash is no incident, unless it outlasts it",
        [(0, runs()), (2, gone()), (4, starts(1)), (9, runs(1, BAD)), (309, runs(1, BAD))],
        ["2 driver opened", "309 driver resolved", "309 critical opened"],
    ),
    (
        "a crash while a measure is critical",
        [(0, runs(0, BAD)), (2, gone()), (4, starts(1)), (9, runs(1)), (309, runs(1))],
        ["0 critical opened", "2 driver opened", "309 driver resolved", "309 critical resolved"],
    ),
]


@pytest.mark.parametrize(("sights", "expected"), [scene[1:] for scene in SCENES], ids=[s[0] for s in SCENES])
def test_the_messages_of(sights: list[tuple[float, Sight]], expected: list[str]) -> None:
    _, told = play(sights)
    said = [f"{(m.at - T0).total_seconds():.0f} {m.incident.topic} {m.kind}" for m in told]
    assert said == expected


def test_the_words_of_a_crash_loop() -> None:
    _, (opened, escalated, resolved) = play(
        [
            (0, runs()),
            (2, hangs()),
            (4, gone(1)),
            (9, later(2)),
            (20, given_up(3)),
            (30, runs(3)),
            (330, runs(3)),
        ]
    )
    assert opened.incident.words.title == "s: the driver hung, and is started again"
    assert opened.incident.words.cause == "The driver hangs: its status is 20 s old."
    assert escalated.incident.words.title == "s: the driver keeps failing, and is not started again"
    assert "trigger stream_s with the action run" in escalated.incident.words.next_step
    assert (resolved.incident.since, resolved.incident.until) == (after(2), after(30))
    assert resolved.incident.restarts == 3
    assert resolved.incident.ended == "The stream has been well for 300 s: running, batch 4."
    assert {m.incident.id for m in (opened, escalated, resolved)} == {"s-driver-20260131T120002000000"}
    assert escalated.id == "s-driver-20260131T120002000000/escalated"


def test_the_cause_is_that_of_the_failure_whatever_else_the_reason_says() -> None:
    for sights in ([(0, runs()), (2, later(0))], [(0, runs()), (2, gone())], [(0, runs()), (2, runs(1))]):
        _, (opened,) = play(sights)
        expected = BOOM if sights[1][1] == later(0) else GONE
        assert opened.incident.words.cause == f"{expected.cause.capitalize()}."


def test_the_words_of_a_measure() -> None:
    _, (opened,) = play([(0, runs(0, BAD))])
    assert opened.incident.level == "critical"
    assert opened.incident.words.title == "s: lag is above its critical limit"
    assert opened.incident.words.cause == "9,000 records behind (limit 5,000)."
    assert opened.incident.words.likely_cause == "A backlog."


def test_a_late_driver_that_was_asked_to_leave_is_no_incident() -> None:
    late = Kill("the driver has not drained within 45 s")
    for asked in (replace(control(0), desired="stopped"), replace(control(0), run_id="r2")):
        first, _ = next_incidents(IncidentState(), look(T0, runs()), RESOLVE_AFTER)
        seen = Observed(asked, None, Presence.ALIVE)
        _, told = next_incidents(first, Observation("s", late, seen, after(2)), RESOLVE_AFTER)
        assert told == ()


def test_a_supervisor_that_takes_over_goes_on_where_the_one_before_was_killed() -> None:
    """Whoever relaunched the driver and died before it wrote anything down left the count behind."""
    before, _ = play([(0, runs())])
    memory, told = play([(40, starts(1))], before)
    assert [m.kind for m in told] == ["opened"]
    _, again = play([(80, gone(1)), (90, starts(2))], memory)
    assert again == []


def test_the_document_comes_back_as_it_was_written() -> None:
    memory, told = play([(0, runs(0, SLOW)), (2, gone()), (4, given_up(1))])
    outbox = put((), told, lambda message: ["mail", "chat"])
    incidents = IncidentDocument("s", 7, memory, outbox)
    assert from_json(to_json(incidents)) == incidents
    carried = CarriedIncidents(7, memory, tuple(told))
    assert carried_from_json(carried_to_json(carried)) == carried
    assert carried_from_json({"of": "another release"}) is None
