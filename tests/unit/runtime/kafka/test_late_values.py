"""The ranges of a topic that are read again for late records."""

from __future__ import annotations

from stateward.runtime.checkpoint.offsets import Range
from stateward.runtime.kafka.late_values import range_groups


def test_records_that_lie_close_are_read_together_and_others_by_themselves() -> None:
    places = {(0, 5), (0, 1004), (0, 2005), (2, 7)}
    assert list(range_groups(places, "t")) == [
        [Range("t", 0, 5, 1005), Range("t", 2, 7, 8)],
        [Range("t", 0, 2005, 2006)],
    ]


def test_no_record_no_read() -> None:
    assert list(range_groups(set(), "t")) == []
