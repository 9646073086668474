"""The parser's shortcut gives the same result as its explicit checks, for any input."""

from __future__ import annotations

import json
from datetime import datetime

from hypothesis import given, settings
from hypothesis import strategies as st

from stateward.runtime.ingest.parse import Parsed
from tests.support.streams.parsed_events import FIELDS, PARSER, RECORD, UNPARSABLE, event

TIMES = st.one_of(
    st.sampled_from(UNPARSABLE),
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
        "channel": st.sampled_from(("web", "shop", "fax", "", " ")) | ANYTHING,
        "tags": st.lists(TEXTS, max_size=2) | ANYTHING,
        "prices": st.lists(NUMBERS, max_size=2) | ANYTHING,
        "anything": st.lists(ANYTHING, max_size=2) | ANYTHING,
        "more": st.dictionaries(TEXTS, ANYTHING, max_size=2) | ANYTHING,
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


RECORD_TEXT = json.dumps(event()).encode()


@st.composite
def records(draw: st.DrawFn) -> bytes:
    """Valid records, records with invalid members, and both with a few bytes changed."""
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
    short, long = PARSER.parse(value, RECORD), PARSER.explain(value, RECORD)

    assert type(short) is type(long)
    assert short == long
    if isinstance(short, Parsed):
        assert isinstance(long, Parsed)
        for name in (field.name for field in FIELDS):
            assert type(getattr(short.record, name)) is type(getattr(long.record, name))


# What another record could be cut into, or lead to: each value is one document, whatever stands beside it.
FRAGMENTS = st.sampled_from(
    [
        None,
        b"",
        b" \n",
        b"null",
        b"[]",
        b"{}",
        b"1,2",
        b"\x00",
        b"\xff\xc3",
        b"\xef\xbb\xbf" + RECORD_TEXT,
        b"{" * 100_000,
        RECORD_TEXT * 2,
        RECORD_TEXT + b"," + RECORD_TEXT,
        RECORD_TEXT + b"\x00",
        RECORD_TEXT[:-1] + b',"skipped":[',
        b"]}",
        RECORD_TEXT[:-1] + b',"skipped":"',
        b'"}',
        RECORD_TEXT[:-1] + b',"skipped":' + b"9" * 5000 + b"}",
        RECORD_TEXT[:-1] + b',"skipped":"\xff"}',
        b" " * 20_001,
    ]
)


@given(values=st.lists(FRAGMENTS | records() | st.binary(max_size=5), max_size=5))
def test_each_of_many_records_gets_the_verdict_that_it_gets_alone(values: list[bytes | None]) -> None:
    alone = [PARSER.explain(value, RECORD) for value in values]

    together = [
        (record, event_ms) if why is None else why
        for record, event_ms, why in PARSER.parse_all(values, RECORD)
    ]
    assert together == alone
    assert [PARSER.parse(value, RECORD) for value in values] == alone
