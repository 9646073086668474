"""The values that the fields of made-up records have."""

from __future__ import annotations

from dataclasses import replace

import pytest

from stateward.project.project import Project
from stateward.project.spec import load_specs
from stateward.runtime.api.landing_job import LandingJob
from stateward.runtime.api.record_fields import EVENT_TIME, Field
from stateward.runtime.kafka.rate import Rate
from stateward.testing.declarations import Records, config_of
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
