"""Records that are read again get the rows of the versions with which they were read."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from deltalake import DeltaTable

from stateward.recompute.lookups import LookedUp, gone_explained
from stateward.recompute.request import BackfillError
from stateward.runtime.checkpoint.lookup_versions import LookupVersions, VersionHistory
from stateward.runtime.delta.lookup_tables import LookupTable, TableVersion, newest
from tests.support.streams.purchases import JOB, category, next_version


def source_of(folder: Path) -> LookupTable:
    return LookupTable(
        "purchases", JOB.lookups[0], f"file://{folder}/merchants", "merchant_id", ("category",)
    )


def history(*known: tuple[int, TableVersion]) -> VersionHistory:
    found = [LookupVersions({"t": {0: begin}}, {"merchants": at}) for begin, at in known]
    return VersionHistory([json.dumps(one.to_json()) for one in found])


def test_each_record_gets_the_rows_of_its_version(tmp_path: Path) -> None:
    source = source_of(tmp_path)
    known = []
    for begin in (0, 5):
        next_version(source.uri)
        known.append((begin, newest(source)))
    next_version(source.uri)
    looked_up = LookedUp((source,), history(*known))

    def found(offset: int) -> str:
        (rows,) = looked_up.at("t", 0, offset)
        return str(rows["merchants"]["bakery"].category)

    assert [found(offset) for offset in (0, 4, 5, 99, 1)] == [
        category("bakery", version) for version in (0, 0, 1, 1, 0)
    ]
    assert looked_up.at("t", 0, 1) == looked_up.at("t", 0, 2)
    (rows,) = LookedUp((source,), VersionHistory([])).at("t", 0, 0)
    assert rows["merchants"]["bakery"].category == category("bakery", 2), "a stream without a history"


def test_a_version_that_is_gone_is_explained_whole(tmp_path: Path) -> None:
    source = source_of(tmp_path)
    next_version(source.uri)
    known = newest(source)
    next_version(source.uri)
    DeltaTable(source.uri).vacuum(0, enforce_retention_duration=False, dry_run=False)

    with pytest.raises(BackfillError) as caught, gone_explained():
        try:
            LookedUp((source,), history((0, known))).at("t", 0, 0)
        except Exception as error:
            # As it comes out of Spark.
            raise RuntimeError(f"Job aborted: Traceback ...\n{error}\n{' '.join(error.__notes__)}") from None
    assert str(caught.value).startswith("stream purchases, lookup merchants: expected version 0 of the table")
    assert source.uri in str(caught.value)
    assert "choose a later range" in str(caught.value)


def test_any_other_error_stays_as_it_is() -> None:
    with pytest.raises(KeyError), gone_explained():
        raise KeyError("x")
