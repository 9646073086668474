"""The descriptor of a checkpoint, and what Spark's own files add to it."""

from __future__ import annotations

import hashlib
import importlib
import json
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from msgspec import structs

from spark_jobs.device_lifecycle.declaration import JOB as DEVICES
from spark_jobs.device_lifecycle.model import DeviceReading
from stateward.control.launchers.launch import resolved_configuration
from stateward.project.settings import Settings
from stateward.project.spec import load_specs
from stateward.runtime.api.config import Config, parse_config
from stateward.runtime.api.state_step import StateStep
from stateward.state.compatibility.descriptor import (
    combined,
    declared_buckets,
    describe,
    read_descriptor,
    with_buckets_of,
    with_declared_buckets,
    write_descriptor,
)
from stateward.state.compatibility.findings import Level
from stateward.state.compatibility.start import StateRefusedError, judge_start, note_start, require_start

SPECS, _ = load_specs()


def config_of(stream: str, folder: Path, **changes: Any) -> Config:
    spec = next(spec for spec in SPECS if spec.stream == stream)
    document = resolved_configuration(spec, Settings(home=folder), "run-1")
    return parse_config({**document, "checkpoint_uri": f"file://{folder}/checkpoint", **changes}, "test")


def job_of(stream: str) -> Any:
    return importlib.import_module(f"spark_jobs.{stream}.declaration").JOB


def planned(config: Config, folder: Path, *, partitions: int = 2, operators: int = 1) -> Path:
    """A checkpoint as written by Spark, with the files that describe its state."""
    checkpoint = folder / "checkpoint"
    store = "spark.sql.streaming.stateStore"
    conf = {
        f"{store}.providerClass": "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider",
        f"{store}.encodingFormat": "avro",
        "spark.sql.shuffle.partitions": str(partitions),
    }
    metadata = {"batchWatermarkMs": 0, "batchTimestampMs": 1, "conf": conf}
    offsets = {topic: {"0": 3} for topic in (*config.topics, config.tick_topic)}
    lines = ["v1", json.dumps(metadata), json.dumps(offsets)]
    _write(checkpoint / "metadata", '{"id":"5f0c4f3c-9bb0-4f5e-8a53-0e2f4d1f9a10"}')
    _write(checkpoint / "offsets" / "4", "\n".join(lines))
    _write(checkpoint / "commits" / "4", 'v1\n{"nextBatchWatermarkMs":0}')
    variables = [("head", "ValueState"), ("log", "MapState"), ("$eventTimers_keyToTimestamp", "TimerState")]
    properties = {
        "timeMode": "EventTime",
        "outputMode": "Append",
        "stateVariables": [
            {"stateName": name, "stateVariableType": kind, "ttlEnabled": False} for name, kind in variables
        ],
    }
    operator = {
        "operatorInfo": {"operatorId": 0, "operatorName": "transformWithStateInPySparkExec"},
        "stateStoreInfo": [{"storeName": "default", "numColsPrefixKey": 0, "numPartitions": partitions}],
        "operatorPropertiesJson": json.dumps(properties),
    }
    struct = {"type": "struct", "fields": [{"name": "entries", "type": "binary", "nullable": True}]}
    for number in range(operators):
        at = checkpoint / "state" / str(number)
        _write(at / "_metadata" / "v2" / "0", f"v2\n{json.dumps(operator)}")
        content = (
            b"\x00\x02v3\x00\x03log\x00\x00" + json.dumps(struct, separators=(",", ":")).encode() + b"\x00"
        )
        _write(at / "_stateSchema" / "default" / "0_5b1c", content)
    return checkpoint


def _write(path: Path, content: str | bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content if isinstance(content, bytes) else content.encode())


def checksums(folder: Path) -> dict[str, str]:
    return {
        str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in folder.rglob("*")
        if path.is_file()
    }


@pytest.mark.parametrize("stream", [spec.stream for spec in SPECS])
def test_every_stream_is_described_the_same_each_time(stream: str, tmp_path: Path) -> None:
    texts = set()
    for _ in range(2):
        found = describe(job_of(stream), config_of(stream, tmp_path))
        texts.add(json.dumps(found, sort_keys=True))
    assert len(texts) == 1
    assert json.loads(texts.pop()) == found, "it is plain JSON"
    assert found["outputs"].keys() == {output.table.name for output in job_of(stream).outputs}


