"""Patterns of one source, drawn as timelines of one character a tick.

    S  recon_scan              o  an event of another kind
    F  auth_failure            .  nothing
    E  privilege_escalation

The shipped pattern, S F E, within 20 ticks instead of minutes. Every case goes through the streaming path and
through the oracle; both must agree. Event ids are the ticks.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from spark_jobs.intrusion_patterns.logic import IntrusionLogic
from spark_jobs.intrusion_patterns.model import (
    IntrusionAlert,
    IntrusionState,
    Match,
    Pattern,
    SecurityEvent,
    Step,
)
from spark_jobs.intrusion_patterns.patterns import PATTERNS
from stateward.runtime.api.key_logic import KeyState, advance, replay_oracle
from stateward.runtime.keyed.codec import KeyStateCodec
from stateward.runtime.watermark.admission import Limits

SourceState = KeyState[IntrusionState, SecurityEvent]

SOURCE = "203.0.113.7"
LATENESS = 6
LIMITS = Limits(LATENESS, 1000)
END = 10**9
MINUTE = 60_000
KINDS = {"S": "recon_scan", "F": "auth_failure", "E": "privilege_escalation", "o": "password_changed"}
CODEC: KeyStateCodec[IntrusionState, SecurityEvent] = KeyStateCodec(IntrusionState, SecurityEvent)


def pattern(name: str, marks: str, horizon: int) -> Pattern:
    return Pattern(name, tuple(KINDS[mark] for mark in marks), horizon, "Look at it.")


SHIPPED = IntrusionLogic((replace(PATTERNS[0], name="sfe", horizon_ms=20),))
# A second pattern is one more line: two steps, with a horizon of its own.
BOTH = IntrusionLogic((*SHIPPED.patterns, pattern("fe", "FE", 5)))
TWICE = IntrusionLogic((pattern("ff", "FF", 10),))
LONG = IntrusionLogic((pattern("sffse", "SFFSE", 20),))
SETS = (
    SHIPPED,
    BOTH,
    TWICE,
    LONG,
    IntrusionLogic((pattern("sfs", "SFS", 12), pattern("fsfe", "FSFE", 25), pattern("ee", "EE", 3))),
)


def event(mark: str, at: int, name: str | None = None) -> SecurityEvent:
    return SecurityEvent(name or str(at), at, KINDS[mark])


def events_of(timeline: str) -> list[SecurityEvent]:
    return [event(mark, at) for at, mark in enumerate(timeline) if mark != "."]


def alerts_of(rows: Iterable[Sequence[Any]]) -> list[IntrusionAlert]:
    """Return the rows, all of which are alerts."""
    listed = list(rows)
    alerts = [row for row in listed if isinstance(row, IntrusionAlert)]
    assert len(alerts) == len(listed)
    return alerts


def shown(rows: Iterable[Sequence[Any]]) -> list[str]:
    return [f"{row.pattern} {' '.join(row.event_ids)}" for row in alerts_of(rows)]


def stream(
    *batches: tuple[int, list[SecurityEvent]], logic: IntrusionLogic = SHIPPED, limits: Limits = LIMITS
) -> tuple[SourceState, list[tuple[Any, ...]]]:
    """Run batches of (watermark, events); returns what is kept, and all rows."""
    kept: SourceState = SourceState()
    rows = list[tuple[Any, ...]]()
    for watermark, events in batches:
        turn = advance(logic, SOURCE, kept, events, watermark_ms=watermark, limits=limits)
        kept = turn.kept
        rows += turn.rows
    return kept, rows


# name: (logic, timeline, alerts)
#  0         1         2         3
#  0123456789012345678901234567890
CASES: dict[str, tuple[IntrusionLogic, str, list[str]]] = {
    "nothing": (SHIPPED, "oo", []),
    "the three steps": (SHIPPED, "SFE", ["sfe 0 1 2"]),
    "other events between them do not matter": (SHIPPED, "oSooFo.oEo", ["sfe 1 4 8"]),
    "failure last": (SHIPPED, "SEF", []),
    "scan in the middle": (SHIPPED, "FSE", []),
    "backwards": (SHIPPED, "EFS", []),
    "an early escalation does not matter": (SHIPPED, "SEFE", ["sfe 0 2 3"]),
    "just within the horizon": (SHIPPED, "S.F" + "." * 16 + "E", ["sfe 0 2 19"]),
    "the horizon after the scan": (SHIPPED, "S.F" + "." * 17 + "E", []),
    "a failure the horizon after the scan": (SHIPPED, "S" + "." * 19 + "FE", []),
    "escalation without failure": (SHIPPED, "S..E", []),
    "failure without scan": (SHIPPED, "F..E", []),
    "two scans, then failure, then escalation": (SHIPPED, "S.S.F.E", ["sfe 2 4 6"]),
    "two failures: the latest one": (SHIPPED, "S.F.F.E", ["sfe 0 4 6"]),
    "the pair stays when a new scan comes": (SHIPPED, "S.F.S.E", ["sfe 0 2 6"]),
    "a failure after the new scan makes a new pair": (SHIPPED, "S.F.S.F.E", ["sfe 4 6 8"]),
    "a new scan does not prolong the pair": (SHIPPED, "S.F.S" + "." * 15 + "E", []),
    "the new scan outlives the pair": (SHIPPED, "S.F.S" + "." * 15 + "FE", ["sfe 4 20 21"]),
    "two complete patterns in a row": (SHIPPED, "SFESFE", ["sfe 0 1 2", "sfe 3 4 5"]),
    "a pair is not used twice": (SHIPPED, "SFEE", ["sfe 0 1 2"]),
    "a scan is not used twice": (SHIPPED, "SFEFE", ["sfe 0 1 2"]),
    "a newer scan goes with the pattern that completes": (SHIPPED, "SFSEFE", ["sfe 0 1 3"]),
    "two patterns at once": (BOTH, "SFE", ["sfe 0 1 2", "fe 1 2"]),
    "each with its own horizon": (BOTH, "SF....E", ["sfe 0 1 6"]),
    "what ends takes nothing else with it": (BOTH, "S" + "." * 15 + "F...E", ["fe 16 20"]),
    "one goes on when the other is complete": (BOTH, "F.E.SF...E", ["fe 0 2", "sfe 4 5 9", "fe 5 9"]),
    "a kind that is there twice takes two events": (TWICE, "F", []),
    "and ends with them": (TWICE, "FFF.F", ["ff 0 1", "ff 2 4"]),
    "a kind in two places": (LONG, "SFFSE", ["sffse 0 1 2 3 4"]),
    "a scan in the fourth place begins a match too": (LONG, "SFFSFFSE", ["sffse 3 4 5 6 7"]),
}


@pytest.mark.parametrize("name", CASES)
def test_the_alerts_of_a_timeline(name: str) -> None:
    logic, timeline, expected = CASES[name]
    events = events_of(timeline)

    assert shown(replay_oracle(logic, SOURCE, events)) == expected
    kept, rows = stream((0, list(reversed(events))), (END, []), logic=logic)
    assert shown(rows) == expected
    assert kept.is_empty


@pytest.mark.parametrize(("after", "alerts"), [(20 * MINUTE - 1, 1), (20 * MINUTE, 0)])
def test_the_shipped_pattern_is_within_20_minutes_of_the_scan(after: int, alerts: int) -> None:
    events = [event("S", 7), event("F", 7 + MINUTE), event("E", 7 + after)]

    assert len(replay_oracle(IntrusionLogic(PATTERNS), SOURCE, events)) == alerts


@pytest.mark.parametrize(("ids", "alerts"), [("abc", 1), ("bac", 0), ("acb", 0), ("cba", 0)])
def test_of_events_at_the_same_time_the_ids_decide(ids: str, alerts: int) -> None:
    events = [event(mark, 5, name) for mark, name in zip("SFE", ids, strict=True)]

    assert len(replay_oracle(SHIPPED, SOURCE, events)) == alerts
    assert len(stream((0, events), (END, []))[1]) == alerts
    # On arrival too, even if each comes in a batch of its own.
    eager = Limits(LATENESS, 1000, eager=True)
    assert len(stream(*((0, [one]) for one in events), limits=eager)[1]) == alerts


def test_an_alert_says_what_it_rests_on() -> None:
    at = 1_767_225_600_000  # 2026-01-01T00:00:00Z
    events = [event("S", at, "a"), event("F", at + 90_000, "ü"), event("E", at + 250_005, "c")]
    [alert] = alerts_of(replay_oracle(IntrusionLogic(PATTERNS), SOURCE, events))

    start = datetime(2026, 1, 1, tzinfo=UTC)
    assert alert == IntrusionAlert(
        alert_id=alert.alert_id,
        source_ip=SOURCE,
        pattern="recon_to_escalation",
        started_ms=at,
        completed_ms=at + 250_005,
        duration_ms=250_005,
        event_ids=("a", "ü", "c"),
        event_times=(start, start + timedelta(seconds=90), start + timedelta(milliseconds=250_005)),
        summary=(
            "203.0.113.7: recon_scan at 2026-01-01T00:00:00.000Z, auth_failure at 2026-01-01T00:01:30.000Z, "
            "privilege_escalation at 2026-01-01T00:04:10.005Z. "
            "Isolate the host whose privileges were raised, then block the source."
        ),
    )


def test_identities_are_the_same_on_every_run_and_differ_between_alerts_patterns_and_sources() -> None:
    twin = IntrusionLogic((*SHIPPED.patterns, replace(SHIPPED.patterns[0], name="twin")))

    def ids(source: str) -> list[str]:
        return [alert.alert_id for alert in alerts_of(replay_oracle(twin, source, events_of("SFE.SFE")))]

    assert ids(SOURCE) == ids(SOURCE)
    assert len({*ids(SOURCE), *ids("other")}) == 8


def test_an_alert_is_raised_as_soon_as_no_earlier_event_can_come() -> None:
    arrived = (0, events_of("S.F....E"))

    assert stream(arrived, (7, []))[1] == []
    assert len(stream(arrived, (8, []))[1]) == 1


def test_a_match_goes_when_the_watermark_reaches_its_end_and_not_before() -> None:
    arrived = (0, events_of("S.F.S"))

    def lengths(watermark: int) -> list[int]:
        kept, rows = stream(arrived, (watermark, []))
        assert rows == []
        return [len(match.steps) for match in kept.state.matches] if kept.state else []

    assert [lengths(at) for at in (19, 20, 23, 24)] == [[1, 2], [1], [1], []]


def test_an_event_does_not_follow_itself() -> None:
    """As it could with eager emission, once its id has been forgotten."""
    state, _ = TWICE.apply(SOURCE, None, event("F", 3))

    assert TWICE.apply(SOURCE, state, event("F", 3)) == (state, [])


def test_events_of_other_kinds_leave_no_trace_in_the_state() -> None:
    kept, _ = stream((0, events_of("oFEo")), (9, []))

    assert kept.state is None


def test_what_another_release_has_found_is_forgotten_without_an_alert() -> None:
    gone = Match("gone", (Step(0, "a"),))
    whole = Match("sfe", tuple(Step(at, str(at)) for at in range(3)))
    scan = Match("sfe", (Step(4, "4"),))
    kept: SourceState = SourceState(IntrusionState((gone, whole, scan)))

    eager = Limits(LATENESS, 1000, eager=True)
    turn = advance(SHIPPED, SOURCE, kept, [event("F", -1)], watermark_ms=-5, limits=eager)
    assert turn.rows == []
    turn = advance(SHIPPED, SOURCE, turn.kept, [], watermark_ms=0, limits=LIMITS)
    assert turn.kept.state == IntrusionState((scan,))
    turn = advance(SHIPPED, SOURCE, turn.kept, events_of("......FE"), watermark_ms=5, limits=LIMITS)
    turn = advance(SHIPPED, SOURCE, turn.kept, [], watermark_ms=8, limits=LIMITS)
    assert shown(turn.rows) == ["sfe 4 6 7"]
    assert turn.kept.state is None


def test_a_pattern_that_cannot_be_followed_is_refused() -> None:
    with pytest.raises(ValueError, match="pattern s: expected two steps or more, found 1"):
        pattern("s", "S", 5)
    with pytest.raises(ValueError, match="pattern sf: expected a horizon above 0 ms, found 0"):
        pattern("sf", "SF", 0)
    with pytest.raises(ValueError, match="patterns of different names, found sf, sf"):
        IntrusionLogic((pattern("sf", "SF", 5), pattern("sf", "SE", 5)))
