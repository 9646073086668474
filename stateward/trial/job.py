"""Try a stream, as a Spark job: no Kafka, and tables in a temporary folder.

    spark-submit stateward/trial/job.py <URI of the request>

Shows the rows of each batch on standard output until it is ended, or for as long as asked. Exit codes: 0
done, 1 failed.
"""

from __future__ import annotations

import logging
import signal
import sys
import threading
import time
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

if __name__ == "__main__":
    # spark-submit puts this file's folder on the path, whose modules would hide others of the same name.
    del sys.path[0]

from msgspec import UNSET
from msgspec.structs import replace

from stateward.contract import storage
from stateward.contract.process_identity import driver_process
from stateward.contract.process_output import READY, JobExit
from stateward.contract.reading import InvalidDocumentError
from stateward.contract.requests import TrialRequest, read_request
from stateward.project.project import NoSuchStreamError, Project
from stateward.runtime.api.any_job import configured
from stateward.runtime.api.config import Config, ConfigError
from stateward.runtime.api.landing_job import LandingJob
from stateward.runtime.api.native_job import NativeJob
from stateward.runtime.api.record_fields import EVENT_TIME, Field
from stateward.runtime.kafka.rate import Rate, RateClock
from stateward.runtime.lease.lease import Lease
from stateward.runtime.lease.lease_keeper import LeaseKeeper
from stateward.runtime.query.stream_query import StreamQuery, session_conf
from stateward.runtime.session import checkpoint_conf, create_session
from stateward.runtime.telemetry.batch_steps import begin_log, report_error, report_step
from stateward.trial.console import ShownRows, show
from stateward.trial.made_values import TrialError, made_values

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import DataFrame, SparkSession

    from stateward.runtime.api.any_job import AnyJob

_LOOK_S = 0.2
# Its states come from few keys and a fast clock, whatever bound production has.
_MOST_HELD = 1_000_000

log = logging.getLogger("stateward.trial")


class Request(TrialRequest[Config], frozen=True):
    """One trial."""


class TrialQuery(StreamQuery):
    """The stream's own query, which also shows what it writes.

    Attributes:
        rows: How many rows of a table are shown.
        line: Takes each line.
    """

    rows: int = 20
    line: Callable[[str], None]

    def _write(self, batch: DataFrame, batch_id: int) -> None:
        seen: Any = ShownRows(batch)
        super()._write(seen, batch_id)
        show(batch_id, seen.packed, self.rows, self.line)


def trial_query(
    spark: SparkSession, request: Request, job: AnyJob, began_ms: int, line: Callable[[str], None]
) -> TrialQuery:
    """The query of a trial, with its tables and a lease of its own.

    Args:
        spark: The session.
        request: The trial.
        job: The stream, as configured.
        began_ms: When it began, milliseconds since 1970 UTC.
        line: Takes each line of what is shown.

    Raises:
        TrialError: A value was given that no field takes.
    """
    config = trial_config(request, job, began_ms)
    lease = Lease(
        config.lease.uri,
        stream=config.stream,
        run_id=config.run_id,
        holder=driver_process(),
        ttl_ms=config.lease.ttl_ms,
    )
    lease.acquire()
    keeper = LeaseKeeper(lease, config.lease.renew_ms, lambda: datetime.now(UTC))
    keeper.start()
    query = TrialQuery(spark, job, config, dict.fromkeys(config.topics, 1), keeper, note_start=lambda: None)
    query.rows, query.line = request.rows, line
    query.clock = RateClock(config.topic)  # type: ignore[assignment]
    query.create_tables()
    return query


def trial_config(request: Request, job: AnyJob, began_ms: int) -> Config:
    """The stream's configuration, with a made-up cluster in place of Kafka."""
    config = request.config
    key, values, fields = "key", dict[str, tuple[Any, ...]](), list[Field]()
    if not isinstance(job, LandingJob):
        key = job.key.name
        of_topics = job.fields_of(config) if isinstance(job, NativeJob) else {"": job.fields(config)}
        fields = [one for fields in of_topics.values() for one in fields]
        values = made_values(config.stream, fields, key, request.values)
    rate = Rate(
        per_second=request.rate,
        speed=request.speed,
        began_ms=began_ms,
        key=key,
        keys=request.keys,
        values=values,
        delay_ms=config.allowed_lateness_ms // 2,
        records=request.records,
        paths={one.name: one.steps if one.kind != "place" else () for one in fields},
        time_unit=next((one.unit for one in fields if one.name == EVENT_TIME.name), EVENT_TIME.unit),
    )
    logic = {**config.logic}
    if "max_held_events" in logic:
        logic["max_held_events"] = max(_MOST_HELD, logic["max_held_events"])
    return replace(
        config,
        bootstrap_servers=rate.address,
        starting_offsets="earliest",
        logic=logic,
        kafka_sink=UNSET,
    )


def run(request: Request, ended: threading.Event) -> None:
    """Run the stream until the time is over, or it is ended.

    Raises:
        TrialError: A value was given that no field takes.
        NoSuchStreamError: There is no such stream.
        ConfigError: The stream's YAML does not fit its declaration.
    """
    config = request.config
    job = configured(Project.imported().declaration(config.stream), config)
    report_step("Spark", "starting")
    conf = {**checkpoint_conf(config.checkpoint_uri), **session_conf(job, config), **config.spark_conf}
    spark = create_session(f"try {config.stream}", config.state_partitions, conf)
    report_step("Spark", READY)
    query = trial_query(spark, request, job, int(time.time() * 1000), _say).start()
    until = time.monotonic() + (request.seconds or float("inf"))
    while query.isActive and time.monotonic() < until and not ended.wait(_LOOK_S):
        pass
    if not query.isActive:
        query.awaitTermination()  # raises what ended it
    query.stop()


def _say(text: str) -> None:
    print(text, flush=True)  # noqa: T201


def main(arguments: list[str]) -> int:
    """Run the job and return its exit code."""
    begin_log()
    if len(arguments) != 1:
        log.error("usage: spark-submit job.py <URI of the request>")
        return JobExit.FAILED
    ended = threading.Event()
    signal.signal(signal.SIGTERM, lambda number, frame: ended.set())
    uri = arguments[0]
    try:
        run(read_request(Request, storage.read_json(uri), uri, "`stateward try` writes a request"), ended)
    except (TrialError, ConfigError, NoSuchStreamError, InvalidDocumentError) as error:
        return report_error(error)
    except Exception:
        log.exception("the trial failed")
        return JobExit.FAILED
    return JobExit.DONE


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
