"""Fires when a Delta table holds changes that have not been validated."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from typing import Any

from airflow.triggers.base import BaseEventTrigger, TriggerEvent

from stateward.airflow.storage_connection import use_storage
from stateward.airflow.triggers.table_changes import ChangeReader, Fired, should_fire
from stateward.project.settings import Settings

_FIRED = "fired"


class TableUpdateTrigger(BaseEventTrigger):
    """Watches the version of a Delta table for an `AssetWatcher`.

    The triggerer starts `run` once, and again after every restart. The version that it fired for is kept in
    the asset's state store, so that a restart does not fire twice for it. Errors of the storage are retried:
    an event trigger that raises would stay dead until the DAG is parsed again.

    Args:
        table_uri: the table to watch.
        validations_uri: the table `quality_validations`, with the validated versions.
        stream: the stream that writes the table.
        table: the table's name in `quality_validations`.
        settle_s: seconds without a commit before it fires.
        max_staleness_s: seconds after which it fires although the table keeps changing.
        poll_s: seconds between two reads.
    """

    def __init__(
        self,
        *,
        table_uri: str,
        validations_uri: str,
        stream: str,
        table: str,
        settle_s: float,
        max_staleness_s: float,
        poll_s: float = 5.0,
    ) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.table_uri = table_uri
        self.validations_uri = validations_uri
        self.stream = stream
        self.table = table
        self.settle_s = settle_s
        self.max_staleness_s = max_staleness_s
        self.poll_s = poll_s

    def serialize(self) -> tuple[str, dict[str, Any]]:
        """Return the class path and the constructor's arguments."""
        return (
            "stateward.airflow.triggers.table_update.TableUpdateTrigger",
            {
                "table_uri": self.table_uri,
                "validations_uri": self.validations_uri,
                "stream": self.stream,
                "table": self.table,
                "settle_s": self.settle_s,
                "max_staleness_s": self.max_staleness_s,
                "poll_s": self.poll_s,
            },
        )

    async def run(self) -> AsyncIterator[TriggerEvent]:
        """Yield one event for each version that is due, with the table's URI and the version."""
        reader = ChangeReader(self.table_uri, self.validations_uri, self.stream, self.table)
        fired: Fired | None = None
        restored = False
        while True:
            try:
                await asyncio.to_thread(use_storage, Settings())
                if not restored:
                    fired, restored = await self._restore(), True
                event = await self._look(reader, fired)
            except Exception:
                self.log.warning(
                    "%s: %s cannot be read, trying again", self.stream, self.table, exc_info=True
                )
                event = None
            if event:
                # Stored before it is sent: the next change or the schedule makes up for a lost event.
                fired = event
                await self._keep(fired)
                yield self._event(fired.version)
            await asyncio.sleep(self.poll_s)

    def _event(self, version: int) -> TriggerEvent:
        payload = {"stream": self.stream, "table": self.table, "uri": self.table_uri, "version": version}
        return TriggerEvent(payload)

    async def _look(self, reader: ChangeReader, fired: Fired | None) -> Fired | None:
        changes = await asyncio.to_thread(reader.read, fired)
        now = datetime.now(UTC)
        settle, staleness = timedelta(seconds=self.settle_s), timedelta(seconds=self.max_staleness_s)
        if changes is None or not should_fire(changes, fired, now, settle, staleness):
            return None
        self.log.info("%s: %s changed, validating version %d", self.stream, self.table, changes.version)
        return Fired(changes.table_id, changes.version, now)

    async def _restore(self) -> Fired | None:
        if self.asset_state_store is None:
            return None
        return Fired.from_json(await self.asset_state_store.aget(_FIRED))

    async def _keep(self, fired: Fired) -> None:
        if self.asset_state_store is not None:
            try:
                await self.asset_state_store.aset(_FIRED, fired.to_json())
            except Exception:
                self.log.warning("%s: could not keep version %d", self.stream, fired.version, exc_info=True)
