"""The life of a device, drawn as timelines of one character a tick.

    r  running      e  error without a code     x  retired     .  nothing
    i  idle         E  error with a code        o  any other status

Offline after 10 ticks, forgotten 30 later. Every case goes through the streaming path and through the oracle;
both must agree. Event ids are the ticks, error codes the ticks behind an E.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import pytest

from spark_jobs.device_lifecycle.machine import DeviceMachine
from spark_jobs.device_lifecycle.model import (
    ABSENT,
    FINAL,
    MAX_ERROR_CODES,
    OFFLINE,
    ONLINE,
    STATUSES,
    DeviceAlert,
    DeviceReading,
    DeviceSettings,
    DeviceState,
    DeviceStatus,
)
from spark_jobs.device_lifecycle.transitions import (
    FORGET_AFTER,
    OFFLINE_AFTER,
    OLDER,
    OTHER,
    TRANSITIONS,
    Transition,
)
from stateward.runtime.api.key_logic import KeyState, advance, replay_oracle, row_id
from stateward.runtime.keyed.codec import KeyStateCodec
from stateward.runtime.watermark.admission import Limits

DeviceKept = KeyState[DeviceState, DeviceReading]

LATENESS = 6
LIMITS = Limits(LATENESS, 1000)
EAGER = Limits(1000, 1000, eager=True)
END = 10**9
OFFLINE_TICKS = 10
FORGET_TICKS = 30
MACHINE = DeviceMachine(DeviceSettings(offline_after_ms=OFFLINE_TICKS, forget_after_ms=FORGET_TICKS))
MINUTE = 60_000
DAY = 24 * 60 * MINUTE
SHIPPED = DeviceMachine(DeviceSettings())
MARKS = {"r": "running", "i": "idle", "e": "error", "E": "error", "x": "retired", "o": "self_test"}
CODEC: KeyStateCodec[DeviceState, DeviceReading] = KeyStateCodec(DeviceState, DeviceReading)


def reading(mark: str, at: int, name: str = "") -> DeviceReading:
    return DeviceReading(name or str(at), at, MARKS[mark], f"E{at}" if mark == "E" else None)


def readings_of(timeline: str) -> list[DeviceReading]:
    return [reading(mark, at) for at, mark in enumerate(timeline) if mark != "."]


def alerts_of(rows: Iterable[Sequence[Any]]) -> list[DeviceAlert]:
    return [row for row in rows if isinstance(row, DeviceAlert)]


def statuses_of(rows: Iterable[Sequence[Any]]) -> list[DeviceStatus]:
    found = [row for row in rows if isinstance(row, DeviceStatus)]
    assert all(row.device_id == "dev" for row in found)
    return found


def shown(rows: Iterable[Sequence[Any]]) -> list[str]:
    """The alerts, and the last status of each life."""
    return [_shown(row) for row in rows if isinstance(row, DeviceAlert) or row[1] in FINAL]


def _shown(row: Any) -> str:
    if isinstance(row, DeviceAlert):
        silence = "" if row.silence_ms is None else f" after {row.silence_ms}"
        last_ms = row.raised_ms - (row.silence_ms or OFFLINE_TICKS)
        since_ms = row.raised_ms if silence else last_ms
        identity = row_id("dev", row.kind, since_ms, row.evidence[-1])
        assert (row.alert_id, row.device_id, row.last_heartbeat_ms) == (identity, "dev", last_ms)
        return f"{row.raised_ms}: {row.kind}{silence} from {row.previous_mode} ({' '.join(row.evidence)})"
    assert isinstance(row, DeviceStatus)
    errors = f", {row.error_count} errors ({' '.join(row.error_codes)})" if row.error_count else ""
    span = f"{row.first_seen_ms} to {row.last_heartbeat_ms}"
    return f"{row.updated_ms}: {row.mode}, {row.reading_count} from {span}, ran {row.runtime_ms}{errors}"


def stream(
    *batches: tuple[int, list[DeviceReading]], machine: DeviceMachine = MACHINE, limits: Limits = LIMITS
) -> tuple[DeviceKept, list[tuple[Any, ...]]]:
    """Run batches of (watermark, readings); returns what is kept, and all rows."""
    kept: DeviceKept = DeviceKept()
    rows = list[tuple[Any, ...]]()
    for watermark, readings in batches:
        turn = advance(machine, "dev", kept, readings, watermark_ms=watermark, limits=limits)
        kept = turn.kept
        rows += turn.rows
    return kept, rows


# name: (timeline, alerts and last statuses)
#  0         1         2         3         4
#  01234567890123456789012345678901234567890
CASES: dict[str, tuple[str, list[str]]] = {
    "one reading, then silence": (
        "r",
        ["10: OFFLINE from running (0)", "40: forgotten, 1 from 0 to 0, ran 0"],
    ),
    "runtime over several readings, and not while idle": (
        "r...r..i...r",
        ["21: OFFLINE from running (11)", "51: forgotten, 4 from 0 to 11, ran 7"],
    ),
    "an error ends the runtime, and says nothing without a code": (
        "r..e..r.i",
        ["18: OFFLINE from idle (8)", "48: forgotten, 4 from 0 to 8, ran 5"],
    ),
    "a gap just below the timeout counts": (
        "r........i",
        ["19: OFFLINE from idle (9)", "49: forgotten, 2 from 0 to 9, ran 9"],
    ),
    "a reading at the timeout comes after it": (
        "r.........i",
        [
            "10: OFFLINE from running (0)",
            "10: BACK_ONLINE after 10 from running (0 10)",
            "20: OFFLINE from idle (10)",
            "50: forgotten, 2 from 0 to 10, ran 0",
        ],
    ),
    "the silence does not count, what was before and after it does": (
        "r..r" + "." * 13 + "r.x",
        [
            "13: OFFLINE from running (3)",
            "17: BACK_ONLINE after 14 from running (3 17)",
            "19: retired, 4 from 0 to 19, ran 5",
        ],
    ),
    "an idle device goes offline too": (
        "i" + "." * 14 + "e",
        [
            "10: OFFLINE from idle (0)",
            "15: BACK_ONLINE after 15 from idle (0 15)",
            "25: OFFLINE from error (15)",
            "55: forgotten, 2 from 0 to 15, ran 0",
        ],
    ),
    "offline for just less than the time to forget": (
        "r" + "." * 38 + "x",
        [
            "10: OFFLINE from running (0)",
            "39: BACK_ONLINE after 39 from running (0 39)",
            "39: retired, 2 from 0 to 39, ran 0",
        ],
    ),
    "offline for exactly the time to forget: a new life": (
        "rE" + "." * 39 + "x",
        [
            "11: OFFLINE from error (1)",
            "41: forgotten, 2 from 0 to 1, ran 1, 1 errors (E1)",
            "41: retired, 1 from 41 to 41, ran 0",
        ],
    ),
    "retired counts the time until then": ("r...x", ["4: retired, 2 from 0 to 4, ran 4"]),
    "retired while offline ends the silence": (
        "r" + "." * 14 + "x",
        [
            "10: OFFLINE from running (0)",
            "15: BACK_ONLINE after 15 from running (0 15)",
            "15: retired, 2 from 0 to 15, ran 0",
        ],
    ),
    "a life of one reading": (
        "x.x",
        ["0: retired, 1 from 0 to 0, ran 0", "2: retired, 1 from 2 to 2, ran 0"],
    ),
    "a reading after retirement starts a new life": (
        "rE.x.ix",
        ["3: retired, 3 from 0 to 3, ran 1, 1 errors (E1)", "6: retired, 2 from 5 to 6, ran 0"],
    ),
    "another status is a heartbeat and keeps the mode": (
        "r........o........i.x",
        ["20: retired, 4 from 0 to 20, ran 18"],
    ),
    "a device of which nothing else is heard is watched": (
        "o..o",
        ["13: OFFLINE from unknown (3)", "43: forgotten, 2 from 0 to 3, ran 0"],
    ),
    "back online with another status is not running": (
        "r" + "." * 14 + "o...r.x",
        [
            "10: OFFLINE from running (0)",
            "15: BACK_ONLINE after 15 from running (0 15)",
            "21: retired, 4 from 0 to 21, ran 2",
        ],
    ),
    "errors are counted, with or without a mode of their own": (
        "EE.E..x",
        ["6: retired, 4 from 0 to 6, ran 0, 3 errors (E0 E1 E3)"],
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_the_rows_of_a_timeline(name: str) -> None:
    timeline, expected = CASES[name]
    readings = readings_of(timeline)

    assert shown(replay_oracle(MACHINE, "dev", readings)) == expected
    kept, rows = stream((0, list(reversed(readings))), (END, []))
    assert shown(rows) == expected
    assert kept.is_empty


@pytest.mark.parametrize(
    ("gap_ms", "kinds", "runtime_ms"),
    [
        (60 * MINUTE - 1, [], 60 * MINUTE - 1),
        (60 * MINUTE, ["OFFLINE", "BACK_ONLINE"], 0),
        (60 * MINUTE + 30 * DAY - 1, ["OFFLINE", "BACK_ONLINE"], 0),
        (60 * MINUTE + 30 * DAY, ["OFFLINE"], 0),
    ],
)
def test_the_boundaries_of_the_shipped_timeouts(gap_ms: int, kinds: list[str], runtime_ms: int) -> None:
    rows = replay_oracle(SHIPPED, "dev", [reading("r", 0, "a"), reading("x", gap_ms, "b")])

    assert [row.kind for row in alerts_of(rows)] == kinds
    assert [row.silence_ms for row in alerts_of(rows)][1:] == [gap_ms] * (len(kinds) - 1)
    assert statuses_of(rows)[-1].runtime_ms == runtime_ms
    lives = [row.mode for row in statuses_of(rows) if row.mode in FINAL]
    assert lives == (["retired"] if gap_ms < 60 * MINUTE + 30 * DAY else ["forgotten", "retired"])


def test_every_reading_and_every_timeout_brings_one_status() -> None:
    rows = replay_oracle(MACHINE, "dev", readings_of("r.Eo" + "." * 13 + "r"))

    assert [
        (row.mode, row.last_heartbeat_ms, row.runtime_ms, row.changed_ms, row.updated_ms, row.updated_by)
        for row in statuses_of(rows)
    ] == [
        ("running", 0, 0, 0, 0, "0"),
        ("error", 2, 2, 2, 2, "2"),
        ("error", 3, 2, 2, 3, "3"),
        ("offline", 3, 2, 13, 13, ""),
        ("running", 17, 2, 17, 17, "17"),
        ("offline", 17, 2, 27, 27, ""),
        ("forgotten", 17, 2, 57, 57, ""),
    ]


def test_readings_of_the_same_time_are_ordered_by_id() -> None:
    both = [reading("i", 5, "b"), reading("r", 5, "a")]

    for readings in (both, both[::-1]):
        rows = stream((0, readings), (6, []))[1]
        assert [row.mode for row in statuses_of(rows)] == ["running", "idle"]
        assert max(statuses_of(rows), key=lambda row: row.version).mode == "idle"


def test_a_reading_at_a_timeout_is_newer_than_the_timeout_whatever_its_id() -> None:
    rows = statuses_of(replay_oracle(MACHINE, "dev", [reading("r", 0, "z"), reading("i", 10, "a")]))

    assert [row.mode for row in rows] == ["running", "offline", "idle", "offline", "forgotten"]
    assert rows == sorted(rows, key=lambda row: row.version)


def test_the_error_codes_are_bounded_and_keep_the_newest() -> None:
    last = statuses_of(replay_oracle(MACHINE, "dev", readings_of("E" * (MAX_ERROR_CODES + 5))))[-1]

    assert last.error_count == MAX_ERROR_CODES + 5
    assert last.error_codes == tuple(f"E{at}" for at in range(5, MAX_ERROR_CODES + 5))


def test_a_code_counts_with_any_status() -> None:
    codes = [DeviceReading("a", 0, "running", "W1"), DeviceReading("b", 1, "self_test", "W2")]

    assert statuses_of(replay_oracle(MACHINE, "dev", codes))[-1].error_codes == ("W1", "W2")


def test_a_timeout_comes_when_the_watermark_reaches_it_and_not_before() -> None:
    arrived = (0, readings_of("r"))

    assert alerts_of(stream(arrived, (9, []))[1]) == []
    assert shown(stream(arrived, (10, []))[1]) == ["10: OFFLINE from running (0)"]
    assert shown(stream(arrived, (10, []), (39, []))[1]) == ["10: OFFLINE from running (0)"]
    assert len(shown(stream(arrived, (10, []), (40, []))[1])) == 2


def test_every_pair_of_a_mode_and_a_trigger_that_can_meet_has_its_row() -> None:
    said = (*STATUSES, OTHER)
    pairs = {(ABSENT, trigger) for trigger in said}
    pairs |= {(mode, trigger) for mode in ONLINE for trigger in (*said, OLDER, OFFLINE_AFTER)}
    pairs |= {(OFFLINE, trigger) for trigger in (*said, OLDER, FORGET_AFTER)}

    assert set(TRANSITIONS) == pairs


@pytest.mark.parametrize("row", TRANSITIONS.values(), ids=lambda row: f"{row.state}-{row.trigger}")
def test_the_machine_follows_every_row_of_the_table(row: Transition) -> None:
    silent = row.state == OFFLINE
    state = DeviceState(row.state, "idle" if silent else row.state, 0, 5, "b", 15 if silent else 5)
    if row.trigger in (OFFLINE_AFTER, FORGET_AFTER):
        after, rows = MACHINE.expire("dev", state, MACHINE.deadline(state))
    else:
        status = "any" if row.trigger in (OTHER, OLDER) else row.trigger
        event = DeviceReading("a", 5 if row.trigger == OLDER else 16, status)
        after, rows = MACHINE.apply("dev", None if row.state == ABSENT else state, event)

    assert [alert.kind for alert in alerts_of(rows)] == ([] if row.alert is None else [row.alert])
    assert [status.mode for status in statuses_of(rows)] == [row.to]
    assert rows[-1:] == tuple(statuses_of(rows)), "the alert comes first"
    assert after is None if row.to in FINAL else after is not None and after.mode == row.to


def test_a_mode_of_another_release_is_taken_for_unknown() -> None:
    kept: DeviceKept = DeviceKept(DeviceState("asleep", "asleep", 0, 5, "5", 5))
    heard = advance(MACHINE, "dev", kept, readings_of(".......o"), watermark_ms=7, limits=EAGER)
    turn = advance(MACHINE, "dev", kept, [], watermark_ms=END, limits=LIMITS)

    assert [row.mode for row in statuses_of(heard.rows)] == ["unknown"]
    assert shown(turn.rows) == ["15: OFFLINE from asleep (5)", "45: forgotten, 0 from 0 to 5, ran 0"]
    assert turn.kept.is_empty
