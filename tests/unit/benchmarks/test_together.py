"""What `benchmarks.together` waits for, and the counts that it checks. There is no platform here."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import write_deltalake

from benchmarks import together
from stateward.contract.names import QUALITY_VALIDATIONS
from tests.support.control.installation import Installation
from tests.support.control.live_stream import LiveStream

COUNTS = {"accepted": 7, "dead": 1, "late": 2, "duplicates": 0}


@pytest.fixture
def installation(tmp_path: Path) -> Installation:
    return Installation.in_folder(tmp_path)


def write(installation: Installation, table: str, *rows: dict[str, object]) -> None:
    write_deltalake(installation.layout.table_uri(table), pa.Table.from_pylist(rows), mode="append")


def validated(installation: Installation, table: str, version: int) -> None:
    row = {"stream": "s", "table": table, "table_version": version}
    write(installation, QUALITY_VALIDATIONS, row)


def test_the_platform_of_another_checkout_is_run_by_its_command_in_its_folder(tmp_path: Path) -> None:
    command = tmp_path / "stateward"
    command.write_text('#!/bin/sh\npwd\necho "$STATEWARD_PROJECT" "$1"\n')
    command.chmod(0o755)
    other = Installation.in_folder(tmp_path / "home", command=str(command), project=tmp_path)
    assert other.must_run("up").split() == [str(tmp_path), str(tmp_path), "up"]


def test_a_table_is_validated_when_its_version_is(installation: Installation) -> None:
    versions = {("s", "sessions"): 0, ("s", "alerts"): 2}
    assert together._not_validated(installation, versions) == ["sessions", "alerts"]
    validated(installation, "sessions", 3)
    validated(installation, "alerts", 1)
    assert together._not_validated(installation, versions) == ["alerts"]
    validated(installation, "alerts", 2)
    validated(installation, "alerts", 0)
    assert together._not_validated(installation, versions) == []


def test_tables_have_as_many_rows_as_the_records_make(installation: Installation) -> None:
    write(installation, "sessions", {"n": 1}, {"n": 2})
    write(installation, "alerts", {"n": 1})
    expected = {"s": {**COUNTS, "rows": {"sessions": 2, "alerts": 3}}, "t": {"unknown": "by its clock"}}
    assert together._wrong_counts(installation, expected) == {"alerts": "3 rows expected, 1 found"}


@pytest.mark.parametrize(
    ("status", "counts", "said"),
    [
        (COUNTS, COUNTS, ""),
        ({**COUNTS, "accepted": 6}, COUNTS, "'accepted': 6"),
        ({}, COUNTS, "None"),
        ({"lag_records": 0}, {"unknown": "by its clock"}, ""),
        ({"lag_records": 4}, {}, "lag 4"),
    ],
)
def test_a_stream_has_read_all_when_its_counts_are_those_of_the_records(
    installation: Installation,
    monkeypatch: pytest.MonkeyPatch,
    status: dict[str, int],
    counts: dict[str, int],
    said: str,
) -> None:
    monkeypatch.setattr(LiveStream, "status", lambda _: status)
    found = together._unread(LiveStream("s", installation), counts)
    assert said in found if said else found == ""
