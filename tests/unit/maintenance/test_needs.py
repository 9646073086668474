"""Who refers to which version of a table, as storage has it."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import write_deltalake

from stateward.maintenance.needs import savepoint_needs, validation_needs
from stateward.maintenance.retention import Need
from stateward.project.layout import Layout
from stateward.state.savepoints import manifest
from stateward.state.savepoints.manifest import Manifest, TableAt

NOW = datetime(2026, 1, 10, tzinfo=UTC)
SAVEPOINT = "20260105T040000Z"


@pytest.fixture
def layout(tmp_path: Path) -> Layout:
    return Layout(tmp_path, f"file://{tmp_path}/data")


def folder(layout: Layout, savepoint: str = SAVEPOINT) -> Path:
    path = Path(f"{layout.savepoints_uri('visits')}/{savepoint}".removeprefix("file://"))
    path.mkdir(parents=True)
    return path


def savepoint(layout: Layout) -> Path:
    """A savepoint as the verb writes it: of an own table, a shared one, and one that was not there yet."""
    tables = {
        "visits": TableAt("file:///t/visits", 17, "id-of-visits"),
        "batch_counts": TableAt("file:///t/batch_counts", 4000, "id-of-counts", {"g": 3}),
        "alerts": TableAt("file:///t/alerts", None, None),
    }
    path = folder(layout)
    made = Manifest(
        stream="visits",
        savepoint=SAVEPOINT,
        made_at="2026-01-05T04:00:00Z",
        reason="",
        code={},
        yaml="",
        configuration={},
        generation=1,
        query_id="g",
        last_batch=3,
        watermark_ms=0,
        initial={},
        next={},
        partitions=1,
        state_version=None,
        schemas=(),
        tables=tables,
        files=(),
    )
    manifest.write(made, f"file://{path}")
    return path


def test_a_savepoint_needs_the_versions_that_a_restore_goes_back_to(layout: Layout) -> None:
    savepoint(layout)

    found = savepoint_needs(layout, NOW)

    assert found.by_table_id == {"id-of-visits": (Need(17, f"savepoint {SAVEPOINT} of visits"),)}
    assert found.in_doubt == {}


@pytest.mark.parametrize("content", ["{", "[]", json.dumps({"tables": {"visits": {"version": 3}}})])
def test_a_savepoint_that_cannot_be_read_puts_its_stream_in_doubt(layout: Layout, content: str) -> None:
    (savepoint(layout) / "manifest.json").write_text(content)

    [reason] = savepoint_needs(layout, NOW).in_doubt.values()

    assert SAVEPOINT in reason
    assert "stateward state prune visits" in reason


@pytest.mark.parametrize(("age", "doubted"), [(timedelta(hours=3), True), (timedelta(days=2), False)])
def test_a_savepoint_in_the_making_puts_its_stream_in_doubt_for_a_day(
    layout: Layout, age: timedelta, doubted: bool
) -> None:
    folder(layout, f"{NOW - age:%Y%m%dT%H%M%SZ}")

    assert bool(savepoint_needs(layout, NOW).in_doubt) is doubted


def test_an_operation_that_changes_tables_puts_its_stream_in_doubt(layout: Layout) -> None:
    savepoint(layout)
    current = Path(f"{layout.checkpoint_uri('visits')}/current.json".removeprefix("file://"))
    current.parent.mkdir(parents=True)
    current.write_text(json.dumps({"pending": {"verb": "restore"}}))

    assert "did not end" in savepoint_needs(layout, NOW).in_doubt["visits"]


def test_what_validations_rest_on_is_needed_for_as_long_as_their_table_says(layout: Layout) -> None:
    def row(table: str, versions: tuple[int, int], days: int, **reads: int) -> dict[str, object]:
        return {
            "table": table,
            "table_id": f"id-{table}",
            "from_version": versions[0],
            "table_version": versions[1],
            "reads": json.dumps(
                {name: {"uri": "", "table_id": f"id-{name}", "version": at} for name, at in reads.items()}
            ),
            "validated_at": NOW - timedelta(days=days),
        }

    rows = [
        row("visits", (4, 5), 3, counts=8),
        row("visits", (4, 5), 4),
        row("visits", (0, 5), 40),
        row("visits", (0, 2), 9),
        row("alerts", (0, 7), 3, counts=9),
    ]
    write_deltalake(layout.table_uri("quality_validations"), pa.Table.from_pylist(rows))
    kept = {"visits": timedelta(days=5), "alerts": timedelta(days=1)}

    found = validation_needs(layout, NOW, kept)

    why = "the validation of 2026-01-07 00:00 UTC"
    assert found == {"id-visits": [Need(5, why), Need(3, why)], "id-counts": [Need(8, why)]}


def test_nothing_is_needed_where_nothing_is(layout: Layout) -> None:
    assert savepoint_needs(layout, NOW).by_table_id == {}
    assert validation_needs(layout, NOW, {"visits": timedelta(days=5)}) == {}
