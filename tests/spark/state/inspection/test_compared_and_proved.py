"""One drained checkpoint: comparisons, damage, and proofs that must fail."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from stateward.runtime.checkpoint.checkpoint import Checkpoint
from stateward.runtime.checkpoint.generations import UNFINISHED
from stateward.state.errors import StateError
from stateward.state.files.checkpoint_copy import CopyError, checksums_of
from stateward.state.files.checkpoint_integrity import UnsoundCheckpointError
from stateward.state.inspection.comparison import KEYS, State
from stateward.state.inspection.masker import Masker
from stateward.state.partitions import repartition as verb
from stateward.state.partitions.repartition import ProofError, RepartitionFailedError, repartition
from stateward.state.reader.stores import StateReadError
from stateward.state.verbs.compare import compare
from stateward.state.verbs.inspect import inspect
from tests.support.full import ci_full, only_full
from tests.support.kafka.broker import RunningBroker
from tests.support.small_disk import small_disk
from tests.support.spark.launches import FRAUD_WATCH, Launch
from tests.support.spark.running_query import running
from tests.support.streams.payments import payments

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


@ci_full
def test_a_state_equals_itself_and_differs_from_an_earlier_one(drained: Path, spark: SparkSession) -> None:
    now = State(f"file://{drained}")
    first = State(now.checkpoint_uri, 1)

    assert compare(spark, now, State(now.checkpoint_uri), silent).equal
    assert compare(spark, now, now, silent, by="keys").equal
    found = compare(spark, first, now, silent, samples=2, masker=Masker(shows_all=True))

    assert not found.equal
    names = {difference.variable.rpartition(", ")[2]: difference for difference in found.differences}
    assert names.keys() == {"head", "log", "timers"}
    assert names["head"].changed > 0
    for difference in found.differences:
        total = difference.only_left + difference.only_right + difference.changed
        assert len(difference.samples) == min(total, 2), difference
        assert all(sample.left != sample.right for sample in difference.samples)

    in_full, shown = (
        compare(spark, first, now, silent, by="keys", samples=10_000, masker=masker)
        for masker in (Masker(shows_all=True), Masker())
    )
    assert "account-" not in repr(shown) and repr(shown).count("ac***(") > 0
    [keys] = [difference for difference in in_full.differences if difference.variable == KEYS]
    assert keys.only_left > 0 and keys.only_right > 0
    assert all("account-" in sample.key for sample in keys.samples)
    assert len(keys.samples) == keys.only_left + keys.only_right + keys.changed


Damage = Callable[[Path], object]


def truncate(path: Path) -> None:
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


def newest(folder: Path, suffix: str) -> Path:
    return max(folder.glob(f"state/0/1/*.{suffix}"), key=lambda path: int(path.stem))


def remove_snapshots(folder: Path) -> None:
    """And the changes before them, as maintenance does, so that no start is left."""
    for path in (*folder.glob("state/0/1/*.zip"), folder / "state/0/1/1.changelog"):
        path.unlink()


@pytest.mark.parametrize(
    ("damage", "kind", "message"),
    [
        pytest.param(
            lambda folder: truncate(newest(folder, "changelog")),
            StateReadError,
            r"Checksum error: .*/state/0/1/\d+\.changelog",
            id="a truncated file",
        ),
        pytest.param(
            remove_snapshots,
            StateReadError,
            r"java\.nio\.file\.NoSuchFileException: /\S+/state/0/1/1\.changelog \(",
            id="no snapshot",
            marks=only_full,
        ),
        pytest.param(
            lambda folder: newest(folder, "changelog").unlink(),
            StateReadError,
            r"java\.nio\.file\.NoSuchFileException: /\S+/state/0/1/\d+\.changelog \(",
            id="no changes",
            marks=only_full,
        ),
        pytest.param(
            lambda folder: shutil.rmtree(folder / "state/0/_metadata"),
            StateReadError,
            "expected metadata of 1 operators, found none of 0",
            id="no metadata",
            marks=ci_full,
        ),
        pytest.param(
            lambda folder: (folder / f"commits/{Checkpoint(str(folder)).last_committed()}").unlink(),
            UnsoundCheckpointError,
            "expected a drained checkpoint",
            id="no commit",
            marks=ci_full,
        ),
    ],
)
def test_damage_is_reported_before_anything_is_written(
    damage: Damage, kind: type[Exception], message: str, *, copy: Path, tmp_path: Path, spark: SparkSession
) -> None:
    damage(copy)
    uri = f"file://{copy}"
    files = checksums_of(uri)
    target = f"file://{tmp_path}/target"
    looks: list[Callable[[], object]] = [lambda: repartition(spark, uri, target, 5, silent)]
    if kind is StateReadError:
        looks.append(lambda: compare(spark, State(uri), State(uri), silent))
        looks.append(lambda: inspect(spark, uri, "fraud_watch", samples=0))
    for look in looks:
        with pytest.raises(StateError) as error:
            look()
        assert uri in str(error.value) and re.search(message, str(error.value))
        assert "\n" not in str(error.value)
    assert not (tmp_path / "target").exists()
    after = checksums_of(uri)
    assert set(files) <= set(after)
    # A task that Spark ends because another one failed may leave a partial file, which is never read.
    assert all(re.search(r"\.tmp(\.crc)?$", file.path) for file in set(after) - set(files))


def pages(folder: Path) -> int:
    """What the files of a folder take on a disk of 4 KiB pages."""
    return sum(-(-path.stat().st_size // 4096) for path in folder.rglob("*") if path.is_file()) * 4096


def test_a_disk_that_fills_up_during_the_copy(drained: Path, tmp_path: Path, spark: SparkSession) -> None:
    files = checksums_of(f"file://{drained}")
    with small_disk(tmp_path / "disk", pages(drained) // 2) as disk:
        with pytest.raises(CopyError, match=r"No space left on device.* The original is unchanged"):
            repartition(spark, f"file://{drained}", f"file://{disk}/target", 3, silent)
        assert not (disk / "target").exists(), "the disk is still full"
    assert checksums_of(f"file://{drained}") == files


@ci_full
def test_a_disk_that_fills_up_during_sparks_repartition(
    drained: Path, tmp_path: Path, spark: SparkSession
) -> None:
    source, target = f"file://{drained}", f"file://{tmp_path}/disk/target"
    files = checksums_of(source)
    with small_disk(tmp_path / "disk", pages(drained) + 10 * 4096) as disk:
        with pytest.raises(RepartitionFailedError) as error:
            repartition(spark, source, target, 3, silent)
        assert "No space left on device" in str(error.value)
        assert (disk / "target" / UNFINISHED).exists()
        assert checksums_of(source) == files
        subprocess.run(["mount", "-o", "remount,size=64m", str(disk)], check=True)
        assert repartition(spark, source, target, 3, silent).changed


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


def test_a_changed_state_fails_the_proof(
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
    assert "found last batch 2 with 3 partitions" in str(error.value)
    assert "log: " in str(error.value)
    assert "with another value" in str(error.value)
