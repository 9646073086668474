"""Ids of rows."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from stateward.runtime.api.key_logic import row_id

PARTS = st.lists(st.text("\x00\x01a1", max_size=4), min_size=3, max_size=3).map(tuple)


@given(PARTS, PARTS)
def test_other_parts_make_another_identity(one: tuple[str, ...], other: tuple[str, ...]) -> None:
    assert (row_id(*one) == row_id(*other)) == (one == other)


def test_two_users_do_not_share_a_row() -> None:
    assert row_id("u", 5, "7\x00e") != row_id("u\x005", 7, "e")


def test_identities_of_plain_texts_stay_what_they_were() -> None:
    assert row_id("u1", 1_700_000_000_000, "e-7") == "30a6b403a091cec46d48159e0eb3ec6e"
    assert row_id("", "") == "6e340b9cffb37a989ca544e6bb780a2c"
