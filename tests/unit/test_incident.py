"""When a person is told about a stream: what is seen over time, and each message there is, as a table."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from include.control.decide import (
    Action,
    Done,
    Drain,
    GiveUp,
    Healthy,
    Held,
    Kill,
    Launch,
    Observed,
    Presence,
    Suspended,
    Wait,
)
from include.control.health import Finding
from include.control.incident import Look, Memory, Message, next_incidents
from include.control.incident_document import (
    Carried,
    IncidentDocument,
    carried_from_json,
    carried_to_json,
    from_json,
    to_json,
)
from include.control.outbox import put
from include.control.status import Control, Status

T0 = datetime(2026, 1, 31, 12, 0, tzinfo=UTC)
RESOLVE_AFTER = timedelta(seconds=300)
NEW = Memory()

SLOW = Finding("warn", "lag", 2000, 1000, "2,000 records behind (limit 1,000)", "a backlog")
BAD = Finding("critical", "lag", 9000, 5000, "9,000 records behind (limit 5,000)", "a backlog")

# What is seen at a moment: what `decide` says, how many failures are on record, and what the driver says.
Sight = tuple[Action, int, Status | None]


def after(seconds: float) -> datetime:
    return T0 + timedelta(seconds=seconds)


def runs(failures: int = 0, *findings: Finding, progress: bool = True) -> Sight:
    """The driver runs; `progress`: it has just committed a batch."""
    status = Status("s", "r1", "running", T0, T0, batch_id=4, last_batch_at=None, caught_up=False)
    return (
        Healthy("running, batch 4", findings),
        failures,
        replace(status, last_batch_at=T0) if progress else status,
    )


def waits_for_kafka(failures: int = 0) -> Sight:
    return Healthy("the driver waits by itself"), failures, Status("s", "r1", "waiting", T0, T0)


def starts(failures: int = 0) -> Sight:
    return Wait("the driver is starting"), failures, None


def gone(failures: int = 0) -> Sight:
    return Launch("crash: driver process gone", after_failure=True), failures, None


def later(failures: int) -> Sight:
    return Wait("driver failed: boom; next attempt in 4 s", until=T0), failures, None


def hangs(failures: int = 0) -> Sight:
    return Kill("the driver hangs: its status is 20 s old"), failures, None


def given_up(failures: int = 0) -> Sight:
    return GiveUp("driver failed: boom; restarted 3 times"), failures, None


def held(failures: int = 0) -> Sight:
    return Held("the stream is held"), failures, None


STOPPED: Sight = (Done("stopped, as someone has asked"), 0, None)
SUSPENDED: Sight = (Suspended("suspended by someone"), 0, None)
LEAVES: Sight = (Drain("asked to drain"), 0, None)

SCENES: list[tuple[str, list[tuple[float, Sight]], list[str]]] = [
    ("all is well", [(0, runs()), (400, runs())], []),
    ("a driver of before is no news", [(0, runs(7)), (400, runs(7))], []),
    (
        "a crash, and then all is well",
        [(0, runs()), (2, gone()), (4, starts(1)), (9, runs(1)), (309, runs(1)), (400, runs(1))],
        ["2 driver opened", "309 driver resolved"],
    ),
    (
        "a restart that nobody saw coming",
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
        "nobody looked for an hour: it has to be seen to be well for a while",
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


def control(failures: int) -> Control:
    return Control("s", "running", "r1", T0, "someone", "crash: driver process gone", failures=failures)


def look(at: datetime, sight: Sight) -> Look:
    action, failures, status = sight
    launched = replace(control(failures), launch=None if status is None else launch_of(status))
    if status is not None and status.last_batch_at is not None:
        status = replace(status, last_batch_at=at)
    if isinstance(action, Kill):
        launched = replace(launched, launch=launch_of(Status("s", "r1", "running", T0, T0)))
    return Look("s", action, Observed(launched, status, Presence.ALIVE), at)


def launch_of(status: Status):  # type: ignore[no-untyped-def]
    from include.control.status import Launch as Launched

    return Launched(run_id=status.run_id, at=T0, host="h", log="/l")


def play(sights: Sequence[tuple[float, Sight]], memory: Memory = NEW) -> tuple[Memory, list[Message]]:
    told: list[Message] = []
    for seconds, sight in sights:
        memory, messages = next_incidents(memory, look(after(seconds), sight), RESOLVE_AFTER)
        told.extend(messages)
    return memory, told


@pytest.mark.parametrize(("sights", "expected"), [scene[1:] for scene in SCENES], ids=[s[0] for s in SCENES])
def test_what_is_told(sights: list[tuple[float, Sight]], expected: list[str]) -> None:
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


def test_the_words_of_a_measure() -> None:
    _, (opened,) = play([(0, runs(0, BAD))])
    assert opened.incident.level == "critical"
    assert opened.incident.words.title == "s: lag is above its critical limit"
    assert opened.incident.words.cause == "9,000 records behind (limit 5,000)."
    assert opened.incident.words.likely_cause == "A backlog."


def test_a_late_driver_that_was_asked_to_leave_is_no_incident() -> None:
    late = Kill("the driver has not drained within 45 s")
    for asked in (replace(control(0), desired="stopped"), replace(control(0), run_id="r2")):
        first, _ = next_incidents(Memory(), look(T0, runs()), RESOLVE_AFTER)
        seen = Observed(asked, None, Presence.ALIVE)
        _, told = next_incidents(first, Look("s", late, seen, after(2)), RESOLVE_AFTER)
        assert told == ()


def test_a_supervisor_that_begins_anew_goes_on_where_the_one_before_was_killed() -> None:
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
    carried = Carried(7, memory, tuple(told))
    assert carried_from_json(carried_to_json(carried)) == carried
    assert carried_from_json({"of": "another release"}) is None


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
    # Of a topic, one is over before the next begins.
    for topic in ("driver", "critical", "warn"):
        turns = [m.kind for m in told if m.incident.topic == topic and m.kind != "escalated"]
        assert turns == [("opened", "resolved")[number % 2] for number in range(len(turns))]


@given(st.lists(st.tuples(st.integers(1, 400), _SIGHTS), max_size=30), st.integers(0, 29))
def test_nothing_is_told_twice_by_a_supervisor_that_takes_over(
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
