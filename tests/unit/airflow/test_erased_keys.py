"""A key is erased from what Airflow's database has, and no other value is taken for it."""

from __future__ import annotations

import json

import pytest

from stateward.airflow.erased_keys import SECRETS, without


def test_the_key_of_forget_is_erased() -> None:
    assert SECRETS == ("forget_key",)


@pytest.mark.parametrize(
    ("found", "erased"),
    [
        ({"forget_key": "u-7", "verb": "forget"}, {"forget_key": "forgotten", "verb": "forget"}),
        (["state of u-7, u-70"], ["state of forgotten, u-70"]),
        (json.dumps({"conf": {"key": "u-7"}, "n": 7}), json.dumps({"conf": {"key": "forgotten"}, "n": 7})),
        ('{"conf":{"key":"u-70"}}', '{"conf":{"key":"u-70"}}'),
        ('{"broken u-7', '{"broken forgotten'),
        (None, None),
        (7, 7),
    ],
)
def test_a_value_is_erased_as_a_whole_word(found: object, erased: object) -> None:
    assert without(found, "u-7") == erased
