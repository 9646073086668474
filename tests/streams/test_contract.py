"""Every stream of the project: its declaration, rows, tables, suites and YAML agree."""

from __future__ import annotations

from pathlib import Path

import pytest

from stateward.contract.stream_settings import StreamSettings
from stateward.project.project import Project
from stateward.project.settings import CHECKOUT, Settings
from stateward.project.spec import load_spec
from stateward.quality.suites.suite import load_suite
from stateward.runtime.api.stream_job import StreamJob
from stateward.testing.declarations import Records, check_fields, check_state, check_tables, config_of
from tests.support.spark.launches import stream as stream_of

PROJECT = Project.imported()
STREAMS = PROJECT.streams()
WITH_FIELDS = [stream for stream in STREAMS if hasattr(PROJECT.declaration(stream), "fields")]


@pytest.mark.parametrize("stream", STREAMS)
def test_the_yaml_names_the_tables_and_settings_that_the_code_has(stream: str) -> None:
    spec, job = load_spec(stream), PROJECT.declaration(stream)
    tables = {output.table.name: output.table for output in job.outputs}
    assert spec.tables == list(tables)
    assert spec.quality is not None and spec.quality.tables == spec.tables
    settings = Project.of(Settings()).settings(stream)
    assert settings is not None and issubclass(settings, StreamSettings)
    for name, table in tables.items():
        suite = CHECKOUT / "include" / "quality" / f"{name}.yaml"
        columns = {column.name for column in table.columns}
        found = load_suite(suite, table).expectations
        named = {column for one in found if one.column for column in one.column.split(", ")}
        assert named <= columns, f"{suite} names columns that {name} does not have"


@pytest.mark.parametrize("stream", WITH_FIELDS)
def test_records_are_events_or_dead_letters(stream: str) -> None:
    check_fields(Records(stream))


@pytest.mark.parametrize(
    "stream", [one for one in STREAMS if isinstance(PROJECT.declaration(one), StreamJob)]
)
def test_keyed_logic_takes_the_shipped_settings_and_its_state_is_kept_as_it_is(stream: str) -> None:
    job, config = PROJECT.declaration(stream), config_of(stream)
    assert job.logic(config) == job.logic(config)
    check_state(job)


@pytest.mark.parametrize("stream", STREAMS)
def test_rows_fit_their_tables(stream: str, tmp_path: Path) -> None:
    check_tables(stream_of(stream).in_full.job, tmp_path)
