"""Which records are valid, why the others are not, and that the shortcut never gives another verdict."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spark_jobs.runtime.instants import Instants
from spark_jobs.runtime.parse import Parsed, Parser, Rejection
from spark_jobs.runtime.validation import EVENT_TIME, MAX_TEXT_LENGTH, Bounds, Field, Reason

FIELDS = (
    Field("event_id", "text"),
    Field("user_id", "text"),
    Field("event_type", "text"),
    EVENT_TIME,
    Field("is_last", "flag", required=False),
    Field("timeout_s", "number", required=False, minimum=0.001, maximum=86_400.0),
    Field("amount", "number", required=False),
)
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def milliseconds(text: str) -> int:
    return (datetime.fromisoformat(text) - EPOCH) // timedelta(milliseconds=1)


NOT_BEFORE = milliseconds("2000-01-01T00:00:00Z")
RECORD = milliseconds("2026-01-01T00:00:00Z")
PARSER = Parser(FIELDS, Bounds(NOT_BEFORE, 3_600_000, max_record_bytes=20_000))


def event(**changes: Any) -> dict[str, Any]:
    fields = {
        "event_id": "e1",
        "user_id": "u",
        "event_type": "view",
        "event_time": "2024-01-01T00:00:00Z",
        **changes,
    }
    return {name: value for name, value in fields.items() if value is not ...}


def encoded(**changes: Any) -> bytes:
    return json.dumps(event(**changes)).encode()


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
        with_member(b'"skipped": ' + b"[" * 5000 + b"]" * 5000),
        encoded(user_id="\ud800"),
        # It is no document, whatever else is wrong with it.
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
    Reason.EVENT_TIME_UNPARSABLE: [
        encoded(event_time=text)
        for text in (
            "",
            "yesterday",
            "10:00",
            "2024-01-01T00:00:00",
            "2024-01-01T00:00Z",
            "2024-01-01t00:00:00z",
            "2024-01-01_00:00:00Z",
            "2024-01-01T00:00:00 Z",
            "2024-01-01T00:00:00Z ",
            "2024-01-01T00:00:00Z\n",
            " 2024-01-01T00:00:00Z",
            "2024-01-01T00:00:00.Z",
            "2024-01-01T00:00:00,5Z",
            "2024-01-01T00:00:00.1234567890Z",
            "2024-01-01T00:00:00+02",
            "2024-01-01T00:00:00+18:01",
            "2024-01-01T00:00:00+17:60",
            "2024-01-01T24:00:00Z",
            "2024-01-01T23:59:60Z",
            "2024-02-30T00:00:00Z",
            "2023-02-29T00:00:00Z",
            "20240-01-01T00:00:00Z",
            "٢024-01-01T00:00:00Z",
            "x" * 5000,
        )
    ],
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
    assert PARSER.explain(value, RECORD).reason is reason  # type: ignore[union-attr]


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
        "event_time 2026-01-01T02:00:00Z is more than 3600000 ms after 2026-01-01T00:00:00+00:00",
    )


@pytest.mark.parametrize(
    "value",
    [
        encoded(),
        memoryview(b"before" + encoded() + b"after")[6:-5],
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
    """To see it in valid records would cost as much as decoding them."""
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


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("1970-01-01T00:00:00Z", 0),
        ("1970-01-01 00:00:01Z", 1000),
        ("1970-01-01T00:00:00.1Z", 100),
        ("1970-01-01T00:00:00.9999999Z", 999),
        ("1970-01-01T00:00:00.001999999Z", 1),
        ("1969-12-31T23:59:59.9999Z", -1),
        ("1969-12-31T23:59:59.999999999Z", -1),
        ("1969-12-31T23:59:59.0001Z", -1000),
        ("1970-01-01T02:00:00+02:00", 0),
        ("1970-01-01T00:00:00-0230", 9_000_000),
        ("1970-01-01T00:00:00+1800", -64_800_000),
        ("1970-01-01T00:00:00-00:00", 0),
        ("1900-01-01T00:00:00.0005Z", -2_208_988_800_000),
        ("9999-12-31T23:59:59-10:00", 253_402_336_799_000),
    ],
)
def test_an_instant_is_rounded_down_to_milliseconds(text: str, expected: int) -> None:
    instants = Instants()

    assert instants.milliseconds(text) == expected
    assert instants.milliseconds(text) == expected, "looked up"


@given(
    at=st.datetimes(timezones=st.just(UTC)),
    decimals=st.text("0123456789", max_size=9),
    offset=st.integers(-18 * 60, 18 * 60),
)
def test_an_instant_is_exact(at: datetime, decimals: str, offset: int) -> None:
    zone = f"{'-' if offset < 0 else '+'}{abs(offset) // 60:02}:{abs(offset) % 60:02}"
    text = f"{at.replace(tzinfo=None).isoformat()[:19]}{'.' if decimals else ''}{decimals}{zone}"
    whole = at.replace(microsecond=0) - EPOCH
    seconds = whole.days * 86_400 + whole.seconds - offset * 60 + Decimal(f"0.{decimals}0")

    assert Instants().milliseconds(text) == int((seconds * 1000).to_integral_value("ROUND_FLOOR"))


TIMES = st.one_of(
    st.sampled_from(
        [json.loads(v)["event_time"] for v in REJECTED[Reason.EVENT_TIME_UNPARSABLE] if v is not None]
    ),
    st.datetimes(datetime(1999, 1, 1), datetime(2027, 1, 1)).map(lambda at: f"{at.isoformat()}Z"),  # noqa: DTZ001
)
ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(-1e30, 1e30) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=5,
)
TEXTS = st.text(max_size=4) | st.sampled_from(["", " ", "   ", "u" * 1024, "u" * 1025, "🎈"])
NUMBERS = st.floats(0, 90_000) | st.integers(-1, 90_000) | st.floats() | st.integers()
MEMBERS = st.fixed_dictionaries(
    {},
    optional={
        "event_id": TEXTS | ANYTHING,
        "user_id": TEXTS | ANYTHING,
        "event_time": TIMES | ANYTHING,
        "is_last": st.booleans() | ANYTHING,
        "timeout_s": NUMBERS | ANYTHING,
        "amount": NUMBERS | ANYTHING,
        "other": ANYTHING,
    },
)
MANGLING = st.lists(
    st.tuples(
        st.floats(0, 1),
        st.integers(0, 3),
        st.binary(max_size=3)
        | st.sampled_from(
            [b"\\ud800", b"\\u0020", b"\\ude00", b'"', b",", b"1e400", b"\xc3\xbc", b"\n", b"}"]
        ),
    ),
    max_size=2,
)


@st.composite
def records(draw: st.DrawFn) -> bytes:
    """Good records, records with bad members, and either with a few bytes changed."""
    value = json.dumps({**event(), **draw(MEMBERS)}, ensure_ascii=draw(st.booleans())).encode(
        errors="surrogatepass"
    )
    for place, length, inserted in draw(MANGLING):
        at = int(place * len(value))
        value = value[:at] + inserted + value[at + length :]
    return value


@settings(max_examples=1000)
@given(value=records())
def test_the_shortcut_gives_the_verdict_of_the_long_way(value: bytes) -> None:
    short, long = PARSER.parse(memoryview(value), RECORD), PARSER.explain(value, RECORD)

    assert type(short) is type(long)
    assert short == long
    if isinstance(short, Parsed):
        names = [field.name for field in FIELDS]
        assert [type(getattr(short.record, name)) for name in names] == [
            type(getattr(long.record, name))  # type: ignore[union-attr]
            for name in names
        ]
