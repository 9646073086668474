"""The notes of an inspection. What it measures is in tests/spark/state/inspection."""

from __future__ import annotations

import pytest

from stateward.state.reader.measures import Timers, Variable, timers
from stateward.state.reader.retained_batches import Retained
from stateward.state.verbs.inspect import _notes

FOUND = Retained("s", "file:///c/g0001", (1, 2), 2, 0, 0)


@pytest.mark.parametrize(
    ("rows", "of_keys", "notes"),
    [(3, None, 1), (3, timers([5], 0), 0), (0, None, 0)],
    ids=["unknown", "known", "no_keys"],
)
def test_timers_are_missed_only_where_there_are_keys(rows: int, of_keys: Timers | None, notes: int) -> None:
    keys = Variable(0, "tws", "keys", "the newest state of each key", rows, 0, 0, "json", timers=of_keys)
    assert sum("timers" in note for note in _notes(FOUND, [keys], 0, has_times=True)) == notes
