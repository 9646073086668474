"""Tables that streams share: each stream creates them, and several start at once."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from threading import Barrier

import pytest
from deltalake import DeltaTable

from stateward.runtime.api.tables import BATCH_COUNTS, Table
from stateward.runtime.delta.delta_tables import create_or_open, has_commit

# When eight streams create a table at once, usually one of them finds that another was first.
_STREAMS, _ROUNDS = 8, 8
EARLIER = replace(BATCH_COUNTS, columns=BATCH_COUNTS.columns[:4], nullable=())


def columns(uri: str) -> list[str]:
    return [field.name for field in DeltaTable(uri).schema().fields]


def test_a_table_that_is_there_is_left_as_it_is(tmp_path: Path) -> None:
    uri = str(tmp_path)
    for _ in range(2):
        BATCH_COUNTS.create(uri)
    found = DeltaTable(uri)
    assert found.version() == 0
    assert found.metadata().partition_columns == ["stream"]
    assert columns(uri) == [column.name for column in BATCH_COUNTS.columns]


def test_a_table_of_an_earlier_release_gets_the_columns_it_lacks(tmp_path: Path) -> None:
    uri = str(tmp_path)
    EARLIER.create(uri)
    assert len(columns(uri)) == 4
    BATCH_COUNTS.create(uri)
    assert columns(uri) == [column.name for column in BATCH_COUNTS.columns]


@pytest.mark.parametrize("before", [None, EARLIER], ids=["none", "of an earlier release"])
def test_streams_that_start_together_all_get_it(before: Table | None, tmp_path: Path) -> None:
    for number in range(_ROUNDS):
        uri = str(tmp_path / str(number))
        if before is not None:
            before.create(uri)
        gate = Barrier(_STREAMS)

        def start(uri: str = uri, gate: Barrier = gate) -> None:
            gate.wait()
            BATCH_COUNTS.create(uri)

        with ThreadPoolExecutor(_STREAMS) as pool:
            for started in [pool.submit(start) for _ in range(_STREAMS)]:
                started.result()
        assert columns(uri) == [column.name for column in BATCH_COUNTS.columns]


def test_a_commit_is_there_until_the_log_is_cleaned(tmp_path: Path) -> None:
    uri = str(tmp_path)
    table = create_or_open(uri, BATCH_COUNTS.schema(), name="t")
    assert has_commit(uri, table.version())
    assert not has_commit(uri, 1)
    (tmp_path / "_delta_log" / f"{0:020d}.json").unlink()
    assert not has_commit(uri, 0)
