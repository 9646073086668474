"""Valid records, and the reasons for rejecting others."""

from __future__ import annotations

import pytest

from stateward.runtime.api.record_fields import EVENT_TIME, MAX_TEXT_LENGTH, Bounds, Field, Reason
from stateward.runtime.ingest.parse import Parsed, Parser, Rejection
from tests.support.streams.parsed_events import NOT_BEFORE, PARSER, RECORD, UNPARSABLE, encoded, milliseconds


def with_member(member: bytes) -> bytes:
    return encoded()[:-1] + b"," + member + b"}"


def parsed(value: bytes) -> Parsed:
    verdict = PARSER.parse(value, RECORD)
    assert isinstance(verdict, Parsed), verdict
    return verdict


REJECTED: dict[Reason, list[bytes | None]] = {
    Reason.EMPTY_RECORD: [None],
    Reason.RECORD_TOO_LARGE: [encoded(padding="x" * 20_000), b"\xff" * 20_001],
    Reason.NOT_UTF8: [
        b'{"event_id": "\xff\xfe"}',
        b"\x80",
        encoded().decode().encode("utf-16"),
        with_member(b'"skipped": "\xff"'),
        with_member(b'"\xff": 1'),
        with_member(b'"surrogate": "\xed\xa0\x80"'),
        with_member(b'"overlong": "\xc0\x80"'),
    ],
    Reason.MALFORMED_JSON: [
        b"",
        b"  ",
        b"{",
        b"not json",
        b"NaN",
        b"\xef\xbb\xbf" + encoded(),
        encoded() + b" trailing",
        encoded() + b",1",
        encoded() + b"]",
        encoded() + b"\x00",
        with_member(b'"timeout_s": NaN'),
        with_member(b'"skipped": -Infinity'),
        with_member(b'"skipped": 01'),
        with_member(b'"skipped": .5'),
        with_member(b'"skipped": "\\q"'),
        with_member(b'"skipped": "\\uZZZZ"'),
        with_member(b'"skipped": "a\x01"'),
        with_member(b'"skipped": "a\n"'),
        with_member(b'"skipped": "\\ud800"'),
        with_member(b'"skipped": "\\ude00\\ud83d"'),
        with_member(b'"skipped": [1,]'),
        with_member(b'"\\q": 1'),
        # Python 3.11 stops at a depth of 1,000, 3.13 at one of 10,000.
        with_member(b'"skipped": ' + b"[" * 11_000 + b"]" * 8_000),
        encoded(user_id="\ud800"),
        # Malformed, whatever else is wrong with it.
        b'{"event_id": 5, "event_type": nul}',
    ],
    Reason.NOT_AN_OBJECT: [b"[]", b"[{}]", b'"text"', b"1", b" 1e400", b"null", b"true"],
    Reason.MISSING_FIELD: [
        b"{}",
        encoded(user_id=...),
        encoded(user_id=None),
        encoded(event_time=...),
        encoded(event_time=None),
        encoded(user_id=..., event_type=7),
    ],
    Reason.WRONG_TYPE: [
        encoded(user_id=7),
        encoded(user_id=True),
        encoded(event_type=["view"]),
        encoded(event_type={}),
        encoded(is_last="true"),
        encoded(is_last=1),
        encoded(timeout_s="60"),
        encoded(timeout_s=True),
        encoded(timeout_s=[]),
        encoded(event_time=1_700_000_000),
        encoded(event_id=17, user_id=...),
    ],
    Reason.EMPTY_FIELD: [
        encoded(user_id=""),
        encoded(user_id="  "),
        encoded(event_id=" "),
        encoded(user_id=" " * (MAX_TEXT_LENGTH + 1)),
    ],
    Reason.VALUE_OUT_OF_RANGE: [
        encoded(timeout_s=0),
        encoded(timeout_s=-1),
        encoded(timeout_s=0.0009),
        encoded(timeout_s=86_401),
        encoded(timeout_s=86_400.001),
        with_member(b'"timeout_s": 1e400'),
        with_member(b'"timeout_s": ' + b"9" * 5000),
        with_member(b'"amount": 1e29'),
        with_member(b'"amount": -' + b"9" * 30),
        encoded(user_id="u" * (MAX_TEXT_LENGTH + 1)),
        encoded(user_id="🎈" * (MAX_TEXT_LENGTH + 1)),
    ],
    Reason.UNKNOWN_VALUE: [encoded(channel="fax"), encoded(channel="Web"), encoded(channel=" web")],
    Reason.EVENT_TIME_UNPARSABLE: [encoded(event_time=text) for text in UNPARSABLE],
    Reason.EVENT_TIME_TOO_OLD: [
        encoded(event_time="1970-01-01T00:00:00Z"),
        encoded(event_time="1999-12-31T23:59:59.9999Z"),
        encoded(event_time="0001-01-01T00:00:00+10:00"),
    ],
    Reason.EVENT_TIME_IN_FUTURE: [
        encoded(event_time="2100-01-01T00:00:00Z"),
        encoded(event_time="2026-01-01T01:00:00.001Z"),
        encoded(event_time="9999-12-31T23:59:59-18:00"),
    ],
}


