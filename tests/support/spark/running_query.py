"""A stream's query in the process of the tests, under a lease and driven by hand: no driver has to start."""

from __future__ import annotations

from contextlib import contextmanager
from datetime import datetime
from functools import partial
from typing import TYPE_CHECKING, Any

from stateward.contract.process_identity import driver_process
from stateward.runtime.api.config import parse_config
from stateward.runtime.checkpoint.checkpoint import Checkpoint
from stateward.runtime.driver import drain as draining
from stateward.runtime.kafka.broker import Broker
from stateward.runtime.kafka.broker_clock import BrokerClock
from stateward.runtime.lease.lease import Lease, utc_now
from stateward.runtime.lease.lease_keeper import LeaseKeeper
from stateward.runtime.query.native_query import NATIVE_CONF
from stateward.runtime.query.stream_query import StreamQuery, session_conf
from stateward.runtime.session import CODE_FACTORY, STREAM_CONF
from stateward.runtime.telemetry.progress import Progress
from stateward.state.compatibility.start import note_start
from tests.support.spark.launches import Launch

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import SparkSession

_NO_TICKS = {"mode": "off", "interval_ms": 1000}
# What some stream changes of a session's settings, as it is without.
_UNCHANGED = {
    **{name: STREAM_CONF.get(name, "true") for name in NATIVE_CONF},
    "spark.sql.codegen.wholeStage": "true",
    CODE_FACTORY: "FALLBACK",
}
COUNTS = ("accepted", "dead", "late", "duplicates")


class Running:
    """A query under a lease. Only events tick; what a clock would say is said by `tick`.

    Args:
        launch: Where it reads and writes.
        spark: The session.
        run_id: Name of this start.
        time: The broker's clock; None for its own. Not `clock`, which is a setting of a stream.
        changes: Changes to the launch's configuration.
    """

    def __init__(
        self,
        launch: Launch,
        spark: SparkSession,
        run_id: str = "run-1",
        *,
        time: BrokerClock | None = None,
        **changes: Any,
    ) -> None:
        config = parse_config(launch.document(run_id, **{"tick": _NO_TICKS, **changes}), "test")
        lease = Lease(
            config.lease.uri,
            stream=config.stream,
            run_id=run_id,
            holder=driver_process(),
            ttl_ms=config.lease.ttl_ms,
        )
        lease.acquire()
        self.lease = lease
        self.config = config
        self.checkpoint = Checkpoint(config.checkpoint_uri)
        # A driver has a session of its own, which is made with these.
        shuffle = {"spark.sql.shuffle.partitions": str(config.state_partitions)}
        for name, value in {**_UNCHANGED, **session_conf(launch.stream.job, config), **shuffle}.items():
            spark.conf.set(name, value)
        keeper = LeaseKeeper(lease, 1000, utc_now)
        partitions = dict.fromkeys(config.topics, launch.partitions)
        Broker(config.bootstrap_servers).ensure_tick_topic(config.tick_topic)
        noted = partial(note_start, launch.stream.job, config)
        self.stream = StreamQuery(spark, launch.stream.job, config, partitions, keeper, note_start=noted)
        self.stream.create_tables()
        if time is not None:
            self.stream.clock = time
        self.query = self.stream.start()
        ledger = self.stream.ensure_ledger(str(self.query.id))
        sizes = self.stream.sizes
        if sizes is not None:
            sizes.carry(1, None)
        self.progress = Progress(self.checkpoint, ledger, config.topics, sizes)

    def settle(self) -> None:
        """Process everything sent so far, and the tick that moves the watermark, if one is due."""
        self.query.processAllAvailable()
        self.progress.poll(self.query)

    def tick(self, watermark: datetime) -> None:
        """Move the watermark and nothing else."""
        at_ms = int(watermark.timestamp() * 1000) + self.config.watermark_delay_ms
        self.stream.handover.publish(asked_ms=at_ms)
        self.query.processAllAvailable()

    def counted(self) -> dict[str, Any]:
        """What the status would say of the last committed batch."""
        return self.progress.resume()

    def state_rows(self) -> int:
        """Rows in Spark's state store, of whatever kind, after the last batch."""
        progress: Any = self.query.lastProgress
        return sum(operator["numRowsTotal"] for operator in progress["stateOperators"])

    def drain(self) -> None:
        """Stop between batches, as a driver does."""
        draining.drain(self.query, self.checkpoint, lambda: self.stream.start(once=True), self.config.stream)

    def stop(self) -> None:
        """End the query, if it still runs, and give the lease back."""
        self.query.stop()
        self.lease.release()


@contextmanager
def running(launch: Launch, spark: SparkSession, run_id: str = "run-1", **changes: Any) -> Iterator[Running]:
    """A query that is stopped in the end, whatever happens."""
    made = Running(launch, spark, run_id, **changes)
    try:
        yield made
    finally:
        made.stop()