def test_a_keyed_stream_is_described_with_its_types(tmp_path: Path) -> None:
    found = describe(DEVICES, config_of("device_lifecycle", tmp_path))
    schema = found["state"]["schemas"]["1"]
    fields = {field["name"]: field for field in schema["state"]["fields"]}
    assert (schema["state"]["by"], schema["event"]["by"]) == ("name", "position")
    assert fields["error_codes"] == {"name": "error_codes", "type": {"array": "str"}, "default": []}
    key = {"name": "device_id", "kind": "text", "version": 1, "rule": None, "steps": {}}
    assert found["key"] == key
    assert found["outputs"]["device_status"]["current_by"] == ["device_id"]
    assert found["logic"]["offline_after_ms"] == 3_600_000
    assert found["spark"]["variables"]["log"] == {"type": "MapState", "ttl": False}


def test_a_native_stream_is_described_with_its_operators(tmp_path: Path) -> None:
    found = describe(job_of("event_windows"), config_of("event_windows", tmp_path))
    assert found["operators"][0] == "groupBy('user_id', F.window('event_time', size, slide))"
    assert len(found["operators"]) == 4
    assert (found["spark"]["encoding"], found["fields"]["value"]) == ("unsaferow", "number")


def test_a_driver_that_died_in_the_first_batch_has_left_no_state(tmp_path: Path) -> None:
    config = config_of("device_lifecycle", tmp_path)
    checkpoint = planned(config, tmp_path)
    assert read_descriptor(config.checkpoint_uri) is not None
    (checkpoint / "commits" / "4").unlink()
    assert read_descriptor(config.checkpoint_uri) is None
    shutil.rmtree(checkpoint / "state")
    assert read_descriptor(config.checkpoint_uri) is None


def test_without_a_planned_batch_there_is_no_state(tmp_path: Path) -> None:
    config = config_of("device_lifecycle", tmp_path)
    assert read_descriptor(config.checkpoint_uri) is None
    note_start(DEVICES, config)
    assert read_descriptor(config.checkpoint_uri) is None
    assert judge_start(DEVICES, config).level == Level.COMPATIBLE


def test_an_older_checkpoint_is_judged_by_sparks_files(tmp_path: Path) -> None:
    config = config_of("device_lifecycle", tmp_path)
    planned(config, tmp_path)
    found = read_descriptor(config.checkpoint_uri)
    assert found is not None
    assert (found["format"], found["kind"], found["topics"]) == (0, "keyed", ["device_readings"])
    (operator,) = found["spark"]["operators"]
    assert operator["variables"] == {
        "head": {"type": "ValueState", "ttl": False},
        "log": {"type": "MapState", "ttl": False},
    }
    assert operator["schemas"] == [["entries binary"]]
    verdict = require_start(DEVICES, config)
    assert [finding.what for finding in verdict.findings] == ["the checkpoint's descriptor"]
    other = config_of("device_lifecycle", tmp_path, topic="readings")
    assert judge_start(DEVICES, other).level == Level.INCOMPATIBLE
    landing = judge_start(job_of("event_windows"), config_of("event_windows", tmp_path))
    assert [finding.what for finding in landing.findings] == ["the kind of the stream"]


def test_the_verdict_does_not_change_the_checkpoint(tmp_path: Path) -> None:
    config = config_of("device_lifecycle", tmp_path)
    checkpoint = planned(config, tmp_path)
    note_start(DEVICES, config)
    before = checksums(checkpoint)
    assert "stateward.json" in before
    judge_start(DEVICES, config)
    with pytest.raises(StateRefusedError):
        require_start(DEVICES, structs.replace(config, state_buckets=7))
    assert checksums(checkpoint) == before

    note_start(DEVICES, config)
    assert checksums(checkpoint) == before, "an unchanged descriptor is not written again"


def test_partitions_are_those_that_spark_has(tmp_path: Path) -> None:
    config = config_of("device_lifecycle", tmp_path)
    planned(config, tmp_path)
    note_start(DEVICES, config)
    planned(config, tmp_path, partitions=5)  # a repartition
    (finding,) = judge_start(DEVICES, config).findings
    assert (finding.level, finding.before, finding.now) == (Level.EVOLVES, "5", "2")
    assert judge_start(DEVICES, structs.replace(config, state_partitions=5)).findings == ()


