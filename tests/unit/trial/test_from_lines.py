"""A stream on lines of files: its rows are the oracle's, and each line ends in exactly one way."""

from __future__ import annotations

import dataclasses
import functools
import gzip
import json
import re
from collections.abc import Iterable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import UNSET
from msgspec.structs import replace

from stateward.contract.requests import LookupConfig
from stateward.project.project import Project
from stateward.runtime.api.any_job import configured
from stateward.runtime.api.config import Config
from stateward.runtime.api.key_logic import replay_oracle
from stateward.testing import declarations
from stateward.trial.file_job import lines_of
from stateward.trial.from_lines import Found, Line, StreamCodeError, rows_of
from stateward.trial.made_values import TrialError
from tests.support.streams.event_files import KNOWN_SESSIONS, WEB_EVENTS
from tests.support.streams.matches import JOB as MATCHES
from tests.support.streams.purchases import JOB as PURCHASES
from tests.support.streams.purchases import next_version, record

NOW_MS = 1_767_225_600_000  # 2026-01-01T00:00:00Z
START_MS = 1_704_067_200_000  # 2024-01-01T00:00:00Z
MINUTE_MS = 60_000

config_of = functools.cache(declarations.config_of)


def iso(minutes: float) -> str:
    return datetime.fromtimestamp(START_MS / 1000 + minutes * 60, UTC).isoformat()


def lines(values: Iterable[Any], topic: str = "user_events") -> list[Line]:
    texts = [value if isinstance(value, bytes) else json.dumps(value).encode() for value in values]
    return [Line("events.jsonl", topic, number, text) for number, text in enumerate(texts, 1)]


def view(event_id: str, user: str, minutes: float, **more: Any) -> dict[str, Any]:
    return {"event_id": event_id, "user_id": user, "event_type": "view", "event_time": iso(minutes), **more}


def tried(stream: str, values: Iterable[Any], **changes: Any) -> Found:
    config = replace(config_of(stream), **changes)
    job = configured(Project.imported().declaration(stream), config)
    return rows_of(job, config, lines(values, config.topic), NOW_MS)


def sessions(found: Found) -> list[tuple[str, int]]:
    return [(row["user_id"], row["event_count"]) for row in found.rows["sessions"]]


def test_rows_dead_letters_and_late_events_are_those_of_the_stream() -> None:
    found = tried(
        "user_sessions",
        [
            view("a", "u", 0),
            view("b", "u", 10),
            b"no json",
            view("c", "v", 300),
            view("d", "u", 20),  # the watermark is two minutes before the line above
            view("c", "v", 300),
            view("e", "v", 1, event_time=1),
        ],
    )
    assert sessions(found) == [("u", 2), ("v", 1)]
    assert found.at_end == {"sessions": 1}
    dead = [(row["offset"], row["reason"]) for row in found.rows["dead_letters"]]
    assert dead == [(2, "malformed_json"), (6, "wrong_type")]
    [late] = found.rows["late_events"]
    assert (late["offset"], late["event_id"], late["key"]) == (4, "d", "u")
    assert late["watermark"] == datetime.fromisoformat(iso(298))
    assert json.loads(late["value"])["event_id"] == "d"
    assert +found.counts == {"records": 7, "accepted": 3, "dead": 2, "late": 1, "duplicates": 1}


PLACES = st.lists(st.tuples(st.sampled_from("uvw"), st.integers(0, 400)), max_size=30)


@settings(deadline=None)
@given(places=PLACES)
def test_rows_are_the_oracles_of_the_events_that_are_not_late(places: list[tuple[str, int]]) -> None:
    values = [view(f"e{number}", user, minute) for number, (user, minute) in enumerate(places)]
    found = tried("user_sessions", values)
    late = {row["offset"] for row in found.rows.get("late_events", ())}
    config = config_of("user_sessions")
    job = configured(Project.imported().declaration("user_sessions"), config)
    expected = list[tuple[str, int]]()
    for user in "uvw":
        mine = [
            job.event_type(f"e{number}", START_MS + minute * MINUTE_MS, "view", False, None)
            for number, (owner, minute) in enumerate(places)
            if owner == user and number not in late
        ]
        rows: list[Any] = replay_oracle(job.logic(config), user, mine)
        expected += [(user, row.event_count) for row in rows]
    assert sorted(sessions(found) if places else []) == sorted(expected)
    assert found.counts["records"] == len(places) == found.counts["accepted"] + found.counts["late"]


def test_the_known_answer_is_found_in_a_gzip_file() -> None:
    config = config_of("user_sessions")
    job = configured(Project.imported().declaration("user_sessions"), config)
    found = rows_of(job, config, lines_of({config.topic: str(WEB_EVENTS)}), NOW_MS)
    assert len(found.rows["sessions"]) == KNOWN_SESSIONS
    assert +found.counts == {"records": 10_000, "accepted": 10_000}


def test_in_processing_time_an_event_arrives_when_it_happens() -> None:
    found = tried("action_counts", [view("a", "u", 0), view("b", "u", 10), view("c", "u", 12)])
    rows = [(row["action_count"], row["last_action"]) for row in found.rows["action_counts"]]
    assert rows == [(1, "view"), (1, "TIMEOUT"), (1, "view"), (2, "view"), (2, "TIMEOUT")]
    assert found.counts["late"] == 0


