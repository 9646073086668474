"""A lease on an object store: one of two claims is accepted, or the storage is refused."""

from __future__ import annotations

import errno
import re
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any
from urllib.error import HTTPError

import pytest
from deltalake import CommitProperties, DeltaTable, write_deltalake
from deltalake.exceptions import CommitFailedError
from fsspec.implementations.memory import MemoryFileSystem

from stateward.contract import storage
from stateward.contract.lease import read_lease
from stateward.contract.process_identity import ProcessIdentity
from stateward.runtime.lease.lease import Lease, LeaseHeldError, UnsafeStorageError
from stateward.runtime.lease.lease_keeper import LeaseKeeper
from tests.support.object_store import ObjectStore, object_store
from tests.support.waiting import PATIENCE_S, wait_until

NOW = datetime(2026, 1, 31, 12, 0, tzinfo=UTC)
URI = "s3://bucket/data/leases/users"


class Objects(MemoryFileSystem):  # type: ignore[misc]
    """The same bucket, as the documents' library sees it."""

    protocol = "s3"
    cachable = False

    def __init__(self, bucket: ObjectStore) -> None:
        super().__init__()
        self._bucket = bucket

    def exists(self, path: str, **_: Any) -> bool:
        return any(key == path or key.startswith(f"{path}/") for key in self._bucket.listed())

    def pipe_file(self, path: str, value: bytes, mode: str = "overwrite", **_: Any) -> None:
        """As s3fs, which has a server's 412 as an invalid argument."""
        try:
            self._bucket.write(path, value, only_if_absent=mode == "create")
        except HTTPError as error:
            raise OSError(errno.EINVAL, "412") from error

    def cat_file(self, path: str, **_: Any) -> bytes:
        return self._bucket.read(path)

    def rm_file(self, path: str) -> None:
        self._bucket.remove(path)

    def rm(self, path: str, recursive: bool = False, **_: Any) -> None:
        for key in self._bucket.listed():
            if key.startswith(f"{path}/"):
                self._bucket.remove(key)


@pytest.fixture(params=[True])
def bucket(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[ObjectStore]:
    with object_store(has_conditions=request.param) as served:
        for name, value in served.environment.items():
            monkeypatch.setenv(name, value)
        objects = Objects(served)
        monkeypatch.setattr(
            storage, "filesystem_at", lambda uri: (objects, uri.removeprefix("s3://bucket/").rstrip("/"))
        )
        yield served


class Clock:
    """A clock that tests move."""

    def __init__(self) -> None:
        self.now = NOW

    def __call__(self) -> datetime:
        return self.now


def lease(run_id: str, clock: Clock | None = None) -> Lease:
    holder = ProcessIdentity("other/boot/pid:[1]", 7, 1.0)
    return Lease(URI, stream="users", run_id=run_id, holder=holder, ttl_ms=20_000, clock=clock or Clock())


def test_one_holder_at_a_time(bucket: ObjectStore) -> None:
    first, second = lease("first"), lease("second")
    assert first.acquire().epoch == 1
    with pytest.raises(LeaseHeldError, match="held by run first"):
        second.acquire()
    first.renew()
    first.check()
    first.release()
    assert second.acquire().epoch == 2
    held = read_lease(URI)
    assert held is not None and held.run_id == "second"
    # Whatever was tried beside the table is gone.
    assert {key.split("/")[2] for key in bucket.listed()} == {"users", "users-history"}


def test_of_two_claims_of_one_version_the_later_one_fails(bucket: ObjectStore) -> None:
    one = lease("one")
    one.acquire()
    last = max(key for key in bucket.listed() if re.fullmatch(r".*/_delta_log/\d{20}\.json", key))
    # As if another host had committed the next version, after this one has read the last.
    changed = DeltaTable(URI)
    bucket.write(f"{last[:-25]}{int(last[-25:-5]) + 1:020d}.json", bucket.read(last))
    with pytest.raises(CommitFailedError):
        write_deltalake(
            changed,
            changed.to_pyarrow_table(),
            mode="overwrite",
            commit_properties=CommitProperties(max_commit_retries=0),
        )


def test_a_write_whose_answer_is_lost_is_its_own(bucket: ObjectStore) -> None:
    one = lease("one")
    # The Delta writer repeats the write, which then finds its own version.
    bucket.lose("/users/_delta_log/00000000000000000001.json")
    assert one.acquire().epoch == 1
    bucket.lose("/users/_delta_log/00000000000000000002.json")
    one.renew()
    one.check()
    held = read_lease(URI)
    assert held is not None and (held.run_id, held.epoch) == ("one", 1)


def test_a_server_that_refuses_takes_no_lease_away_and_is_named(bucket: ObjectStore) -> None:
    clock = Clock()
    one = lease("one", clock)
    one.acquire()
    clock.now = NOW + timedelta(minutes=5)
    keeper = LeaseKeeper(one, renew_ms=1000, clock=clock)
    # Its eleven tries.
    bucket.refuse(11)
    keeper.start()
    wait_until(lambda: keeper.trouble, PATIENCE_S, "the renewal fails")
    assert "503 Service Unavailable" in keeper.trouble and "\n" not in keeper.trouble
    wait_until(lambda: not keeper.trouble, PATIENCE_S, "it is renewed")
    keeper.stop()
    assert keeper.lost is None
    held = read_lease(URI)
    assert held is not None and held.renewed_at == clock.now


@pytest.mark.parametrize("bucket", [False], indirect=True)
def test_storage_that_would_accept_both_of_two_claims_is_refused(bucket: ObjectStore) -> None:
    with pytest.raises(UnsafeStorageError, match="users: expected storage that writes an object only where"):
        lease("first").acquire()
    assert bucket.listed() == [], "no lease is left that would protect nothing"
