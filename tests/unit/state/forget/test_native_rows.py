"""A text is found in Spark's row format, wherever the row begins, and no other text is taken for it."""

from __future__ import annotations

import struct

from hypothesis import given
from hypothesis import strategies as st

from stateward.state.forget.native_state import has_text

TEXTS = st.lists(st.one_of(st.text(max_size=20), st.integers(0, 2**40)), min_size=1, max_size=5)


def row_of(columns: list[str | int], before: bytes = b"") -> bytes:
    """A row as Spark writes it: a word of nulls, one for each column, and the texts in whole words."""
    words, texts = b"", b""
    fixed = 8 + 8 * len(columns)
    for column in columns:
        if isinstance(column, int):
            words += struct.pack("<q", column)
            continue
        encoded = column.encode()
        words += struct.pack("<ii", len(encoded), fixed + len(texts))
        texts += encoded + b"\0" * (-len(encoded) % 8)
    return before + b"\0" * 8 + words + texts


@given(TEXTS, st.binary(max_size=7), st.data())
def test_a_column_is_found(columns: list[str | int], before: bytes, data: st.DataObject) -> None:
    wanted = data.draw(st.text(min_size=1, max_size=12))
    at = data.draw(st.integers(0, len(columns)))
    row = row_of([*columns[:at], wanted, *columns[at:]], before)
    assert has_text(row, wanted.encode())


@given(st.text("ab", min_size=1, max_size=9), st.lists(st.text("ab", max_size=12), max_size=4))
def test_a_longer_text_is_not_taken_for_it(wanted: str, others: list[str]) -> None:
    row = row_of([other for other in others if other != wanted] or [1])
    assert not has_text(row, wanted.encode())