def test_buckets_of_a_migration_are_in_force_until_the_yaml_has_other_ones(tmp_path: Path) -> None:
    config = config_of("device_lifecycle", tmp_path)
    planned(config, tmp_path)
    uri = config.checkpoint_uri
    note_start(DEVICES, config)
    assert with_buckets_of(config, uri) == config
    migrated = describe(DEVICES, structs.replace(config, state_buckets=256))
    write_descriptor(uri, with_declared_buckets(migrated, config.state_buckets))
    for _ in range(2):  # the first start writes the descriptor again
        found = with_buckets_of(config, uri)
        assert found.state_buckets == 256
        require_start(DEVICES, found)
        note_start(DEVICES, found)
        assert declared_buckets(read_descriptor(uri) or {}, found) == 64
    other = structs.replace(config, state_buckets=32)
    assert with_buckets_of(other, uri) == other
    assert declared_buckets(read_descriptor(uri) or {}, other) == 32
    with pytest.raises(StateRefusedError, match="was 256, is 32"):
        require_start(DEVICES, other)


def test_a_refusal_has_causes_and_ways_out(tmp_path: Path) -> None:
    config = config_of("device_lifecycle", tmp_path)
    planned(config, tmp_path)
    note_start(DEVICES, config)
    with pytest.raises(StateRefusedError) as error:
        require_start(DEVICES, structs.replace(config, state_buckets=32, allowed_lateness_ms=1))
    assert str(error.value).startswith(
        "stream device_lifecycle: the state is not readable as it is (needs migration): the number of state "
        "buckets: was 64, is 32; keys are looked up in other buckets"
    )
    assert "ways out: put state.buckets back to 64" in str(error.value)
    assert str(error.value).endswith("`stateward state verdict device_lifecycle` shows 1 more.")


class Longer(NamedTuple):
    """A reading with one more field."""

    event_id: str
    event_ms: int
    status: str
    error_code: str | None = None
    room: str = ""


def test_a_checkpoint_remembers_the_versions_it_may_hold(tmp_path: Path) -> None:
    """A bucket that is not processed keeps its version, so a removed step is still required later."""
    config = config_of("device_lifecycle", tmp_path)
    planned(config, tmp_path)
    second = replace(DEVICES, event_type=Longer, state_version=2, state_steps=(StateStep(1, "first"),))
    third = replace(second, state_version=3, state_steps=(StateStep(2, "second"),))
    for job in (DEVICES, second):
        assert judge_start(job, config).allows_start
        note_start(job, config)

    found = read_descriptor(config.checkpoint_uri)
    assert found is not None
    assert set(found["state"]["schemas"]) == {"1", "2"}
    verdict = judge_start(third, config)
    assert verdict.level == Level.NEEDS_MIGRATION
    assert "missing 1 -> 2" in verdict.findings[0].consequence
    whole = replace(third, state_steps=(StateStep(1, "first"), StateStep(2, "second")))
    assert judge_start(whole, config).level == Level.EVOLVES
    assert judge_start(DEVICES, config).level == Level.INCOMPATIBLE, (
        "the older release cannot read it any more"
    )


def test_a_field_added_within_a_version_is_marked_absent(tmp_path: Path) -> None:
    config = config_of("device_lifecycle", tmp_path)
    before, now = describe(DEVICES, config), describe(replace(DEVICES, event_type=Longer), config)
    both = combined(before, now)
    fields = {one["name"]: one for one in both["state"]["schemas"]["1"]["event"]["fields"]}
    assert (fields["room"].get("absent"), fields["status"].get("absent")) == (True, None)
    assert combined(both, now) == both
    assert DeviceReading._fields == tuple(Longer._fields[:-1])


def test_the_document_is_replaced_whole(tmp_path: Path) -> None:
    config = config_of("device_lifecycle", tmp_path)
    write_descriptor(config.checkpoint_uri, describe(DEVICES, config))
    assert [path.name for path in (tmp_path / "checkpoint").iterdir()] == ["stateward.json"]