def test_a_stream_on_sparks_operators_has_the_rows_of_its_oracle() -> None:
    values = [view("a", "u", 0), view("a", "u", 0), view("b", "u", 1), b"[]", view("c", "u", 60)]
    found = tried("event_windows", [*values, view("d", "u", 3)])
    tumbling = [(row["window_start"], row["event_count"]) for row in found.rows["event_windows_tumbling"]]
    assert [count for _, count in sorted(tumbling)] == [2, 1]
    assert +found.counts == {"records": 6, "accepted": 3, "duplicates": 1, "late": 1, "dead": 1}
    assert [row["offset"] for row in found.rows["late_events"]] == [5]
    assert [row["reason"] for row in found.rows["dead_letters"]] == ["not_an_object"]


def test_every_record_of_a_landing_stream_is_a_row() -> None:
    found = tried("raw_events", [b"anything", view("a", "u", 0)])
    assert [row["value"][:8] for row in found.rows["raw_events"]] == [b"anything", b'{"event_']


def test_the_slowest_of_several_topics_moves_the_watermark() -> None:
    """So one file can follow the other."""
    base = config_of("payment_auth_join")
    config = replace(base, stream="matches", only_topic=UNSET, several_topics=("payments", "logins"))
    payments = [{"event_id": "p", "account_id": "a", "cents": 1, "event_time": iso(at)} for at in (0, 500)]
    logins = [{"event_id": "l", "account_id": "a", "device": "tv", "event_time": iso(at)} for at in (0, 1)]
    both = [*lines(payments, "payments"), *lines(logins, "logins")]
    found = rows_of(MATCHES, config, both, NOW_MS)
    assert [(row["payment_id"], row["device"]) for row in found.rows["matches"]] == [("p", "tv")]
    assert found.counts["late"] == 0
    again = rows_of(MATCHES, replace(config, watermark_policy="max"), both, NOW_MS)
    assert [row["topic"] for row in again.rows["late_events"]] == ["logins", "logins"]


def test_events_are_enriched_by_the_newest_version_of_a_lookup(tmp_path: Path) -> None:
    uri = f"file://{tmp_path}/merchants"
    next_version(uri)
    config = replace(
        config_of("user_sessions"),
        stream="purchases",
        only_topic="purchases",
        logic={"max_held_events": 10},
        lookups={"merchants": LookupConfig(uri, "", {})},
    )
    values = [record("e1", "ann", "bakery", 0)[1], record("e2", "ann", "smith", 1)[1]]
    found = rows_of(PURCHASES, config, lines(values, "purchases"), NOW_MS)
    assert [row["category"] for row in found.rows["purchases"]] == ["bakery, version 0", None]


class FailingLogic:
    """A logic with a mistake."""

    def __init__(self, config: Config) -> None:
        del config

    def apply(self, key: str, state: Any, event: Any) -> Any:
        return 1 // (START_MS - event.event_ms), ()


def test_a_failure_of_the_logic_names_the_line_and_where_it_is_in_the_code() -> None:
    config, job = config_of("user_sessions"), Project.imported().declaration("user_sessions")
    failing = dataclasses.replace(job, logic=FailingLogic)
    with pytest.raises(StreamCodeError) as caught:
        rows_of(failing, config, lines([b"bad", view("a", "u", 0)]), NOW_MS)
    assert re.search(r"events\.jsonl:2: .*ZeroDivisionError.*test_from_lines\.py:\d+", str(caught.value))


def test_an_event_of_too_few_values_names_those_of_its_type() -> None:
    config, job = config_of("user_sessions"), Project.imported().declaration("user_sessions")
    short = dataclasses.replace(job, event=lambda record, event_ms: (record.event_id, event_ms))
    with pytest.raises(StreamCodeError) as caught:
        rows_of(short, config, lines([view("a", "u", 0)]), NOW_MS)
    assert "`event` of the declaration returned 2 values for the 5 of SessionEvent" in str(caught.value)
    assert "(event_id, event_ms, " in str(caught.value)


class WrongRowLogic(FailingLogic):
    """A logic whose row has a text where its table has a number."""

    def apply(self, key: str, state: Any, event: Any) -> Any:
        (output,) = Project.imported().declaration("user_sessions").outputs
        values = dict.fromkeys(output.row._fields, "many")
        times = {name: 0 for name in output.row._fields if name.endswith("_ms")}
        return None, (output.row(**values | times),)


def test_a_row_that_does_not_fit_names_its_table_and_column() -> None:
    config, job = config_of("user_sessions"), Project.imported().declaration("user_sessions")
    wrong = dataclasses.replace(job, logic=WrongRowLogic)
    with pytest.raises(StreamCodeError, match="table sessions, column event_count: "):
        rows_of(wrong, config, lines([view("a", "u", 0)]), NOW_MS)


def test_a_file_that_is_not_there_is_an_error_and_a_blank_line_no_record(tmp_path: Path) -> None:
    with pytest.raises(TrialError, match=r"events\.jsonl, found none"):
        list(lines_of({"t": str(tmp_path / "events.jsonl")}))
    (tmp_path / "events.jsonl").write_bytes(b'{"a": 1}\r\n\n  \n{}')
    (tmp_path / "events.jsonl.gz").write_bytes(gzip.compress(b"{}\n"))
    files = {"t": str(tmp_path / "events.jsonl"), "g": str(tmp_path / "events.jsonl.gz")}
    found = [(line.topic, line.number, line.value) for line in lines_of(files)]
    assert found == [("t", 1, b'{"a": 1}'), ("t", 4, b"{}"), ("g", 1, b"{}")]
