"""The register of forgotten keys: what it holds, and what it says of records."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stateward.contract.privacy.forgotten import ForgottenKey, RecordsOf, Register, Spans, digest_of, spans_of
from stateward.contract.reading import InvalidDocumentError

NOW = datetime(2026, 11, 25, tzinfo=UTC)


def key(operation: str, offsets: dict[str, tuple[tuple[int, int], ...]], topic_id: str = "a") -> ForgottenKey:
    return ForgottenKey(
        operation=operation,
        stream="user_sessions",
        field="user_id",
        digest=digest_of("secret", "user_id", "ann"),
        at=NOW,
        records={"user_events": RecordsOf(topic_id, offsets, {"0": 99})},
        rows={"late_events": {"user_sessions/query": {"3": 1}}},
    )


@given(st.sets(st.integers(0, 60)), st.integers(-1, 61))
def test_spans_hold_the_offsets_they_were_made_of(offsets: set[int], asked: int) -> None:
    spans = Spans(spans_of(offsets))
    assert [one for one in range(62) if spans.holds(one)] == sorted(offsets)
    assert len(spans.spans) <= len(offsets)
    after, before = spans.after(asked), spans.before(asked)
    assert after not in offsets and set(range(asked, after)) <= offsets
    assert before - 1 not in offsets and set(range(before, asked)) <= offsets


@given(st.sets(st.integers(0, 60)), st.integers(0, 60), st.integers(0, 60))
def test_a_part_of_spans_says_the_same_of_a_range(offsets: set[int], begin: int, end: int) -> None:
    spans = Spans(spans_of(offsets))
    part = spans.within(begin, end)
    assert all(part.holds(one) == spans.holds(one) for one in range(begin, end))
    assert bool(part) == any(begin <= one < end for one in offsets)


def test_a_key_is_read_as_it_was_written_and_only_as_a_digest(tmp_path: Path) -> None:
    register, written = Register(f"file://{tmp_path}"), key("20261125T000000Z-forget", {"0": ((1, 4),)})
    assert register.keys() == ()
    register.add(written)
    assert register.keys() == Register(f"file://{tmp_path}").keys() == (written,)
    assert register.has(written.operation) and register.of(written.operation) == written
    assert "ann" not in next(tmp_path.iterdir()).read_text()


def test_the_digest_needs_the_secret_and_the_field() -> None:
    digests = {
        digest_of(secret, field, name)
        for secret in ("one", "two")
        for field in ("user_id", "account_id")
        for name in ("ann", "bob")
    }
    assert len(digests) == 8 and all(len(digest) == 64 for digest in digests)


def test_records_of_several_keys_are_joined_and_those_of_an_earlier_topic_left_out(tmp_path: Path) -> None:
    register = Register(f"file://{tmp_path}")
    register.add(key("1-forget", {"0": ((1, 4), (9, 9)), "2": ((5, 5),)}))
    register.add(key("2-forget", {"0": ((4, 6),)}))
    register.add(key("3-forget", {"0": ((70, 80),)}, topic_id="b"))
    found = register.offsets("user_events", "a")
    assert found == {0: Spans(((1, 6), (9, 9))), 2: Spans(((5, 5),))}
    assert register.offsets("user_events")[0].holds(75), "without an id every topic of the name counts"
    assert register.offsets("another") == {}


def test_a_key_that_is_added_later_is_seen(tmp_path: Path) -> None:
    """A driver asks at each batch."""
    mine, other = Register(f"file://{tmp_path}"), Register(f"file://{tmp_path}")
    assert mine.offsets("user_events") == {}
    other.add(key("1-forget", {"0": ((1, 1),)}))
    assert mine.offsets("user_events")[0].holds(1)


def test_no_register_holds_nothing() -> None:
    assert Register("").keys() == ()


def test_a_document_of_a_later_release_is_refused(tmp_path: Path) -> None:
    (tmp_path / "1-forget.json").write_text(json.dumps({"version": 2}))
    with pytest.raises(InvalidDocumentError, match="expected version 1, found 2: upgrade Stateward"):
        Register(f"file://{tmp_path}").keys()


def test_unknown_fields_are_ignored(tmp_path: Path) -> None:
    register = Register(f"file://{tmp_path}")
    register.add(key("1-forget", {}))
    file = tmp_path / "1-forget.json"
    file.write_text(json.dumps({**json.loads(file.read_text()), "later": 1}))
    assert Register(f"file://{tmp_path}").keys()[0].operation == "1-forget"
