"""Look at a state, move it, and go on: the verbs of `stateward state` in a row on one stream."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from stateward.runtime.api.key_logic import masked_key
from stateward.runtime.checkpoint import generations
from stateward.runtime.checkpoint.checkpoint import Checkpoint
from stateward.state.errors import StateError
from stateward.state.partitions.bucket_places import partition_sizes
from tests.support.full import ci_full
from tests.support.kafka.broker import RunningBroker
from tests.support.spark.running_query import running
from tests.support.state.operations import new_launch, operate
from tests.support.streams.oracle import difference, expected_rows, found_rows
from tests.support.streams.payments import QUIET, payments

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark


@ci_full
def test_a_state_is_looked_at_and_repartitioned_and_the_stream_goes_on(
    tmp_path: Path, broker: RunningBroker, spark: SparkSession
) -> None:
    sent = payments(seed=5, accounts=60)
    launch = new_launch(tmp_path, broker, "verbs")
    half = len(sent.records) // 2
    launch.send(sent.records[:half])
    with running(launch, spark, "run-1", checkpoint_uri=launch.checkpoint) as query:
        query.settle()
        keys = query.state_rows()
        query.drain()
    assert keys > 0

    assert operate(launch, "verdict").data["level"] == "compatible"
    inspected = operate(launch, "inspect", show_keys=True)
    assert inspected.whole_page.startswith("<!DOCTYPE html>")
    found = inspected.data["size"]["keys"]
    assert found > 0
    named = inspected.data["variables"][0]["largest"][0]["key"]
    explained = operate(launch, "explain", key=named)
    assert explained.data["entries"], f"{named} is among the largest keys, so it has a state"
    for shown in (explained.whole_page, json.dumps(explained.data), " ".join(explained.lines)):
        assert named not in shown and masked_key(named) in shown
    in_full = operate(launch, "explain", key=named, show_keys=True)
    assert named in in_full.whole_page and named in in_full.lines[0]
    made_from_the_account = re.compile(r"\b[0-9a-f]{32}\b")
    assert made_from_the_account.search(in_full.whole_page)
    assert not made_from_the_account.search(explained.whole_page)
    assert operate(launch, "explain", key="unknown").data["entries"] == ()

    saved = operate(launch, "savepoint", reason="before").data["savepoint"]
    with pytest.raises(StateError, match="expected two states"):
        operate(launch, "compare")
    advised = operate(launch, "advise").data
    assert (advised["measured"]["partitions"], advised["measured"]["keys"]) == (2, found)
    look, measured = advised["look"], advised["measured"]
    assert sum(measured["partition_bytes"]) == measured["state_bytes"] == look["state_bytes"]
    assert (look["state_version"], look["old_versions"], look["buckets"]) == (1, [], measured["buckets"])
    as_advised = operate(launch, "repartition", dry_run=True)
    assert f"{advised['partitions']} is what `advise` proposes." in as_advised.lines
    would = operate(launch, "repartition", dry_run=True, partitions=5)
    assert "would go from 2 to 5 partitions" in would.lines[0]
    assert generations.current(launch.uri("checkpoint")).number == 1
    assert operate(launch, "repartition", partitions=2).data["changed"] is False
    moved = operate(launch, "repartition", partitions=5)
    assert (moved.data["partitions_before"], moved.data["partitions_after"]) == (2, 5)
    assert generations.current(launch.uri("checkpoint")).number == 2
    # Where Spark puts each bucket is known before it does.
    now = operate(launch, "advise").data["measured"]["partition_bytes"]
    assert list(now) == partition_sizes("event", measured["bucket_bytes"], 5)
    assert operate(launch, "compare", right=saved).is_good
    assert operate(launch, "compare", right=saved, by_key=True).is_good
    assert operate(launch, "inspect").data["size"]["keys"] == found
    # Other buckets than the YAML declares are in force from here on.
    assert f"{launch.buckets} buckets become 96" in operate(launch, "migrate", buckets=96).lines[0]
    assert operate(launch, "migrate").data == {"changed": False}
    assert operate(launch, "inspect").data["size"]["keys"] == found
    assert operate(launch, "verdict").is_good

    launch.send(sent.records[half:])
    changes: dict[str, Any] = {
        "checkpoint_uri": launch.checkpoint,
        "state_partitions": 2,
        "state_buckets": 96,
    }
    with running(launch, spark, "run-2", **changes) as query:
        query.settle()
        query.tick(sent.last + QUIET)
        assert query.state_rows() == 0
        query.drain()
    assert difference(found_rows(launch), expected_rows(launch, sent.events)) == {}
    assert Checkpoint(launch.checkpoint).state_partitions() == 5
    assert not operate(launch, "compare", right=saved).is_good
    differing = operate(launch, "compare", right=saved, by_key=True)
    assert differing.data["differences"] and "account-" not in json.dumps(differing.data)
    in_full = operate(launch, "compare", right=saved, by_key=True, show_keys=True)
    assert "account-" in json.dumps(in_full.data)
