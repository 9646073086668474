"""What each kind of batch job is submitted with."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from stateward.cli.streams.validate import other_problems
from stateward.control.jobs.batch_job import spark_command
from stateward.control.jobs.job_resources import (
    JobKind,
    JobResourcesError,
    Submitted,
    load_batch_jobs,
    submitted,
)
from stateward.project.settings import CHECKOUT, Settings
from stateward.project.spec import StreamSpec, load_spec
from tests.support.small_spec import small_spec

MASTER = "spark://host:7077"
ONE = {"spark.executor.cores": "1", "spark.executor.memory": "1g", "spark.cores.max": "1"}
KINDS: tuple[JobKind, ...] = ("validation", "state_operation", "reconciliation", "backfill", "try")


def settings_of(folder: Path, text: str | None) -> Settings:
    streams = folder / "include" / "streams"
    streams.mkdir(parents=True)
    if text is not None:
        (folder / "include" / "batch_jobs.yaml").write_text(text)
    return Settings(home=folder / "home", streams=streams, jars=folder / "jars")


def spec_of(settings: Settings, **spark: Any) -> StreamSpec:
    return small_spec(settings.streams, spark=spark)


@pytest.mark.parametrize("kind", KINDS)
def test_the_shipped_file_has_the_defaults(kind: JobKind) -> None:
    assert (CHECKOUT / "include" / "batch_jobs.yaml").is_file()
    assert submitted(kind, load_spec("user_sessions"), Settings(), MASTER) == Submitted("1g", ONE)


@pytest.mark.parametrize("text", [None, "", "defaults: {}\n"])
def test_by_default_a_job_takes_one_core_and_the_memory_of_the_streams_driver(
    tmp_path: Path, text: str | None
) -> None:
    settings = settings_of(tmp_path, text)
    spec = spec_of(settings, driver_memory="3g", executors=8, executor_memory="9g")
    assert submitted("backfill", spec, settings, MASTER) == Submitted("3g", ONE)
    assert submitted("validation", None, settings, MASTER) == Submitted("1g", ONE)
    assert submitted("try", spec, settings, "local[2]") == Submitted("3g", {})


TEXT = """
defaults: {executor_memory: 2g, conf: {spark.a: all, spark.b: all}}
jobs:
  backfill: {executors: 4, driver_memory: 2g, conf: {spark.b: kind, spark.c: kind}}
streams:
  small:
    backfill: {executor_cores: 2, conf: {spark.c: own, spark.d: own}}
"""


def test_the_stream_goes_before_the_kind_and_the_kind_before_the_defaults(tmp_path: Path) -> None:
    settings = settings_of(tmp_path, TEXT)
    spec = spec_of(settings, conf={"spark.d": "driver"})
    assert submitted("backfill", spec, settings, MASTER) == Submitted(
        "2g",
        {
            "spark.executor.cores": "2",
            "spark.executor.memory": "2g",
            "spark.cores.max": "8",
            "spark.a": "all",
            "spark.b": "kind",
            "spark.c": "own",
            "spark.d": "driver",
        },
    )
    assert submitted("validation", None, settings, "yarn").conf == {
        "spark.executor.cores": "1",
        "spark.executor.memory": "2g",
        "spark.executor.instances": "1",
        "spark.a": "all",
        "spark.b": "all",
    }


def test_a_state_operation_is_submitted_with_the_streams_own_settings(tmp_path: Path) -> None:
    settings = settings_of(tmp_path, "jobs: {state_operation: {executors: 3}}\n")
    (settings.jars / "spark").mkdir(parents=True)
    (settings.jars / "spark" / "one.jar").touch()
    spec = spec_of(settings, conf={"spark.hadoop.fs.x": "y"})
    command = spark_command(
        "state", "uri", kind="state_operation", name="n", spec=spec, settings=settings, master=MASTER
    )
    given = {command[at + 1] for at, part in enumerate(command) if part == "--conf"}
    assert {"spark.hadoop.fs.x=y", "spark.cores.max=3"} <= given


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("jobs: {vacuum: {executors: 1}}\n", ("yaml:1: jobs.vacuum", "'validation'", "spark-and-storage")),
        ("jobs:\n  try: {execs: 1}\n", ("yaml:2: jobs.try.execs", "one of driver_memory, executors")),
        ("streams:\n  small:\n    try: {cores: 1}\n", ("yaml:3: streams.small.try.cores", "executor_cores")),
        ("defaults: {executor_memory: 1 GB}\n", ("yaml:1: defaults.executor_memory", "text of the form")),
        ('defaults: {conf: {spark.cores.max: "x"}}\n', ("yaml:1: defaults.conf", "a whole number")),
        ("streams: {smal: {}}\n", ("yaml:1: streams.smal", "the name of a stream of the project")),
        ("jobs: [\n", ("batch_jobs.yaml", "YAML")),
    ],
)
def test_what_is_wrong_is_named_with_its_line(tmp_path: Path, text: str, parts: tuple[str, ...]) -> None:
    settings = settings_of(tmp_path, text)
    spec_of(settings)
    with pytest.raises(JobResourcesError) as raised:
        load_batch_jobs(settings, {"small"})
    for part in parts:
        assert part in str(raised.value)
    assert str(raised.value) in list(other_problems(settings))
