"""Skipping records that Kafka has lost: the report, the unchanged state, and refusals."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import CommitProperties, Transaction, write_deltalake

from spark_jobs.raw_events.declaration import JOB as RAW_EVENTS
from stateward.contract import storage
from stateward.runtime.checkpoint.batch_plan import plan_from_json
from stateward.runtime.checkpoint.checkpoint import Checkpoint
from stateward.runtime.sink.ledger import Ledger
from stateward.runtime.telemetry.progress import Progress
from stateward.state.errors import StateError
from stateward.state.operation.answer import Answer
from stateward.state.operation.context import Context
from stateward.state.operation.journal import Journal
from stateward.state.verbs.skip import SkipVerb
from tests.support.state.installed_stream import ALERTS, NOW, STREAM, TICKS, Installed, Stage
from tests.support.state.restore_child import Death

TOPIC = "device_readings"


def three_batches_and_one_that_cannot_run(made: Installed) -> None:
    """Batch 3 is planned, and a partition wrote its state before the lost records were noticed."""
    for batch in range(3):
        made.run(batch)
    made.plan(3)
    made.put(made.path / "state/0/1/4.changelog", "of a batch that never came to be")


@pytest.fixture(scope="module")
def stage(tmp_path_factory: pytest.TempPathFactory) -> Stage:
    return Stage(tmp_path_factory.mktemp("skip"), three_batches_and_one_that_cannot_run)


@pytest.fixture
def installed(stage: Stage) -> Installed:
    made = stage.fresh()
    # Batch 2 ends at 30 and 9.
    made.kafka.begins[TOPIC] = {0: 35, 1: 4}
    return made


def context(installed: Installed, *, dry_run: bool = False) -> Context:
    return installed.context("skip", "op-1", {}, dry_run=dry_run)


def skipped(installed: Installed, *, dry_run: bool = False) -> Answer:
    return SkipVerb(context(installed, dry_run=dry_run)).run()


def files(folder: Path) -> dict[str, bytes]:
    found = (path for path in folder.rglob("*") if path.is_file())
    return {str(path.relative_to(folder)): path.read_bytes() for path in found}


def test_it_continues_after_lost_records_with_every_state_unchanged(installed: Installed) -> None:
    old = installed.path
    before, tables = files(old), installed.rows()
    done = skipped(installed)

    assert done.data["lost"] == 5
    assert done.listings[0].rows == [(TOPIC, 0, 30, 35, 5, None)]
    assert "after 5 records" in done.lines[0]
    assert "Batch 3" in done.lines[1]
    assert (installed.generation.number, files(old)) == (2, before)
    checkpoint = installed.checkpoint
    assert checkpoint.is_clean()
    assert (checkpoint.query_id(), checkpoint.last_planned()) == ("query-1", 2)
    planned, was = checkpoint.planned(2), Checkpoint(f"file://{old}").planned(2)
    assert planned is not None
    assert was is not None
    offsets = {TOPIC: {0: 35, 1: 9}, TICKS: {0: 3}}
    assert planned == replace(was, offsets=offsets, plan=replace(was.plan, offsets=offsets))

    after = files(installed.path)
    changed = {path for path in before.keys() | after.keys() if before.get(path) != after.get(path)}
    assert changed == {
        "offsets/2",
        "offsets/.2.crc",
        "offsets/3",
        "offsets/.3.crc",
        "state/0/1/4.changelog",
        "stateward/skipped.json",
        "state/0/_metadata/v2/0",  # it contains its own folder
        "state/0/_metadata/v2/.0.crc",
    }
    assert installed.rows() == tables


def test_what_was_passed_over_is_no_offset_without_a_record(installed: Installed) -> None:
    def without_record() -> int:
        uri = installed.config.tables["batch_counts"]
        checkpoint = installed.checkpoint
        ledger = Ledger(uri, STREAM, str(checkpoint.query_id()), checkpoint.earlier())
        found: int = Progress(checkpoint, ledger, installed.config.topics).resume()["without_record"]
        return found

    before = without_record()
    skipped(installed)
    assert without_record() == before == 0
    # A second gap; the first one stays recorded.
    installed.kafka.begins[TOPIC][1] = 11
    skip_again(installed)
    assert without_record() == before
    assert [(jump.partition, jump.begin, jump.end) for jump in installed.checkpoint.jumps()] == [
        (0, 30, 35),
        (1, 9, 11),
    ]


def skip_again(installed: Installed) -> Answer:
    later = context(installed)
    journal = Journal(f"file://{installed.folder}/data/operations/later.json", lambda: NOW)
    return SkipVerb(replace(later, journal=journal)).run()


def test_a_recreated_topic_is_read_from_its_beginning(installed: Installed) -> None:
    installed.kafka.begins[TOPIC] = {0: 0, 1: 0}
    installed.kafka.ends[TOPIC] = {0: 7, 1: 12}
    done = skipped(installed)
    assert done.listings[0].rows == [(TOPIC, 0, 30, 0, None, None)]
    assert "how many records were lost is not known" in done.lines[1]
    planned = installed.checkpoint.planned(2)
    assert planned is not None
    assert planned.offsets == {TOPIC: {0: 0, 1: 9}, TICKS: {0: 3}}


def test_a_longer_recreated_topic_is_read_from_its_beginning(
    installed: Installed,
) -> None:
    file = installed.path / "offsets" / "2"
    *head, line = file.read_text().splitlines()
    plan = replace(plan_from_json(json.loads(line)), ids={TOPIC: "an id of before"})
    file.write_text("\n".join([*head, json.dumps(plan.to_json())]))
    done = skipped(installed)
    assert done.listings[0].rows == [(TOPIC, 0, 30, 35, None, None), (TOPIC, 1, 9, 4, None, None)]
    planned = installed.checkpoint.planned(2)
    assert planned is not None
    assert (planned.offsets[TOPIC], planned.plan.ids) == ({0: 35, 1: 4}, {})


def test_landed_rows_do_not_mix_two_topics_of_one_name(
    installed: Installed, monkeypatch: pytest.MonkeyPatch
) -> None:
    installed.kafka.begins[TOPIC], installed.kafka.ends[TOPIC] = {0: 0, 1: 0}, {0: 7, 1: 12}
    monkeypatch.setattr(Context, "job", RAW_EVENTS)
    with pytest.raises(StateError, match=r"partition 0: .* found the end at 7.*known by their offsets"):
        skipped(installed)
    assert installed.generation.number == 1


def test_every_scan_of_a_query_continues_at_the_same_offsets(installed: Installed) -> None:
    for batch in (2, 3):
        file = installed.path / "offsets" / str(batch)
        text = file.read_text()
        file.write_text(f"{text}\n{text.splitlines()[2]}")
    skipped(installed)
    lines = (installed.path / "offsets" / "2").read_text().splitlines()[2:]
    assert len(lines) == 2
    assert {json.dumps(json.loads(line), sort_keys=True) for line in lines} == {
        json.dumps({TOPIC: {"0": 35, "1": 9}, TICKS: {"0": 3}}, sort_keys=True)
    }


def test_before_the_first_batch_it_starts_at_kafkas_first_offset(tmp_path: Path) -> None:
    installed = Installed(tmp_path)
    installed.plan(0)
    installed.kafka.begins[TOPIC] = {0: 3, 1: 0}
    skipped(installed)
    assert installed.checkpoint.last_planned() == -1
    assert installed.checkpoint.initial_offsets()[TOPIC] == {0: 3, 1: 0}


def test_without_a_gap_nothing_changes(installed: Installed) -> None:
    installed.kafka.begins[TOPIC] = {0: 30, 1: 0}
    done = skipped(installed)
    assert (done.data["changed"], installed.generation.number) == (False, 1)


def test_a_dry_run_reports_the_same_and_changes_nothing(installed: Installed) -> None:
    before = files(installed.folder / "data")
    would = skipped(installed, dry_run=True)
    after = {
        path: text for path, text in files(installed.folder / "data").items() if "operations/" not in path
    }
    assert after == {path: text for path, text in before.items() if "operations/" not in path}
    assert "would go on, as generation 2, after 5 records" in would.lines[0]
    assert would.listings == skipped(installed).listings


def a_table_has_its_rows(installed: Installed) -> None:
    rows = installed.rows_of(ALERTS, {"device_id": "d"})
    commit = CommitProperties(app_transactions=[Transaction(f"query-1:{ALERTS.name}", 3)])
    write_deltalake(installed.uri(ALERTS), rows, mode="append", commit_properties=commit)


def a_partition_is_gone(installed: Installed) -> None:
    del installed.kafka.begins[TOPIC][1], installed.kafka.ends[TOPIC][1]


def a_log_has_a_gap(installed: Installed) -> None:
    (installed.path / "commits/1").unlink()


@pytest.mark.parametrize(
    ("spoil", "words"),
    [
        (
            a_table_has_its_rows,
            r"expected batch 3 to have written nothing, found its rows in device_alerts",
        ),
        (a_partition_is_gone, "partition 1: expected the record 9, found no such partition"),
        (a_log_has_a_gap, "found no file for 1"),
    ],
)
def test_what_cannot_be_repaired_is_refused_and_nothing_changes(
    installed: Installed, spoil: Callable[[Installed], None], words: str
) -> None:
    spoil(installed)
    before = files(installed.path)
    with pytest.raises(StateError, match=words):
        skipped(installed)
    assert (installed.generation.number, files(installed.path)) == (1, before)
    assert not installed.path.with_name("g0002").exists()


def test_a_crash_at_any_point_keeps_the_old_and_a_retry_succeeds(stage: Stage) -> None:
    acts = 0
    while True:
        installed = stage.fresh()
        installed.kafka.begins[TOPIC] = {0: 35, 1: 4}
        asked = context(installed)
        with pytest.MonkeyPatch.context() as patch:
            die_after(patch, acts)
            try:
                SkipVerb(asked).run()
                died = False
            except Death:
                died = True
        done = SkipVerb(context(installed)).run()
        assert (done.data["lost"], installed.generation.number) == (5, 2)
        assert installed.checkpoint.is_clean()
        assert installed.checkpoint.skipped([TOPIC]) == 5
        acts += 1
        if not died:
            break
    assert acts > 4, "too few writes were intercepted"


def die_after(patch: pytest.MonkeyPatch, survives: int) -> None:
    left = [survives]
    write = storage.write_text

    def act(*arguments: Any) -> None:
        left[0] -= 1
        if left[0] < 0:
            raise Death
        write(*arguments)

    patch.setattr(storage, "write_text", act)


def test_it_reports_how_many_of_the_records_raw_events_has(installed: Installed) -> None:
    when = pa.scalar(NOW, pa.timestamp("us", "UTC"))
    offsets = [28, 29, 30, 31, 34, 35]
    count = len(offsets)
    rows = pa.table(
        {
            "topic": pa.repeat(TOPIC, count),
            "partition": pa.array([0] * count, pa.int32()),
            "offset": pa.array(offsets, pa.int64()),
            "record_timestamp": pa.repeat(when, count),
            "date": pa.repeat(pa.scalar(NOW.date()), count),
        }
    )
    write_deltalake(f"file://{installed.folder}/data/tables/raw_events", rows, partition_by=["date"])
    assert skipped(installed).listings[0].rows == [(TOPIC, 0, 30, 35, 5, 3)]
