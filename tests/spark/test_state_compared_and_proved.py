"""One drained checkpoint: compared, damaged, its repartition killed, and proofs that must not hold."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from spark_jobs.runtime.checkpoint import Checkpoint
from spark_jobs.state import repartition as verb
from spark_jobs.state.compare import KEYS, compare
from spark_jobs.state.comparing import State
from spark_jobs.state.copying import checksums_of
from spark_jobs.state.repartition import UNFINISHED, ProofError, repartition
from spark_jobs.state.soundness import UnsoundCheckpointError
from spark_jobs.state.stores import StateReadError
from tests.kafka_broker import RunningBroker
from tests.spark.launches import CHECKOUT, FRAUD_WATCH, JARS, Launch
from tests.spark.payments import payments
from tests.spark.running import running
from tests.waiting import wait_until

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark


def silent(step: str, state: str) -> None:
    pass


@pytest.fixture(scope="module")
def drained(tmp_path_factory: pytest.TempPathFactory, broker: RunningBroker, spark: SparkSession) -> Path:
    """A checkpoint with two partitions, after several batches; only to be read."""
    folder = tmp_path_factory.mktemp("drained")
    launch = Launch(folder, broker, "drained", partitions=2, stream=FRAUD_WATCH, buckets=8)
    broker.create_topic(launch.topic, launch.partitions)
    broker.create_topic(launch.document()["tick_topic"], 1)
    records = payments(seed=5, accounts=60).records
    with running(launch, spark) as query:
        for part in (records[: len(records) // 2], records[len(records) // 2 :]):
            launch.send(part)
            query.settle()
        query.drain()
    return folder / "checkpoint"


@pytest.fixture
def copy(drained: Path, tmp_path: Path) -> Path:
    """A copy of it, to be damaged."""
    return Path(shutil.copytree(drained, tmp_path / "copy"))


def test_a_state_equals_itself_and_differs_from_an_earlier_one(drained: Path, spark: SparkSession) -> None:
    now = State(f"file://{drained}")
    first = State(now.checkpoint_uri, 1)

    assert compare(spark, now, State(now.checkpoint_uri), silent).equal
    assert compare(spark, now, now, silent, by="keys").equal
    found = compare(spark, first, now, silent, samples=2)

    assert not found.equal
    names = {difference.variable.rpartition(", ")[2]: difference for difference in found.differences}
    assert names.keys() == {"head", "log", "timers"}
    assert names["head"].changed > 0
    for difference in found.differences:
        total = difference.only_left + difference.only_right + difference.changed
        assert len(difference.samples) == min(total, 2), difference
        assert all(sample.left != sample.right for sample in difference.samples)

    [keys] = [
        difference
        for difference in compare(spark, first, now, silent, by="keys", samples=10_000).differences
        if difference.variable == KEYS
    ]
    assert keys.only_left > 0 and keys.only_right > 0
    assert all("account-" in sample.key for sample in keys.samples)
    assert len(keys.samples) == keys.only_left + keys.only_right + keys.changed


Damage = Callable[[Path], object]


def truncate(path: Path) -> None:
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


def newest(folder: Path, suffix: str) -> Path:
    return max(folder.glob(f"state/0/1/*.{suffix}"), key=lambda path: int(path.stem))


def remove_snapshots(folder: Path) -> None:
    """And the changes before them, as maintenance does: nothing is left to begin from."""
    for path in (*folder.glob("state/0/1/*.zip"), folder / "state/0/1/1.changelog"):
        path.unlink()


@pytest.mark.parametrize(
    ("damage", "kind", "message"),
    [
        pytest.param(
            lambda folder: truncate(newest(folder, "changelog")),
            StateReadError,
            "the state in {uri} cannot be read",
            id="a truncated file",
        ),
        pytest.param(remove_snapshots, StateReadError, "the state in {uri} cannot be read", id="no snapshot"),
        pytest.param(
            lambda folder: newest(folder, "changelog").unlink(),
            StateReadError,
            "the state in {uri} cannot be read",
            id="no changes",
        ),
        pytest.param(
            lambda folder: shutil.rmtree(folder / "state/0/_metadata"),
            StateReadError,
            "the state in {uri} cannot be read",
            id="no metadata",
        ),
        pytest.param(
            lambda folder: (folder / f"commits/{Checkpoint(str(folder)).last_committed()}").unlink(),
            UnsoundCheckpointError,
            "{uri}: expected a drained checkpoint",
            id="no commit",
        ),
    ],
)
def test_damage_is_named_before_anything_is_written(
    damage: Damage, kind: type[Exception], message: str, *, copy: Path, tmp_path: Path, spark: SparkSession
) -> None:
    damage(copy)
    with pytest.raises(kind) as error:
        repartition(spark, f"file://{copy}", f"file://{tmp_path}/target", 5, silent)

    assert message.format(uri=f"file://{copy}") in str(error.value)
    assert "\n" not in str(error.value)
    assert not (tmp_path / "target").exists()


def test_a_key_in_another_partition_fails_the_proof(
    drained: Path, tmp_path: Path, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = verb.spark_repartition

    def swap(spark: SparkSession, uri: str, partitions: int) -> None:
        real(spark, uri, partitions)
        state = Path(uri.removeprefix("file://")) / "state/0"
        (state / "0").rename(state / "aside")
        (state / "1").rename(state / "0")
        (state / "aside").rename(state / "1")

    monkeypatch.setattr(verb, "spark_repartition", swap)
    with pytest.raises(ProofError, match=r"entries of operator 0 .*, log in another partition"):
        repartition(spark, f"file://{drained}", f"file://{tmp_path}/target", 3, silent)
    assert (tmp_path / "target" / UNFINISHED).exists()


def test_a_state_that_is_not_the_same_fails_the_proof(
    drained: Path, tmp_path: Path, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = verb.spark_repartition

    def of_an_earlier_batch(spark: SparkSession, uri: str, partitions: int) -> None:
        copy = Path(uri.removeprefix("file://"))
        for batch in range(2, Checkpoint(uri).last_committed() + 1):
            for log in ("offsets", "commits"):
                (copy / log / str(batch)).unlink()
                (copy / log / f".{batch}.crc").unlink(missing_ok=True)
        real(spark, uri, partitions)

    monkeypatch.setattr(verb, "spark_repartition", of_an_earlier_batch)
    with pytest.raises(ProofError) as error:
        repartition(spark, f"file://{drained}", f"file://{tmp_path}/target", 3, silent)
    assert "found batch 2 with 3 partitions as the last" in str(error.value)
    assert "log: " in str(error.value)
    assert "with another value" in str(error.value)


@pytest.mark.parametrize("step", ["copy", "repartition"])
def test_killed_in_the_middle_the_source_is_whole_and_the_next_attempt_succeeds(
    step: str, drained: Path, tmp_path: Path, spark: SparkSession
) -> None:
    source, target = f"file://{drained}", f"file://{tmp_path}/target"
    made = tmp_path / "target"
    files, batch = checksums_of(source), Checkpoint(source).last_committed()

    log = (tmp_path / "child.log").open("wb")
    dies_after = len(files) // 2 if step == "copy" else 0
    child = subprocess.Popen(
        [sys.executable, "-m", "tests.spark.repartition_child", source, target, "5", str(dies_after)],
        cwd=CHECKOUT,
        env={**os.environ, "STATEWARD_JARS": str(JARS), "PYTHONPATH": str(CHECKOUT)},
        stdout=log,
        stderr=subprocess.STDOUT,
        start_new_session=True,
    )
    try:
        if step == "repartition":
            planned = made / "offsets" / str(batch + 1)
            wait_until(planned.exists, 300, lambda: (tmp_path / "child.log").read_text()[-2000:], 0.002)
            os.killpg(child.pid, signal.SIGKILL)
        assert child.wait(300) == -signal.SIGKILL, (tmp_path / "child.log").read_text()[-2000:]
    finally:
        log.close()
        if child.poll() is None:
            os.killpg(child.pid, signal.SIGKILL)
            child.wait()

    assert (made / UNFINISHED).exists()
    if step == "repartition":
        assert not (made / "commits" / str(batch + 1)).exists(), "killed too late to show anything"
    else:
        assert len(checksums_of(target)) < len(files)
    assert checksums_of(source) == files

    done = repartition(spark, source, target, 5, silent)

    assert (done.partitions_after, done.batch_after) == (5, batch + 1)
    assert checksums_of(source) == files
    assert compare(spark, State(source), State(target), silent).equal
    assert not (made / UNFINISHED).exists()
