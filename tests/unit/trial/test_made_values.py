"""The values that the fields of made-up records have."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from stateward.project.project import Project
from stateward.project.spec import load_specs
from stateward.runtime.api.landing_job import LandingJob
from stateward.runtime.api.record_fields import EVENT_TIME, PLACE_AS_ID, Field
from stateward.runtime.ingest.parse import Parsed
from stateward.runtime.ingest.shaped_records import parser_of
from stateward.runtime.kafka.rate import Rate
from stateward.testing.declarations import BOUNDS, TODAY_MS, Records, config_of
from stateward.trial.made_values import TrialError, made_values

FIELDS = (
    Field("event_id", "text"),
    Field("user", "text"),
    Field("kind", "text"),
    Field("done", "flag"),
    Field("amount", "number", minimum=2),
    Field("note", "text", required=False),
    Field("mark", "text", required=False, examples=(None, "x")),
    EVENT_TIME,
)


def test_given_values_come_before_examples_and_those_before_any_of_the_type() -> None:
    assert made_values("s", FIELDS, "user", {}) == {
        "kind": ("a", "b", "c"),
        "done": (True, False),
        "amount": (2, 2, 3),
        "mark": (None, "x"),
    }
    given = {"kind": ["login"], "done": ["true"], "amount": ["1.5", "null"], "note": ["n"], "mark": ["y"]}
    assert made_values("s", FIELDS, "user", given) == {
        "kind": ("login",),
        "done": (True,),
        "amount": (1.5, None),
        "note": ("n",),
        "mark": ("y",),
    }


def test_a_field_that_one_of_several_topics_requires_is_there() -> None:
    optional = tuple(replace(one, required=False) for one in FIELDS)
    for fields in ((*FIELDS, *optional), (*optional, *FIELDS)):
        assert made_values("s", fields, "user", {}) == made_values("s", FIELDS, "user", {})


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"kid": ["a"]}, "stream s: expected values for some of kind, done, amount, note, mark, found kid"),
        ({"user": ["a"]}, "found user"),
        ({"amount": ["many"]}, "expected values of amount to be a number, found 'many'"),
        ({"amount": ["true"]}, "expected values of amount to be a number, found 'true'"),
        ({"done": ["1"]}, "expected values of done to be true or false, found '1'"),
    ],
)
def test_a_field_or_value_that_is_not_the_streams_is_refused(given: dict[str, list[str]], said: str) -> None:
    with pytest.raises(TrialError, match=said):
        made_values("s", FIELDS, "user", given)


def test_made_up_records_are_of_the_declared_shape() -> None:
    fields = (
        PLACE_AS_ID,
        Field("user", "text", path="user.id"),
        Field("event_time", "time", path="at.ms", unit="ms"),
        Field("channel", "text", path="user.channel", one_of=("web", "shop")),
        Field("tags", "list", items="number"),
        Field("more", "object"),
    )
    values = made_values("s", fields, "user", {"tags": ["[1, 2]"]})
    assert values == {"channel": ("web", "shop"), "tags": ([1, 2],), "more": ({},)}
    rate = Rate(
        per_second=1,
        speed=1,
        began_ms=TODAY_MS,
        key="user",
        keys=2,
        values=values,
        delay_ms=0,
        paths={one.name: one.steps if one.kind != "place" else () for one in fields},
        time_unit="ms",
    )
    value = rate.record("t", 3).value() or b""
    found = parser_of(fields, BOUNDS).parse(value, TODAY_MS + 60_000)
    assert isinstance(found, Parsed) and found.event_ms == TODAY_MS + 4000
    assert set(json.loads(value)) == {"user", "at", "tags", "more"}


@pytest.mark.parametrize(
    "stream",
    [
        spec.stream
        for spec in load_specs()[0]
        if not isinstance(Project.imported().declaration(spec.stream), LandingJob)
    ],
)
def test_every_made_up_record_of_a_shipped_stream_is_an_event(stream: str) -> None:
    records, config = Records(stream), config_of(stream)
    key = records.job.key.name
    values = made_values(stream, records.fields, key, {})
    rate = Rate(
        per_second=1, speed=1, began_ms=1_767_225_600_000, key=key, keys=2, values=values, delay_ms=1000
    )
    for offset in range(200):
        value = rate.record(config.topic, offset).value() or b""
        assert not records.rejects(value), value
