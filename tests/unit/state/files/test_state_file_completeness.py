"""Missing files of a state, for each way in which Spark stores it."""

from __future__ import annotations

import json
import zipfile
from collections.abc import Mapping
from pathlib import Path

import pytest

from stateward.state.errors import StateError
from stateward.state.files.state_file_completeness import missing_files, require_whole_state


class State:
    """The state of one operator in a checkpoint.

    Args:
        folder: The checkpoint.
        operator: Spark's name of the operator.
        stores: Names of its stores.
        partitions: Number of partitions in its metadata.
    """

    def __init__(
        self,
        folder: Path,
        operator: str = "transformWithStateInPySparkExec",
        stores: tuple[str, ...] = ("default",),
        partitions: int = 2,
    ) -> None:
        self.folder = folder
        metadata = {
            "operatorInfo": {"operatorId": 0, "operatorName": operator},
            "stateStoreInfo": [{"storeName": store, "numPartitions": partitions} for store in stores],
        }
        self.put("state/0/_metadata/metadata", f"v1\n{json.dumps(metadata)}")

    def put(self, path: str, text: str = "") -> None:
        file = self.folder / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)

    def commit(self, *batches: int) -> None:
        for batch in batches:
            self.put(f"commits/{batch}", 'v1\n{"nextBatchWatermarkMs":0}')

    def commit_named(self, batch: int, ids: list[list[str]]) -> None:
        self.put(f"commits/{batch}", f"v2\n{json.dumps({'stateUniqueIds': {'0': ids}})}")

    def zipped(self, path: str, metadata: Mapping[str, object]) -> None:
        file = self.folder / path
        file.parent.mkdir(parents=True, exist_ok=True)
        with zipfile.ZipFile(file, "w") as archive:
            archive.writestr("CURRENT", "MANIFEST-000005")
            archive.writestr("metadata", f"v1\n{json.dumps(metadata)}")

    def missing(self, *removed: str) -> list[str]:
        """The files reported missing without some files, which are put back afterwards."""
        for path in removed:
            (self.folder / path).rename(self.folder / "aside")
        found = missing_files(f"file://{self.folder}")
        for path in removed:
            (self.folder / "aside").rename(self.folder / path)
        return found


@pytest.fixture
def rocksdb(tmp_path: Path) -> State:
    """Batch 3 is the last; one partition has a snapshot after batch 1, the other none."""
    made = State(tmp_path)
    made.commit(0, 1, 2, 3)
    for version in (1, 2, 3, 4):
        made.put(f"state/0/0/{version}.changelog")
        made.put(f"state/0/1/{version}.changelog")
    parts = {
        "sstFiles": [{"localFileName": "000034.sst", "dfsSstFileName": "000034-b3.sst", "sizeBytes": 9}],
        "logFiles": [{"localFileName": "000004.log", "dfsLogFileName": "000004-b3.log", "sizeBytes": 1}],
    }
    made.zipped("state/0/0/2.zip", parts)
    made.put("state/0/0/SSTs/000034-b3.sst")
    made.put("state/0/0/logs/000004-b3.log")
    return made


def test_a_complete_state_has_no_missing_files(rocksdb: State) -> None:
    assert rocksdb.missing() == []
    require_whole_state("s", f"file://{rocksdb.folder}")


@pytest.mark.parametrize("path", ["0/1.changelog", "0/2.changelog"])
def test_changelogs_before_the_last_snapshot_may_be_removed(path: str, rocksdb: State) -> None:
    assert rocksdb.missing(f"state/0/{path}") == []


@pytest.mark.parametrize(
    ("path", "named"),
    [
        ("0/3.changelog", "state/0/0/3.changelog or state/0/0/3.zip"),
        ("0/4.changelog", "state/0/0/4.changelog or state/0/0/4.zip"),
        ("1/1.changelog", "state/0/1/1.changelog or state/0/1/1.zip"),
        ("1/4.changelog", "state/0/1/4.changelog or state/0/1/4.zip"),
        ("0/SSTs/000034-b3.sst", "state/0/0/SSTs/000034-b3.sst"),
        ("0/logs/000004-b3.log", "state/0/0/logs/000004-b3.log"),
    ],
)
def test_each_missing_file_is_reported_by_name(path: str, named: str, rocksdb: State) -> None:
    assert rocksdb.missing(f"state/0/{path}") == [named]


