"""How a key is recognised in records and texts, and that no other key is taken for it."""

from __future__ import annotations

import html
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stateward.state.forget.subject import Subject
from stateward.state.forget.table_rules import own_rule, rule_of
from tests.support.spark.launches import DEVICE_LIFECYCLE, USER_SESSIONS

ANN = Subject("user_id", "u-7", "masked-aaaaaaaaaaaaaaaaaaaa")


@pytest.mark.parametrize(
    ("key", "value", "is_hit"),
    [
        (b"x", b'{"user_id": "u-7"}', True),
        (None, b'{"user_id": "\\u0075-7", "event_time": 1}', True),
        (b"u-7", b'{"user_id": "u-70"}', False),
        (b"u-7", b'{"user_id": "u-70", broken', True),
        (b"x", b'{"user_id": "u-7", broken', True),
        (b"x", b'{"user_id": "u-70", broken', False),
        (b"x", b'{"user_id": "mu-7", broken', False),
        (b"x", b'{"user_id": "bob", "text": "u-7"}', False),
        (b"x", b'{"id": "u-7"}', True),
        (b"x", b"[1, 2]", False),
        (b"x", b"\xff u-7 \xff", True),
        (None, None, False),
        (b"u-7", None, True),
        (b"x", b"[" * 100_000, False),
    ],
)
def test_a_record_is_the_keys_by_its_field_or_if_it_has_none_by_a_word(
    key: bytes | None, value: bytes | None, is_hit: bool
) -> None:
    assert ANN.is_in_record(key, value) is is_hit


@given(st.text(min_size=1, max_size=12), st.text(min_size=1, max_size=12))
def test_every_record_of_a_key_is_found_and_none_of_another(key: str, other: str) -> None:
    subject = Subject("user_id", key, "masked-aaaaaaaaaaaaaaaaaaaa")
    assert subject.is_in_record(None, json.dumps({"user_id": key}).encode("utf-8", "surrogatepass"))
    if other != key:
        assert not subject.is_in_record(b"", json.dumps({"user_id": other}).encode("utf-8", "surrogatepass"))


@given(st.text("ab<&\"'é.@-", min_size=1, max_size=6), st.sampled_from((str, html.escape, json.dumps)))
def test_a_key_is_erased_from_any_text(key: str, form: object) -> None:
    subject = Subject("user_id", key, "masked-aaaaaaaaaaaaaaaaaaaa")
    written = form(key)  # type: ignore[operator]
    text = f"x: {written} and {subject.mask}."
    assert subject.is_in_text(text)
    assert not subject.is_in_text(subject.erased(text))
    assert subject.mask not in subject.erased(text)


def test_a_longer_key_stays() -> None:
    assert ANN.erased("u-7, u-70, xu-7, u-7.") == "forgotten, u-70, xu-7, forgotten."


def test_a_table_without_a_rule_holds_no_key() -> None:
    assert rule_of("batch_counts", ANN, "user_sessions", ("user_events",), {}) is None
    assert rule_of("table_maintenance", ANN, "user_sessions", ("user_events",), {}) is None


def test_a_streams_own_table_is_searched_by_its_key_column_also_where_it_is_not_personal() -> None:
    for stream, field in ((USER_SESSIONS, "user_id"), (DEVICE_LIFECYCLE, "device_id")):
        for output in stream.job.outputs:
            rule = own_rule(output.table, Subject(field, "u-7", "m"))
            assert rule is not None and rule.columns == rule.identity == (field,)


@pytest.mark.parametrize(
    ("row", "is_hit"),
    [
        ({"stream": "user_sessions", "topic": "t", "partition": 0, "offset": 4}, True),
        ({"stream": "user_activity", "topic": "t", "partition": 0, "offset": 4}, True),
        ({"stream": "user_sessions", "topic": "t", "partition": 0, "offset": 5}, False),
        ({"stream": "user_sessions", "topic": "t", "partition": 1, "offset": 5}, True),
        ({"stream": "user_sessions", "topic": "another", "partition": 0, "offset": 4}, False),
    ],
)
@pytest.mark.parametrize("table", ["dead_letters", "late_events", "raw_events"])
def test_later_records_and_those_of_other_topics_stay(
    table: str, row: dict[str, object], is_hit: bool
) -> None:
    """A person may come back: what was sent after the key was forgotten is not of before."""
    rule = rule_of(table, ANN, "user_sessions", ("t",), {"t": {0: 5}})
    assert rule is not None
    content = {"key": b"u-7" if table != "late_events" else "u-7", "value": b'{"user_id": "u-7"}'}
    assert rule.is_hit({**row, **content}) is is_hit
