"""The verdict on what a checkpoint holds and what code and YAML declare."""

from __future__ import annotations

import copy
import json
from dataclasses import replace
from pathlib import Path

import pytest

from stateward.runtime.api.any_job import writing
from stateward.runtime.api.state_step import StateStep
from stateward.runtime.ingest.packed_format import bucket_of
from stateward.state.compatibility.descriptor import describe
from stateward.state.compatibility.verdict import judge
from tests.support.state.verdict_pairs import (
    EVOLVES,
    KEY_STEP,
    MIGRATE,
    NEVER,
    PAIRS,
    REMOVED,
    RETYPED,
    SAME,
    Pair,
)
from tests.unit.state.compatibility.test_descriptor import config_of, job_of


@pytest.mark.parametrize("pair", PAIRS, ids=[pair.name for pair in PAIRS])
def test_the_verdict_on_a_pair(pair: Pair, tmp_path: Path) -> None:
    job, config = job_of(pair.stream), config_of(pair.stream, tmp_path)
    before = copy.deepcopy(describe(job, config))
    now = copy.deepcopy(describe(replace(job, **pair.job), config_of(pair.stream, tmp_path, **pair.config)))
    pair.before(before)
    pair.now(now)
    texts = [json.dumps(one) for one in (before, now)]

    verdict = judge(before, now)

    assert verdict.level == pair.level, verdict
    assert verdict.allows_start == (pair.level in (SAME, EVOLVES))
    assert [finding.what for finding in verdict.findings[:1]] == ([pair.what] if pair.what else [])
    for finding in verdict.findings:
        assert finding.before != finding.now
        assert finding.consequence
        assert finding.ways_out or finding.level == EVOLVES, "a finding that stops a start has a way out"
    assert json.loads(json.dumps(verdict.as_json()))["level"] == pair.level
    assert [json.dumps(one) for one in (before, now)] == texts, "a verdict changes nothing"


def test_a_new_checkpoint_takes_any_code(tmp_path: Path) -> None:
    assert judge(None, describe(job_of("raw_events"), config_of("raw_events", tmp_path))).level == SAME


def test_the_worst_finding_is_the_verdict_and_comes_first(tmp_path: Path) -> None:
    job = job_of("device_lifecycle")
    before = describe(job, config_of("device_lifecycle", tmp_path))
    changes = {"emission": "eager", "state_buckets": 3, "topic": "readings", "state_partitions": 9}
    verdict = judge(before, describe(job, config_of("device_lifecycle", tmp_path, **changes)))
    assert [finding.level for finding in verdict.findings] == [NEVER, MIGRATE, EVOLVES, EVOLVES]
    assert verdict.level == NEVER


def test_a_step_without_a_function_accepts_loss_and_not_failure(
    tmp_path: Path,
) -> None:
    job, config = job_of("device_lifecycle"), config_of("device_lifecycle", tmp_path)
    before = describe(job, config)
    as_it_is = (StateStep(1, "runtime_ms was never read"),)
    dropped = replace(job, state_type=REMOVED, state_version=2, state_steps=as_it_is)
    assert judge(before, describe(dropped, config)).level == EVOLVES

    retyped = replace(job, state_type=RETYPED, state_version=2, state_steps=as_it_is)
    verdict = judge(before, describe(retyped, config))
    assert verdict.level == MIGRATE
    assert "give a step from 1 to 2 a function for states" in verdict.findings[0].ways_out


def test_with_other_buckets_most_keys_are_looked_up_elsewhere() -> None:
    keys = [f"device-{number}" for number in range(1000)]
    moved = sum(bucket_of(key, 64) != bucket_of(key, 48) for key in keys)
    assert moved > 500


def test_a_key_that_moves_names_the_verb_that_moves_it(tmp_path: Path) -> None:
    job, config = job_of("device_lifecycle"), config_of("device_lifecycle", tmp_path)
    before = describe(job, config)
    (finding,) = judge(before, describe(replace(job, key_version=2, key_steps=(KEY_STEP,)), config)).findings
    assert finding.ways_out[0] == "run `stateward state migrate`, which moves every key"
    (finding,) = judge(before, describe(replace(job, key_version=2), config)).findings
    assert finding.consequence.endswith("missing 1 -> 2")
    assert finding.ways_out[0].startswith("declare KeyStep(1, ...)")


def test_an_optional_table_comes_and_goes_where_no_operator_does(tmp_path: Path) -> None:
    declared = job_of("device_lifecycle")
    job = replace(declared, outputs=declared.outputs[:1], optional_outputs=declared.outputs[1:])
    table, config = job.optional_outputs[0].table.name, config_of("device_lifecycle", tmp_path)
    without, with_it = describe(job, config), describe(writing(job, config.tables), config)
    come, gone = judge(without, with_it), judge(with_it, without)
    assert [(one.level, one.what) for one in (*come.findings, *gone.findings)] == [
        (EVOLVES, f"the output table {table}")
    ] * 2
    # Without the option the code no longer has the table, and nothing says that this is meant.
    assert judge(with_it, describe(replace(job, optional_outputs=()), config)).level == MIGRATE


def test_an_optional_table_of_a_native_stream_needs_its_operators(tmp_path: Path) -> None:
    job, config = job_of("event_windows"), config_of("event_windows", tmp_path)
    (ordered,) = job.optional_outputs
    without, with_it = describe(job, config), describe(writing(job, [ordered.table.name]), config)
    assert with_it["operators"][: len(without["operators"])] == without["operators"]
    for verdict in (judge(without, with_it), judge(with_it, without)):
        assert verdict.level == NEVER
        assert "the plan's operators" in [finding.what for finding in verdict.findings]
