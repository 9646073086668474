"""With which versions of lookups each record was read, however the batches were cut."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from stateward.runtime.api.tables import BATCH_COUNTS
from stateward.runtime.checkpoint.batch_plan import PLAN, Plan, plan_from_json
from stateward.runtime.checkpoint.checkpoint import Checkpoint
from stateward.runtime.checkpoint.lookup_versions import LookupVersions, VersionHistory, versions_from
from stateward.runtime.checkpoint.offsets import Offsets
from stateward.runtime.delta.lookup_tables import TableVersion
from stateward.runtime.sink.ledger import BatchCounts, Ledger, recorded_lookups
from stateward.runtime.sink.output_rows import COUNT_NAMES

# Records read of each partition, and the version of the table.
BATCHES = st.lists(
    st.tuples(st.lists(st.integers(0, 4), min_size=1, max_size=3), st.integers(0, 3)), min_size=1
)


def test_a_plan_keeps_its_versions_and_one_without_is_written_as_before() -> None:
    plan = Plan({"t": {0: 5}}, lookups={"merchants": TableVersion(7, "id")})

    assert plan_from_json(json.loads(json.dumps(plan.to_json()))) == plan
    assert "lookups" not in Plan({"t": {0: 5}}).to_json()[PLAN]


@settings(deadline=None, max_examples=25)
@given(batches=BATCHES)
def test_every_record_has_the_versions_of_its_batch(
    batches: list[tuple[list[int], int]], tmp_path_factory: Any
) -> None:
    checkpoint = planned(tmp_path_factory.mktemp("checkpoint"), batches)
    found = [versions_from(checkpoint, batch) for batch in range(len(batches))]
    history = VersionHistory([json.dumps(one.to_json()) for one in found if one is not None])

    ends = [0, 0, 0]
    for counts, version in batches:
        for partition, count in enumerate(counts):
            for offset in range(ends[partition], ends[partition] + count):
                assert history.at("t", partition, offset) == {"merchants": TableVersion(version, "id")}
            ends[partition] += count


def test_the_versions_are_told_once_until_they_change(tmp_path: Path) -> None:
    checkpoint = planned(tmp_path, [([1, 0], 3), ([2, 2], 3), ([1, 1], 4)])
    found = [versions_from(checkpoint, batch) for batch in range(4)]

    assert [one and (one.begin, one.versions["merchants"].version) for one in found] == [
        ({"t": {0: 0, 1: 0}}, 3),
        None,
        ({"t": {0: 3, 1: 2}}, 4),
        None,
    ]


def test_the_first_version_counts_before_it_and_the_last_after_it(tmp_path: Path) -> None:
    checkpoint = planned(tmp_path, [([5, 5], None), ([5, 5], 3), ([5, 5], 4)])
    texts = [json.dumps(one.to_json()) for one in map(versions_from, [checkpoint] * 3, range(3)) if one]
    history = VersionHistory(texts)

    assert [history.at("t", 0, offset)["merchants"].version for offset in (0, 5, 9, 10, 99)] == [
        3,
        3,
        3,
        4,
        4,
    ]
    assert history.at("t", 7, 0)["merchants"].version == 4, "a partition that was added since"
    assert VersionHistory([]).at("t", 0, 0) == {}


def test_the_ledger_keeps_them_in_the_order_of_batches_and_of_this_generation(tmp_path: Path) -> None:
    uri = f"file://{tmp_path}/batch_counts"
    assert recorded_lookups(uri, "s", "g2", {}) == []
    BATCH_COUNTS.create(uri)
    for generation, batch, version in (("g1", 0, 1), ("g1", 3, 2), ("g2", 2, 3)):
        at = LookupVersions({"t": {0: batch}}, {"merchants": TableVersion(version, "id")})
        ledger = Ledger(uri, "s", generation)
        ledger.append(BatchCounts(batch, dict.fromkeys(COUNT_NAMES, 0), {}, 0, lookups=at), 1, "r")
    Ledger(uri, "s", "g2").append(BatchCounts(5, dict.fromkeys(COUNT_NAMES, 1), {}, 0), 1, "r")

    found = [json.loads(text) for text in recorded_lookups(uri, "s", "g2", {"g1": 1})]
    assert [(one["from"], one["versions"]["merchants"]["version"]) for one in found] == [
        ({"t": {"0": 0}}, 1),
        ({"t": {"0": 2}}, 3),
    ]


def test_a_generation_that_begins_with_its_first_batch_again_comes_after_the_one_before(
    tmp_path: Path,
) -> None:
    uri = f"file://{tmp_path}/batch_counts"
    BATCH_COUNTS.create(uri)
    for generation, batch, begin in (("g1", 0, 0), ("g1", 5, 10), ("g2", 1, 20)):
        at = LookupVersions({"t": {0: begin}}, {"merchants": TableVersion(begin, "id")})
        ledger = Ledger(uri, "s", generation)
        ledger.append(BatchCounts(batch, dict.fromkeys(COUNT_NAMES, 0), {}, 0, lookups=at), 1, "r")

    history = VersionHistory(recorded_lookups(uri, "s", "g2", {"g1": 7}))
    assert [history.at("t", 0, offset)["merchants"].version for offset in (0, 10, 20)] == [0, 10, 20]


def planned(
    folder: Path, batches: list[tuple[list[int], int | None]] | list[tuple[list[int], int]]
) -> Checkpoint:
    """A checkpoint with the plans of batches."""
    (folder / "offsets").mkdir(parents=True)
    checkpoint = Checkpoint(f"file://{folder}")
    offsets: Offsets = {"t": dict.fromkeys(range(len(batches[0][0])), 0)}
    checkpoint.write_initial_offsets(offsets)
    head = json.dumps({"batchWatermarkMs": 0, "batchTimestampMs": 0})
    for number, (counts, version) in enumerate(batches):
        read = {p: offsets["t"].get(p, 0) + count for p, count in enumerate(counts)}
        offsets = {"t": {**offsets["t"], **read}}
        lookups = {} if version is None else {"merchants": TableVersion(version, "id")}
        plan = json.dumps(Plan(offsets, lookups=lookups).to_json())
        (folder / "offsets" / str(number)).write_text("\n".join(["v1", head, plan]))
    return checkpoint