@pytest.mark.parametrize(
    ("reason", "value"), [(reason, value) for reason, values in REJECTED.items() for value in values]
)
def test_a_bad_record_is_rejected_for_its_reason(reason: Reason, value: bytes | None) -> None:
    verdict = PARSER.parse(value, RECORD)

    assert isinstance(verdict, Rejection), verdict
    assert verdict.reason is reason
    assert verdict.detail
    assert len(verdict.detail) < 200
    explained = PARSER.explain(value, RECORD)
    assert isinstance(explained, Rejection), explained
    assert explained.reason is reason


def test_every_reason_is_in_the_table() -> None:
    assert set(REJECTED) == set(Reason)


def test_details_say_what_was_expected_and_found() -> None:
    assert PARSER.parse(encoded(is_last=1), RECORD) == (
        Reason.WRONG_TYPE,
        "is_last: expected a flag, found a number",
    )
    assert PARSER.parse(encoded(timeout_s=0), RECORD) == (
        Reason.VALUE_OUT_OF_RANGE,
        "timeout_s: must be at least 0.001 and at most 86400.0, found 0",
    )
    assert PARSER.parse(encoded(event_time="2026-01-01T02:00:00Z"), RECORD) == (
        Reason.EVENT_TIME_IN_FUTURE,
        "event_time 2026-01-01T02:00:00Z is more than 3600000 ms after 2026-01-01T00:00:00+00:00, "
        "when it was read",
    )


@pytest.mark.parametrize(
    "value",
    [
        encoded(),
        b" \n" + encoded() + b" \r\n\t",
        encoded(surprise={"deep": [1, {"x": None}]}, is_last=None, timeout_s=None),
        with_member(b'"skipped": 1e400'),
        with_member(b'"skipped": ' + b"9" * 5000),
        with_member(b'"skipped": ' + b"[" * 500 + b"]" * 500),
        with_member('"skipped": "ümläut 🎈"'.encode()),
    ],
)
def test_what_is_not_declared_does_not_matter(value: bytes) -> None:
    record, event_ms = parsed(value)

    assert (record.event_id, record.user_id, record.event_type) == ("e1", "u", "view")
    assert (record.is_last, record.timeout_s, record.amount) == (None, None, None)
    assert event_ms == milliseconds("2024-01-01T00:00:00Z")


def test_values_arrive_as_they_were_sent() -> None:
    text = 'ümläut 🎈 \u0000 "quoted" \u00a0'
    record = parsed(encoded(user_id=text, event_type=" x ", is_last=False, timeout_s=60, amount=-0.5)).record

    assert (record.user_id, record.event_type) == (text, " x ")
    assert record.is_last is False
    assert record.timeout_s == 60
    assert isinstance(record.timeout_s, int)
    assert record.amount == -0.5


@pytest.mark.parametrize("text", ["\t", "\u00a0", "\u2003", "🎈" * MAX_TEXT_LENGTH])
def test_a_text_of_anything_but_spaces_is_not_empty(text: str) -> None:
    assert parsed(encoded(user_id=text)).record.user_id == text


@pytest.mark.parametrize("number", [b"0.001", b"86400", b"86400.0", b"1e2", b"1E+2", b"1.123456789123"])
def test_a_number_within_its_limits_is_valid(number: bytes) -> None:
    assert parsed(with_member(b'"timeout_s": ' + number)).record.timeout_s == float(number)


@pytest.mark.parametrize("number", [10**28, -(10**28), 2**63, 2**64, 10**15 + 1, -(2**63) - 1])
def test_a_number_without_limits_has_up_to_29_digits(number: int) -> None:
    assert parsed(encoded(amount=number)).record.amount == number


def test_of_a_key_that_is_there_twice_the_last_counts() -> None:
    """Checking this in valid records would cost as much as decoding them."""
    assert parsed(with_member(b'"user_id": "v"')).record.user_id == "v"
    assert parsed(with_member(b'"us\\u0065r_id": "v"')).record.user_id == "v"
    assert parsed(with_member(b'"skipped": 1, "skipped": 2')).record.user_id == "u"


def test_the_limits_of_time_are_inclusive() -> None:
    assert parsed(encoded(event_time="2000-01-01T00:00:00Z")).event_ms == NOT_BEFORE
    assert parsed(encoded(event_time="2026-01-01T01:00:00.0009999Z")).event_ms == RECORD + 3_600_000


def test_a_stream_without_texts_or_with_one_is_parsed() -> None:
    bounds = Bounds(NOT_BEFORE, 0, 1000)
    none, one = Parser((EVENT_TIME,), bounds), Parser((EVENT_TIME, Field("user_id", "text")), bounds)

    assert isinstance(none.parse(encoded(), RECORD), Parsed)
    assert isinstance(one.parse(encoded(user_id="a b"), RECORD), Parsed)
    assert one.parse(encoded(user_id=" "), RECORD)[0] is Reason.EMPTY_FIELD


def test_a_stream_needs_an_event_time() -> None:
    with pytest.raises(ValueError, match="event_time"):
        Parser((Field("user_id", "text"),), Bounds(0, 0, 1000))
