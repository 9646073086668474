"""The life cycle of a driver that holds the lease: run the query, drain, exit with a meaningful code."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping
from datetime import timedelta
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from msgspec.structs import replace

from stateward.contract.process_output import DriverExit
from stateward.contract.reading import as_json
from stateward.runtime.api.config import Config
from stateward.runtime.cause import cause_of
from stateward.runtime.checkpoint import generations
from stateward.runtime.checkpoint.checkpoint_repair import repair_logs
from stateward.runtime.driver import control, executor_versions, signals
from stateward.runtime.driver import drain as draining
from stateward.runtime.driver import ending as endings
from stateward.runtime.driver.ending import Ending
from stateward.runtime.driver.executors import ExecutorWatch
from stateward.runtime.driver.failure import explain, is_transient
from stateward.runtime.driver.history import History, history_uri
from stateward.runtime.driver.jvm_watchdog import ParentJvm
from stateward.runtime.driver.leaving import Leaving, end_overdue
from stateward.runtime.driver.retries import FIRST_DELAY_S, LONGEST_DELAY_S, WAITED_FOR, Retries
from stateward.runtime.driver.state_checks import StateChecks
from stateward.runtime.kafka.broker import Broker, BrokerAwayError
from stateward.runtime.lease.lease import Lease, utc_now
from stateward.runtime.lease.lease_keeper import LeaseKeeper
from stateward.runtime.query.stream_query import StreamQuery
from stateward.runtime.telemetry.memory import DriverMemory
from stateward.runtime.telemetry.monitor import TopicMonitor
from stateward.runtime.telemetry.progress import Position, Progress
from stateward.runtime.telemetry.snapshot_sizes import watched_snapshots
from stateward.runtime.telemetry.status import StatusFile

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

    from stateward.runtime.api.any_job import AnyJob

_LOG = logging.getLogger("stateward.driver")
_POLL_S = 0.5

T = TypeVar("T")


class Driver:
    """One launch of one stream that holds the lease; ``session`` waits for its session."""

    def __init__(
        self,
        job: AnyJob,
        config: Config,
        lease: Lease,
        status: StatusFile,
        checks: StateChecks,
        *,
        session: Callable[[], SparkSession],
        jvm: ParentJvm,
    ) -> None:
        self._session = session
        self._job = job
        self._config = config
        self._status = status
        self._checks = checks
        self._lease = lease
        self._keeper = LeaseKeeper(lease, config.lease.renew_ms, utc_now)
        self._history = History(
            history_uri(config.status_uri),
            reason=control.reason_of_launch(config.control_uri, config.run_id),
            may_write=self._keeper.check,
            window=timedelta(milliseconds=config.growth_window_ms),
        )
        self._broker = Broker(config.bootstrap_servers)
        self._jvm = jvm
        deadline_s = config.leave_deadline_ms / 1000
        self._leaving = Leaving(
            partial(control.stop_reason, config.control_uri, config.run_id),
            deadline_s,
            partial(end_overdue, config.stream, status, self._jvm, deadline_s),
        )
        self._progress: Progress | None = None
        self._monitor: TopicMonitor | None = None
        self._executors = ExecutorWatch.of_local(utc_now)
        self._memory = DriverMemory(jvm.process.pid, self._jvm.give_back)

    def run(self) -> int:
        """Run until drained, failed, or without the lease; returns the exit code."""
        signals.handle_in_python(self._leaving.request)
        self._jvm.exit_when_gone(self._status)
        self._leaving.start()
        self._keeper.start()
        self._status.start_heartbeat(self._history.note)
        try:
            self._serve()
            ending = endings.drained(self._leaving.message)
        except Exception as error:
            ending = endings.ending_of(self._jvm.root_cause(error), self._keeper.lost)
            if ending.code == DriverExit.FAILED:
                _LOG.exception("stream %s failed", self._config.stream)
        self._finish(ending)
        return ending.code

    def _serve(self) -> None:
        self._status.enter("checkpoint")
        self._enter_generation()
        self._checks.require_start(self._job, self._config)
        self._take_back_plan()
        self._status.enter("session")
        spark = self._session()
        try:
            signals.handle_in_jvm(spark, self._leaving.request)
            self._status.enter("topics", spark_ui=spark.sparkContext.uiWebUrl)
            partitions = self._when_kafka_answers(self._ensure_topics)
            self._executors = watch = ExecutorWatch.of(spark, utc_now)
            if partitions is None or not watch.come(self._status, self._should_stop, self._leaving.wait):
                return
            executor_versions.require_same(spark, self._config.stream, self._should_stop)
            query = self._stream_query(spark, partitions)
            self._status.enter("tables")
            query.create_tables()
            self._monitor = TopicMonitor(
                config=self._config,
                broker=self._broker,
                partitions=partitions,
                position=self._position,
                publish=self._status.update,
                clock=utc_now,
            )
            self._monitor.start()
            self._status.enter("query")
            with watched_snapshots(self._job, self._config.checkpoint_uri, self._status.update):
                self._run_queries(query)
        finally:
            if self._monitor is not None:
                self._monitor.stop()
            if self._keeper.lost is None:
                spark.stop()

    def _enter_generation(self) -> None:
        """Find the current generation; it cannot change while this driver holds the lease."""
        generation = generations.current(self._config.checkpoint_uri)
        generation.require_settled(self._config.stream)
        repair_logs(generation.uri)
        config = replace(self._config, checkpoint_uri=generation.uri)
        self._config = self._checks.with_buckets_of(config, generation.uri)
        self._status.update(generation=generation.number, checkpoint=generation.uri)

    def _take_back_plan(self) -> None:
        """Plan a batch again, with fewer records, if no driver could run it."""
        config = self._config
        self._keeper.check()
        most = config.max_records_per_batch
        self._checks.take_back_plan(config.checkpoint_uri, config.tables, config.topics, most)

    def _stream_query(self, spark: SparkSession, partitions: Mapping[str, int]) -> StreamQuery:
        note_start = partial(self._checks.note_start, self._job, self._config)
        keeper, config = self._keeper, self._config
        query = StreamQuery(spark, self._job, config, partitions, keeper, note_start=note_start)
        if query.sizes is not None:
            before = self._status.document
            query.sizes.carry(before["generation"], before["buckets"])
        return query

    def _ensure_topics(self) -> dict[str, int]:
        """The partitions of each data topic."""
        if self._job.ticks:
            self._broker.ensure_tick_topic(self._config.tick_topic)
        for topic in self._config.sink_topics.values():
            self._ensure_topic(topic)
        return {topic: self._ensure_topic(topic) for topic in self._config.topics}

    def _ensure_topic(self, topic: str) -> int:
        number, create = self._config.topic_partitions, self._config.create_topics
        return self._broker.ensure_topic(topic, number, create=create, stream=self._config.stream)

    def _run_queries(self, stream_query: StreamQuery) -> None:
        """Run the query until a stop is requested, restart it after transient failures, then drain."""
        retries = Retries()
        while not self._should_stop():
            failure = self._run_one(stream_query)
            if failure is None:
                break
            retries.note(stream_query.checkpoint.last_committed())
            self._raise_if_lasting(failure, retries)
            message = f"Kafka does not answer, trying again: {explain(failure)}"
            self._when_kafka_answers(lambda: self._broker.partitions(self._config.topic), message)
            self._leaving.wait(retries.delay_s)
        self._drain(stream_query, None)

    def _run_one(self, stream_query: StreamQuery) -> Exception | None:
        """Start and watch the query; returns its failure, or None after a drain."""
        from py4j.protocol import Py4JJavaError
        from pyspark.errors import PySparkException

        query: StreamingQuery | None = None
        try:
            query = stream_query.start()
            ledger = stream_query.ensure_ledger(str(query.id))
            topics, sizes = self._config.topics, stream_query.sizes
            self._progress = Progress(stream_query.checkpoint, ledger, topics, sizes)
            self._status.update(state="running", message="", cause=None, **self._progress.resume())
            while query.isActive and not self._should_stop():
                fields = self._progress.poll(query)
                if (rows := fields.get("state_rows")) is not None:
                    stream_query.note_state(rows)
                memory = self._memory.look(time.monotonic(), fields.get("input_rows"))
                self._publish({**fields, **memory})
                self._leaving.wait(_POLL_S)
            if query.isActive:
                self._drain(stream_query, query)
                return None
            query.awaitTermination()  # raises what ended it
            return RuntimeError(f"stream {self._config.stream}: the query ended by itself")
        except (PySparkException, Py4JJavaError) as error:
            return error
        except Exception as error:
            if cause_of(error) not in WAITED_FOR:
                raise
            # The query may still run after a full disk has stopped this process; there must not be two.
            if query is not None:
                query.stop()
            return error

    def _drain(self, stream_query: StreamQuery, query: StreamingQuery | None) -> None:
        if self._keeper.lost is not None:
            raise self._keeper.lost
        self._status.update(state="draining", message=self._leaving.message)
        draining.drain(
            query, stream_query.checkpoint, lambda: stream_query.start(once=True), self._config.stream
        )
        if self._progress is not None:
            self._status.update(**self._progress.resume())

    def _raise_if_lasting(self, failure: Exception, retries: Retries) -> None:
        """Raise the failure unless it is transient."""
        if self._keeper.lost is not None:
            raise self._keeper.lost
        if self._leaving.is_requested or self._broker_is_away():
            return
        cause = cause_of(failure)
        if not is_transient(failure) or retries.exhausted(cause):
            raise failure
        _LOG.warning("stream %s: restarting the query: %s", self._config.stream, explain(failure))
        if cause in WAITED_FOR:
            message = f"{WAITED_FOR[cause]}: {explain(failure)}"
            self._status.update(state="waiting", message=message, cause=as_json(cause))

    def _when_kafka_answers(self, request: Callable[[], T], message: str = "") -> T | None:
        """Make a request, again and less often until Kafka answers; None if stopped before."""
        delay = FIRST_DELAY_S
        while not self._should_stop():
            try:
                return request()
            except BrokerAwayError as error:
                self._status.update(state="waiting", message=message or str(error))
                self._leaving.wait(delay)
                delay = min(delay * 2, LONGEST_DELAY_S)
        return None

    def _broker_is_away(self) -> bool:
        try:
            self._broker.partitions(self._config.topic)
        except BrokerAwayError:
            return True
        return False

    def _publish(self, fields: dict[str, Any]) -> None:
        changed = self._executors.look()
        away = (self._monitor and self._monitor.broker_away) or self._executors.message
        state, message = ("waiting", away) if away else ("running", self._keeper.trouble)
        if changed or fields or not self._status.shows(state, message):
            self._status.update(state=state, message=message, **self._executors.fields, **fields)

    def _position(self) -> Position:
        return self._progress.position if self._progress else Position(-1, {}, 0)

    def _should_stop(self) -> bool:
        """Whether a stop is requested; raises if the lease is lost."""
        if self._keeper.lost is not None:
            raise self._keeper.lost
        return self._leaving.is_requested

    def _finish(self, ending: Ending) -> None:
        self._keeper.stop()
        self._status.stop_heartbeat()
        if ending.code != DriverExit.LEASE_LOST:
            self._history.end({**self._status.document, **ending.status_fields}, utc_now())
            self._lease.release()
        # After a loss the new holder of the lease rewrites the file within a second.
        self._status.update(**ending.status_fields)
        shown = (self._config.stream, ending.state, ending.code, ending.message)
        _LOG.info("stream %s: %s (exit %d): %s", *shown)
        self._leaving.done()
