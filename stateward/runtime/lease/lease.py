"""The lease of a checkpoint: one holder at a time, each with its own epoch.

The lease is a Delta table of one row. Every change overwrites that row as the version after the one that was
read, without retries, so the storage's put-if-absent decides between two claimants: one commits, the other
fails.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta

import pyarrow as pa
from deltalake import CommitProperties, DeltaTable, PostCommitHookProperties, write_deltalake
from deltalake.exceptions import CommitFailedError
from msgspec.structs import replace

from stateward.contract.conditions import Condition, ConditionError
from stateward.contract.lease import LeaseRecord, lease_schema, read_lease, record_in
from stateward.contract.process_identity import ProcessIdentity, host_identity
from stateward.contract.storage import has_put_if_absent, local_path, sync_disks
from stateward.runtime.delta.delta_tables import create_or_open, has_commit
from stateward.runtime.delta.table_repair import repair
from stateward.runtime.lease import lease_history

Clock = Callable[[], datetime]

_LOG = logging.getLogger(__name__)
_SCHEMA = lease_schema()
# The lease is renewed every few seconds for years: keep an hour of history, and clean up every few hundred
# commits. Opening the table reads all commits after the last checkpoint of its log: 16 ms for 98 commits, 7
# ms for eight.
_TABLE_CONFIGURATION = {
    "delta.logRetentionDuration": "interval 1 hours",
    "delta.deletedFileRetentionDuration": "interval 1 hours",
    "delta.checkpointInterval": "10",
}
_COMMITS_PER_CLEANUP = 400
_POLL_S = 0.5


class LeaseHeldError(ConditionError, RuntimeError):
    """Another driver holds the lease."""

    condition = Condition.LEASE_HELD

    def __init__(self, record: LeaseRecord) -> None:
        self.record = record
        holder = record.holder
        super().__init__(
            f"stream {record.stream}: the lease is held by run {record.run_id} "
            f"(process {holder.pid} on {holder.host}), epoch {record.epoch}, "
            f"until {record.expires_at.isoformat()}. Stop that driver first, or wait until its lease expires."
        )


class LeaseLostError(ConditionError, RuntimeError):
    """This driver no longer holds the lease and must not write."""

    condition = Condition.LEASE_LOST


class UnsafeStorageError(ConditionError, RuntimeError):
    """The storage would accept both of two claims."""

    condition = Condition.STORAGE_UNSAFE


def utc_now() -> datetime:
    """The current time, aware."""
    return datetime.now(UTC)


class Lease:
    """The lease of one stream, from the point of view of one process.

    Args:
        uri: The Delta table; created on first use.
        stream: Name of the stream.
        run_id: The launch that requests the lease.
        holder: The process that requests the lease.
        ttl_ms: How long a renewal is valid, milliseconds.
        clock: The time, aware.
        host: The host whose processes are visible; this one by default.
    """

    def __init__(
        self,
        uri: str,
        *,
        stream: str,
        run_id: str,
        holder: ProcessIdentity,
        ttl_ms: int,
        clock: Clock = utc_now,
        host: str | None = None,
    ) -> None:
        self._uri = uri
        self._stream = stream
        self._run_id = run_id
        self._holder = holder
        self._ttl = timedelta(milliseconds=ttl_ms)
        self._clock = clock
        self._host = host or host_identity()
        self._held: LeaseRecord | None = None
        self._held_version = -1

    @property
    def epoch(self) -> int:
        """The epoch of the held lease.

        Raises:
            LeaseLostError: The lease is not held.
        """
        return self._mine().epoch

    def read(self) -> LeaseRecord | None:
        """The stored record, or None if the lease was never acquired."""
        return read_lease(self._uri)

    def acquire(self, after: int = 0) -> LeaseRecord:
        """Acquire the lease with the next epoch.

        Args:
            after: The newest known epoch; after a deleted lease table epochs continue from it.

        Raises:
            LeaseHeldError: Another process holds it or acquired it first.
            UnsafeStorageError: The storage would accept both of two claims.
            OSError: The storage cannot be read or written.
        """
        repair(self._uri)
        self._require_put_if_absent()
        table = create_or_open(
            self._uri, _SCHEMA, name=f"lease {self._stream}", configuration=_TABLE_CONFIGURATION
        )
        version, current = table.version(), record_in(table)
        now = self._clock()
        if current is not None and current.holds(now, self._host):
            raise LeaseHeldError(current)
        claim = LeaseRecord(
            stream=self._stream,
            epoch=max(current.epoch if current else 0, after) + 1,
            run_id=self._run_id,
            holder=self._holder,
            acquired_at=now,
            renewed_at=now,
            expires_at=now + self._ttl,
            released=False,
        )
        try:
            _commit(self._uri, table, claim)
        except CommitFailedError:
            # The client repeats a write whose answer was lost, and then meets its own commit.
            if (winner := self.read()) != claim:
                raise LeaseHeldError(winner or claim) from None
        self._held, self._held_version = claim, version + 1
        lease_history.note(self._uri, "acquired", claim, now)
        return claim

    def acquire_when_expired(self, after: int = 0, pause: Callable[[float], object] = time.sleep) -> int:
        """Acquire the lease; wait for its end while its holder, whom this host cannot see, does not renew it.

        A driver that was killed on another host leaves its lease until it expires.

        Args:
            after: See `acquire`.
            pause: Waits for some seconds.

        Returns:
            The epoch.

        Raises:
            LeaseHeldError: Its holder lives here, renews it, or its clock is ahead by more than the lease's
                time.
        """
        seen, left_s = None, 0.0
        while True:
            try:
                return self.acquire(after).epoch
            except LeaseHeldError as error:
                record = error.record
                if seen is None:
                    left_s = (record.expires_at - record.renewed_at).total_seconds() + _POLL_S
                    _LOG.info("%s It is waited for at most %.0f s", error, left_s)
                is_here = record.holder.is_gone(self._host) is False
                if is_here or left_s <= 0 or seen not in (None, record):
                    raise
                seen = record
            pause(_POLL_S)
            left_s -= _POLL_S

    def renew(self) -> None:
        """Renew the lease.

        Raises:
            LeaseLostError: Another process holds it.
        """
        now = self._clock()
        self._change(replace(self._mine(), renewed_at=now, expires_at=now + self._ttl))

    def release(self) -> None:
        """Release the lease, so that the next holder need not wait; no effect if it is not held."""
        if self._held is None:
            return
        now = self._clock()
        try:
            self._change(replace(self._held, released=True, expires_at=now))
            lease_history.note(self._uri, "released", self._held, now)
        except LeaseLostError:
            _LOG.warning("stream %s: the lease was lost before it was released", self._stream)
        self._held = None

    def check(self) -> None:
        """Check that the lease is still held; called before every write.

        A new holder commits after our last commit. So while ours is the last, the lease is ours. After the
        lease has expired, a commit of another holder may have been cleaned up again. Then the record is read,
        as when our commit is not the last.

        Raises:
            LeaseLostError: The lease is no longer held.
        """
        if self.has_expired(self._clock()) or not self._is_last(self._held_version):
            self._require_mine(self.read())

    def _is_last(self, version: int) -> bool:
        return has_commit(self._uri, version) and not has_commit(self._uri, version + 1)

    def has_expired(self, now: datetime) -> bool:
        """Whether the last renewal has expired, so that another host may take over."""
        return self._mine().expires_at <= now

    def _require_put_if_absent(self) -> None:
        if local_path(self._uri) is not None or DeltaTable.is_deltatable(self._uri):
            return  # a lease that exists was created on storage that has it
        if not has_put_if_absent(self._uri):
            raise UnsafeStorageError(
                f"stream {self._stream}: expected storage that writes an object only where there is none (on"
                f" S3 by If-None-Match), found that {self._uri} replaces it. Two drivers could write one"
                " checkpoint there. Use storage or a gateway that honours conditional writes."
            )

    def _change(self, changed: LeaseRecord) -> None:
        table = DeltaTable(self._uri)
        version = table.version()
        self._require_mine(record_in(table))
        try:
            _commit(self._uri, table, changed)
        except CommitFailedError:
            # Its own commit, as in `acquire`.
            if (stored := self.read()) != changed:
                self._require_mine(stored)
                raise LeaseLostError(
                    f"stream {self._stream}: another process wrote the lease at the same time"
                ) from None
        self._held, self._held_version = changed, version + 1
        if table.version() % _COMMITS_PER_CLEANUP == 0:
            # Full, because a checkpoint of the log drops the names of removed files.
            table.vacuum(dry_run=False, full=True)

    def _mine(self) -> LeaseRecord:
        if self._held is None:
            raise LeaseLostError(f"stream {self._stream}: run {self._run_id} holds no lease")
        return self._held

    def _require_mine(self, stored: LeaseRecord | None) -> None:
        mine = self._mine()
        if stored is None:
            raise LeaseLostError(f"stream {self._stream}: the lease table {self._uri} is gone")
        if (stored.epoch, stored.run_id, stored.released) != (mine.epoch, mine.run_id, False):
            raise LeaseLostError(
                f"stream {self._stream}: run {mine.run_id} held epoch {mine.epoch}, but the lease is now at "
                f"epoch {stored.epoch} of run {stored.run_id}{' (released)' if stored.released else ''}"
            )


def _commit(uri: str, table: DeltaTable, record: LeaseRecord) -> None:
    write_deltalake(
        table,
        pa.Table.from_pylist([record.row()], schema=_SCHEMA),
        mode="overwrite",
        commit_properties=CommitProperties(max_commit_retries=0),
        post_commithook_properties=PostCommitHookProperties(
            create_checkpoint=True, cleanup_expired_logs=True
        ),
    )
    # The tables store the epoch, so it must not go back after a power loss.
    sync_disks([uri])