def test_a_missing_snapshot_is_reported_unless_all_changelogs_exist(rocksdb: State) -> None:
    assert rocksdb.missing("state/0/0/2.zip") == []
    (rocksdb.folder / "state/0/0/1.changelog").unlink()
    assert rocksdb.missing("state/0/0/2.zip") == ["state/0/0/1.changelog or state/0/0/1.zip"]


def test_a_truncated_snapshot_is_reported(rocksdb: State) -> None:
    file = rocksdb.folder / "state/0/0/2.zip"
    file.write_bytes(file.read_bytes()[:-30])
    assert rocksdb.missing() == ["state/0/0/2.zip that can be read"]


def test_a_missing_partition_folder_is_reported(rocksdb: State) -> None:
    assert rocksdb.missing("state/0/1") == ["state/0/1/4.changelog or state/0/1/4.zip"]


def test_the_error_names_the_missing_file_and_the_remedy(rocksdb: State) -> None:
    (rocksdb.folder / "state/0/1/4.changelog").unlink()
    with pytest.raises(StateError) as error:
        require_whole_state("s", f"file://{rocksdb.folder}")
    assert str(error.value) == (
        f"stream s: expected the whole state of batch 3 in file://{rocksdb.folder}, found no "
        "state/0/1/4.changelog or state/0/1/4.zip. Put the removed files back, or restore an intact "
        "savepoint (`stateward state restore`)."
    )


def test_snapshots_of_every_version_need_no_changelog(tmp_path: Path) -> None:
    made = State(tmp_path, partitions=1)
    made.commit(0, 1)
    for version in (1, 2):
        made.zipped(f"state/0/0/{version}.zip", {"sstFiles": []})
    assert made.missing("state/0/0/1.zip") == []
    # No changelog leads from the first version to the second.
    assert made.missing("state/0/0/2.zip") == ["state/0/0/2.changelog or state/0/0/2.zip"]


def test_the_commit_selects_among_tasks_that_wrote_the_same_version(tmp_path: Path) -> None:
    made = State(tmp_path)
    for batch in (1, 2):
        made.commit_named(batch, [[f"a{batch}"], [f"b{batch}"]])
    for partition, one in enumerate("ab"):
        # The commit of batch 0 no longer exists.
        made.zipped(f"state/0/{partition}/1_{one}0.zip", {})
        for version in (2, 3):
            made.put(f"state/0/{partition}/{version}_{one}{version - 1}.changelog")
    made.put("state/0/1/3_of-a-task-that-died.changelog")
    assert made.missing() == []
    assert made.missing("state/0/1/3_b2.changelog") == ["state/0/1/3_b2.changelog or state/0/1/3_b2.zip"]
    assert made.missing("state/0/0/1_a0.zip") == ["state/0/0/1.changelog or state/0/0/1.zip"]


def test_deltas_and_snapshots_of_a_store_in_memory(tmp_path: Path) -> None:
    made = State(tmp_path, partitions=1)
    made.commit(0, 1, 2)
    for version in (1, 2, 3):
        made.put(f"state/0/0/{version}.delta")
    made.put("state/0/0/2.snapshot")
    assert made.missing("state/0/0/1.delta") == []
    assert made.missing("state/0/0/3.delta") == ["state/0/0/3.delta or state/0/0/3.snapshot"]


@pytest.mark.parametrize("operator", ["symmetricHashJoin", "stateStoreSave"])
def test_built_in_operators_are_not_checked(operator: str, tmp_path: Path) -> None:
    made = State(tmp_path, operator, partitions=5)
    made.commit(0)
    made.put("state/0/0/1.changelog")
    assert made.missing() == []


def test_a_stream_without_state_has_no_missing_files(tmp_path: Path) -> None:
    assert missing_files(f"file://{tmp_path}") == []
    (tmp_path / "commits").mkdir()
    (tmp_path / "commits" / "0").write_text("v1\n{}")
    assert missing_files(f"file://{tmp_path}") == []
